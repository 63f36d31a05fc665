//! The attacks of `terrace-torture`, built as the tests are and run.

use std::process::{Command, ExitCode};

pub(crate) fn check() -> ExitCode {
    run("check")
}

pub(crate) fn torture() -> ExitCode {
    run("torture")
}

pub(crate) fn replay() -> ExitCode {
    run("replay")
}

pub(crate) fn fuzz() -> ExitCode {
    run("fuzz")
}

/// Runs the program with `action` and everything that followed it on the command line.
fn run(action: &str) -> ExitCode {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--profile", "ci", "--package", "terrace-torture", "--", action]);
    match cargo.args(std::env::args().skip(2)).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)),
        Err(error) => {
            eprintln!("cargo: {error}");
            ExitCode::from(2)
        }
    }
}
