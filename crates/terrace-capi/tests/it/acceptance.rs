//! Third-party programs and tests, compiled for LevelDB's library and run with this one:
//! `acceptance/*.sh`.
//!
//! The scripts fetch them from the package archives of their languages and keep the builds below
//! `target/acceptance`. Without access to an archive a test reports that and checks nothing.

use std::process::Command;

use crate::library::{crate_dir, is_emulated, library_dir, print_to_stderr};

/// Runs a script. Its output has one line per case: `PASS`, `FAIL` or `SKIP`, and a name.
#[track_caller]
fn check(script: &str) {
    if is_emulated(&format!("{script} builds for another processor")) {
        return;
    }
    let scratch = library_dir().with_file_name("acceptance");
    let mut run = Command::new(crate_dir().join("acceptance").join(script));
    let result = run.arg(library_dir()).arg(scratch.join(script)).output().unwrap();
    let output = [result.stdout, result.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    let failed: Vec<&str> = output.lines().filter(|line| line.starts_with("FAIL")).collect();
    if let Some(unreachable) =
        output.lines().find(|line| line.starts_with("SETUP FAILED")).filter(|_| failed.is_empty())
    {
        print_to_stderr(&format!("NOT TESTED: {script}: {unreachable}"));
        return;
    }
    assert!(result.status.success() && failed.is_empty(), "{script}: {}\n{output}", result.status);
    print_to_stderr(&format!("{script}: {}", output.lines().last().unwrap_or_default()));
}

/// levigo, a Go binding, with its own tests.
#[test]
fn levigo() {
    check("levigo.sh");
}

/// LevelDB's benchmark, whose counts must equal those of the stock library.
#[test]
fn db_bench() {
    check("db-bench.sh");
}

/// plyvel, the Python binding of Debian with its own Comparator subclass, with its own tests.
#[test]
fn plyvel() {
    check("plyvel.sh");
}

/// LevelDB's own tests of its C++ interface, 149 cases.
#[test]
fn leveldb_cxx() {
    check("leveldb-cxx.sh");
}

/// plyvel beside Python's `multiprocessing` with the start method fork, and in a daemon.
#[test]
fn plyvel_fork() {
    check("plyvel-fork.sh");
}
