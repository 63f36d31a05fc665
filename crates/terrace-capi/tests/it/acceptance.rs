//! Other people's programs and tests, compiled for LevelDB's library and run with this one: `acceptance/*.sh`.
//!
//! They come from the package archives of their languages, and are kept below `target/acceptance` once they are built.
//! Where an archive can't be reached, that is said and nothing is tested.

use std::process::Command;

use crate::library::{crate_dir, library_dir, print_to_stderr};

/// Runs a script; what it tells is a line for each case: `PASS`, `FAIL` or `SKIP`, and a name.
#[track_caller]
fn check(script: &str) {
    let scratch = library_dir().with_file_name("acceptance");
    let mut run = Command::new(crate_dir().join("acceptance").join(script));
    let output = run.arg(library_dir()).arg(scratch.join(script)).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    let failed: Vec<&str> = told.lines().filter(|line| line.starts_with("FAIL")).collect();
    if let Some(unreachable) =
        told.lines().find(|line| line.starts_with("SETUP FAILED")).filter(|_| failed.is_empty())
    {
        print_to_stderr(&format!("NOT TESTED: {script}: {unreachable}"));
        return;
    }
    assert!(output.status.success() && failed.is_empty(), "{script}: {}\n{told}", output.status);
    print_to_stderr(&format!("{script}: {}", told.lines().last().unwrap_or_default()));
}

/// A Go binding, with its own tests.
#[test]
fn levigo() {
    check("levigo.sh");
}

/// LevelDB's benchmark, whose counts have to be those of the stock library.
#[test]
fn db_bench() {
    check("db-bench.sh");
}

/// Python's binding as Debian ships it, a subclass of Comparator inside, with its own tests.
#[test]
fn plyvel() {
    check("plyvel.sh");
}

/// LevelDB's own tests of its C++ interface, 149 cases.
#[test]
fn leveldb_cxx() {
    check("leveldb-cxx.sh");
}
