//! Engines in another program, which uses the protocol of [`crate::run::protocol`].
//!
//! goleveldb, Pebble and Badger are in one Go program, whose sources are in the directory `go` of
//! this crate. It is built before its first measurement into the directory of the running program.
//! `go build` decides whether it is up to date. Finding the program builds nothing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::{EngineRunner, FoundEngine, Result, lockfile_versions};
use crate::workload::phase_spec::Kind;

/// Directory of the sources.
const GO_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// File name of the built program.
const GO_PROGRAM: &str = "terrace-bench-go";

/// Maximum number of lines of an error of `go build` that are reported.
const MAX_ERROR_LINES: usize = 3;

/// goleveldb, a LevelDB in Go.
pub(super) fn goleveldb(program: Option<&Path>) -> Result<FoundEngine> {
    find_go_engine(program, "github.com/syndtr/goleveldb", "no zstd: uses Snappy instead")
}

/// Pebble, the engine of CockroachDB.
pub(super) fn pebble(program: Option<&Path>) -> Result<FoundEngine> {
    let note = "the adapter sorts a bulk load in memory";
    let found = find_go_engine(program, "github.com/cockroachdb/pebble/v2", note)?;
    Ok(FoundEngine { optional_kinds: &[Kind::Load, Kind::Checkpoint], ..found })
}

/// Badger, which stores large values apart from their keys.
pub(super) fn badger(program: Option<&Path>) -> Result<FoundEngine> {
    let found =
        find_go_engine(program, "github.com/dgraph-io/badger/v4", "every put and get is a transaction")?;
    Ok(FoundEngine { has_transactions: true, ..found })
}

fn find_go_engine(program: Option<&Path>, module: &str, note: &str) -> Result<FoundEngine> {
    let (program, version, build): (_, _, fn() -> Result<()>) = match program {
        // The version of an existing program is unknown.
        Some(program) => (existing_program(program)?, String::new(), || Ok(())),
        None => (program_path(Path::new(GO_SOURCES))?, lockfile_versions::go_module_version(module), build),
    };
    let unbuilt = if program.exists() { "" } else { "not built yet; its first run builds it with go" };
    let notes: Vec<&str> = [note, unbuilt].into_iter().filter(|note| !note.is_empty()).collect();
    Ok(FoundEngine {
        version,
        location: program.display().to_string(),
        note: notes.join("; "),
        has_compaction: true,
        has_transactions: false,
        optional_kinds: &[],
        runner: EngineRunner::External { program, arguments: Vec::new(), build },
    })
}

fn existing_program(program: &Path) -> Result<PathBuf> {
    if program.is_file() {
        Ok(program.to_owned())
    } else {
        Err(format!("{}: no such program", program.display()))
    }
}

/// Builds the program at most once in this process.
fn build() -> Result<()> {
    static BUILT: OnceLock<Result<()>> = OnceLock::new();
    BUILT.get_or_init(|| go_build(Path::new("go"), Path::new(GO_SOURCES))).clone()
}

/// Path of the program that is built from `sources`, which may not exist yet.
fn program_path(sources: &Path) -> Result<PathBuf> {
    if !sources.join("go.mod").is_file() {
        return Err(format!(
            "{} has no go.mod: the Go program is built from a clone of the sources",
            sources.display()
        ));
    }
    let this_program = env::current_exe().map_err(|e| format!("path of this program: {e}"))?;
    Ok(this_program.with_file_name(GO_PROGRAM))
}

fn go_build(go: &Path, sources: &Path) -> Result<()> {
    let program = program_path(sources)?;
    if !program.exists() {
        eprintln!("building {} with go; the first time takes a minute", program.display());
    }
    let build = Command::new(go)
        .args(["build", "-buildvcs=false", "-o"])
        .args([&program, Path::new(".")])
        .current_dir(sources)
        .output();
    match build {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("go build: {}", last_error_lines(&output))),
        Err(e) => Err(format!("{}: {e}; the Go program needs it: apt-get install golang", go.display())),
    }
}

/// Last lines of the output of a failed command, which contain the reason.
fn last_error_lines(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last_lines = lines[lines.len().saturating_sub(MAX_ERROR_LINES)..].join("; ");
    if last_lines.is_empty() { output.status.to_string() } else { last_lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_error(found: Result<impl Sized>, expect: &str) {
        let error = found.err().expect("the program is missing");
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn missing_go_is_reported() {
        assert_error(go_build(Path::new("/nowhere/go"), Path::new(GO_SOURCES)), "/nowhere/go: No such file");
    }

    #[test]
    fn missing_sources_are_reported() {
        assert_error(go_build(Path::new("go"), Path::new("/nowhere")), "/nowhere has no go.mod");
    }

    #[test]
    fn failed_build_is_reported() {
        assert_error(go_build(Path::new("false"), Path::new(GO_SOURCES)), "go build: exit status: 1");
    }

    #[test]
    fn missing_program_is_reported() {
        assert_error(existing_program(Path::new("/nowhere/peers")), "/nowhere/peers: no such program");
    }
}
