//! Deletion of a range of keys: whole tables at once, all other keys one by one.
//!
//! ```text
//!   range             [begin ........................ end)
//!   tables        | a   | |  inside  | |  inside  | |  b    |    the rest: a, b and the memtables
//!
//!   1. delete the keys of the range that the rest alone would show, one by one; sync the log
//!   2. without a compaction or a write: if the rest shows none of them, drop the tables inside by
//!      one edit
//! ```
//!
//! A table inside the range may hide older versions in the rest. Both steps therefore read the rest
//! without these tables: a key that is not visible there cannot reappear. The log is synced before
//! the edit, so that a power cut never keeps the edit without the tombstones. If the tables inside
//! keep changing, or a snapshot needs them, all keys are deleted one by one.

use terrace_format::batch::WriteBatch;
use terrace_format::filename::FileName;
use terrace_format::key::SequenceNumber;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::inner::{DbInner, ReadState};
use crate::error::{Error, Result};
use crate::event::TableChangeCause;
use crate::iterator::{DbIter, DbIterator, IterObserver, MergingIter, READ_BYTES_PERIOD};
use crate::options::{ReadOptions, WriteOptions};
use crate::sync::{Arc, Ordering};
use crate::version::{FileMeta, KeyRange, Version};

/// Number of attempts to drop tables, if the set of tables inside the range changes meanwhile.
const MAX_DROP_ATTEMPTS: usize = 3;

/// Size of the batches of tombstones, in bytes.
const TOMBSTONE_BATCH_BYTES: usize = 64 << 10;

/// Result of step 2.
enum DropOutcome {
    Done,
    /// The rest shows keys of the range again.
    Retry,
    /// A snapshot may need the tables.
    SnapshotHeld,
}

impl DbInner {
    /// Returns an error for a batch that lacks an operation, because there was no memory for it.
    pub(super) fn check_batch_memory(&self, batch: &WriteBatch) -> Result<()> {
        if batch.is_out_of_memory() {
            return Err(Error::out_of_memory(&self.directory, batch.as_bytes().len()));
        }
        Ok(())
    }

    pub(super) fn delete_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.check_owner_process()?;
        let range = KeyRange { begin, end };
        if let (Some(begin), Some(end)) = (begin, end)
            && self.comparator.user_comparator().compare(begin, end).is_ge()
        {
            return self.write_empty_batch(&WriteOptions { sync: true }).map(drop);
        }
        let install_count = self.read_state.install_count();
        let deleted = self.delete_keys_of_range(range);
        self.release_replaced_tables(install_count);
        deleted
    }

    fn delete_keys_of_range(&self, range: KeyRange<'_>) -> Result<()> {
        for _ in 0..MAX_DROP_ATTEMPTS {
            let (rest, edit) = self.without_covered_tables(range)?;
            if edit.deleted_files.is_empty() {
                break;
            }
            if !mutant!(DeleteRangeExposesOldVersions) {
                self.delete_visible_keys(&rest, range)?;
            }
            drop(rest);
            match self.with_compaction_paused(|last| self.drop_tables(last, range))? {
                DropOutcome::Done => {
                    self.remove_obsolete_files();
                    return Ok(());
                }
                DropOutcome::Retry => {}
                DropOutcome::SnapshotHeld => break,
            }
        }
        let read_state = Arc::clone(&self.read_state.current());
        self.delete_visible_keys(&read_state, range)
    }

    /// Returns the current state without the tables inside `range`, and the edit that drops these
    /// tables.
    fn without_covered_tables(&self, range: KeyRange<'_>) -> Result<(ReadState, VersionEdit)> {
        let state = self.state.lock();
        let version = &state.version_set.version;
        let mut edit = VersionEdit::default();
        for (level, files) in version.levels.iter().enumerate() {
            let covered = files.iter().filter(|file| is_covered(version, file, range));
            edit.deleted_files.extend(covered.map(|file| (level, file.number)));
        }
        let without = state.version_set.apply_edit(&edit, &self.file_path(FileName::Current))?;
        Ok((ReadState { version: without.version, ..ReadState::new(&state) }, edit))
    }

    /// Executes step 1 for the keys that `read_state` shows. All earlier writes are durable, too,
    /// when this returns.
    fn delete_visible_keys(&self, read_state: &ReadState, range: KeyRange<'_>) -> Result<()> {
        let mut keys = self.iter_range(read_state, range);
        let mut batch = WriteBatch::new();
        while keys.valid() {
            batch.delete(keys.key());
            if batch.as_bytes().len() >= TOMBSTONE_BATCH_BYTES {
                self.check_batch_memory(&batch)?;
                self.write(&batch, &WriteOptions::default())?;
                batch = WriteBatch::new();
            }
            keys.next();
        }
        keys.status()?;
        self.check_batch_memory(&batch)?;
        self.write(&batch, &WriteOptions { sync: true }).map(drop)
    }

    /// Returns an iterator over the keys of `range` that `read_state` shows now.
    fn iter_range(&self, read_state: &ReadState, range: KeyRange<'_>) -> DbIterator {
        let options = ReadOptions {
            fill_cache: false,
            lower_bound: range.begin.map(<[u8]>::to_vec),
            upper_bound: range.end.map(<[u8]>::to_vec),
            ..ReadOptions::default()
        };
        let visible = self.read_state.visible_seqno().load(Ordering::Acquire);
        let merging_iter = MergingIter::new(self.comparator.clone(), read_state.sources(self, &options));
        let db_iter = DbIter::new(&self.comparator, merging_iter, visible, &options);
        let mut keys = DbIterator::new(db_iter, Arc::new(NoSampling));
        keys.seek_to_first();
        keys
    }

    /// Executes step 2. No write runs meanwhile, so that the durable state is one that existed.
    fn drop_tables(&self, last: SequenceNumber, range: KeyRange<'_>) -> Result<DropOutcome> {
        self.wait_until_applied(last)?;
        let (rest, edit) = self.without_covered_tables(range)?;
        let keys = self.iter_range(&rest, range);
        keys.status()?;
        if keys.valid() && !mutant!(DeleteRangeExposesOldVersions) {
            return Ok(DropOutcome::Retry);
        }
        drop(keys);
        drop(rest);
        self.sync_wal_to(self.wal_sync.last_write())?;
        let count = edit.deleted_files.len();
        let cause = Some(TableChangeCause::DeleteRange);
        // No snapshot can be created meanwhile. An older one would see the keys before the edit,
        // but not after it.
        match self.snapshots.if_empty(|| self.log_and_apply(cause, &[], |_| edit, |_| ())) {
            None => Ok(DropOutcome::SnapshotHeld),
            Some(installed) => {
                installed.map_err(|error| self.refuse_writes_after(error).into_error())?;
                self.logger.log(format_args!("Dropped {count} tables covered by delete_range"));
                Ok(DropOutcome::Done)
            }
        }
    }
}

/// Returns true if all keys of `file` are in `range`, without its end.
fn is_covered(version: &Version, file: &FileMeta, range: KeyRange<'_>) -> bool {
    let comparator = version.comparator.user_comparator();
    range.begin.is_none_or(|begin| comparator.compare(file.smallest.user_key(), begin).is_ge())
        && range.end.is_none_or(|end| comparator.compare(file.largest.user_key(), end).is_lt())
}

/// Observer for a scan that triggers no compaction.
struct NoSampling;

impl IterObserver for NoSampling {
    fn record_read_sample(&self, _: &[u8]) {}

    fn bytes_until_next_sample(&self) -> usize {
        READ_BYTES_PERIOD
    }

    fn record_merged_seek(&self, _user_key: &[u8]) {}

    fn record_skipped(&self, _entries: usize) {}
}
