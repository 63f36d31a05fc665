//! Opening a database: recovery, then the first version edit.
//!
//! ```text
//!   lock ──> CURRENT ──> MANIFEST ──> all tables exist? ──> replay logs ──> new log, new MANIFEST
//!     ──> remove leftovers
//! ```
//!
//! Before CURRENT names the new MANIFEST, no data of the database is removed or changed. A failure
//! or a crash before that leaves the database as it was. Only tables that no version edit names may
//! be in `lost/` then.

use std::path::Path;

use terrace_env::{Env, FileLock, LockMode};
use terrace_format::compress::SNAPPY;
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::log::RecordWriter;
use terrace_format::table::TableOptions;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use super::directory_checks::{
    check_holds_no_data, create_directory, manifest_error, missing_database_error, sync_parent_directory,
};
use super::hidden_entries;
use super::log_replay::{LogReplay, ReplayOutcome};
use super::parallel_insert::ParallelInserter;
use crate::db::components::directory::{list_db_files, lock_directory, lock_directory_shared};
use crate::db::components::follower_tail::FollowerTail;
use crate::db::components::lost_directory::LostDirectory;
use crate::db::components::memory_budget::MemoryBudget;
use crate::db::components::memtable_size::MemtableSizer;
use crate::db::components::recovery_flush::RecoveryFlusher;
use crate::db::components::recovery_report::RecoveryReport;
use crate::db::components::wal::{WalFile, WalWriter};
use crate::db::components::watched_keys::WatchList;
use crate::db::inner::DbInner;
use crate::error::{Error, Result};
use crate::info_log::{FileLogger, Logger, NoLogger};
use crate::memtable::{ChunkPool, Memtable};
use crate::options::Options;
use crate::shared_budget::SharedBudget;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::table::FinishedTable;
use crate::version::{CommitError, LogWriteMethod, Manifest, ManifestRecovery};

/// Log file that the WAL writer continues, with the state of its record writer.
type ReusedLog = (WalFile, RecordWriter);

impl DbInner {
    pub(in crate::db) fn open(directory: &Path, options: &Options) -> Result<Arc<DbInner>> {
        let options = options.sanitized();
        options.check_codec()?;
        let env = &options.env;
        let current = directory.join(FileName::Current.to_string());
        if options.create_if_missing {
            create_directory(env, directory)?;
        } else if !env.fs.exists(&current)? {
            // LevelDB creates LOCK first, so its error for an unwritable directory is that one.
            if env.fs.is_dir(directory)? {
                env.fs.check_writable(directory)?;
            }
            return Err(missing_database_error(directory));
        }
        let lock = lock_directory(env, directory, LockMode::Exclusive)?;
        let exists = env.fs.exists(&current)?;
        if !exists && options.create_if_missing {
            check_holds_no_data(env, directory)?;
            sync_parent_directory(env, directory)?;
        }
        if exists && options.error_if_exists {
            let path = directory.display();
            return Err(Error::InvalidArgument(format!("{path}: exists (error_if_exists is true)")));
        }
        if !exists && !options.create_if_missing {
            return Err(missing_database_error(directory));
        }
        let (logger, lock) = match &options.logger {
            Some(logger) => (Arc::clone(logger), lock),
            None => open_info_log(env, directory, lock),
        };
        log_lock_fallbacks(&*logger, &*lock);
        let comparator = InternalComparator::new(Arc::clone(&options.comparator));
        let recovered = if exists {
            ManifestRecovery::read_current_manifest(env, directory, &comparator)
                .map_err(|error| manifest_error(env, directory, error))?
        } else {
            logger.log(format_args!("Creating DB {} since it was missing.", directory.display()));
            ManifestRecovery::for_new_database(&comparator)
        };
        let mut opener = DbOpener::new(directory, &options, comparator, logger, recovered);
        let stored = opener.recovered.version_set.version.codec(env, directory)?;
        opener.recovered.version_set.keeps_comparator_name =
            !opener.recovered.is_marked && stored.is_some_and(|codec| codec.needs_marker);
        // With another codec, the first table would be unreadable for the program that uses the
        // database.
        let kept = stored.filter(|_| !mutant!(CodecOfTablesIgnored));
        let compression = options.compression.or(kept).unwrap_or(&SNAPPY);
        let options = Options { compression: Some(compression), ..options.clone() };
        options.check_codec()?;
        DbOpener { options: &options, ..opener }.into_writable(lock)
    }

    /// Opens for reads. With `allows_damage`, missing and damaged files do not fail the open as
    /// long as the MANIFEST tells which files there should be.
    pub(in crate::db) fn open_read_only(
        directory: &Path,
        options: &Options,
        allows_damage: bool,
    ) -> Result<Arc<DbInner>> {
        let mut options = options.sanitized();
        // A bad sector under a mapping would end the process.
        options.paranoid_checks |= allows_damage;
        let env = &options.env;
        if !env.fs.exists(&directory.join(FileName::Current.to_string()))? {
            return Err(missing_database_error(directory));
        }
        let lock = lock_directory_shared(env, directory)?;
        let logger = options.logger.clone().unwrap_or_else(|| Arc::new(NoLogger));
        if let Some(lock) = &lock {
            log_lock_fallbacks(&*logger, &**lock);
        }
        let comparator = InternalComparator::new(Arc::clone(&options.comparator));
        let recovered = ManifestRecovery::read_current_manifest(env, directory, &comparator)
            .map_err(|error| manifest_error(env, directory, error))?;
        let mut opener = DbOpener::new(directory, &options, comparator, logger, recovered);
        opener.allows_damage = allows_damage;
        opener.into_read_only(lock)
    }

    /// Copies logs with skipped records to `lost/`, durably, and adds the paths of the copies to
    /// `copies`.
    fn archive_skipped_logs(&self, logs: &[u64], copies: &mut Vec<String>) -> Result<()> {
        if logs.is_empty() {
            return Ok(());
        }
        let lost = LostDirectory::new(&self.options.env, &self.directory);
        lost.create()?;
        for &number in logs {
            let name = FileName::Log(number).to_string();
            let copy = lost.copy_log(&name)?;
            self.logger.log(format_args!("Copied {name} to {copy}: it has records that were not replayed"));
            copies.push(copy);
        }
        lost.sync()
    }

    /// Moves tables to `lost/`, durably.
    fn archive_unlisted_tables(&self, tables: &[FileName]) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        let lost = LostDirectory::new(&self.options.env, &self.directory);
        lost.create()?;
        for table in tables {
            let moved = lost.move_file(&table.to_string())?;
            self.logger.log(format_args!(
                "Moved {table} to {moved}: the MANIFEST may have lost the version edit that names it"
            ));
        }
        lost.sync()
    }

    /// Logs that the system refuses to sync directories, if it does.
    pub(in crate::db) fn log_refused_directory_sync(&self) {
        if let Some(line) = self.options.env.fs.refused_directory_sync() {
            self.logger.log(format_args!("{line}"));
        }
    }

    /// Removes the new log of a database that could not be opened, if the log is empty.
    fn remove_empty_new_log(&self) {
        let writer = self.commit.lock().take();
        if let Some(writer) = writer.filter(|writer| writer.record_writer.end_offset() == 0) {
            // The next open removes a leftover.
            let _ = self.options.env.fs.remove(&self.file_path(FileName::Log(writer.wal.number)));
        }
    }
}

/// Creates the logger for the file LOG and binds it to the directory lock: a second opener that
/// fails must not rename the LOG of the running process.
fn open_info_log(
    env: &Env,
    directory: &Path,
    lock: Box<dyn FileLock>,
) -> (Arc<dyn Logger>, Box<dyn FileLock>) {
    let logger = FileLogger::for_database(env, directory);
    let lock = logger.bind_to_lock(lock);
    (logger, lock)
}

fn log_lock_fallbacks(logger: &dyn Logger, lock: &dyn FileLock) {
    for line in lock.fallbacks() {
        logger.log(format_args!("{line}"));
    }
}

/// Parts of a database that is being opened.
pub(super) struct DbOpener<'a> {
    pub(super) directory: &'a Path,
    pub(super) options: &'a Options,
    pub(super) comparator: InternalComparator,
    pub(super) logger: Arc<dyn Logger>,
    pub(super) recovered: ManifestRecovery,
    pub(super) shared_budget: Option<Arc<SharedBudget>>,
    pub(super) chunk_pool: Arc<ChunkPool>,
    /// True for a read-only open that reports damage instead of failing.
    pub(super) allows_damage: bool,
    pub(super) report: RecoveryReport,
    /// Files of a follower, and the maximum age of the states that its reads show.
    pub(super) follower: Option<(std::time::Duration, Box<FollowerTail>)>,
}

impl<'a> DbOpener<'a> {
    pub(super) fn new(
        directory: &'a Path,
        options: &'a Options,
        comparator: InternalComparator,
        logger: Arc<dyn Logger>,
        recovered: ManifestRecovery,
    ) -> DbOpener<'a> {
        let shared_budget = options.shared_budget();
        let pooled = MemoryBudget::from_options(options).map_or(usize::MAX, |budget| budget.pooled_chunks);
        let chunk_pool = Arc::new(ChunkPool::with_limit(pooled, shared_budget.clone()));
        DbOpener {
            directory,
            options,
            comparator,
            logger,
            recovered,
            shared_budget,
            chunk_pool,
            allows_damage: false,
            report: RecoveryReport::default(),
            follower: None,
        }
    }

    /// Returns an empty memtable without a filter.
    pub(super) fn new_memtable(&self) -> Arc<Memtable> {
        Memtable::with_pool(self.comparator.clone(), &self.chunk_pool, 0, false)
    }

    fn into_writable(mut self, lock: Box<dyn FileLock>) -> Result<Arc<DbInner>> {
        let files = list_db_files(&self.options.env, self.directory, self.recovered.next_file_number)?;
        let next_file = self.first_unused_file_number(&files);
        let logs = self.find_logs_to_replay(&files)?;
        let unlisted_tables = self.tables_of_lost_edits(&files)?;
        self.show_hidden_entries(&files)?;
        let flusher = RecoveryFlusher::new(&self.options.env, self.directory, self.table_options());
        let mut replayed = self.replay_logs(&logs, &mut |memtable| {
            flusher.spawn_flush(memtable, &next_file);
            Ok(())
        })?;
        let reused_log = self.reuse_last_log(&logs, &replayed, &flusher)?;
        let has_new_log = reused_log.is_none();
        let manifest = self.open_manifest(!has_new_log && logs == [self.recovered.version_set.log_number]);
        let (writer, new_tables) = self.open_wal_writer(reused_log, &mut replayed, &next_file, &flusher)?;
        let log_method = LogWriteMethod::of(&*writer.wal.file);
        let manifest = manifest.map(|manifest| manifest.with_log_method(log_method));
        // A close mark holds for both kinds of logs.
        let has_other_mark = self.recovered.closed_log.is_none() && self.recovered.log_method != log_method;
        let log_changed = writer.wal.number != self.recovered.version_set.log_number;
        let edit = recovery_edit(&writer, &new_tables, &replayed);
        let has_changes = !edit.new_files.is_empty() || log_changed || has_other_mark;
        let memtable = Arc::clone(&writer.memtable);
        let inner = self.into_inner(memtable, Vec::new(), next_file, manifest?, Some(writer), Some(lock));
        let mut log_copies = Vec::new();
        let archived = inner
            .archive_skipped_logs(&replayed.skipped_logs, &mut log_copies)
            .and_then(|()| inner.archive_unlisted_tables(&unlisted_tables));
        let needs_marker = inner.state.lock().version_set.needs_marker();
        let needs_edit = has_changes || inner.manifest.lock().needs_rotation(needs_marker);
        let installed = archived.map_err(CommitError::NotApplied).and_then(|()| match needs_edit {
            true => inner.log_and_apply(None, &new_tables, |_| edit, |_| ()),
            false => Ok(()),
        });
        if !matches!(installed, Err(CommitError::NotApplied(_))) {
            flusher.keep_tables();
        } else {
            // The next attempt copies these logs again.
            LostDirectory::new(&inner.options.env, &inner.directory).remove(&log_copies);
        }
        // Removes unused tables while the directory is locked.
        drop(flusher);
        installed.map_err(|error| {
            inner.leave_shared_budget();
            // The next attempt may need the space of a new log. A reused log stays, because the
            // MANIFEST refers to it, and so does a new one if the edit may be applied.
            if has_new_log && matches!(error, CommitError::NotApplied(_)) {
                inner.remove_empty_new_log();
            }
            error.into_error()
        })?;
        inner.log_refused_directory_sync();
        inner.remove_leftovers(&files);
        let mut state = inner.state.lock();
        inner.maybe_schedule_flush_or_compaction(&mut state);
        drop(state);
        Ok(inner)
    }

    /// Returns a number above those of all existing files. A number is never used again, not even
    /// that of a leftover file.
    fn first_unused_file_number(&self, files: &[FileName]) -> AtomicU64 {
        let greatest = files.iter().filter_map(FileName::number).max();
        let used = greatest.filter(|_| !mutant!(FileNumberReusedAfterCrash)).unwrap_or(0);
        AtomicU64::new(self.recovered.next_file_number.max(used.saturating_add(1)))
    }

    fn into_read_only(mut self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<DbInner>> {
        let files = list_db_files(&self.options.env, self.directory, self.recovered.next_file_number)?;
        let logs = self.find_logs_to_replay(&files)?;
        self.tables_of_lost_edits(&files)?;
        self.show_hidden_entries(&files)?;
        let mut immutable_memtables = Vec::new();
        let replayed = self.replay_logs(&logs, &mut |memtable| {
            immutable_memtables.insert(0, memtable);
            Ok(())
        })?;
        self.recovered.version_set.last_sequence = replayed.last_sequence;
        let manifest = Manifest::new(&self.options.env, self.directory, 0);
        let next_file = AtomicU64::new(0);
        Ok(self.into_inner(replayed.memtable, immutable_memtables, next_file, manifest, None, lock))
    }

    /// Raises the last sequence number to that of the tables in `files`.
    fn show_hidden_entries(&mut self, files: &[FileName]) -> Result<()> {
        let stated = self.recovered.version_set.last_sequence;
        let version_set = &mut self.recovered.version_set;
        if let Some(last) = hidden_entries::last_sequence(self.directory, files, self.options, version_set)? {
            self.logger.log(format_args!(
                "The MANIFEST states the last sequence number {stated}, but tables have entries up to {last}"
            ));
            version_set.last_sequence = last;
        }
        Ok(())
    }

    /// Replays `logs`. Passes full memtables to `on_full_memtable`.
    fn replay_logs(
        &mut self,
        logs: &[u64],
        on_full_memtable: &mut dyn FnMut(Arc<Memtable>) -> Result<()>,
    ) -> Result<ReplayOutcome> {
        let memtable_size = MemtableSizer::max_size(self.options);
        let replay = LogReplay {
            env: &self.options.env,
            directory: self.directory,
            comparator: &self.comparator,
            chunk_pool: &self.chunk_pool,
            logger: &*self.logger,
            paranoid_checks: self.options.paranoid_checks && !self.allows_damage,
            allows_damage: self.allows_damage,
            closed_log: self.recovered.closed_log,
            log_method: self.recovered.log_method,
            memtable_size,
            inserter: ParallelInserter::new(&self.options.env, &self.comparator, memtable_size),
            last_sequence: self.recovered.version_set.last_sequence,
            on_full_memtable,
        };
        let mut outcome = replay.run(logs)?;
        self.report.logs.append(&mut outcome.report.logs);
        self.report.damage.append(&mut outcome.report.damage);
        Ok(outcome)
    }

    /// Returns the MANIFEST of the last run if that run closed the database, otherwise a new one.
    /// As for a log, only a clean close proves that its content is durable.
    fn open_manifest(&self, was_closed: bool) -> Result<Manifest> {
        let mut manifest =
            Manifest::new(&self.options.env, self.directory, self.options.manifest_size_limit());
        manifest.replaces(self.recovered.manifest_number, self.recovered.is_marked);
        if let Some(len) = self.recovered.reusable_len.filter(|_| was_closed) {
            let snapshot_size = self.recovered.version_set.approximate_snapshot_size();
            // Without support of the file system, the first edit starts a new MANIFEST.
            none_if_unsupported(manifest.reuse(self.recovered.manifest_number, len, snapshot_size))?;
        }
        Ok(manifest)
    }

    /// Opens the last log for reuse if that is possible. Changes it only after `flusher` has
    /// written all other recovered memtables to tables.
    fn reuse_last_log(
        &self,
        logs: &[u64],
        replayed: &ReplayOutcome,
        flusher: &RecoveryFlusher,
    ) -> Result<Option<ReusedLog>> {
        match (logs.last(), replayed.reusable_len.filter(|_| self.options.reuse_logs)) {
            (Some(&number), Some(length)) => {
                flusher.wait_for_flushes()?;
                WalFile::reopen(self.options, self.directory, number, length)
            }
            _ => Ok(None),
        }
    }

    /// Creates the WAL writer, for the reused log or for a new one. With a new log, flushes the
    /// replayed memtable. Returns the recovered tables, too.
    fn open_wal_writer(
        &self,
        reused_log: Option<ReusedLog>,
        replayed: &mut ReplayOutcome,
        next_file: &AtomicU64,
        flusher: &RecoveryFlusher,
    ) -> Result<(WalWriter, Vec<FinishedTable>)> {
        let last_sequence = match mutant!(SequenceNotRecoveredFromWal) {
            true => self.recovered.version_set.last_sequence,
            false => replayed.last_sequence,
        };
        if reused_log.is_none() && !replayed.memtable.is_empty() {
            let empty = self.new_memtable();
            flusher.spawn_flush(std::mem::replace(&mut replayed.memtable, empty), next_file);
        }
        let new_tables = flusher.finish()?;
        let reused_len = reused_log.as_ref().map(|(_, record_writer)| record_writer.end_offset());
        let (wal, record_writer) = match reused_log {
            Some(reused_log) => reused_log,
            None => (self.create_wal(next_file)?, RecordWriter::resume_at(0)),
        };
        let sizer = MemtableSizer::new(self.options);
        let writer = WalWriter {
            wal,
            reused_len,
            record_writer,
            next_fill_check: 0,
            fill_rate_checked_at: None,
            memtable: Arc::clone(&replayed.memtable),
            memtable_full_at: sizer.full_threshold(sizer.size()),
            memtable_created_at: self.options.env.clock.monotonic(),
            last_sequence,
            user_bytes: 0,
            is_torn: false,
            record_buffer: Vec::new(),
            fragment_buffer: Vec::new(),
            watches: WatchList::default(),
        };
        Ok((writer, new_tables))
    }

    fn create_wal(&self, next_file: &AtomicU64) -> Result<WalFile> {
        let number = next_file.fetch_add(1, Ordering::Relaxed);
        let size = self.options.initial_memtable_size();
        let wal = WalFile::create(self.options, self.directory, number, size)?;
        self.logger.log(format_args!("Log #{number} is {}", wal.file.write_method()));
        Ok(wal)
    }

    pub(super) fn table_options(&self) -> TableOptions {
        self.options.table_options(&self.comparator)
    }
}

/// Creates the version edit with the recovered tables and the current log.
fn recovery_edit(writer: &WalWriter, tables: &[FinishedTable], replayed: &ReplayOutcome) -> VersionEdit {
    let mut edit = VersionEdit::default();
    edit.new_files.extend(tables.iter().map(|table| (0, table.file.clone())));
    edit.log_number = Some(writer.wal.number);
    // Last sequence number in the tables. The records of a reused log follow it.
    edit.last_sequence = Some(match writer.reused_len {
        None => replayed.last_sequence,
        Some(_) => replayed.sequence_before_last_log,
    });
    edit
}

/// Returns None if the file system does not support the operation.
fn none_if_unsupported<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::Io(error)) if error.is_unsupported() => Ok(None),
        result => result.map(Some),
    }
}
