//! The library under test, linked from the archive that was built with these tests, and the stock
//! library.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use terrace_testkit::emulator;

/// Directory of the crate.
pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Directory with our `libleveldb.so.1d`, which is linked at the first call.
pub(crate) fn library_dir() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = built().with_file_name("dropin");
        run_command(Command::new(crate_dir().join("link.sh")).arg(archive()).arg(&directory));
        directory
    })
}

/// Directory in which this test was built.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap(); // target/PROFILE/deps/it-0123
    test.parent().unwrap().to_path_buf()
}

/// Returns the archive that was built with this test: the newest, because each change of the
/// sources creates a new one. Its name has a hash, except when cargo builds the crate by itself.
pub(crate) fn archive() -> PathBuf {
    let files = std::fs::read_dir(built()).unwrap().map(|entry| entry.unwrap());
    let archives = files.filter(|file| {
        let name = file.file_name().into_string().unwrap();
        name.starts_with("libterrace_capi-") && name.ends_with(".a")
    });
    archives.max_by_key(|file| file.metadata().unwrap().modified().unwrap()).unwrap().path()
}

/// Returns the system's LevelDB, if it is installed.
pub(crate) fn stock_library() -> Option<PathBuf> {
    if is_emulated("libleveldb.so.1d of the system is for another processor") {
        return None;
    }
    let known = Command::new("sh").args(["-c", "PATH=$PATH:/sbin:/usr/sbin ldconfig -p"]).output().unwrap();
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    let line = known.lines().find(|line| line.contains("libleveldb.so.1d"));
    let found = line.and_then(|line| line.split("=> ").nth(1)).map(PathBuf::from);
    if found.is_none() {
        missing("libleveldb.so.1d");
    }
    found
}

/// Returns whether an emulator runs these tests. Then `reason` says what cannot be tested.
pub(crate) fn is_emulated(reason: &str) -> bool {
    let is_emulated = !emulator::words().is_empty();
    if is_emulated {
        print_to_stderr(&format!("NOT TESTED: {reason}"));
    }
    is_emulated
}

/// Returns whether the system has `program`, which builds and runs programs for the processor.
pub(crate) fn has_program(program: &str) -> bool {
    if is_emulated(&format!("{program} builds for another processor")) {
        return false;
    }
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        missing(program);
    }
    found
}

/// Reports a missing dependency of a test. Fails if `make setup` has installed all dependencies.
fn missing(what: &str) {
    assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "{what} is missing");
    print_to_stderr(&format!("NOT TESTED: {what} is missing"));
}

/// Prints a message even if the test passes: the test harness captures `eprintln!`.
pub(crate) fn print_to_stderr(what: &str) {
    // An error is ignored, because the message is not part of the test.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Returns the compiler for C: the one of the architecture of these tests.
pub(crate) fn c_compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Returns the compiler for C++.
pub(crate) fn cxx_compiler() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
}

/// Runs `command`, which must succeed.
#[track_caller]
pub(crate) fn run_command(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}
