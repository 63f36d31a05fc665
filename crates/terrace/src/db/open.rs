//! Opening.
//!
//! ```text
//!   lock ──> CURRENT ──> manifest ──> tables all there? ──> logs replayed ──> new log, new manifest ──> sweep
//! ```
//!
//! Until the new manifest is named by CURRENT, nothing that the database held is removed or changed: a failure or a
//! crash before that leaves it as it was.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace_env::{Birth, Env, FileLock, Lane, LockMode};
use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::filename::FileName;
use terrace_format::filter_block::Filters;
use terrace_format::key::InternalComparator;
use terrace_format::log::{Framer, Item, LogReader};
use terrace_format::order::Order;
use terrace_format::table::TableOptions;
use terrace_sync::mutant;

use super::budget::Budget;
use super::buffer::Buffer;
use super::crew::Crew;
use super::directory::{list, lock, lock_shared};
use super::doomed::Doomed;
use super::durable::Durability;
use super::filling::Filling;
use super::install::Failure;
use super::pace::{Effort, Pace};
use super::present::Present;
use super::refusal::Refusal;
use super::replay::{Replay, Replayed};
use super::seal::Seal;
use super::tail::{Log, LogTail};
use super::write::Crowd;
use super::{Engine, State, View};
use crate::btree::Spare;
use crate::cache::{self, BlockCache};
use crate::compaction::policy::{Limits, deletes};
use crate::compaction::{self, flush};
use crate::error::{Error, Result};
use crate::logger::{FileLogger, Logger, NoLogger};
use crate::memtable::Memtable;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::snapshot::Snapshots;
use crate::stream::{Reading, file_error};
use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Weak};
use crate::tables::{Memory, NewTable, TableCache, TableContext, Tally};
use crate::version::{Manifest, Recovered, VersionSet};

/// The block cache of a database that was given none, in bytes.
const DEFAULT_CACHE: usize = 128 << 20;

pub(super) fn open(directory: &Path, options: &Options) -> Result<Arc<Engine>> {
    let options = options.clipped();
    options.check_codec()?;
    let env = &options.env;
    let current = directory.join(FileName::Current.to_string());
    if options.create_if_missing {
        create_directory(env, directory)?;
    } else if !env.fs.exists(&current)? {
        return Err(missing(directory));
    }
    let lock = lock(env, directory, LockMode::Exclusive)?;
    let exists = env.fs.exists(&current)?;
    if !exists && options.create_if_missing {
        refuse_data(env, directory)?;
        sync_parent(env, directory)?;
    }
    if exists && options.error_if_exists {
        let path = directory.display();
        return Err(Error::InvalidArgument(format!("{path}: exists (error_if_exists is true)")));
    }
    if !exists && !options.create_if_missing {
        return Err(missing(directory));
    }
    let (logger, lock) = match &options.logger {
        Some(logger) => (Arc::clone(logger), lock),
        None => info_log(env, directory, lock),
    };
    let comparator = InternalComparator::new(Arc::clone(&options.comparator));
    let recovered = if exists {
        Recovered::read(env, directory, &comparator)?
    } else {
        logger.log(format_args!("Creating the database, which was not there"));
        Recovered::nothing(&comparator)
    };
    Opening { directory, options: &options, comparator, logger, recovered }.writable(lock)
}

pub(super) fn open_read_only(directory: &Path, options: &Options) -> Result<Arc<Engine>> {
    let options = options.clipped();
    let env = &options.env;
    if !env.fs.exists(&directory.join(FileName::Current.to_string()))? {
        return Err(missing(directory));
    }
    let lock = lock_shared(env, directory)?;
    let logger = options.logger.clone().unwrap_or_else(|| Arc::new(NoLogger));
    let comparator = InternalComparator::new(Arc::clone(&options.comparator));
    let recovered = Recovered::read(env, directory, &comparator)?;
    Opening { directory, options: &options, comparator, logger, recovered }.read_only(lock)
}

fn missing(directory: &Path) -> Error {
    Error::InvalidArgument(format!("{}: does not exist (create_if_missing is false)", directory.display()))
}

/// An error if `directory`, which has no CURRENT, holds data: a new database there would take it for leftovers.
///
/// A creation that was cut short leaves no table, and a log without records.
fn refuse_data(env: &Env, directory: &Path) -> Result<()> {
    for file in list(env, directory, 0)? {
        let path = directory.join(file.to_string());
        let holds_data = match file {
            FileName::Table(_) | FileName::OldTable(_) => true,
            FileName::Log(_) => holds_records(env, &path)?,
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
fn holds_records(env: &Env, path: &Path) -> Result<bool> {
    let mut reader = LogReader::new(Reading(env.fs.open_sequential(path)?));
    while let Some(item) = reader.next().map_err(|error| file_error(path, error))? {
        if matches!(item, Item::Record { .. }) {
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
fn sync_parent(env: &Env, directory: &Path) -> Result<()> {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    match env.fs.sync_dir(parent.unwrap_or(Path::new("."))) {
        // A parent that may be passed through but not read: then its owner made the directory.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        synced => Ok(synced?),
    }
}

/// The file LOG, and the lock with which it goes: a refused opener must not take the log of the running one away.
fn info_log(env: &Env, directory: &Path, lock: Box<dyn FileLock>) -> (Arc<dyn Logger>, Box<dyn FileLock>) {
    let logger = FileLogger::of_database(env, directory);
    let lock = logger.until_unlocked(lock);
    (logger, lock)
}

/// The pieces of a database on its way to being open.
struct Opening<'a> {
    directory: &'a Path,
    options: &'a Options,
    comparator: InternalComparator,
    logger: Arc<dyn Logger>,
    recovered: Recovered,
}

impl Opening<'_> {
    fn writable(mut self, lock: Box<dyn FileLock>) -> Result<Arc<Engine>> {
        let files = list(&self.options.env, self.directory, self.recovered.next_file)?;
        // A number that was ever used, even by a leftover, is not used again.
        let used = files
            .iter()
            .filter_map(FileName::number)
            .max()
            .filter(|_| !mutant!(FileNumberReusedAfterCrash))
            .unwrap_or(0);
        let next_file = AtomicU64::new(self.recovered.next_file.max(used.saturating_add(1)));
        let logs = self.check_files(&files)?;
        let tables = Tables::new(&self.options.env, self.directory, self.table_options());
        let mut replayed = self.replay_into(&logs, &mut |memtable| {
            tables.write(memtable, &next_file);
            Ok(())
        })?;
        let resumed = self.resume_log(&logs, &replayed, &tables)?;
        let manifest = self.manifest(resumed.is_some() && logs == [self.recovered.set.log_number]);
        let has_new_log = resumed.is_none();
        let (tail, added) = self.log_tail(resumed, &mut replayed, &next_file, &tables)?;
        let mut edit = VersionEdit::default();
        edit.added.extend(added.into_iter().map(|file| (0, file)));
        let changes = !edit.added.is_empty() || tail.log.number != self.recovered.set.log_number;
        edit.log_number = Some(tail.log.number);
        // What is in the tables: a log that is gone on with begins behind that number.
        let resumed = tail.framer.offset() > 0;
        edit.last_sequence = Some(if resumed { replayed.before_last_log } else { replayed.last_sequence });
        let memtable = Arc::clone(&tail.memtable);
        let engine = self.engine(memtable, Vec::new(), next_file, manifest?, Some(tail), Some(lock));
        let kept = engine.set_logs_aside(&replayed.set_aside).map_err(Failure::Before);
        let changes = changes || engine.manifest.lock().is_due();
        let installed = kept.and_then(|()| if changes { engine.install(|_| edit, |_| ()) } else { Ok(()) });
        if !matches!(installed, Err(Failure::Before(_))) {
            tables.keep();
        }
        // While the directory is locked.
        drop(tables);
        installed.map_err(|failure| {
            // The room of a log that holds nothing yet may be what the next try lacks. One that was there before stays: the
            // manifest names it.
            if has_new_log {
                engine.give_up_new_log();
            }
            failure.into_error()
        })?;
        engine.sweep(&files);
        let mut state = engine.state.lock();
        engine.schedule(&mut state);
        drop(state);
        Ok(engine)
    }

    fn read_only(mut self, lock: Option<Box<dyn FileLock>>) -> Result<Arc<Engine>> {
        let files = list(&self.options.env, self.directory, self.recovered.next_file)?;
        let logs = self.check_files(&files)?;
        let mut frozen = Vec::new();
        let replayed = self.replay_into(&logs, &mut |memtable| {
            frozen.insert(0, memtable);
            Ok(())
        })?;
        self.recovered.set.last_sequence = replayed.last_sequence;
        let manifest = Manifest::new(&self.options.env, self.directory, 0);
        Ok(self.engine(replayed.memtable, frozen, AtomicU64::new(0), manifest, None, lock))
    }

    /// Checks that every table is there, and finds the logs to replay.
    fn check_files(&self, files: &[FileName]) -> Result<Vec<u64>> {
        let set = &self.recovered.set;
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
        if let Some(torn) = &self.recovered.torn {
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
    fn replay_into(
        &self,
        logs: &[u64],
        full: &mut dyn FnMut(Arc<Memtable>) -> Result<()>,
    ) -> Result<Replayed> {
        let memtable_size = Buffer::largest(self.options);
        let replay = Replay {
            env: &self.options.env,
            directory: self.directory,
            comparator: &self.comparator,
            logger: &*self.logger,
            paranoid: self.options.paranoid_checks,
            strict: self.recovered.ours,
            memtable_size,
            filling: Filling::new(&self.options.env, &self.comparator, memtable_size),
            last_sequence: self.recovered.set.last_sequence,
            full,
        };
        replay.run(logs)
    }

    /// The manifest of the last run, if that run `closed` the database, or one to come. As with the log, only then it is
    /// known to be durable.
    fn manifest(&mut self, closed: bool) -> Result<Manifest> {
        self.recovered.set.guarded |= !self.options.compression.portable;
        let mut manifest = Manifest::new(&self.options.env, self.directory, self.options.table_size());
        manifest.succeeds(self.recovered.manifest);
        let small = self.recovered.resumable.filter(|&length| length < self.options.table_size());
        if let Some(length) = small.filter(|_| closed && !self.newly_guarded()) {
            // What can't be gone on with is begun anew.
            supported(manifest.resume(self.recovered.manifest, length))?;
        }
        Ok(manifest)
    }

    /// True if the manifest does not say yet that the database is guarded.
    fn newly_guarded(&self) -> bool {
        self.recovered.set.guarded && !self.recovered.guarded
    }

    /// The log of the last run, if it may be gone on with. It is not touched before what else there was is in `tables`.
    fn resume_log(
        &self,
        logs: &[u64],
        replayed: &Replayed,
        tables: &Tables,
    ) -> Result<Option<(Log, Framer, Arc<Seal>)>> {
        let may = self.options.reuse_logs && self.recovered.ours;
        match (logs.last(), replayed.resumable.filter(|_| may)) {
            (Some(&number), Some(length)) => {
                tables.settle()?;
                Log::resume(self.options, self.directory, number, length)
            }
            _ => Ok(None),
        }
    }

    /// The log that is gone on with, or a new one; then the replayed memtable becomes a table. With it, the tables that
    /// there are now.
    fn log_tail(
        &self,
        resumed: Option<(Log, Framer, Arc<Seal>)>,
        replayed: &mut Replayed,
        next_file: &AtomicU64,
        tables: &Tables,
    ) -> Result<(LogTail, Vec<NewFile>)> {
        let sequence = match mutant!(SequenceNotRecoveredFromWal) {
            true => self.recovered.set.last_sequence,
            false => replayed.last_sequence,
        };
        if resumed.is_none() && !replayed.memtable.is_empty() {
            let empty = Memtable::new(self.comparator.clone());
            tables.write(std::mem::replace(&mut replayed.memtable, empty), next_file);
        }
        let files = tables.finish()?;
        let (log, framer, seal) = match resumed {
            Some((log, framer, seal)) => (log, framer, Some(seal)),
            None => (self.new_log(next_file)?, Framer::at(0), None),
        };
        let memtable = Arc::clone(&replayed.memtable);
        let resumed = framer.offset() > 0;
        let (ready, record) = (0, Vec::new());
        let buffer = Buffer::new(self.options);
        let full = buffer.full_at(buffer.size());
        let begun = self.options.env.clock.monotonic();
        let (broken, looked) = (false, None);
        let tail = LogTail {
            log,
            framer,
            ready,
            looked,
            memtable,
            full,
            begun,
            sequence,
            put: 0,
            broken,
            resumed,
            seal,
            record,
        };
        Ok((tail, files))
    }

    fn new_log(&self, next_file: &AtomicU64) -> Result<Log> {
        let number = next_file.fetch_add(1, Ordering::Relaxed);
        Log::create(self.options, self.directory, number, self.options.memtable_size())
    }

    fn table_options(&self) -> TableOptions {
        self.options.table_options(&self.comparator)
    }

    fn engine(
        self,
        memtable: Arc<Memtable>,
        frozen: Vec<Arc<Memtable>>,
        next_file: AtomicU64,
        manifest: Manifest,
        tail: Option<LogTail>,
        lock: Option<Box<dyn FileLock>>,
    ) -> Arc<Engine> {
        let options = self.options.clone();
        let table_options = self.table_options();
        let buffer = Buffer::new(&options);
        let budget = Budget::of(&options);
        let cache = options.block_cache.clone().unwrap_or_else(|| {
            BlockCache::new(budget.as_ref().map_or(DEFAULT_CACHE, |budget| budget.blocks))
        });
        let memory = budget.as_ref().map_or_else(Memory::default, |budget| {
            // A cache that others may have a part in is left alone.
            let own = options.block_cache.is_none().then(|| Arc::clone(&cache));
            Memory::new(budget.tables(), own)
        });
        let context = Arc::new(TableContext {
            order: Order::from(&self.comparator),
            filter_policy: table_options.filter.as_ref().map(Filters::policy),
            cache: Arc::clone(&cache),
            instance: cache::instance(),
            metrics: Metrics::default(),
            memory: Arc::new(memory),
        });
        let limits =
            Limits { file_size: options.table_size(), file_size_grows: options.max_file_size.is_none() };
        let set = self.recovered.set;
        let sequence = tail.as_ref().map_or(set.last_sequence, |tail| tail.sequence);
        let seal = tail.as_ref().and_then(|tail| tail.seal.clone()).unwrap_or_default();
        let view = View { memtable: Arc::clone(&memtable), frozen, version: Arc::clone(&set.version) };
        Arc::new_cyclic(|me| Engine {
            me: me.clone(),
            birth: Birth::here(),
            directory: self.directory.to_path_buf(),
            limits,
            tables: {
                let (logger, told) = (Arc::clone(&self.logger), deletes_told(Weak::clone(me)));
                Arc::new(TableCache::new(self.directory, &options, logger, context, told))
            },
            options,
            logger: self.logger,
            comparator: self.comparator,
            table_options,
            cache,
            snapshots: Arc::new(Snapshots::default()),
            buffer,
            spare: Arc::new(budget.as_ref().map_or_else(Spare::default, |budget| Spare::up_to(budget.spare))),
            budget,
            pace: Pace::default(),
            read_only: tail.is_none(),
            present: Present::new(view, sequence),
            next_file,
            refusal: Refusal::none(),
            seal,
            closing: AtomicBool::new(false),
            durability: Durability::new(tail.iter().map(|tail| tail.log.clone()).collect()),
            commit: Mutex::new(tail),
            manifest: Mutex::new(manifest),
            state: Mutex::new(State::new(set, memtable)),
            changed: Condvar::new(),
            crowd: Crowd::default(),
            jobs: Arc::default(),
            lock: Mutex::new(lock),
        })
    }
}

/// Has the background look for a merge when a table is opened that has many deletes.
fn deletes_told(engine: Weak<Engine>) -> Box<dyn Fn(Tally) + Send + Sync> {
    Box::new(move |tally| {
        if let Some(engine) = engine.upgrade().filter(|_| deletes::are_many(tally.counts.deletes)) {
            engine.look_for_merges();
        }
    })
}

/// Memtables that become tables beside the replay. Dropped, it leaves none that is not to be kept: each try to open would leave
/// its own on a disk that has no room.
struct Tables {
    crew: Crew,
    place: Arc<Place>,
}

/// Where they go, and what came of them.
struct Place {
    env: Env,
    directory: PathBuf,
    options: TableOptions,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// In no order.
    tables: Vec<NewTable>,
    error: Option<Error>,
}

impl Tables {
    fn new(env: &Env, directory: &Path, options: TableOptions) -> Tables {
        // More would want more memtables at a time.
        let crew = Crew::new(&env.scheduler, Lane::Flush, 1);
        let (env, directory) = (env.clone(), directory.to_path_buf());
        Tables { crew, place: Arc::new(Place { env, directory, options, made: Mutex::default() }) }
    }

    /// Has `memtable` written to a table with the next number.
    fn write(&self, memtable: Arc<Memtable>, next_file: &AtomicU64) {
        let number = next_file.fetch_add(1, Ordering::Relaxed);
        let place = Arc::clone(&self.place);
        self.crew.give(Box::new(move || {
            let table = flush::flush(&memtable, &place.env, &place.directory, number, &place.options);
            let mut made = place.made.lock();
            match table {
                Ok(table) => made.tables.extend(table),
                Err(error) => made.error = Some(error),
            }
        }));
    }

    /// Returns when those so far are written, with an error if one could not be.
    fn settle(&self) -> Result<()> {
        self.crew.finish()?;
        self.place.made.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Returns the tables, the oldest first; durable but for their names.
    fn finish(&self) -> Result<Vec<NewFile>> {
        self.settle()?;
        let made = self.place.made.lock();
        let mut files: Vec<NewFile> = made.tables.iter().map(|table| table.file.clone()).collect();
        files.sort_unstable_by_key(|file| file.number);
        Ok(files)
    }

    /// The tables count, or may.
    fn keep(&self) {
        self.place.made.lock().tables.clear();
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.crew.give_up();
        compaction::remove_tables(&self.place.env, &self.place.directory, &self.place.made.lock().tables);
    }
}

/// None if the file system has no way to do it.
fn supported<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(Error::Io(error)) if error.is_unsupported() => Ok(None),
        outcome => outcome.map(Some),
    }
}

impl State {
    fn new(set: VersionSet, memtable: Arc<Memtable>) -> State {
        State {
            set,
            memtable,
            frozen: VecDeque::new(),
            flushes: 0,
            installing: false,
            merging: false,
            merge_range: None,
            running: None,
            may_merge: true,
            manual: VecDeque::new(),
            manuals: 0,
            worn: None,
            rest_of_reads: Duration::ZERO,
            doomed: Doomed::default(),
            stats: Default::default(),
            effort: Effort::default(),
            failures: 0,
            last_failure: None,
            changes: 0,
            stopped: 0,
            ended: false,
        }
    }
}
