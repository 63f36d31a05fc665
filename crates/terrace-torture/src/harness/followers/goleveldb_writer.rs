//! Database of goleveldb, in a process of the Go program of this crate.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use terrace_format::batch::BATCH_HEADER_SIZE;

use super::followed_writer::{FollowedDb, batch_of};
use crate::followed_history::Operation;

/// Open database. Dropping it kills the process.
pub(super) struct GoleveldbWriter {
    child: RefCell<Child>,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
}

impl GoleveldbWriter {
    /// Starts `program`, which opens the database in directory `database`.
    pub(super) fn open(
        program: &Path,
        database: &Path,
        write_buffer_size: usize,
    ) -> Result<GoleveldbWriter, String> {
        let mut command = Command::new(program);
        command.arg("turn").arg(database).arg(write_buffer_size.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{command:?}: no pipes"));
        };
        let pipes = RefCell::new((stdin, BufReader::new(stdout)));
        let writer = GoleveldbWriter { child: RefCell::new(child), pipes };
        writer.answer()?;
        Ok(writer)
    }

    fn answer(&self) -> Result<(), String> {
        let mut line = String::new();
        self.pipes.borrow_mut().1.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.trim_end() == "ok" { Ok(()) } else { Err(format!("goleveldb: {line:?}")) }
    }

    fn call(&self, command: &str) -> Result<(), String> {
        writeln!(self.pipes.borrow_mut().0, "{command}").map_err(|error| error.to_string())?;
        self.answer()
    }

    /// Closes the database.
    pub(super) fn close(self) -> Result<(), String> {
        self.call("close")?;
        self.child.borrow_mut().wait().map(drop).map_err(|error| error.to_string())
    }

    /// Kills the process.
    pub(super) fn kill(self) -> Result<(), String> {
        let mut child = self.child.borrow_mut();
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|error| error.to_string())
    }
}

impl FollowedDb for GoleveldbWriter {
    fn write(&self, operations: &[Operation]) -> Result<(), String> {
        let batch = batch_of(operations);
        let mut command = "batch ".to_owned();
        // Without the sequence number and the number of operations.
        for byte in batch.as_bytes().iter().skip(BATCH_HEADER_SIZE) {
            let _ = write!(command, "{byte:02x}");
        }
        self.call(&command)
    }

    fn compact(&self) -> Result<(), String> {
        self.call("compact")
    }
}

impl Drop for GoleveldbWriter {
    fn drop(&mut self) {
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}
