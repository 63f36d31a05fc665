//! Suspension of compactions, for programs that need the disk for themselves or copy the files.

use super::Db;
use super::inner::DbInner;
use crate::error::Result;

/// Suspension of compactions until its drop. The caller does not hold `state` then.
pub(super) struct CompactionSuspension<'a>(&'a DbInner);

impl<'a> CompactionSuspension<'a> {
    /// Lets no further compaction begin. The running one continues.
    pub(super) fn new(inner: &'a DbInner) -> CompactionSuspension<'a> {
        inner.state.lock().compaction_suspensions += 1;
        CompactionSuspension(inner)
    }
}

impl Drop for CompactionSuspension<'_> {
    fn drop(&mut self) {
        self.0.end_suspension();
    }
}

impl DbInner {
    /// Ends one suspension of compactions. Does nothing if there is none.
    fn end_suspension(&self) {
        let mut state = self.state.lock();
        state.compaction_suspensions = state.compaction_suspensions.saturating_sub(1);
        self.maybe_schedule_flush_or_compaction(&mut state);
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
        inner.end_suspension();
    }
}
