//! Closing.
//!
//! ```text
//!   memtable flushed, if large ──> no new merges ──> flushes done ──> logs durable ──> mark ──> log cut to its length ──> lock released
//! ```

use terrace_format::batch::WriteBatch;

use super::components::wal::WalWriter;
use super::inner::{DbInner, FlushTarget};
use crate::error::Result;
use crate::sync::Ordering;

/// A log of so many bytes becomes a table rather than be replayed at the next open ...
const MIN_LOG_BYTES_TO_FLUSH: u64 = 256 << 10;
/// ... if that is also such a part of what a memtable holds: else there would be many small tables.
const MIN_LOG_MEMTABLE_DIVISOR: u64 = 8;

impl DbInner {
    /// Ends the background, gives the log its end, and releases the lock. Does nothing the second time, and nothing in a child that was
    /// forked: the log goes on.
    pub(super) fn close(&self) -> Result<()> {
        if !self.owner_process.is_current() {
            return Ok(());
        }
        if self.options.reuse_logs
            && self.commit.lock().as_ref().is_some_and(|tail| self.should_flush_on_close(tail))
        {
            // If it fails, or somebody has closed already: the log holds the same.
            let _ = self.flush(FlushTarget::AnyLevel);
        }
        if self.is_shutting_down.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.state.lock();
        // Nobody begins to wait for a snapshot any more: who does has the state locked.
        self.snapshots.clear_waiter();
        // Writers who wait for a merge wait no longer.
        self.notify_state_changed(&mut state);
        drop(state);
        let mut commit = self.commit.lock();
        self.stop_background_work();
        let finished = commit.take().map_or(Ok(()), |tail| self.close_wal(tail));
        drop(commit);
        self.remove_obsolete_files();
        self.log_timers();
        *self.db_lock.lock() = None;
        finished
    }

    /// True if what the next open would have to replay is better a table.
    fn should_flush_on_close(&self, tail: &WalWriter) -> bool {
        let part = self.memtable_sizer.size() as u64 / MIN_LOG_MEMTABLE_DIVISOR;
        // Where logs grow with each record none is gone on with, and each open begins with a table.
        tail.wal.file.capacity() > 0 && tail.record_writer.end_offset() >= MIN_LOG_BYTES_TO_FLUSH.max(part)
    }

    /// Returns when no job runs, nor ever will. What is frozen is flushed first, unless that fails.
    fn stop_background_work(&self) {
        let mut state = self.state.lock();
        self.maybe_schedule_flush_or_compaction(&mut state);
        while state.scheduled_flushes > 0 || state.is_compaction_scheduled {
            self.wait_for_state_change(&mut state);
        }
        state.is_shut_down = true;
        // Who waits for a job waits no longer.
        self.notify_state_changed(&mut state);
    }

    /// Makes the logs durable, and gives the last one its end: a log that ends with a batch of nothing was closed, and
    /// all that stands before that was durable before, in the log and in the manifest.
    fn close_wal(&self, mut tail: WalWriter) -> Result<()> {
        self.background_error.check()?;
        let unflushed = !self.state.lock().immutable_memtables.is_empty();
        if let Some(length) = tail.closed_len().filter(|_| !unflushed && !tail.is_torn) {
            // Nothing was written, and all is as it was found.
            return Ok(tail.wal.file.truncate_and_close(length)?);
        }
        if unflushed || tail.record_writer.end_offset() > 0 {
            self.sync_wal()?;
        }
        if unflushed || tail.is_torn || !self.manifest.lock().has_only_durable_edits() {
            // What a crash would leave, which the next open knows how to read.
            return Ok(());
        }
        if tail.record_writer.end_offset() > 0 {
            let mut mark = WriteBatch::new();
            mark.set_sequence(tail.last_sequence + 1);
            tail.append(mark.as_bytes())?;
        }
        Ok(tail.wal.file.truncate_and_close(tail.record_writer.end_offset())?)
    }
}
