//! A writer from outside: started, stopped, killed.

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A writer that lives. Killed when it is dropped.
pub(super) struct WriterProcess {
    child: Child,
    /// What it said before it ended by itself.
    stderr_path: PathBuf,
}

impl WriterProcess {
    /// Starts this program with other arguments; what it says on standard error goes to the file `words`.
    pub(super) fn start<'a>(
        arguments: impl IntoIterator<Item = &'a OsStr>,
        words: PathBuf,
    ) -> Result<WriterProcess, String> {
        let say = |error: std::io::Error| format!("can't start a writer: {error}");
        let child = Command::new(std::env::current_exe().map_err(say)?)
            .args(arguments)
            // It ends when nobody holds the other end.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&words).map_err(say)?)
            .spawn()
            .map_err(say)?;
        Ok(WriterProcess { child, stderr_path: words })
    }

    /// Stops it where it is.
    pub(super) fn suspend(&self) -> Result<(), String> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> Result<(), String> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let sent = kill_process(Pid::from_child(&self.child), signal);
        sent.map_err(|error| format!("signal {signal:?}: {error}"))
    }

    /// Kills it. An error if it had ended before.
    pub(super) fn kill(mut self) -> Result<(), String> {
        let ended = self.child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            let words = std::fs::read_to_string(&self.stderr_path).unwrap_or_default();
            return Err(format!("the writer ended by itself, {status}: {words}"));
        }
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for WriterProcess {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
