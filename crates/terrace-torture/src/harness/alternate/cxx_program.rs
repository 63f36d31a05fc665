//! The C++ program that runs stock LevelDB. It is built once per run, next to this program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Source of the program.
const CXX_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cxx/leveldb_turns.cc");

/// File name of the built program.
const CXX_PROGRAM: &str = "terrace-leveldb-turns";

/// Builds the program, if this process has not built it yet.
pub(super) fn built_program() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| cxx_build(Path::new("c++"))).clone()
}

fn cxx_build(compiler: &Path) -> Result<PathBuf, String> {
    let this_program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = this_program.with_file_name(CXX_PROGRAM);
    // Another process may run the program while this one builds it.
    let unfinished = program.with_extension(std::process::id().to_string());
    let build = Command::new(compiler)
        .args(["-std=c++17", "-O1", "-o"])
        .args([&unfinished, Path::new(CXX_SOURCE)])
        .args(["-lleveldb", "-lpthread"])
        .output();
    match build {
        Ok(output) if output.status.success() => {
            std::fs::rename(&unfinished, &program).map_err(|error| error.to_string())?;
            Ok(program)
        }
        Ok(output) => Err(format!(
            "{}: {}; apt-get install g++ libleveldb-dev",
            compiler.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("{}: {error}; apt-get install g++ libleveldb-dev", compiler.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_compiler_is_reported() {
        let error = cxx_build(Path::new("/nowhere/c++")).unwrap_err();
        assert!(error.starts_with("/nowhere/c++: No such file"), "{error}");
    }
}
