//! Opening.
//!
//! ```text
//!   lock ──> CURRENT ──> manifest ──> tables all there? ──> logs replayed ──> new log, new manifest ──> sweep
//! ```
//!
//! Until the new manifest is named by CURRENT, nothing that the database held is removed or changed: a failure or a
//! crash before that leaves it as it was.

use std::collections::BTreeSet;
use std::path::Path;

use terrace_env::{Env, FileLock, LockMode};
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::log::{LogItem, LogReader, RecordWriter};
use terrace_format::table::TableOptions;
use terrace_format::version_edit::{NewFile, VersionEdit};
use terrace_sync::mutant;

use super::log_replay::{LogReplay, ReplayOutcome};
use super::parallel_insert::ParallelInserter;
use crate::db::components::directory::{list_db_files, lock_directory, lock_directory_shared};
use crate::db::components::memtable_size::MemtableSizer;
use crate::db::components::recovery_flush::RecoveryFlusher;
use crate::db::components::wal::{WalFile, WalWriter};
use crate::db::components::wal_close_marker::CloseMarker;
use crate::db::inner::DbInner;
use crate::error::{Error, Result};
use crate::file_io::{FileReader, file_error};
use crate::info_log::{FileLogger, Logger, NoLogger};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::version::{CommitError, Manifest, ManifestRecovery};

impl DbInner {
    pub(in crate::db) fn open(directory: &Path, options: &Options) -> Result<Arc<DbInner>> {
        let options = options.sanitized();
        options.check_codec()?;
        let env = &options.env;
        let current = directory.join(FileName::Current.to_string());
        if options.create_if_missing {
            create_directory(env, directory)?;
        } else if !env.fs.exists(&current)? {
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
        let comparator = InternalComparator::new(Arc::clone(&options.comparator));
        let recovered = if exists {
            ManifestRecovery::read_current_manifest(env, directory, &comparator)?
        } else {
            logger.log(format_args!("Creating the database, which was not there"));
            ManifestRecovery::for_new_database(&comparator)
        };
        DbOpener { directory, options: &options, comparator, logger, recovered }.into_writable(lock)
    }

    pub(in crate::db) fn open_read_only(directory: &Path, options: &Options) -> Result<Arc<DbInner>> {
        let options = options.sanitized();
        let env = &options.env;
        if !env.fs.exists(&directory.join(FileName::Current.to_string()))? {
            return Err(missing_database_error(directory));
        }
        let lock = lock_directory_shared(env, directory)?;
        let logger = options.logger.clone().unwrap_or_else(|| Arc::new(NoLogger));
        let comparator = InternalComparator::new(Arc::clone(&options.comparator));
        let recovered = ManifestRecovery::read_current_manifest(env, directory, &comparator)?;
        DbOpener { directory, options: &options, comparator, logger, recovered }.into_read_only(lock)
    }

    /// Copies logs whose records were left out to where nothing removes them, durably.
    pub(super) fn archive_skipped_logs(&self, logs: &[u64]) -> Result<()> {
        if logs.is_empty() {
            return Ok(());
        }
        let (fs, lost) = (&self.options.env.fs, self.directory.join(SKIPPED_LOGS_DIRECTORY));
        if !fs.is_dir(&lost)? {
            fs.create_dir(&lost)?;
        }
        for &number in logs {
            let name = FileName::Log(number).to_string();
            self.logger.log(format_args!(
                "Keeping {name} in {SKIPPED_LOGS_DIRECTORY}: records in it follow lost ones"
            ));
            let mut from = fs.open_sequential(&self.directory.join(&name))?;
            let mut to = fs.create(&lost.join(&name))?;
            let mut buffer = vec![0; 64 << 10];
            loop {
                match from.read(&mut buffer)? {
                    0 => break,
                    read => to.append(&buffer[..read])?,
                }
            }
            to.sync()?;
            to.close()?;
        }
        fs.sync_dir(&lost)?;
        Ok(fs.sync_dir(&self.directory)?)
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

/// Where logs go whose records could not all be replayed.
const SKIPPED_LOGS_DIRECTORY: &str = "lost";

fn missing_database_error(directory: &Path) -> Error {
    Error::InvalidArgument(format!("{}: does not exist (create_if_missing is false)", directory.display()))
}

/// An error if `directory`, which has no CURRENT, holds data: a new database there would take it for leftovers.
///
/// A creation that was cut short leaves no table, and a log without records.
fn check_holds_no_data(env: &Env, directory: &Path) -> Result<()> {
    for file in list_db_files(env, directory, 0)? {
        let path = directory.join(file.to_string());
        let holds_data = match file {
            FileName::Table(_) | FileName::OldTable(_) => true,
            FileName::Log(_) => has_records(env, &path)?,
            _ => false,
        };
        if holds_data {
            let what =
                format!("is missing, but there is {file}: repair makes a database of what can be read");
            return Err(Error::corruption(&directory.join(FileName::Current.to_string()), None, what));
        }
    }
    Ok(())
}

/// True if the log at `path` has a whole record. (What a power cut left of a creation may be anything else.)
fn has_records(env: &Env, path: &Path) -> Result<bool> {
    let mut reader = LogReader::new(FileReader(env.fs.open_sequential(path)?));
    while let Some(item) = reader.next().map_err(|error| file_error(path, error))? {
        if matches!(item, LogItem::Record { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn create_directory(env: &Env, directory: &Path) -> Result<()> {
    match env.fs.create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes the name of a new database's directory durable, whoever made it: a power cut that took it would take the
/// database whole.
fn sync_parent_directory(env: &Env, directory: &Path) -> Result<()> {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    match env.fs.sync_dir(parent.unwrap_or(Path::new("."))) {
        // A parent that may be passed through but not read: then its owner made the directory.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        synced => Ok(synced?),
    }
}

/// The file LOG, and the lock with which it goes: a refused opener must not take the log of the running one away.
fn open_info_log(
    env: &Env,
    directory: &Path,
    lock: Box<dyn FileLock>,
) -> (Arc<dyn Logger>, Box<dyn FileLock>) {
    let logger = FileLogger::for_database(env, directory);
    let lock = logger.bind_to_lock(lock);
    (logger, lock)
}

/// The pieces of a database on its way to being open.
pub(super) struct DbOpener<'a> {
    pub(super) directory: &'a Path,
    pub(super) options: &'a Options,
    pub(super) comparator: InternalComparator,
    pub(super) logger: Arc<dyn Logger>,
    pub(super) recovered: ManifestRecovery,
}

impl DbOpener<'_> {
    fn into_writable(mut self, lock: Box<dyn FileLock>) -> Result<Arc<DbInner>> {
        let files = list_db_files(&self.options.env, self.directory, self.recovered.next_file_number)?;
        // A number that was ever used, even by a leftover, is not used again.
        let used = files
            .iter()
            .filter_map(FileName::number)
            .max()
            .filter(|_| !mutant!(FileNumberReusedAfterCrash))
            .unwrap_or(0);
        let next_file = AtomicU64::new(self.recovered.next_file_number.max(used.saturating_add(1)));
        let logs = self.find_logs_to_replay(&files)?;
        let tables = RecoveryFlusher::new(&self.options.env, self.directory, self.table_options());
        let mut replayed = self.replay_logs(&logs, &mut |memtable| {
            tables.spawn_flush(memtable, &next_file);
            Ok(())
        })?;
        let resumed = self.reuse_last_log(&logs, &replayed, &tables)?;
        let manifest =
            self.open_manifest(resumed.is_some() && logs == [self.recovered.version_set.log_number]);
        let has_new_log = resumed.is_none();
        let (tail, added) = self.open_wal_writer(resumed, &mut replayed, &next_file, &tables)?;
        let mut edit = VersionEdit::default();
        edit.new_files.extend(added.into_iter().map(|file| (0, file)));
        let changes = !edit.new_files.is_empty() || tail.wal.number != self.recovered.version_set.log_number;
        edit.log_number = Some(tail.wal.number);
        // What is in the tables: a log that is gone on with begins behind that number.
        let resumed = tail.record_writer.end_offset() > 0;
        edit.last_sequence =
            Some(if resumed { replayed.sequence_before_last_log } else { replayed.last_sequence });
        let memtable = Arc::clone(&tail.memtable);
        let engine = self.into_inner(memtable, Vec::new(), next_file, manifest?, Some(tail), Some(lock));
        let kept = engine.archive_skipped_logs(&replayed.skipped_logs).map_err(CommitError::NotApplied);
        let changes = changes || engine.manifest.lock().needs_rotation();
        let installed =
            kept.and_then(|()| if changes { engine.log_and_apply(|_| edit, |_| ()) } else { Ok(()) });
        if !matches!(installed, Err(CommitError::NotApplied(_))) {
            tables.keep_tables();
        }
        // While the directory is locked.
        drop(tables);
        installed.map_err(|failure| {
            // The room of a log that holds nothing yet may be what the next try lacks. One that was there before stays: the
            // manifest names it.
            if has_new_log {
                engine.remove_empty_new_log();
            }
            failure.into_error()
        })?;
        engine.remove_leftovers(&files);
        let mut state = engine.state.lock();
        engine.maybe_schedule_flush_or_compaction(&mut state);
        drop(state);
        Ok(engine)
    }

    fn into_read_only(mut self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<DbInner>> {
        let files = list_db_files(&self.options.env, self.directory, self.recovered.next_file_number)?;
        let logs = self.find_logs_to_replay(&files)?;
        let mut frozen = Vec::new();
        let replayed = self.replay_logs(&logs, &mut |memtable| {
            frozen.insert(0, memtable);
            Ok(())
        })?;
        self.recovered.version_set.last_sequence = replayed.last_sequence;
        let manifest = Manifest::new(&self.options.env, self.directory, 0);
        Ok(self.into_inner(replayed.memtable, frozen, AtomicU64::new(0), manifest, None, lock))
    }

    /// Checks that every table is there, and finds the logs to replay.
    fn find_logs_to_replay(&self, files: &[FileName]) -> Result<Vec<u64>> {
        let set = &self.recovered.version_set;
        let tables: BTreeSet<u64> =
            files.iter().filter(|file| file.is_table()).filter_map(FileName::number).collect();
        let live = set.version.levels.iter().flatten();
        let lost: Vec<u64> = live.map(|file| file.number).filter(|number| !tables.contains(number)).collect();
        if let Some(first) = lost.first() {
            let first = self.directory.join(FileName::Table(*first).to_string());
            let what = format!("{} missing files; e.g.: {}", lost.len(), first.display());
            return Err(Error::corruption(self.directory, None, what));
        }
        if let Some(error) = self.recovered.lost_edit(files) {
            return Err(error.clone());
        }
        if let Some(torn) = &self.recovered.torn_tail {
            self.logger.log(format_args!("Ignoring an edit that was being written: {torn}"));
        }
        let needed = |file: &FileName| match *file {
            FileName::Log(number) => {
                (number >= set.log_number || number == set.prev_log_number).then_some(number)
            }
            _ => None,
        };
        let logs: BTreeSet<u64> = files.iter().filter_map(needed).collect();
        Ok(logs.into_iter().collect())
    }

    /// Replays `logs`; memtables that fill up go to `full`.
    fn replay_logs(
        &self,
        logs: &[u64],
        full: &mut dyn FnMut(Arc<Memtable>) -> Result<()>,
    ) -> Result<ReplayOutcome> {
        let memtable_size = MemtableSizer::max_size(self.options);
        let replay = LogReplay {
            env: &self.options.env,
            directory: self.directory,
            comparator: &self.comparator,
            logger: &*self.logger,
            paranoid_checks: self.options.paranoid_checks,
            is_point_in_time: self.recovered.is_written_by_terrace,
            memtable_size,
            inserter: ParallelInserter::new(&self.options.env, &self.comparator, memtable_size),
            last_sequence: self.recovered.version_set.last_sequence,
            on_full_memtable: full,
        };
        replay.run(logs)
    }

    /// The manifest of the last run, if that run `closed` the database, or one to come. As with the log, only then it is
    /// known to be durable.
    fn open_manifest(&mut self, closed: bool) -> Result<Manifest> {
        self.recovered.version_set.is_incompatible |= !self.options.compression.leveldb_compatible;
        let mut manifest = Manifest::new(&self.options.env, self.directory, self.options.base_file_size());
        manifest.replaces(self.recovered.manifest_number);
        let small = self.recovered.reusable_len.filter(|&length| length < self.options.base_file_size());
        if let Some(length) = small.filter(|_| closed && !self.needs_incompatible_marker()) {
            // What can't be gone on with is begun anew.
            none_if_unsupported(manifest.reuse(self.recovered.manifest_number, length))?;
        }
        Ok(manifest)
    }

    /// True if the manifest does not say yet that the database is guarded.
    fn needs_incompatible_marker(&self) -> bool {
        self.recovered.version_set.is_incompatible && !self.recovered.is_incompatible
    }

    /// The log of the last run, if it may be gone on with. It is not touched before what else there was is in `tables`.
    fn reuse_last_log(
        &self,
        logs: &[u64],
        replayed: &ReplayOutcome,
        tables: &RecoveryFlusher,
    ) -> Result<Option<(WalFile, RecordWriter, Arc<CloseMarker>)>> {
        let may = self.options.reuse_logs && self.recovered.is_written_by_terrace;
        match (logs.last(), replayed.reusable_len.filter(|_| may)) {
            (Some(&number), Some(length)) => {
                tables.wait_for_flushes()?;
                WalFile::reopen(self.options, self.directory, number, length)
            }
            _ => Ok(None),
        }
    }

    /// The log that is gone on with, or a new one; then the replayed memtable becomes a table. With it, the tables that
    /// there are now.
    fn open_wal_writer(
        &self,
        resumed: Option<(WalFile, RecordWriter, Arc<CloseMarker>)>,
        replayed: &mut ReplayOutcome,
        next_file: &AtomicU64,
        tables: &RecoveryFlusher,
    ) -> Result<(WalWriter, Vec<NewFile>)> {
        let sequence = match mutant!(SequenceNotRecoveredFromWal) {
            true => self.recovered.version_set.last_sequence,
            false => replayed.last_sequence,
        };
        if resumed.is_none() && !replayed.memtable.is_empty() {
            let empty = Memtable::new(self.comparator.clone());
            tables.spawn_flush(std::mem::replace(&mut replayed.memtable, empty), next_file);
        }
        let files = tables.finish()?;
        let (log, framer, seal) = match resumed {
            Some((log, framer, seal)) => (log, framer, Some(seal)),
            None => (self.create_wal(next_file)?, RecordWriter::resume_at(0), None),
        };
        let memtable = Arc::clone(&replayed.memtable);
        let resumed = framer.end_offset() > 0;
        let (ready, record) = (0, Vec::new());
        let buffer = MemtableSizer::new(self.options);
        let full = buffer.full_threshold(buffer.size());
        let begun = self.options.env.clock.monotonic();
        let (broken, looked) = (false, None);
        let tail = WalWriter {
            wal: log,
            record_writer: framer,
            preallocated_to: ready,
            fill_rate_checked_at: looked,
            memtable,
            memtable_full_at: full,
            memtable_created_at: begun,
            last_sequence: sequence,
            user_bytes: 0,
            is_torn: broken,
            is_reused: resumed,
            close_marker: seal,
            record_buffer: record,
        };
        Ok((tail, files))
    }

    fn create_wal(&self, next_file: &AtomicU64) -> Result<WalFile> {
        let number = next_file.fetch_add(1, Ordering::Relaxed);
        WalFile::create(self.options, self.directory, number, self.options.initial_memtable_size())
    }

    pub(super) fn table_options(&self) -> TableOptions {
        self.options.table_options(&self.comparator)
    }
}

/// None if the file system has no way to do it.
fn none_if_unsupported<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(Error::Io(error)) if error.is_unsupported() => Ok(None),
        outcome => outcome.map(Some),
    }
}
