//! Engines that another program measures, by the protocol of [`crate::run::protocol`].
//!
//! goleveldb and Pebble are in one Go program, whose sources are in the folder `go` of this crate. It is built when
//! it is asked for, beside the running program, and kept there; Go itself knows whether it is up to date.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::{EngineRunner, FoundEngine, Result, lockfile_versions};

/// Where the sources are.
const GO_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// What is built of them.
const GO_PROGRAM: &str = "terrace-bench-go";

/// The last lines of what `go build` says that are told.
const MAX_ERROR_LINES: usize = 3;

/// goleveldb, the LevelDB of Go.
pub(super) fn goleveldb(program: Option<&Path>) -> Result<FoundEngine> {
    find_go_engine(program, "github.com/syndtr/goleveldb", "no zstd: Snappy in its place")
}

/// Pebble, the engine of CockroachDB.
pub(super) fn pebble(program: Option<&Path>) -> Result<FoundEngine> {
    find_go_engine(program, "github.com/cockroachdb/pebble/v2", "")
}

fn find_go_engine(program: Option<&Path>, module: &str, note: &str) -> Result<FoundEngine> {
    let (program, version) = match program {
        // Nobody knows what is in it.
        Some(program) => (existing_program(program)?, String::new()),
        None => (built_program()?, lockfile_versions::go_module_version(module)),
    };
    Ok(FoundEngine {
        version,
        location: program.display().to_string(),
        note: note.to_owned(),
        runner: EngineRunner::External { program, arguments: Vec::new() },
    })
}

fn existing_program(program: &Path) -> Result<PathBuf> {
    if program.is_file() {
        Ok(program.to_owned())
    } else {
        Err(format!("{}: no such program", program.display()))
    }
}

/// The program, built once however many engines ask for it.
fn built_program() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| go_build(Path::new("go"), Path::new(GO_SOURCES))).clone()
}

fn go_build(go: &Path, sources: &Path) -> Result<PathBuf> {
    if !sources.join("go.mod").is_file() {
        return Err(format!(
            "{} has no go.mod: the Go program is built from a clone of the sources",
            sources.display()
        ));
    }
    let own = env::current_exe().map_err(|e| format!("the path of this program: {e}"))?;
    let program = own.with_file_name(GO_PROGRAM);
    if !program.exists() {
        eprintln!("building {} with go; the first time takes a minute", program.display());
    }
    let build = Command::new(go)
        .args(["build", "-buildvcs=false", "-o"])
        .args([&program, Path::new(".")])
        .current_dir(sources)
        .output();
    match build {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => Err(format!("go build: {}", last_error_lines(&output))),
        Err(e) => Err(format!("{}: {e}; the Go program needs it: apt-get install golang", go.display())),
    }
}

/// The end of what a failed command said: its last lines tell why.
fn last_error_lines(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines[lines.len().saturating_sub(MAX_ERROR_LINES)..].join("; ");
    if told.is_empty() { output.status.to_string() } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(found: Result<PathBuf>, expect: &str) {
        let error = found.expect_err("there is nothing to find");
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn missing_go_is_reported() {
        refused(go_build(Path::new("/nowhere/go"), Path::new(GO_SOURCES)), "/nowhere/go: No such file");
    }

    #[test]
    fn missing_sources_are_reported() {
        refused(go_build(Path::new("go"), Path::new("/nowhere")), "/nowhere has no go.mod");
    }

    #[test]
    fn failed_build_is_reported() {
        refused(go_build(Path::new("false"), Path::new(GO_SOURCES)), "go build: exit status: 1");
    }

    #[test]
    fn missing_program_is_reported() {
        refused(existing_program(Path::new("/nowhere/peers")), "/nowhere/peers: no such program");
    }
}
