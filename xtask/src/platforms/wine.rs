//! Wine, which runs programs of Windows: its directory, and the part of Windows that it lacks.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::directory;
use crate::tidy::root;

/// Program of Debian's package wine64, which has no link in a directory of programs.
pub(super) const PROGRAM: &str = "/usr/lib/wine/wine64";

/// Server of all programs of wine's directory.
const SERVER: &str = "/usr/lib/wine/wineserver64";

/// Creates wine's directory, with the library that Wine 8 lacks. Returns false if that fails.
pub(super) fn prepare(log: &File) -> io::Result<bool> {
    let system = prefix().join("drive_c/windows/system32");
    if !system.is_dir() {
        fs::create_dir_all(prefix())?;
        if !succeeds(wine().arg("wineboot").arg("--init"), log)? {
            return Ok(false);
        }
    }
    let library = system.join("bcryptprimitives.dll");
    if library.is_file() {
        return Ok(true);
    }
    let mut compiler = Command::new("x86_64-w64-mingw32-gcc");
    compiler.args(["-shared", "-O2", "-o"]).arg(library);
    compiler.arg(root().join("xtask/src/platforms/bcryptprimitives.c")).arg("-ladvapi32");
    succeeds(&mut compiler, log)
}

/// Ends the server and the services of wine. They would use the processor for hours after a test
/// that was killed.
pub(super) fn stop() {
    let mut server = Command::new(SERVER);
    // An error means that none runs.
    let _ = server.arg("--kill").env("WINEPREFIX", prefix()).stderr(Stdio::null()).status();
}

/// Returns a command that starts `program`.
pub(super) fn start(program: &Path) -> Command {
    let mut command = wine();
    command.arg(program);
    command
}

/// Returns a command without its arguments. Lines about missing parts of wine would hide others.
fn wine() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("WINEPREFIX", prefix()).env("WINEDEBUG", "-all");
    command.env("WINEDLLOVERRIDES", "mscoree,mshtml,winemenubuilder.exe=");
    // Tests of the server, unlike the program, load the C++ library of the Lua interpreter.
    command.env("WINEPATH", format!("Z:{}", compiler_libraries().display()));
    command
}

/// Returns the directory with the shared libraries of the compiler.
fn compiler_libraries() -> PathBuf {
    let output = Command::new("x86_64-w64-mingw32-g++").arg("-print-file-name=libstdc++-6.dll").output();
    let path = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    Path::new(&path.unwrap_or_default()).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn prefix() -> PathBuf {
    directory().join("wine")
}

fn succeeds(command: &mut Command, log: &File) -> io::Result<bool> {
    let status = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?).status()?;
    Ok(status.success())
}
