//! Closing.
//!
//! ```text
//!   memtable flushed, if large ──> no new merges ──> flushes done ──> logs durable ──> mark ──> log cut to its length ──> lock released
//! ```

use terrace_format::batch::WriteBatch;

use super::tail::LogTail;
use super::{Engine, Target};
use crate::error::Result;
use crate::sync::Ordering;

/// A log of so many bytes becomes a table rather than be replayed at the next open ...
const WORTH_A_TABLE: u64 = 256 << 10;
/// ... if that is also such a part of what a memtable holds: else there would be many small tables.
const PART_OF_A_BUFFER: u64 = 8;

impl Engine {
    /// Ends the background, gives the log its end, and releases the lock. Does nothing the second time, and nothing in a child that was
    /// forked: the log goes on.
    pub(super) fn close(&self) -> Result<()> {
        if !self.birth.is_here() {
            return Ok(());
        }
        if self.options.reuse_logs && self.commit.lock().as_ref().is_some_and(|tail| self.is_long(tail)) {
            // If it fails, or somebody has closed already: the log holds the same.
            let _ = self.flush(Target::AnyLevel);
        }
        if self.closing.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.state.lock();
        // Nobody begins to wait for a snapshot any more: who does has the state locked.
        self.snapshots.wake_nobody();
        // Writers who wait for a merge wait no longer.
        self.announce(&mut state);
        drop(state);
        let mut commit = self.commit.lock();
        self.wait_for_quiet();
        let finished = commit.take().map_or(Ok(()), |tail| self.finish_log(tail));
        drop(commit);
        self.remove_doomed();
        self.tell_spans();
        *self.lock.lock() = None;
        finished
    }

    /// True if what the next open would have to replay is better a table.
    fn is_long(&self, tail: &LogTail) -> bool {
        let part = self.buffer.size() as u64 / PART_OF_A_BUFFER;
        // Where logs grow with each record none is gone on with, and each open begins with a table.
        tail.log.file.capacity() > 0 && tail.framer.offset() >= WORTH_A_TABLE.max(part)
    }

    /// Returns when no job runs, nor ever will. What is frozen is flushed first, unless that fails.
    fn wait_for_quiet(&self) {
        let mut state = self.state.lock();
        self.schedule(&mut state);
        while state.flushes > 0 || state.merging {
            self.wait(&mut state);
        }
        state.ended = true;
        // Who waits for a job waits no longer.
        self.announce(&mut state);
    }

    /// Makes the logs durable, and gives the last one its end: a log that ends with a batch of nothing was closed, and
    /// all that stands before that was durable before, in the log and in the manifest.
    fn finish_log(&self, mut tail: LogTail) -> Result<()> {
        self.refusal.check()?;
        let unflushed = !self.state.lock().frozen.is_empty();
        if let Some(length) = tail.closed_len().filter(|_| !unflushed && !tail.broken) {
            // Nothing was written, and all is as it was found.
            return Ok(tail.log.file.finish(length)?);
        }
        if unflushed || tail.framer.offset() > 0 {
            self.sync_logs()?;
        }
        if unflushed || tail.broken || !self.manifest.lock().is_settled() {
            // What a crash would leave, which the next open knows how to read.
            return Ok(());
        }
        if tail.framer.offset() > 0 {
            let mut mark = WriteBatch::new();
            mark.set_sequence(tail.sequence + 1);
            tail.append(mark.as_bytes())?;
        }
        Ok(tail.log.file.finish(tail.framer.offset())?)
    }
}
