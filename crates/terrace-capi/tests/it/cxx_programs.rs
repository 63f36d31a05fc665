//! C++ programs that are compiled against our headers. A file beside each holds its expected
//! output. Each program runs with our library and with the stock one, which must produce the same
//! output.
//!
//! Each program is also linked with the classes of the shim, all compiled with AddressSanitizer. It
//! checks the memory that crosses the interface, the classes themselves, and leaks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::c_programs::{program_output, program_output_in};
use crate::library::{
    archive, crate_dir, cxx_compiler, is_emulated, library_dir, run_command, stock_library,
};

fn compiler(flags: &[&str]) -> Command {
    let mut cxx = cxx_compiler();
    cxx.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(flags);
    cxx
}

/// Compiles `tests/cxx/NAME.cc` with the headers in `include`.
fn compile(name: &str, directory: &Path, include: &Path) -> PathBuf {
    let program = directory.join(name);
    // The oldest C++ standard that LevelDB's headers support.
    let mut cxx = compiler(&["-std=c++11", "-Wno-unused-parameter"]);
    cxx.arg("-I").arg(include).arg(crate_dir().join(format!("tests/cxx/{name}.cc")));
    run_command(cxx.arg("-o").arg(&program).arg("-L").arg(library_dir()).args(["-lleveldb", "-lpthread"]));
    program
}

/// Compiles the classes of the shim with AddressSanitizer.
fn sanitized_classes() -> &'static [PathBuf] {
    static OBJECTS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let directory = std::env::current_exe().unwrap().with_file_name("sanitized-shim");
        std::fs::create_dir_all(&directory).unwrap();
        let sources = std::fs::read_dir(crate_dir().join("shim")).unwrap().map(|entry| entry.unwrap().path());
        let sources = sources.filter(|path| path.extension().is_some_and(|ending| ending == "cc"));
        sources.map(|source| compile_sanitized_class(&source, &directory)).collect()
    })
}

fn compile_sanitized_class(source: &Path, directory: &Path) -> PathBuf {
    let object = directory.join(source.with_extension("o").file_name().unwrap());
    let mut cxx = compiler(&["-std=c++17", "-fsanitize=address", "-c"]);
    cxx.arg("-I").arg(crate_dir().join("../../include")).arg("-I").arg(crate_dir().join("shim"));
    run_command(cxx.arg(source).arg("-o").arg(&object));
    object
}

/// Compiles `tests/cxx/NAME.cc` together with the whole library, so that AddressSanitizer checks
/// all C++ code.
fn compile_sanitized(name: &str, directory: &Path) -> PathBuf {
    let program = directory.join(format!("{name}-sanitized"));
    let mut cxx = compiler(&["-std=c++11", "-fsanitize=address"]);
    cxx.arg("-I")
        .arg(crate_dir().join("../../include"))
        .arg(crate_dir().join(format!("tests/cxx/{name}.cc")));
    cxx.args(sanitized_classes()).arg(archive()).args(["-lpthread", "-ldl", "-lm"]);
    run_command(cxx.arg("-o").arg(&program));
    program
}

fn expected(name: &str, output: &str) -> String {
    let file = crate_dir().join(format!("tests/cxx/{name}.txt"));
    if std::env::var_os("TERRACE_UPDATE_EXPECTED").is_some() {
        std::fs::write(&file, output).unwrap();
    }
    std::fs::read_to_string(file).unwrap()
}

#[track_caller]
fn check(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(name, directory.path(), &crate_dir().join("../../include"));
    let found = program_output(&program, library_dir());
    let expected = expected(name, &found);
    assert_eq!(found, expected);
    let sanitized = compile_sanitized(name, directory.path());
    assert_eq!(program_output(&sanitized, library_dir()), expected, "with AddressSanitizer");
    if let Some(stock) = stock_library() {
        assert_eq!(
            program_output(&program, stock.parent().unwrap()),
            expected,
            "LevelDB prints something else"
        );
    }
}

#[test]
fn user_supplied_objects() {
    check("user_objects");
}

#[test]
fn user_supplied_env() {
    check("user_env");
}

#[test]
fn tables_without_a_database() {
    check("tables");
}

/// Symptom: a daemon that root starts could not write any more after the first flush. Cause: a
/// MANIFEST is opened again for each edit, and the process had changed its user. Guarantee: a new
/// MANIFEST replaces one that the process may not open, and the lines of a logger stay in its file.
#[cfg(target_os = "linux")]
#[test]
fn daemon_that_changes_its_user() {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if is_root && !is_emulated("an emulator changes the user of one thread only") {
        check("daemon");
    } else {
        println!("NOT TESTED: a change of the user, which only root may do");
    }
}

/// Sizes, offsets and virtual table slots, as the compiler sees them in our headers and in the
/// system's.
#[test]
fn abi_layout() {
    check("abi_layout");
    let system = Path::new("/usr/include");
    if stock_library().is_some() && system.join("leveldb/db.h").exists() {
        let directory = tempfile::tempdir().unwrap();
        let program = compile("abi_layout", directory.path(), system);
        let found = program_output(&program, library_dir());
        assert_eq!(found, expected("abi_layout", &found), "the system's headers give another layout");
    }
}

/// Symptom: LevelDB refused a database that a program with Terrace had created with a comparator
/// whose name is not UTF-8. Cause: the MANIFEST had the name with U+FFFD. Guarantee: the MANIFEST
/// has the bytes of the name, and the programs take turns.
#[test]
fn comparator_name_that_is_not_utf8() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("comparator_name", directory.path(), &crate_dir().join("../../include"));
    let stock = stock_library().map(|stock| stock.parent().unwrap().to_owned());
    for (run, libraries) in [Some(library_dir()), stock.as_deref()].into_iter().cycle().take(4).enumerate() {
        let runs = "|".repeat(run + 1);
        let refused = "Invalid argument";
        let expected = format!("C: {runs}\nC++: {runs}\nC: {refused}\nC++: {refused}\n");
        let libraries = libraries.unwrap_or(library_dir());
        assert_eq!(program_output_in(directory.path(), &program, libraries), expected, "{libraries:?}");
    }
}

/// AddressSanitizer and emulators reserve more address space than the program allows itself.
#[cfg(target_os = "linux")]
#[test]
fn missing_memory() {
    if is_emulated("the emulator needs the memory that the program lacks") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("missing_memory", directory.path(), &crate_dir().join("../../include"));
    let found = program_output(&program, library_dir());
    assert_eq!(found, expected("missing_memory", &found));
}
