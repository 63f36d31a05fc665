//! Suspension of compactions, for programs that need the disk for themselves or copy the files.

use super::Db;
use crate::error::Result;

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
