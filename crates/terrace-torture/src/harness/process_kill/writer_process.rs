//! Starts, suspends and kills a writer process.

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::emulator;

/// A running writer process. Dropping it kills the process.
pub(in crate::harness) struct WriterProcess {
    child: Child,
    /// File with the standard error output of the process.
    stderr_path: PathBuf,
}

impl WriterProcess {
    /// Starts this program with other arguments and redirects its standard error to `stderr_path`.
    pub(in crate::harness) fn start<'a>(
        arguments: impl IntoIterator<Item = &'a OsStr>,
        stderr_path: PathBuf,
    ) -> Result<WriterProcess, String> {
        let describe = |error: std::io::Error| format!("the writer did not start: {error}");
        let child = emulator::command(std::env::current_exe().map_err(describe)?)
            .args(arguments)
            // The process ends when this pipe is closed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr_path).map_err(describe)?)
            .spawn()
            .map_err(describe)?;
        Ok(WriterProcess { child, stderr_path })
    }

    /// Suspends the process.
    pub(in crate::harness) fn suspend(&self) -> Result<(), String> {
        self.signal(Signal::STOP)
    }

    /// Resumes the process.
    pub(in crate::harness) fn resume(&self) -> Result<(), String> {
        self.signal(Signal::CONT)
    }

    /// Ends the standard input of the process.
    pub(in crate::harness) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let sent = kill_process(Pid::from_child(&self.child), signal);
        sent.map_err(|error| format!("signal {signal:?}: {error}"))
    }

    /// Waits for the end of the process. Returns `None` if it still runs after `limit`.
    pub(in crate::harness) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, String> {
        let started = Instant::now();
        loop {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || started.elapsed() > limit {
                return Ok(ended);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the standard error output.
    pub(in crate::harness) fn output(&self) -> String {
        std::fs::read_to_string(&self.stderr_path).unwrap_or_default()
    }

    /// Kills the process. Returns an error if it had ended before.
    pub(in crate::harness) fn kill(mut self) -> Result<(), String> {
        let ended = self.child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            let output = std::fs::read_to_string(&self.stderr_path).unwrap_or_default();
            return Err(format!("the writer ended by itself, {status}: {output}"));
        }
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for WriterProcess {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
