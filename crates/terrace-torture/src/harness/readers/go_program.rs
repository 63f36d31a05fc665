//! The Go program of this crate, which is built once per run next to this program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use terrace_testkit::differential::{Entry, OpResult};

use super::entry_stream;
use super::format_reader::FormatReader;

/// Directory of the sources.
const GO_SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// File name of the built program.
const GO_PROGRAM: &str = "terrace-format-readers";

/// Reader in the Go program.
pub(super) struct GoReader {
    program: PathBuf,
    name: &'static str,
}

impl GoReader {
    /// Builds the program, if it is not built yet, and returns its reader `name`.
    pub(super) fn find(name: &'static str) -> Result<GoReader, String> {
        Ok(GoReader { program: built_program()?, name })
    }
}

impl FormatReader for GoReader {
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>> {
        entry_stream::run_reader(Command::new(&self.program).arg(self.name).arg(dir))
    }
}

/// Builds the program, if this process has not built it yet.
pub(in super::super) fn built_program() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| go_build(Path::new("go"))).clone()
}

fn go_build(go: &Path) -> Result<PathBuf, String> {
    let this_program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = this_program.with_file_name(GO_PROGRAM);
    let build = Command::new(go)
        .args(["build", "-buildvcs=false", "-o"])
        .args([&program, Path::new(".")])
        .current_dir(GO_SOURCES)
        .output();
    match build {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => Err(format!("go build: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{}: {error}; apt-get install golang", go.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_go_is_reported() {
        let error = go_build(Path::new("/nowhere/go")).unwrap_err();
        assert!(error.starts_with("/nowhere/go: No such file"), "{error}");
    }
}
