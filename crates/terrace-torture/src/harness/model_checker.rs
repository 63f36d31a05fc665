//! Programs of `terrace-linearizability` that are built with a model checker in the place of threads and locks.
//!
//! One is built when its first case runs, beside this program and as this one was. It must be a program of its own: there
//! is one set of locks in a process, the product's or a checker's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A program, and the checker that it is built with.
pub(super) struct ModelCheckerProgram {
    program: &'static str,
    feature: &'static str,
    built: OnceLock<Result<PathBuf, String>>,
}

impl ModelCheckerProgram {
    pub(super) const fn new(program: &'static str, feature: &'static str) -> ModelCheckerProgram {
        ModelCheckerProgram { program, feature, built: OnceLock::new() }
    }

    /// What it prints; if it ends with anything but success, that is the error.
    pub(super) fn run(&self, arguments: &[u64]) -> Result<String, String> {
        let path = self.built.get_or_init(|| self.build()).as_ref().map_err(String::clone)?;
        let run = Command::new(path).args(arguments.iter().map(u64::to_string)).output();
        let Output { status, stdout, stderr } =
            run.map_err(|error| format!("{}: {error}", path.display()))?;
        let told = String::from_utf8_lossy(&stdout).into_owned();
        match status.code() {
            Some(0) => Ok(told),
            Some(1) => Err(told),
            _ => Err(format!("{}: {status}\n{told}{}", self.program, String::from_utf8_lossy(&stderr))),
        }
    }

    fn build(&self) -> Result<PathBuf, String> {
        let own = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
        let folder = own.parent().ok_or("this program is in no folder")?;
        let target = folder.parent().ok_or("this program's folder is in no other")?;
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--package", "terrace-linearizability", "--bin", self.program]);
        cargo.args(["--features", self.feature, "--profile", profile, "--target-dir"]).arg(target);
        cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
        if cfg!(terrace_mutants) {
            cargo.env("RUSTFLAGS", "--cfg terrace_mutants");
        }
        let Output { status, stderr, .. } = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        let failed = || format!("building {}: {status}\n{}", self.program, String::from_utf8_lossy(&stderr));
        status.success().then(|| folder.join(self.program)).ok_or_else(failed)
    }
}
