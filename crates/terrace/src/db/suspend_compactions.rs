//! Suspension of compactions: for programs that need the disk for themselves or copy the files, and
//! for a change of tables without a compaction beside it.

use terrace_format::key::SequenceNumber;

use super::Db;
use super::inner::DbInner;
use super::panic_guard::PoisonOnPanic;
use crate::error::Result;

/// Pause of compactions until its drop. The caller does not hold `state` then.
struct CompactionPause<'a>(&'a DbInner);

impl<'a> CompactionPause<'a> {
    /// Lets no further compaction begin. The running one continues.
    fn new(inner: &'a DbInner) -> CompactionPause<'a> {
        inner.state.lock().compaction_pauses += 1;
        CompactionPause(inner)
    }
}

impl Drop for CompactionPause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.compaction_pauses -= 1;
        self.0.maybe_schedule_flush_or_compaction(&mut state);
    }
}

impl DbInner {
    /// Executes `work` while no compaction and no write runs. Passes the last used sequence number
    /// to it. A flush may add a table meanwhile, but no table changes its level.
    ///
    /// Waits for the running compaction, and not for those that the tables need afterwards.
    pub(super) fn with_compaction_paused<T>(
        &self,
        work: impl FnOnce(SequenceNumber) -> Result<T>,
    ) -> Result<T> {
        // A writer that waits for a compaction does so without `commit`.
        let _pause = CompactionPause::new(self);
        self.wait_while_compacting()?;
        let commit = self.commit.lock();
        let last = commit.as_ref().ok_or_else(|| self.closed_error())?.last_sequence;
        let _guard = PoisonOnPanic::new(self, |_| ());
        work(last)
    }

    /// Waits until no compaction is scheduled.
    fn wait_while_compacting(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_compaction_scheduled {
            self.background_error.check()?;
            self.wait_for_state_change(&mut state);
        }
        Ok(())
    }
}

/// Suspension of compactions.
impl Db {
    /// Starts no further compaction until [`Db::resume_compactions`]. Returns after the running one
    /// has ended.
    ///
    /// Flushes continue, so writers stall when level 0 has too many tables, until the compactions
    /// resume. [`Db::compact_range`] waits for that too. Each suspension needs its own resumption.
    ///
    /// # Errors
    ///
    /// Those of a failed compaction. The compactions are suspended nevertheless.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.suspend_compactions()?;
    /// // Copies files.
    /// db.resume_compactions();
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn suspend_compactions(&self) -> Result<()> {
        let inner = self.writer()?;
        inner.state.lock().compaction_suspensions += 1;
        inner.wait_until(|state| !state.is_compaction_scheduled)
    }

    /// Ends one suspension of compactions. Does nothing if there is none.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.suspend_compactions()?;
    /// db.resume_compactions();
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn resume_compactions(&self) {
        // A forked child has no compactions.
        let Ok(inner) = self.writer() else { return };
        let mut state = inner.state.lock();
        state.compaction_suspensions = state.compaction_suspensions.saturating_sub(1);
        inner.maybe_schedule_flush_or_compaction(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, Env, Options};

    /// A resumption by the program ended the pause of a deletion of a range.
    #[test]
    fn program_cannot_end_a_pause() {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        let db = Db::open("db", &options).unwrap();
        let paused = db.inner().with_compaction_paused(|_| {
            db.resume_compactions();
            Ok(db.inner().state.lock().may_schedule_compaction())
        });
        assert!(!paused.unwrap());
        assert!(db.inner().state.lock().may_schedule_compaction());
    }
}
