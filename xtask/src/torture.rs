//! Torture harnesses of `terrace-torture`, built with the profile of the tests.

use std::process::{Command, ExitCode};

use crate::tidy::root;

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

/// Builds the program with the deliberate bugs, in a target folder that ordinary builds do not use.
pub(crate) fn mutants() -> ExitCode {
    let mut cargo = program("mutants");
    cargo.env("RUSTFLAGS", "--cfg terrace_mutants").env("CARGO_TARGET_DIR", root().join("target/mutants"));
    wait(cargo)
}

/// Runs the models, in which loom replaces threads and locks.
pub(crate) fn loom() -> ExitCode {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--profile", "ci", "--package", "terrace-linearizability"]);
    cargo.args(["--features", "loom", "--bin", "loom_models", "--"]).args(std::env::args().skip(2));
    wait(cargo)
}

/// Runs the program with `action` and the rest of the command line.
fn run(action: &str) -> ExitCode {
    wait(program(action))
}

fn program(action: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--profile", "ci", "--package", "terrace-torture", "--", action]);
    cargo.args(std::env::args().skip(2));
    cargo
}

pub(crate) fn wait(mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)),
        Err(error) => {
            eprintln!("cargo: {error}");
            ExitCode::from(2)
        }
    }
}
