//! Programs of `terrace-linearizability` in which a model checker replaces threads and locks.
//!
//! A program is built when its first case runs, with the profile and in the target directory of
//! this program. It must be a separate program, because a process has only one set of locks: the
//! product's or the checker's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use terrace_testkit::emulator;

/// A program and the model checker that it is built with.
pub(super) struct ModelCheckerProgram {
    program: &'static str,
    feature: &'static str,
    built: OnceLock<Result<PathBuf, String>>,
}

impl ModelCheckerProgram {
    pub(super) const fn new(program: &'static str, feature: &'static str) -> ModelCheckerProgram {
        ModelCheckerProgram { program, feature, built: OnceLock::new() }
    }

    /// Returns the output of the program. A failed program returns its output as an error.
    pub(super) fn run(&self, arguments: &[u64]) -> Result<String, String> {
        let path = self.built.get_or_init(|| self.build()).as_ref().map_err(String::clone)?;
        let run = emulator::command(path).args(arguments.iter().map(u64::to_string)).output();
        let Output { status, stdout, stderr } =
            run.map_err(|error| format!("{}: {error}", path.display()))?;
        let output = String::from_utf8_lossy(&stdout).into_owned();
        match status.code() {
            Some(0) => Ok(output),
            Some(1) => Err(output),
            _ => Err(format!("{}: {status}\n{output}{}", self.program, String::from_utf8_lossy(&stderr))),
        }
    }

    fn build(&self) -> Result<PathBuf, String> {
        let this_program =
            std::env::current_exe().map_err(|error| format!("path of this program: {error}"))?;
        let dir = this_program.parent().ok_or("this program has no parent directory")?;
        let mut target = dir.parent().ok_or("the directory of this program has no parent")?;
        let profile = match dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--package", "terrace-linearizability", "--bin", self.program]);
        if !emulator::words().is_empty() {
            // Cargo's directory for another platform has its name. The caller names the compilers.
            cargo.arg("--target").arg(target.file_name().ok_or("the directory has no platform")?);
            target = target.parent().ok_or("the directory of the platform has no parent")?;
        }
        cargo.args(["--features", self.feature, "--profile", profile, "--target-dir"]).arg(target);
        cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
        if cfg!(terrace_mutants) {
            cargo.env("RUSTFLAGS", "--cfg terrace_mutants");
        }
        let Output { status, stderr, .. } = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        if status.success() {
            Ok(dir.join(self.program))
        } else {
            Err(format!("building {}: {status}\n{}", self.program, String::from_utf8_lossy(&stderr)))
        }
    }
}
