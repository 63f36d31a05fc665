//! Compaction of a key range that a caller requested.

use terrace_format::version_edit::NUM_LEVELS;

use crate::compaction::{Compaction, CompactionReason};
use crate::db::Db;
use crate::db::inner::{DbInner, DbState, FlushTarget, ManualCompaction};
use crate::error::Result;
use crate::sync::{Arc, Ordering};
use crate::version::KeyRange;

/// Conversion of a database to other options.
impl Db {
    /// Writes every table again that exists at the call, with the current options.
    ///
    /// After [`Options::compression`] was changed, this converts the database. Compacts all keys
    /// like [`Db::compact_range`], and then rewrites the other tables of the deepest level. Needs
    /// free space for one compaction. Reads and writes continue meanwhile. After an error or a
    /// crash, some tables are converted, and another call converts the rest.
    ///
    /// # Errors
    ///
    /// Errors of the flush or of a compaction. No stored data is lost.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options, compress};
    /// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// # Db::open("cities", &options)?.close()?;
    /// # if cfg!(feature = "zstd") {
    /// let db = Db::open("cities", &options.compression(&compress::ZSTD))?;
    /// db.rewrite_tables()?;
    /// # }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn rewrite_tables(&self) -> Result<()> {
        self.writer()?.rewrite_tables()
    }
}

impl DbInner {
    pub(in crate::db) fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let range = KeyRange { begin, end };
        // Without keys of the range, the memtable goes to the level of an ordinary flush.
        let overlaps = self.read_state.current().memtable.overlaps(begin, end);
        self.flush(if overlaps { FlushTarget::Level0 } else { FlushTarget::AnyLevel })?;
        let version = Arc::clone(&self.read_state.current().version);
        // Level 0 is always compacted. The last level has no level below it.
        let deepest = (1..NUM_LEVELS).rev().find(|&level| version.overlaps_level(level, range)).unwrap_or(1);
        drop(version);
        (0..deepest).try_for_each(|level| self.compact_level(level, range, None))
    }

    /// Writes every table again that exists at the call.
    pub(in crate::db) fn rewrite_tables(&self) -> Result<()> {
        let first_new_number = self.next_file_number.load(Ordering::Relaxed);
        let everything = KeyRange { begin: None, end: None };
        // Leaves the old tables of the deepest level that overlap no other table.
        self.compact_range(None, None)?;
        while let Some(level) = self.first_level_with_tables_below(first_new_number) {
            // A flush of an older memtable may have added a table to level 0.
            let rewrites_below = (level > 0).then_some(first_new_number);
            self.compact_level(level, everything, rewrites_below)?;
        }
        Ok(())
    }

    fn first_level_with_tables_below(&self, number: u64) -> Option<usize> {
        let levels = &self.read_state.current().version.levels;
        levels.iter().position(|files| files.iter().any(|file| file.number < number))
    }

    fn compact_level(&self, level: usize, range: KeyRange<'_>, rewrites_below: Option<u64>) -> Result<()> {
        let id = self.add_manual_compaction(level, range, rewrites_below);
        let done = self.wait_until(|state| state.manual_compactions.iter().all(|manual| manual.id != id));
        if done.is_err() {
            self.state.lock().manual_compactions.retain(|manual| manual.id != id);
        }
        done
    }

    /// Queues a manual compaction and returns its identifier.
    fn add_manual_compaction(&self, level: usize, range: KeyRange<'_>, rewrites_below: Option<u64>) -> u64 {
        let begin = range.begin.map(<[u8]>::to_vec);
        let end = range.end.map(<[u8]>::to_vec);
        let mut state = self.state.lock();
        state.last_manual_compaction_id += 1;
        let id = state.last_manual_compaction_id;
        state.manual_compactions.push_back(ManualCompaction { id, level, begin, end, rewrites_below });
        id
    }
}

/// Part of a manual compaction that one compaction job executes.
pub(super) struct ManualCompactionStep {
    id: u64,
    /// Begin of the remaining range. None if this is the last step.
    remaining_begin: Option<Vec<u8>>,
}

impl ManualCompactionStep {
    /// Returns None for an automatic compaction.
    pub(super) fn from_compaction(compaction: &Compaction) -> Option<ManualCompactionStep> {
        let CompactionReason::Manual(id) = compaction.reason else { return None };
        // One step compacts all tables of level 0 in the range. Tables that a flush adds later are
        // not part of the request.
        let pointer = compaction.compact_pointer.as_ref().filter(|_| compaction.level() > 0);
        let remaining_begin = pointer.map(|pointer| pointer.user_key().to_vec());
        Some(ManualCompactionStep { id, remaining_begin })
    }

    /// Removes the executed part from the manual compaction.
    pub(super) fn record_done(self, state: &mut DbState) {
        // The caller may have given up, and has removed it then.
        let Some(manual) = state.manual_compactions.iter_mut().find(|manual| manual.id == self.id) else {
            return;
        };
        match self.remaining_begin {
            Some(begin) => manual.begin = Some(begin),
            None => state.manual_compactions.retain(|manual| manual.id != self.id),
        }
    }
}
