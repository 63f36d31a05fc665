//! The library under test, made of the archive that was built with these tests, and the stock one beside it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The crate's own directory.
pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with our `libleveldb.so.1d`, linked when it is asked for first.
pub(crate) fn library_dir() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = built().with_file_name("dropin");
        run_command(Command::new(crate_dir().join("link.sh")).arg(archive()).arg(&directory));
        directory
    })
}

/// Where this test was built.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap(); // target/PROFILE/deps/it-0123
    test.parent().unwrap().to_path_buf()
}

/// The archive that was built with this test: the newest, since each change of the sources makes a new one. Cargo
/// gives it a plain name only when it builds the crate for itself.
pub(crate) fn archive() -> PathBuf {
    let files = std::fs::read_dir(built()).unwrap().map(|entry| entry.unwrap());
    let is_ours = |name: &str| name.starts_with("libterrace_capi-") && name.ends_with(".a");
    let archives = files.filter(|file| file.file_name().to_str().is_some_and(is_ours));
    archives.max_by_key(|file| file.metadata().unwrap().modified().unwrap()).unwrap().path()
}

/// The system's LevelDB, if it is installed.
pub(crate) fn stock_library() -> Option<PathBuf> {
    let known = Command::new("sh").args(["-c", "PATH=$PATH:/sbin:/usr/sbin ldconfig -p"]).output().unwrap();
    let known = String::from_utf8_lossy(&known.stdout).into_owned();
    let line = known.lines().find(|line| line.contains("libleveldb.so.1d"));
    let found = line.and_then(|line| line.split("=> ").nth(1)).map(PathBuf::from);
    if found.is_none() {
        missing("libleveldb.so.1d");
    }
    found
}

/// True if the system has `program`.
pub(crate) fn has_program(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        missing(program);
    }
    found
}

/// Says that something can't be tested here; fails where `make setup` has seen to it that all can.
fn missing(what: &str) {
    assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "{what} is missing");
    print_to_stderr(&format!("NOT TESTED: {what} is missing"));
}

/// Says it to whoever runs the tests, also when the test passes: `eprintln!` would be kept from them.
pub(crate) fn print_to_stderr(what: &str) {
    // If nobody hears it, the test is none the worse.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Runs `command`, which has to succeed.
#[track_caller]
pub(crate) fn run_command(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}
