//! Close of a database.
//!
//! ```text
//!   flush, if the memtable is large ──> no new compactions ──> wait for flushes ──> sync logs
//!     ──> truncate log ──> close record in the MANIFEST ──> release lock
//! ```

use super::components::background_error::panic_error;
use super::components::wal::WalWriter;
use super::inner::{DbInner, FlushTarget};
use super::panic_guard::PoisonOnPanic;
use super::{Db, DbHandle};
use crate::error::Result;
use crate::sync::{Arc, Ordering};
use crate::version::ClosedLog;

/// Minimum size in bytes of a log that close flushes to a table, to spare the next open its replay.
const MIN_LOG_BYTES_TO_FLUSH: u64 = 256 << 10;
/// Minimum size of such a log as a part of the memtable size. Smaller flushes would create many
/// small tables.
const MIN_LOG_MEMTABLE_DIVISOR: u64 = 8;

/// Close of a database.
impl Db {
    /// Closes the database if this is its last handle and no iterator exists. Otherwise only drops
    /// the handle. In a forked child, the handles of the parent's other threads exist for ever:
    /// [`Db::shutdown`] closes the database nevertheless.
    ///
    /// Makes the log durable; the next open replays it. Cancels a running compaction. When this
    /// returns, another process can open the database.
    ///
    /// # Errors
    ///
    /// An I/O error if the log could not be made durable. The database is closed nevertheless.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let clone = db.clone();
    /// db.close()?; // drops one handle
    /// clone.put(b"CH/Bern", b"46.95,7.45")?;
    /// clone.close()?; // the last one: closes the database
    /// assert!(terrace::Db::open("cities", &options)?.get(b"CH/Bern")?.is_some());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        // `try_unwrap` could fail for two clones that close at the same time.
        DbHandle::close_last(self.handle)
    }

    /// Closes the database for all handles and iterators, as [`Db::close`] does for the last one.
    ///
    /// If another thread closes the database, waits for it. Each call returns the result of the
    /// first one.
    ///
    /// Later writes fail. Iterators and reads continue with their state. They fail if a later
    /// opener removes a table that they have not opened yet.
    ///
    /// # Errors
    ///
    /// An I/O error if the log could not be made durable. The database is closed nevertheless.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let mut forgotten = db.raw_iter();
    /// db.shutdown()?;
    /// let again = terrace::Db::open("cities", &options)?;
    /// again.delete(b"CH/Bern")?;
    /// forgotten.seek_to_first();
    /// assert_eq!(forgotten.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn shutdown(&self) -> Result<()> {
        let inner = &self.handle.newest().inner;
        let outcome = inner.close();
        inner.join_background_jobs();
        outcome
    }
}

impl DbHandle {
    /// Drops `handle`, and closes the database if it was the last one.
    fn close_last(handle: Arc<DbHandle>) -> Result<()> {
        let Some(mut handle) = Arc::into_inner(handle) else { return Ok(()) };
        let adopted = handle.successor.take().map_or(Ok(()), DbHandle::close_last);
        handle.inner.close().and(adopted)
    }
}

impl Drop for DbHandle {
    fn drop(&mut self) {
        // No other handle exists, so no other thread closes the database now.
        if let Some(Err(error)) = self.inner.close_first() {
            self.inner.logger.log(format_args!("Closing: {error}"));
        }
        // Before the wait for jobs, because another database may schedule one.
        self.inner.leave_shared_budget();
        self.inner.join_background_jobs();
    }
}

impl DbInner {
    /// Closes the database, or waits until another thread has closed it. Returns the result of the
    /// close.
    pub(super) fn close(&self) -> Result<()> {
        if let Some(outcome) = self.close_first() {
            return outcome;
        }
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = &state.close_outcome {
                return outcome.clone();
            }
            self.wait_for_state_change(&mut state);
        }
    }

    /// Ends the background work, closes the log and releases the lock of the directory. Returns
    /// None, without a wait, if this is not the first call. Does nothing in a forked child: the
    /// parent continues to use the log.
    fn close_first(&self) -> Option<Result<()>> {
        if !self.owner_process.is_current() {
            self.release_inherited_lock();
            return Some(Ok(()));
        }
        if self.options.reuse_logs
            && self.commit.lock().as_ref().is_some_and(|writer| self.should_flush_on_close(writer))
        {
            // The flush fails if another thread has closed the database. The log keeps the writes.
            let _ = self.flush(FlushTarget::AnyLevel);
        }
        if self.is_shutting_down.swap(true, Ordering::Relaxed) {
            return None;
        }
        let _guard = PoisonOnPanic::new(self, |state| state.close_outcome = Some(Err(panic_error())));
        let mut state = self.state.lock();
        // `state` is locked, so no thread can register a new waiter afterwards.
        self.snapshots.clear_waiter();
        // Wakes the writers that wait for a compaction.
        self.notify_state_changed(&mut state);
        drop(state);
        let mut commit = self.commit.lock();
        self.stop_background_work();
        let outcome = match commit.take() {
            Some(writer) => self.close_wal(writer),
            None => Ok(()),
        };
        drop(commit);
        self.remove_obsolete_files();
        self.log_timers();
        self.log_refused_directory_sync();
        *self.db_lock.lock() = None;
        let mut state = self.state.lock();
        state.close_outcome = Some(outcome.clone());
        self.notify_state_changed(&mut state);
        drop(state);
        Some(outcome)
    }

    /// Releases the directory lock in a forked child whose parent has exited without a close, so
    /// that any process can open the database.
    fn release_inherited_lock(&self) {
        if let Some(owner) = self.lock_owner.as_ref().filter(|owner| owner.has_exited()) {
            owner.release_inherited_lock();
        }
    }

    /// Returns true if a flush now is cheaper than a replay at the next open.
    fn should_flush_on_close(&self, writer: &WalWriter) -> bool {
        let min_bytes = self.memtable_sizer.size() as u64 / MIN_LOG_MEMTABLE_DIVISOR;
        // A log that is never reused is flushed by every open anyway.
        writer.wal.file.is_reusable()
            && writer.record_writer.end_offset() >= MIN_LOG_BYTES_TO_FLUSH.max(min_bytes)
    }

    /// Waits for the last background job and prevents new ones. Flushes the immutable memtables
    /// before, if no flush fails.
    fn stop_background_work(&self) {
        let mut state = self.state.lock();
        self.maybe_schedule_flush_or_compaction(&mut state);
        while state.has_scheduled_job() {
            self.wait_for_state_change(&mut state);
        }
        state.is_shut_down = true;
        // Wakes the threads that wait for a job.
        self.notify_state_changed(&mut state);
    }

    /// Makes the logs durable, truncates the last one to its records, and states in the MANIFEST
    /// that it is closed.
    fn close_wal(&self, writer: WalWriter) -> Result<()> {
        self.background_error.check()?;
        let is_unflushed = !self.state.lock().immutable_memtables.is_empty();
        let closed = ClosedLog { number: writer.wal.number, len: writer.record_writer.end_offset() };
        let is_unchanged = closed.len == writer.reused_len.unwrap_or(0);
        if is_unflushed || !is_unchanged {
            self.sync_wal()?;
        }
        let mut manifest = self.manifest.lock();
        if is_unflushed || writer.is_torn || !manifest.has_only_durable_edits() {
            // The next open recovers these files as after a crash.
            return Ok(());
        }
        writer.wal.file.truncate_and_close(closed.len)?;
        if !is_unchanged || !manifest.is_unchanged() {
            manifest.record_close(closed)?;
        }
        Ok(())
    }
}
