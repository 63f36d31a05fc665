//! Installation of finished tables: all of them by one version edit, or none.
//!
//! ```text
//!   1. wait until no snapshot is open
//!   2. watch the key ranges; wait until all earlier writes are applied
//!   3. check that neither memtables nor tables hold a key of the ranges; sync the log    no lock
//!   4. lock `commit`: another writer wrote a key of the ranges -> error
//!   5. sync the rest of the log; if no snapshot is open, install the edit, otherwise -> 1
//! ```
//!
//! All entries have the sequence number 0, so every reader of the new version sees them: step 5
//! runs while no snapshot exists and none can be created. They are older than every other version
//! of their keys, so no such version may exist. Tombstones count, too: they would hide the entries.
//!
//! `commit` is held during the sync of the MANIFEST. A write that returned meanwhile, and was lost
//! in a power cut, would come before the ingest in the order of readers. The database would then
//! have a gap in this order.
//!
//! The files have the names of temporary files until all of them are complete. So neither a repair
//! nor LevelDB takes the files of an unfinished load for tables. Every open removes them.

use std::ops::Bound;
use std::path::PathBuf;
use std::time::Duration;

use terrace_env::Env;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalComparator, MAX_SEQUENCE_NUMBER, with_seek_key};
use terrace_format::table::TableOptions;
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};
use terrace_sync::mutant;

use super::Db;
use super::components::watched_keys::WatchedKeys;
use super::inner::DbInner;
use super::panic_guard::PoisonOnPanic;
use crate::compaction::picker::leveled;
use crate::error::{Error, Result};
use crate::event::TableChangeCause;
use crate::internal_iterator::InternalIterator;
use crate::iterator::ChildIter;
use crate::sync::{Arc, Mutex};
use crate::table::{BlockReadOptions, FinishedTable, TableWriter};
use crate::version::{CommitError, KeyRange, VersionSet};

/// First pause between two checks for open snapshots. Each further pause is longer.
const MIN_SNAPSHOT_PAUSE: Duration = Duration::from_micros(100);
/// Longest pause between two checks for open snapshots.
const MAX_SNAPSHOT_PAUSE: Duration = Duration::from_millis(10);

/// Table to install, with the path that errors name.
#[derive(Debug, Clone)]
pub(crate) struct NewTable {
    pub(crate) source: PathBuf,
    pub(crate) table: FinishedTable,
}

impl NewTable {
    fn range(&self) -> KeyRange<'_> {
        let file = &self.table.file;
        KeyRange { begin: Some(file.smallest.user_key()), end: Some(file.largest.user_key()) }
    }

    /// Returns the error of a table that overlaps `other`.
    pub(crate) fn overlap_error(&self, other: String) -> Error {
        Error::Overlap {
            path: self.source.clone(),
            smallest: self.table.file.smallest.user_key().to_vec(),
            largest: self.table.file.largest.user_key().to_vec(),
            other,
        }
    }
}

/// Files in the directory of a database that are not part of it yet. The drop removes them.
///
/// Any thread may create and remove files. After a crash, the next open removes them.
pub(crate) struct TableStage {
    db: Db,
    files: Mutex<Vec<FileName>>,
}

impl TableStage {
    pub(crate) fn env(&self) -> &Env {
        &self.db.inner().options.env
    }

    pub(crate) fn comparator(&self) -> &InternalComparator {
        &self.db.inner().comparator
    }

    /// Returns the options of the tables of this database on its bottommost level.
    pub(crate) fn table_options(&self) -> &TableOptions {
        &self.db.inner().table_options
    }

    /// Returns the target size of the tables of a level with `level_bytes` bytes.
    pub(crate) fn target_file_size(&self, level_bytes: u64) -> u64 {
        self.db.inner().compaction_limits.for_level(level_bytes).target_file_size
    }

    /// Creates a file with a new number, by `create`. Returns an error after the close of the
    /// database: another process may use the directory.
    pub(crate) fn create_file<T>(&self, create: impl FnOnce(u64, PathBuf) -> Result<T>) -> Result<T> {
        let inner = self.db.inner();
        let db_lock = inner.db_lock.lock();
        if db_lock.is_none() {
            return Err(inner.closed_error());
        }
        let number = inner.new_file_number();
        self.files.lock().push(FileName::Temp(number));
        create(number, self.path(number))
    }

    /// Returns the path of file `number`.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.db.inner().file_path(FileName::Temp(number))
    }

    /// Creates a table with a new number.
    pub(crate) fn create_table(&self, options: &TableOptions) -> Result<TableWriter> {
        self.create_file(|number, path| TableWriter::create_at(self.env(), path, number, options))
    }

    /// Removes file `number`.
    pub(crate) fn remove(&self, number: u64) {
        self.remove_files(|file| file == FileName::Temp(number));
    }

    /// Removes the files that fit `filter`. Leaves them to the next opener after the close of the
    /// database.
    fn remove_files(&self, filter: impl Fn(FileName) -> bool) {
        let inner = self.db.inner();
        let db_lock = inner.db_lock.lock();
        let mut files = self.files.lock();
        for file in files.extract_if(.., |file| filter(*file)).filter(|_| db_lock.is_some()) {
            let _ = inner.options.env.fs.remove(&inner.file_path(file));
        }
    }

    /// Makes `tables` part of the database. They are files of this stage with durable contents,
    /// and in key order. Waits at most `timeout` while snapshots are open.
    ///
    /// After an error, the database is as before. The stage keeps its files, so that the caller can
    /// read them.
    pub(crate) fn install(&self, tables: &[NewTable], timeout: Duration) -> Result<()> {
        let inner = self.db.writer()?;
        let give_names = |from: fn(u64) -> FileName, to: fn(u64) -> FileName| {
            tables.iter().try_for_each(|NewTable { table, .. }| {
                self.rename(from(table.file.number), to(table.file.number))
            })
        };
        let named = give_names(FileName::Temp, FileName::Table);
        match named.map_err(CommitError::NotApplied).and_then(|()| inner.install_tables(tables, timeout)) {
            Ok(()) => {
                self.files.lock().retain(|file| !matches!(file, FileName::Table(_)));
                Ok(())
            }
            Err(CommitError::NotApplied(error)) => {
                let _ = give_names(FileName::Table, FileName::Temp);
                Err(error)
            }
            Err(CommitError::Indeterminate(error)) => {
                // The MANIFEST may name the tables. The next one decides it.
                let numbers = tables.iter().map(|new| new.table.file.number);
                inner.manifest.lock().add_undecided_tables(numbers);
                self.files.lock().retain(|file| !matches!(file, FileName::Table(_)));
                Err(error)
            }
        }
    }

    fn rename(&self, from: FileName, to: FileName) -> Result<()> {
        let inner = self.db.inner();
        let db_lock = inner.db_lock.lock();
        if db_lock.is_none() {
            return Err(inner.closed_error());
        }
        let mut files = self.files.lock();
        if let Some(file) = files.iter_mut().find(|file| **file == from) {
            inner.options.env.fs.rename(&inner.file_path(from), &inner.file_path(to))?;
            *file = to;
        }
        Ok(())
    }
}

impl Drop for TableStage {
    fn drop(&mut self) {
        self.remove_files(|_| true);
    }
}

impl DbInner {
    fn install_tables(&self, tables: &[NewTable], timeout: Duration) -> std::result::Result<(), CommitError> {
        let install_count = self.read_state.install_count();
        let installed = self.install_without_snapshots(tables, timeout);
        // The check for keys in the ranges holds a read state.
        self.release_replaced_tables(install_count);
        installed
    }

    /// Executes steps 1 to 5.
    fn install_without_snapshots(
        &self,
        tables: &[NewTable],
        timeout: Duration,
    ) -> std::result::Result<(), CommitError> {
        let clock = &self.options.env.clock;
        let started_at = clock.monotonic();
        let mut pause = MIN_SNAPSHOT_PAUSE;
        loop {
            if self.snapshots.is_empty() || mutant!(IngestUnderSnapshot) {
                let installed = self.try_install_tables(tables)?;
                if installed {
                    break;
                }
            }
            let waited = clock.monotonic().saturating_sub(started_at);
            if waited >= timeout {
                return Err(CommitError::NotApplied(Error::SnapshotsOpen));
            }
            clock.sleep(pause.min(timeout - waited));
            pause = (pause * 2).min(MAX_SNAPSHOT_PAUSE);
        }
        let bytes: u64 = tables.iter().map(|new| new.table.file.size).sum();
        self.logger.log(format_args!("Ingested tables={} bytes={bytes}", tables.len()));
        self.maybe_schedule_compaction();
        Ok(())
    }

    /// Executes steps 2 to 5. Returns false if a snapshot is open.
    fn try_install_tables(&self, tables: &[NewTable]) -> std::result::Result<bool, CommitError> {
        let _guard = PoisonOnPanic::new(self, |_| ());
        let keys = tables.iter().map(|new| {
            let file = &new.table.file;
            let bounds = [file.smallest.user_key(), file.largest.user_key()];
            let [begin, end] = bounds.map(|key| Bound::Included(key.to_vec()));
            (begin, end)
        });
        let watched = WatchedKeys::new(self.comparator.user_comparator(), Vec::new(), keys.collect());
        let not_applied = CommitError::NotApplied;
        let mut watch = self.watch(watched).map_err(not_applied)?;
        self.wait_until_applied(watch.last_sequence()).map_err(not_applied)?;
        self.check_ingest_overlap(tables).map_err(not_applied)?;
        // Most of the log is durable before the lock is taken.
        self.sync_wal_to(self.wal_sync.last_write()).map_err(not_applied)?;
        // Declared after `watch`: an error releases `commit` before the watch locks it.
        let mut commit = self.commit.lock();
        let writer = commit.as_mut().ok_or_else(|| not_applied(self.closed_error()))?;
        if let Some(key) = watch.end(writer)
            && !mutant!(IngestOverlapUnchecked)
        {
            return Err(not_applied(self.database_overlap_error(tables, &key)));
        }
        if writer.watches.ingests() != watch.ingests() {
            // The watch does not see the keys of another ingest.
            self.check_ingest_overlap(tables).map_err(not_applied)?;
        }
        self.sync_wal_to(self.wal_sync.last_write()).map_err(not_applied)?;
        let finished: Vec<FinishedTable> = tables.iter().map(|new| new.table.clone()).collect();
        let install = || {
            self.log_and_apply(
                Some(TableChangeCause::Ingest),
                &finished,
                |version_set| self.ingest_edit(version_set, &finished),
                |state| {
                    for level in 0..NUM_LEVELS {
                        state.version_set.version.set_table_stats(level, &finished);
                    }
                },
            )
        };
        // No snapshot can be created meanwhile.
        let installed =
            if mutant!(IngestUnderSnapshot) { Some(install()) } else { self.snapshots.if_empty(install) };
        match installed {
            None => Ok(false),
            Some(Ok(())) => {
                writer.watches.note_ingest();
                Ok(true)
            }
            Some(Err(error)) => Err(self.refuse_writes_after(error)),
        }
    }

    /// Returns the edit that adds `tables`. The caller holds `manifest`, so that no compaction and
    /// no flush picks a level meanwhile.
    fn ingest_edit(&self, version_set: &VersionSet, tables: &[FinishedTable]) -> VersionEdit {
        let total_bytes = tables.iter().map(|table| table.file.size).sum();
        let mut edit = VersionEdit::default();
        for FinishedTable { file, .. } in tables {
            let smallest = file.smallest.user_key();
            let largest = file.largest.user_key();
            let level = leveled::pick_level_for_ingest(
                &version_set.version,
                KeyRange { begin: Some(smallest), end: Some(largest) },
                total_bytes,
                self.output_level_of_compaction(smallest, largest),
            );
            edit.new_files.push((level, file.clone()));
        }
        edit
    }

    /// Returns an error if a memtable or a table holds a version of a key in the range of one of
    /// `tables`. All writes up to a watch of these ranges are applied.
    fn check_ingest_overlap(&self, tables: &[NewTable]) -> Result<()> {
        if mutant!(IngestOverlapUnchecked) {
            return Ok(());
        }
        let read_state = Arc::clone(&self.read_state.current());
        for new in tables {
            let memtables =
                read_state.non_empty_memtables().map(|memtable| ChildIter::Memtable(memtable.iter()));
            let existing = read_state.version.child_iters_in_range(
                new.range(),
                |_| true,
                &self.table_cache,
                BlockReadOptions::BULK,
            );
            for mut entries in memtables.chain(existing) {
                let smallest = new.table.file.smallest.user_key();
                with_seek_key(smallest, MAX_SEQUENCE_NUMBER, |target| entries.seek(target));
                entries.status()?;
                let found = entries.entry().map(|(key, _)| key::user_key(key));
                let largest = new.table.file.largest.user_key();
                let order = self.comparator.user_comparator();
                if let Some(found) = found.filter(|found| order.compare(found, largest).is_le()) {
                    return Err(self.database_overlap_error(std::slice::from_ref(new), found));
                }
            }
        }
        Ok(())
    }

    /// Returns the error for the one of `tables` whose range contains `key` of the database.
    fn database_overlap_error(&self, tables: &[NewTable], key: &[u8]) -> Error {
        let order = self.comparator.user_comparator();
        let index =
            tables.partition_point(|new| order.compare(new.table.file.largest.user_key(), key).is_lt());
        let index = index.min(tables.len().saturating_sub(1));
        tables[index].overlap_error(format!("key '{}' of the database", key.escape_ascii()))
    }
}

impl Db {
    /// Returns a stage for new tables of this database.
    pub(crate) fn table_stage(&self) -> Result<TableStage> {
        let inner = self.writer()?;
        inner.check_owner_process()?;
        if inner.commit.lock().is_none() {
            return Err(inner.closed_error());
        }
        inner.background_error.check()?;
        Ok(TableStage { db: self.clone(), files: Mutex::default() })
    }
}
