//! Programs of another architecture, which an emulator of the user's programs runs.
//!
//! Such an emulator translates the system calls of one program. It cannot start a second program of
//! its architecture, unless the kernel knows the emulator too. So tests name it explicitly.

use std::ffi::OsStr;
use std::process::Command;

/// Environment variable with the emulator and its arguments, separated by spaces. `cargo xtask
/// platforms` sets it.
const EMULATOR: &str = "TERRACE_EMULATOR";

/// Returns the emulator and its arguments, or nothing if the processor runs these tests.
pub fn words() -> Vec<String> {
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    emulator.split_whitespace().map(str::to_owned).collect()
}

/// Returns a command that starts `program`, which has the architecture of this test.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    match words().split_first() {
        Some((emulator, arguments)) => {
            let mut command = Command::new(emulator);
            command.args(arguments).arg(program);
            command
        }
        None => Command::new(program),
    }
}
