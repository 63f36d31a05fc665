//! C++ programs, compiled against our headers: what they tell is in a file beside each. Each runs with our library, and
//! with the stock one, which has to tell the same.
//!
//! A third time each is linked with the classes themselves, and all of that compiled with AddressSanitizer: it watches
//! what crosses the border, what the classes do, and that nothing stays behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::c_programs::told;
use crate::library::{archive, here, ours, ran, stock};

fn compiler(flags: &[&str]) -> Command {
    let mut cxx = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    cxx.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(flags);
    cxx
}

/// `tests/cxx/NAME.cc`, compiled against the headers in `include`.
fn compiled(name: &str, directory: &Path, include: &Path) -> PathBuf {
    let program = directory.join(name);
    // The oldest language that LevelDB's headers are for.
    let mut cxx = compiler(&["-std=c++11", "-Wno-unused-parameter"]);
    cxx.arg("-I").arg(include).arg(here().join(format!("tests/cxx/{name}.cc")));
    ran(cxx.arg("-o").arg(&program).arg("-L").arg(ours()).args(["-lleveldb", "-lpthread"]));
    program
}

/// The classes, compiled to be watched.
fn watched_classes() -> &'static [PathBuf] {
    static OBJECTS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap().keep();
        let sources = std::fs::read_dir(here().join("shim")).unwrap().map(|entry| entry.unwrap().path());
        let sources = sources.filter(|path| path.extension().is_some_and(|ending| ending == "cc"));
        let object = |source: PathBuf| {
            let object = directory.join(source.with_extension("o").file_name().unwrap());
            let mut cxx = compiler(&["-std=c++17", "-fsanitize=address", "-c"]);
            cxx.arg("-I").arg(here().join("../../include")).arg("-I").arg(here().join("shim"));
            ran(cxx.arg(&source).arg("-o").arg(&object));
            object
        };
        sources.map(object).collect()
    })
}

/// `tests/cxx/NAME.cc` with all of the library in the program, so that everything in C++ is watched.
fn watched(name: &str, directory: &Path) -> PathBuf {
    let program = directory.join(format!("{name}-watched"));
    let mut cxx = compiler(&["-std=c++11", "-fsanitize=address"]);
    cxx.arg("-I").arg(here().join("../../include")).arg(here().join(format!("tests/cxx/{name}.cc")));
    cxx.args(watched_classes()).arg(archive()).args(["-lpthread", "-ldl", "-lm"]);
    ran(cxx.arg("-o").arg(&program));
    program
}

fn expected(name: &str, told: &str) -> String {
    let file = here().join(format!("tests/cxx/{name}.txt"));
    if std::env::var_os("TERRACE_TELL").is_some() {
        std::fs::write(&file, told).unwrap();
    }
    std::fs::read_to_string(file).unwrap()
}

#[track_caller]
fn check(name: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(name, directory.path(), &here().join("../../include"));
    let found = told(&program, ours());
    let expected = expected(name, &found);
    assert_eq!(found, expected);
    let watched = watched(name, directory.path());
    assert_eq!(told(&watched, ours()), expected, "with everything watched");
    if let Some(stock) = stock() {
        assert_eq!(told(&program, stock.parent().unwrap()), expected, "LevelDB tells something else");
    }
}

#[test]
fn objects_that_a_program_hands_in() {
    check("objects");
}

#[test]
fn environments_that_a_program_hands_in() {
    check("world");
}

#[test]
fn tables_without_a_database() {
    check("tables");
}

/// Sizes, places and slots, as the compiler sees them in our headers and in the system's.
#[test]
fn layouts() {
    check("probe");
    let system = Path::new("/usr/include");
    if stock().is_some() && system.join("leveldb/db.h").exists() {
        let directory = tempfile::tempdir().unwrap();
        let program = compiled("probe", directory.path(), system);
        let found = told(&program, ours());
        assert_eq!(found, expected("probe", &found), "the system's headers say something else");
    }
}
