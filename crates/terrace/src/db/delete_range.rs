//! Removing a range of keys: whole tables at once, and key by key what the others have.
//!
//! ```text
//!   range             [begin ........................ end)
//!   tables        | a   | |  inside  | |  inside  | |  b    |        a, b and the memtables: the rest
//!
//!   1. delete, one by one, the keys of the range that the rest would show by itself; sync the log
//!   2. with no merge and no write beside: if the rest shows none of them, one edit takes out the tables inside
//! ```
//!
//! A table inside may hide older versions in the rest, so what counts in both steps is the rest alone, without it: what is
//! not seen there can't come back. The log is synced before the edit, so that a power cut never leaves the edit without
//! the deletes. Where the tables inside keep changing, or somebody holds a snapshot that sees them, every key is deleted
//! by itself.

use terrace_format::batch::WriteBatch;
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::components::background_error::closed_error;
use super::inner::{DbInner, DbState, ReadState};
use super::panic_guard::PoisonOnPanic;
use crate::error::Result;
use crate::iterator::{DbIter, DbIterator, IterObserver, MergingIter, READ_BYTES_PERIOD};
use crate::options::{ReadOptions, WriteOptions};
use crate::sync::{Arc, Ordering};
use crate::version::{CommitError, FileMeta, KeyRange, Version};

/// How often the tables inside may change before they are not waited for any more.
const MAX_DROP_ATTEMPTS: usize = 3;

/// Deletes are written in batches of this many bytes.
const TOMBSTONE_BATCH_BYTES: usize = 64 << 10;

/// Where step 2 got to.
enum DropOutcome {
    Done,
    /// There are keys of the range in the rest again.
    Retry,
    /// Somebody reads at a snapshot.
    SnapshotHeld,
}

impl DbInner {
    pub(super) fn delete_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.check_owner_process()?;
        let range = KeyRange { begin, end };
        if let (Some(begin), Some(end)) = (begin, end)
            && self.comparator.user_comparator().compare(begin, end).is_ge()
        {
            return self.write_empty_batch(&WriteOptions { sync: true });
        }
        for _ in 0..MAX_DROP_ATTEMPTS {
            let (rest, inside) = self.without_covered_tables(range)?;
            if inside.deleted_files.is_empty() {
                break;
            }
            if !mutant!(DeleteRangeExposesOldVersions) {
                self.delete_visible_keys(&rest, range)?;
            }
            drop(rest);
            match self.with_compaction_paused(|last| self.drop_tables(last, range))? {
                DropOutcome::Done => return Ok(()),
                DropOutcome::Retry => {}
                DropOutcome::SnapshotHeld => break,
            }
        }
        let view = Arc::clone(&self.read_state.current());
        self.delete_visible_keys(&view, range)
    }

    /// What there is now without the tables that have no key outside of `range`, and the edit that takes those out.
    fn without_covered_tables(&self, range: KeyRange<'_>) -> Result<(ReadState, VersionEdit)> {
        let state = self.state.lock();
        let version = &state.version_set.version;
        let mut edit = VersionEdit::default();
        for (level, files) in version.levels.iter().enumerate() {
            let inside = files.iter().filter(|file| is_covered(version, file, range));
            edit.deleted_files.extend(inside.map(|file| (level, file.number)));
        }
        let without = state.version_set.apply_edit(&edit, &self.file_path(FileName::Current))?;
        Ok((ReadState { version: without.version, ..ReadState::new(&state) }, edit))
    }

    /// Step 1, for what `view` shows. What was written before is on the medium when this returns, too.
    fn delete_visible_keys(&self, view: &ReadState, range: KeyRange<'_>) -> Result<()> {
        let mut keys = self.iter_range(view, range);
        let mut batch = WriteBatch::new();
        while keys.valid() {
            batch.delete(keys.key());
            if batch.as_bytes().len() >= TOMBSTONE_BATCH_BYTES {
                self.write(&batch, &WriteOptions::default())?;
                batch = WriteBatch::new();
            }
            keys.next();
        }
        keys.status()?;
        self.write(&batch, &WriteOptions { sync: true })
    }

    /// The keys of `range` that `view` shows now.
    fn iter_range(&self, view: &ReadState, range: KeyRange<'_>) -> DbIterator {
        let options = ReadOptions {
            fill_cache: false,
            lower_bound: range.begin.map(<[u8]>::to_vec),
            upper_bound: range.end.map(<[u8]>::to_vec),
            ..ReadOptions::default()
        };
        let now = self.read_state.visible_seqno().load(Ordering::Acquire);
        let merge = MergingIter::new(self.comparator.clone(), view.sources(self, &options));
        let mut keys =
            DbIterator::new(DbIter::new(&self.comparator, merge, now, &options), Arc::new(NoSampling));
        keys.seek_to_first();
        keys
    }

    /// Step 2. No write comes in between: what is on the medium afterwards, too, is a state that was.
    fn drop_tables(&self, last: SequenceNumber, range: KeyRange<'_>) -> Result<DropOutcome> {
        self.wait_until_applied(last)?;
        let (rest, edit) = self.without_covered_tables(range)?;
        let left = self.iter_range(&rest, range);
        left.status()?;
        if left.valid() && !mutant!(DeleteRangeExposesOldVersions) {
            return Ok(DropOutcome::Retry);
        }
        drop((left, rest));
        self.sync_wal_to(self.wal_sync.last_write())?;
        let count = edit.deleted_files.len();
        // While nobody can take a snapshot: one that is taken before sees the keys, and would not see them behind it.
        match self.snapshots.if_empty(|| self.log_and_apply(|_| edit, |_| ())) {
            None => Ok(DropOutcome::SnapshotHeld),
            Some(installed) => {
                installed.map_err(CommitError::into_error)?;
                self.logger.log(format_args!("Removed {count} tables with a range of keys"));
                Ok(DropOutcome::Done)
            }
        }
    }

    /// Does `work` while no merge runs and nobody writes; it is given the last number that was taken. The tables stay
    /// where they are meanwhile, though a flush may add one.
    fn with_compaction_paused<T>(&self, work: impl FnOnce(SequenceNumber) -> Result<T>) -> Result<T> {
        let release = |state: &mut DbState| state.is_compaction_scheduled = false;
        loop {
            self.wait_while_compacting()?;
            // Before it counts as a merge: whoever closes the database holds this, and waits for merges.
            let commit = self.commit.lock();
            let last = commit.as_ref().ok_or_else(closed_error)?.last_sequence;
            let mut state = self.state.lock();
            if state.is_compaction_scheduled {
                continue;
            }
            state.is_compaction_scheduled = true;
            drop(state);
            let _guard = PoisonOnPanic::new(self, release);
            let outcome = work(last);
            let mut state = self.state.lock();
            release(&mut state);
            self.maybe_schedule_flush_or_compaction(&mut state);
            self.notify_state_changed(&mut state);
            return outcome;
        }
    }

    /// Returns when no merge runs, for a moment at least.
    fn wait_while_compacting(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_compaction_scheduled {
            self.background_error.check()?;
            self.wait_for_state_change(&mut state);
        }
        Ok(())
    }
}

/// True if `file` has no key outside of `range`, whose end is not part of it.
fn is_covered(version: &Version, file: &FileMeta, range: KeyRange<'_>) -> bool {
    let user = version.comparator.user_comparator();
    range.begin.is_none_or(|begin| user.compare(file.smallest.user_key(), begin).is_ge())
        && range.end.is_none_or(|end| user.compare(file.largest.user_key(), end).is_lt())
}

/// A walk that wears no table out.
struct NoSampling;

impl IterObserver for NoSampling {
    fn record_read_sample(&self, _: &[u8]) {}

    fn bytes_until_next_sample(&self) -> usize {
        READ_BYTES_PERIOD
    }

    fn record_skipped(&self, _entries: usize) {}
}
