//! Process that does not outlive the program which started it.
//!
//! ```text
//!   this program --pipe--> sh: starts the process; waits for the end of the pipe; SIGTERM
//! ```
//!
//! The end of the pipe is the end of this program, however it ends. The shell is in a process group
//! of its own, so that Ctrl-C reaches only this program. On Windows, a shell such as that of Git
//! must be in PATH.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use terrace_env::with_own_process_group;

use crate::failure::Failure;

/// Script of the shell. Its arguments are the command. It prints the number of the process, and
/// then leaves the output to the process.
const GUARD: &str = r#""$@" & echo $!; exec >/dev/null; cat; kill -TERM $! 2>/dev/null; wait $!"#;

/// Running process. The drop ends it with SIGTERM and waits for its end.
pub(super) struct GuardedProcess {
    shell: Child,
    /// The process would get an error if it wrote to a closed pipe.
    output: BufReader<ChildStdout>,
    id: String,
}

impl GuardedProcess {
    /// Starts `command` with its standard error at `errors`.
    pub(super) fn start(command: &Command, errors: Stdio) -> Result<GuardedProcess, Failure> {
        let mut shell = Command::new("sh");
        shell.args(["-c", GUARD, "sh"]).arg(command.get_program()).args(command.get_args());
        if let Some(dir) = command.get_current_dir() {
            shell.current_dir(dir);
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let failed = |error| Failure::File(format!("sh: {error}"));
        let mut shell = with_own_process_group(&mut shell).spawn().map_err(failed)?;
        let output = shell.stdout.take().ok_or_else(|| Failure::File("sh has no output".into()))?;
        let mut output = BufReader::new(output);
        let mut id = String::new();
        output.read_line(&mut id).map_err(failed)?;
        Ok(GuardedProcess { shell, output, id: id.trim().to_owned() })
    }

    /// Number of the process.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Reads the output until a line begins with `begin`. Returns false if the process ends before.
    pub(super) fn wait_for_line(&mut self, begin: &str) -> bool {
        let lines = self.output.by_ref().lines();
        lines.map_while(Result::ok).any(|line| line.starts_with(begin))
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // The shell has ended if this fails.
        let _ = self.shell.wait();
    }
}
