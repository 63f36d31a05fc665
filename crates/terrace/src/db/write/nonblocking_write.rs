//! Writes that never wait: they succeed at once, or they have no effect.

use terrace_format::batch::WriteBatch;
use terrace_format::key::SequenceNumber;

use super::{Operation, PendingWrite};
use crate::db::inner::DbInner;
use crate::error::{Error, Result};
use crate::options::WriteOptions;

impl DbInner {
    /// Writes `batch` without a sync, or returns [`Error::WouldWait`] and writes nothing.
    pub(in crate::db) fn try_write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.check_batch(batch)?;
        if options.sync {
            return Err(Error::WouldWait);
        }
        if batch.is_empty() {
            return self.write_empty_batch(options).map(drop);
        }
        self.try_commit(PendingWrite::from_batch(batch))
    }

    /// Writes like `commit`, without a sync, or returns [`Error::WouldWait`] and writes nothing.
    fn try_commit<'a>(
        &self,
        write: PendingWrite<
            'a,
            impl Fn(SequenceNumber, &mut Vec<u8>),
            impl Iterator<Item = Operation<'a>> + Clone,
        >,
    ) -> Result<()> {
        self.check_owner_process()?;
        if self.write_controller.is_delaying() || self.should_queue() {
            return Err(Error::WouldWait);
        }
        self.write_contention.arrive();
        let commit = self.try_lock_commit().ok_or(Error::WouldWait)?;
        self.background_error.check()?;
        if !self.has_room(commit.as_ref().ok_or_else(|| self.closed_error())?) {
            return Err(Error::WouldWait);
        }
        self.append_and_insert(commit, write).map(drop)
    }

    /// Returns true if a write would probably be delayed or stalled now.
    pub(in crate::db) fn would_wait(&self) -> bool {
        if self.write_controller.is_delaying() {
            return true;
        }
        let full_at = self.memtable_sizer.full_threshold(self.memtable_sizer.size());
        let is_full = self.read_state.load().0.memtable.memory_usage() >= full_at;
        is_full && self.stall_cause(&self.state.lock()).is_some()
    }
}
