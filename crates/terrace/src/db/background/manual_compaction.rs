//! Compaction of a key range that a caller requested.

use terrace_format::version_edit::NUM_LEVELS;

use crate::compaction::Compaction;
use crate::db::Db;
use crate::db::inner::{DbInner, DbState, FlushTarget, ManualCompaction};
use crate::error::Result;
use crate::event::CompactionReason;
use crate::sync::{Arc, Ordering};
use crate::version::{KeyRange, Version, total_size};

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
        let deepest = self.flush_for_compaction(range)?;
        (0..deepest).try_for_each(|level| self.compact_level(level, range, None, &mut |_| ()))
    }

    /// Compacts as [`DbInner::compact_range`] does. Calls `progress` with the completed bytes and
    /// the total.
    pub(in crate::db) fn compact_range_with_progress(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let range = KeyRange { begin, end };
        let deepest = self.flush_for_compaction(range)?;
        let total = input_bytes(&self.read_state.current().version, range, deepest);
        let read_before = bytes_read(&self.state.lock());
        let mut done = 0;
        // Ordering: a late view of the counter only delays a report.
        self.compaction_progress.watchers.fetch_add(1, Ordering::Relaxed);
        let result = (0..deepest).try_for_each(|level| {
            self.compact_level(level, range, None, &mut |bytes| {
                // Automatic compactions count too, and one that has ended may not yet.
                done = bytes.saturating_sub(read_before).clamp(done, total.max(done));
                progress(done, total);
            })
        });
        self.compaction_progress.watchers.fetch_sub(1, Ordering::Relaxed);
        if result.is_ok() {
            progress(total, total);
        }
        result
    }

    /// Flushes the memtable if it has keys in `range`. Returns the level to which a compaction of
    /// the range moves all of its keys.
    fn flush_for_compaction(&self, range: KeyRange<'_>) -> Result<usize> {
        // Without keys of the range, the memtable goes to the level of an ordinary flush.
        let overlaps = self.read_state.current().memtable.overlaps(range.begin, range.end);
        self.flush(if overlaps { FlushTarget::Level0 } else { FlushTarget::AnyLevel })?;
        let version = Arc::clone(&self.read_state.current().version);
        // Level 0 is always compacted. The last level has no level below it.
        Ok((1..NUM_LEVELS).rev().find(|&level| version.overlaps_level(level, range)).unwrap_or(1))
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
            self.compact_level(level, everything, rewrites_below, &mut |_| ())?;
        }
        Ok(())
    }

    fn first_level_with_tables_below(&self, number: u64) -> Option<usize> {
        let levels = &self.read_state.current().version.levels;
        levels.iter().position(|files| files.iter().any(|file| file.number < number))
    }

    /// Compacts the keys of `level` in `range`. Calls `report` with the bytes of all compactions
    /// since the open of the database.
    fn compact_level(
        &self,
        level: usize,
        range: KeyRange<'_>,
        rewrites_below: Option<u64>,
        report: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let id = self.add_manual_compaction(level, range, rewrites_below);
        let done = self.wait_until_with_progress(
            |state| state.manual_compactions.iter().all(|manual| manual.id != id),
            |state| bytes_read(state) + self.bytes_of_running_compaction(state),
            report,
        );
        if done.is_err() {
            self.state.lock().manual_compactions.retain(|manual| manual.id != id);
        }
        done
    }

    /// Completed share of the running compaction, in bytes of its inputs. Estimated by its outputs.
    fn bytes_of_running_compaction(&self, state: &DbState) -> u64 {
        let written = self.compaction_progress.bytes_written.load(Ordering::Relaxed);
        state.running_compaction.map_or(0, |running| written.min(running.input_bytes))
    }

    /// Counts a table that the running compaction has finished, for the callers that show progress.
    pub(super) fn record_finished_table(&self, bytes: u64) {
        if self.compaction_progress.watchers.load(Ordering::Relaxed) > 0 {
            self.compaction_progress.bytes_written.fetch_add(bytes, Ordering::Relaxed);
            // A caller that misses this sees the next table.
            self.state_changed.notify_all();
        }
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

/// Bytes of the inputs of all finished compactions.
fn bytes_read(state: &DbState) -> u64 {
    state.compaction_stats.iter().map(|stats| stats.bytes_read).sum()
}

/// Bytes that compactions of `range` read, level by level down to `deepest`. Each level receives
/// the tables of the levels above it.
fn input_bytes(version: &Version, range: KeyRange<'_>, deepest: usize) -> u64 {
    let bytes = |level| total_size(&version.overlapping_inputs(level, range));
    let mut moving = 0u64;
    let mut total = 0u64;
    for level in 0..deepest {
        moving = moving.saturating_add(bytes(level));
        total = total.saturating_add(moving).saturating_add(bytes(level + 1));
    }
    total
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
