//! The next log, made by the thread that flushes before a writer needs it.
//!
//! ```text
//!   writer     log 9 .......... full: goes on in 12 at once .......... full: in 15
//!   flushes              8 to a table, makes 12        9 to a table, makes 15
//! ```
//!
//! To a file system that is busy with large files, making one may take as long as thousands of writes do. So where memtables
//! fill fast there is one in reserve. Until writes go on in it, the directory is as a crash right behind a switch leaves it,
//! too: behind the last log there is one of zeros, or of nothing, in which every reader of the format finds no record.
//!
//! Numbers are the order of a replay. So no write goes to a log whose number is below that of another one that has writes:
//! what is made too late is not kept, or stays in reserve until it is replaced.

use terrace_format::filename::FileName;

use super::Engine;
use super::tail::Log;
use crate::error::Result;
use crate::sync::{Mutex, Ordering};

/// What is made ready at the beginning of the log in reserve, in bytes. A sync has to write it all.
const READY: u64 = 256 << 10;

/// The log in reserve, whatever a log is.
pub(crate) struct Ahead<L>(Mutex<Reserve<L>>);

struct Reserve<L> {
    /// With its number.
    log: Option<(u64, L)>,
    /// Writes went to logs up to this number.
    used: u64,
}

impl<L> Default for Ahead<L> {
    fn default() -> Ahead<L> {
        Ahead(Mutex::new(Reserve { log: None, used: 0 }))
    }
}

impl<L> Reserve<L> {
    fn is_ready(&self, fits: impl FnOnce(&L) -> bool) -> bool {
        self.log.as_ref().is_some_and(|(number, log)| *number > self.used && fits(log))
    }
}

impl<L> Ahead<L> {
    /// The log to go on in, if there is one that `fits`. One thread at a time takes, or passes.
    pub(crate) fn take(&self, fits: impl FnOnce(&L) -> bool) -> Option<L> {
        let mut reserve = self.0.lock();
        let (number, log) = if reserve.is_ready(fits) { reserve.log.take() } else { None }?;
        reserve.used = number;
        Some(log)
    }

    /// Writes go on in log `number`, which was not in reserve.
    pub(crate) fn pass(&self, number: u64) {
        self.0.lock().used = number;
    }

    /// True if there is one that `fits`.
    pub(crate) fn is_ready(&self, fits: impl FnOnce(&L) -> bool) -> bool {
        self.0.lock().is_ready(fits)
    }

    /// Keeps a log in reserve, unless it comes too late; gives what is not kept.
    pub(crate) fn keep(&self, number: u64, log: L) -> Option<L> {
        let mut reserve = self.0.lock();
        if number <= reserve.used {
            return Some(log);
        }
        reserve.log.replace((number, log)).map(|(_, log)| log)
    }

    /// Empties the reserve.
    pub(crate) fn give_up(&self) -> Option<L> {
        self.0.lock().log.take().map(|(_, log)| log)
    }
}

impl Engine {
    /// A log for the memtable to come, which will have `size` bytes. One thread at a time.
    pub(super) fn next_log(&self, size: usize) -> Result<Log> {
        if let Some(log) = self.ahead.take(|log: &Log| log.holds(size)) {
            return Ok(log);
        }
        let log = self.new_log(size)?;
        self.ahead.pass(log.number);
        Ok(log)
    }

    fn new_log(&self, size: usize) -> Result<Log> {
        let log = Log::create(&self.options, &self.directory, self.new_file_number(), size)?;
        if self.buffer.fills_fast() {
            log.file.hurry(0);
        }
        Ok(log)
    }

    /// Sees to it that there is a log in reserve, where memtables fill fast. For a job, which closing waits for.
    pub(super) fn make_log_ahead(&self) {
        let size = self.buffer.size();
        if !self.buffer.fills_fast()
            || self.closing.load(Ordering::Relaxed)
            || self.ahead.is_ready(|log| log.holds(size))
        {
            return;
        }
        // A writer meets the same error, or none any more.
        let Ok(log) = self.new_log(size) else { return };
        let _ = log.file.prepare(READY);
        let left = if log.holds(size) { self.ahead.keep(log.number, log) } else { Some(log) };
        self.remove_unused(left);
    }

    /// Removes the log in reserve: it takes room on a disk that has none, and a closed database has none.
    pub(super) fn give_up_log_ahead(&self) {
        self.remove_unused(self.ahead.give_up());
    }

    fn remove_unused(&self, log: Option<Log>) {
        let Some(Log { number, file }) = log else { return };
        drop(file);
        // A leftover is removed at the next open.
        let _ = self.options.env.fs.remove(&self.path_of(FileName::Log(number)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_late_is_not_kept() {
        let ahead = Ahead::default();
        assert_eq!(ahead.take(|_: &&str| true), None);
        ahead.pass(7);
        assert_eq!(ahead.keep(6, "six"), Some("six"));
        assert_eq!(ahead.keep(8, "eight"), None);
        assert_eq!(ahead.take(|_| false), None, "too small");
        assert_eq!(ahead.keep(9, "nine"), Some("eight"));
        assert_eq!(ahead.take(|_| true), Some("nine"));
        assert_eq!(ahead.take(|_| true), None);
    }

    #[test]
    fn what_was_passed_over_is_not_taken() {
        let ahead = Ahead::default();
        assert_eq!(ahead.keep(5, "five"), None);
        ahead.pass(6);
        assert!(!ahead.is_ready(|_| true));
        assert_eq!(ahead.take(|_| true), None);
        assert_eq!(ahead.keep(7, "seven"), Some("five"));
        assert!(ahead.is_ready(|_| true));
        assert_eq!(ahead.give_up(), Some("seven"));
        assert_eq!(ahead.give_up(), None);
    }
}
