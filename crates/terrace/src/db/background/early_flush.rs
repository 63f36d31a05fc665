//! Early flushes: the databases that share a memory budget flush memtables that are not full.
//!
//! ```text
//!   writer of one database ──> compares the memtables ──> flushes its own one, or
//!                                                    ──> schedules a job of another database
//! ```
//!
//! An idle database gives back the memory of its memtable in this way.

use terrace_env::Priority;

use crate::db::components::wal::WalWriter;
use crate::db::inner::DbInner;
use crate::shared_budget::{BudgetShare, BudgetUser, MIN_EARLY_FLUSH_BYTES};
use crate::sync::{Arc, Ordering};

impl DbInner {
    /// Returns true if the writer has to flush the memtable for the shared budget.
    #[inline]
    pub(in crate::db) fn must_flush_early(&self, writer: &WalWriter) -> bool {
        self.budget_share
            .as_ref()
            .is_some_and(|share| share.budget().needs_check() && should_flush_early(share, writer))
    }

    /// Waits until no other database uses this one, and prevents it from now on. So the last
    /// reference is never dropped by a thread that holds locks of another database.
    pub(in crate::db) fn leave_shared_budget(&self) {
        // A forked child does not have the threads that it would wait for.
        if let Some(share) = self.budget_share.as_ref().filter(|_| self.owner_process.is_current()) {
            share.leave();
        }
    }

    /// Returns the number of immutable memtables at which writers wait for a flush.
    pub(in crate::db) fn max_immutable_memtables(&self) -> usize {
        let is_over_limit =
            self.budget_share.as_ref().is_some_and(|share| share.budget().is_over_memtable_limit());
        if is_over_limit { 1 } else { self.memtable_sizer.max_immutable_memtables() }
    }

    fn early_flush_job(&self) {
        self.is_early_flush_requested.store(false, Ordering::Relaxed);
        let memtable = Arc::clone(&self.read_state.current().memtable);
        if memtable.memory_usage() >= MIN_EARLY_FLUSH_BYTES {
            // Without success, a later check of a writer requests the flush again.
            self.try_switch_memtable(&memtable);
        }
    }
}

#[cold]
fn should_flush_early(share: &BudgetShare, writer: &WalWriter) -> bool {
    share.should_flush_early(writer.memtable.memory_usage(), writer.memtable_full_at)
}

impl BudgetUser for DbInner {
    fn memtable_bytes(&self) -> usize {
        let can_flush = !self.is_read_only
            && self.owner_process.is_current()
            && !self.is_shutting_down.load(Ordering::Relaxed)
            && !self.is_early_flush_requested.load(Ordering::Relaxed);
        if can_flush { self.read_state.current().memtable.memory_usage() } else { 0 }
    }

    fn request_early_flush(self: Arc<Self>) {
        if !self.is_early_flush_requested.swap(true, Ordering::Relaxed) {
            self.schedule_job(Priority::Flush, DbInner::early_flush_job);
        }
    }

    fn table_bytes(&self) -> usize {
        self.table_cache.memory().usage()
    }

    fn close_tables(&self, bytes: usize) {
        self.table_cache.close_tables(bytes);
    }
}
