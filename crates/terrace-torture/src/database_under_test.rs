//! Terrace as a [`DatabaseUnderTest`] for random operations, and its options from [`Settings`].

mod external_cache;
mod lifecycle;
mod simulated_env;

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use terrace::{
    BlockCache, BloomFilterPolicy, CompactionStyle, Db, DbIterator, Env, ErrorKind, Options, ReadOptions,
};
use terrace::{Comparator, Error, IngestOptions, LoadOptions, SortedTable, bulk_load, bytewise};
use terrace::{PinnedValue, Snapshot, WriteBatch, WriteOptions};
use terrace_format::compress::{Codec, NO_COMPRESSION, SNAPPY, ZSTD};
use terrace_testkit::differential::{DatabaseUnderTest, Entry, OpResult};
use terrace_testkit::op::{IteratorBounds, IteratorMove, LifecycleOp, Slot, ValueSpec, Write};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StatusCode;

use external_cache::ExternalCache;

pub use simulated_env::{BackgroundThreads, SimulatedEnv, max_mappings};

/// Converts `settings` to options.
pub fn options_from_settings(settings: &Settings, env: &Env) -> Options {
    Options::default()
        .comparator(settings.comparator.build())
        .create_if_missing(settings.create_if_missing)
        .error_if_exists(settings.error_if_exists)
        .paranoid_checks(settings.paranoid_checks)
        .env(env.clone())
        // LevelDB's default means Terrace's default.
        .write_buffer_size(Some(settings.write_buffer_size).filter(|&size| size != 4 << 20))
        .max_open_files(settings.max_open_files)
        .block_cache(settings.cache_bytes.map(BlockCache::new))
        .block_size(settings.block_size)
        .block_restart_interval(settings.block_restart_interval)
        .max_file_size(Some(settings.max_file_size as u64).filter(|&size| size != 2 << 20))
        .compression(codec(settings))
        .reuse_logs(settings.reuse_logs)
        .compaction_style(if settings.leveled {
            CompactionStyle::Leveled
        } else {
            CompactionStyle::LazyLeveled
        })
        .filter_policy(Arc::new(BloomFilterPolicy::new(settings.bloom_bits)))
}

fn codec(settings: &Settings) -> &'static Codec {
    match settings {
        Settings { zstd: true, .. } => &ZSTD,
        Settings { snappy: true, .. } => &SNAPPY,
        _ => &NO_COMPRESSION,
    }
}

/// Returns stock LevelDB's status code for an error.
pub fn status_code(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NotFound,
        ErrorKind::Corruption => StatusCode::Corruption,
        ErrorKind::NotSupported => StatusCode::NotSupported,
        ErrorKind::InvalidArgument => StatusCode::InvalidArgument,
        ErrorKind::Io | ErrorKind::Busy => StatusCode::Io,
    }
}

/// A Terrace database with numbered snapshots and iterators.
pub struct TerraceUnderTest {
    path: PathBuf,
    env: Env,
    /// Simulated parts of `env`, if lifecycle events may affect them.
    simulated: Option<SimulatedEnv>,
    /// One block cache per size, shared by all databases, so that a confusion of their blocks
    /// shows.
    caches_by_size: HashMap<usize, Arc<BlockCache>>,
    /// Comparator of the last open.
    comparator: Arc<dyn Comparator>,
    /// None only after a failed reopen.
    db: Option<Db>,
    snapshots: HashMap<Slot, Snapshot>,
    iterators: HashMap<Slot, DbIterator>,
    /// Borrowed values of the last gets, and their bytes at that time.
    pinned: VecDeque<(PinnedValue, Vec<u8>)>,
    /// Manual compaction beside the operations, if one runs.
    manual_compaction: Option<JoinHandle<terrace::Result<()>>>,
}

/// Minimum size in bytes of a value that a get also borrows. A smaller value in a mapped table is
/// copied.
const MIN_PINNED_VALUE: usize = 4 << 10;

/// Maximum number of borrowed values.
const MAX_PINNED_VALUES: usize = 8;

/// Minimum size in bytes of a cache that is an [`ExternalCache`].
const EXTERNAL_CACHE_MIN_BYTES: usize = 1 << 20;

impl TerraceUnderTest {
    /// Opens the database at `path`.
    pub fn open(path: &Path, settings: &Settings, env: &Env) -> terrace::Result<TerraceUnderTest> {
        let mut database = TerraceUnderTest::new_closed(path, env);
        database.db = Some(Db::open(path, &database.open_options(settings))?);
        Ok(database)
    }

    /// Opens the database in `simulated`, whose parts the lifecycle events affect.
    pub fn in_memory(simulated: SimulatedEnv, settings: &Settings) -> terrace::Result<TerraceUnderTest> {
        let path = Path::new(SimulatedEnv::DB_PATH);
        let database = TerraceUnderTest::open(path, settings, &simulated.env())?;
        Ok(TerraceUnderTest { simulated: Some(simulated), ..database })
    }

    /// Wraps an open database.
    pub fn from_db(db: Db, env: &Env) -> TerraceUnderTest {
        TerraceUnderTest { db: Some(db.clone()), ..TerraceUnderTest::new_closed(db.path(), env) }
    }

    fn new_closed(path: &Path, env: &Env) -> TerraceUnderTest {
        TerraceUnderTest {
            path: path.to_path_buf(),
            env: env.clone(),
            simulated: None,
            caches_by_size: HashMap::new(),
            comparator: bytewise(),
            db: None,
            snapshots: HashMap::new(),
            iterators: HashMap::new(),
            pinned: VecDeque::new(),
            manual_compaction: None,
        }
    }

    fn open_options(&mut self, settings: &Settings) -> Options {
        let block_cache = settings.cache_bytes.map(|bytes| {
            let cache = self.caches_by_size.entry(bytes).or_insert_with(|| {
                if bytes < EXTERNAL_CACHE_MIN_BYTES {
                    BlockCache::new(bytes)
                } else {
                    ExternalCache::new_block_cache(bytes)
                }
            });
            Arc::clone(cache)
        });
        self.comparator = settings.comparator.build();
        options_from_settings(settings, &self.env).block_cache(block_cache)
    }

    fn db(&self) -> OpResult<&Db> {
        self.db.as_ref().ok_or_else(|| "the database is closed".to_owned())
    }

    /// Returns true if an iterator is open in `slot`.
    pub fn has_iterator(&self, slot: Slot) -> bool {
        self.iterators.contains_key(&slot)
    }

    fn read_options(&self, snapshot: Option<Slot>) -> ReadOptions {
        let snapshot = snapshot.and_then(|slot| self.snapshots.get(&slot).cloned());
        ReadOptions::default().snapshot(snapshot)
    }

    fn has_slow_tables(&self) -> bool {
        self.simulated.as_ref().is_some_and(SimulatedEnv::has_slow_tables)
    }

    /// Waits for the manual compaction.
    fn join_manual_compaction(&mut self) -> OpResult<()> {
        let Some(running) = self.manual_compaction.take() else { return Ok(()) };
        running.join().unwrap_or_else(|panic| resume_unwind(panic)).map_err(error_text)
    }

    fn close(&mut self) -> OpResult<()> {
        self.join_manual_compaction()?;
        self.iterators.clear();
        self.snapshots.clear();
        self.db.take().map_or(Ok(()), Db::close).map_err(error_text)?;
        self.check_pinned_values(0)
    }

    /// Borrows `value`, the value of `key`.
    fn pin(&mut self, key: &[u8], options: &ReadOptions, value: &[u8]) -> OpResult<()> {
        let pinned = self.db()?.get_pinned_with(key, options).map_err(error_text)?;
        let pinned = pinned.ok_or("get_pinned does not find a key that get finds")?;
        self.pinned.push_back((pinned, value.to_vec()));
        self.check_pinned_values(MAX_PINNED_VALUES)
    }

    /// Checks and returns the oldest borrowed values, until only `kept` are left.
    fn check_pinned_values(&mut self, kept: usize) -> OpResult<()> {
        while self.pinned.len() > kept {
            let Some((pinned, bytes)) = self.pinned.pop_front() else { break };
            if *pinned != *bytes {
                return Err("a borrowed value has changed".to_owned());
            }
        }
        Ok(())
    }
}

fn error_text(error: terrace::Error) -> String {
    error.to_string()
}

impl DatabaseUnderTest for TerraceUnderTest {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> OpResult<()> {
        self.db()?.put_with(key, value, &WriteOptions::default().sync(sync)).map_err(error_text)
    }

    fn delete(&mut self, key: &[u8], sync: bool) -> OpResult<()> {
        self.db()?.delete_with(key, &WriteOptions::default().sync(sync)).map_err(error_text)
    }

    fn write(&mut self, writes: &[Write], sync: bool) -> OpResult<()> {
        let mut batch = WriteBatch::new();
        for write in writes {
            match write {
                Write::Put { key, value } => batch.put(key, value.bytes()),
                Write::Delete { key } => batch.delete(key),
            };
        }
        self.db()?.write_with(&batch, &WriteOptions::default().sync(sync)).map_err(error_text)
    }

    fn get(&mut self, key: &[u8], snapshot: Option<Slot>) -> OpResult<Option<Vec<u8>>> {
        let options = self.read_options(snapshot);
        let value = self.db()?.get_with(key, &options).map_err(error_text)?;
        if let Some(value) = value.as_ref().filter(|value| value.len() > MIN_PINNED_VALUE) {
            self.pin(key, &options, value)?;
        }
        Ok(value)
    }

    fn take_snapshot(&mut self, slot: Slot) {
        if let Some(db) = &self.db {
            self.snapshots.insert(slot, db.snapshot());
        }
    }

    fn release_snapshot(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    fn open_iterator(&mut self, slot: Slot, snapshot: Option<Slot>, bounds: &IteratorBounds) {
        let IteratorBounds { lower, upper, prefix } = bounds.clone();
        let mut options = self.read_options(snapshot);
        options.lower_bound = lower;
        options.upper_bound = upper;
        options.prefix = prefix;
        if let Some(db) = &self.db {
            self.iterators.insert(slot, db.raw_iter_with(&options));
        }
    }

    fn move_iterator(&mut self, slot: Slot, movement: &IteratorMove) -> OpResult<Option<Entry>> {
        let iterator = self.iterators.get_mut(&slot).ok_or("no iterator in this slot")?;
        match movement {
            IteratorMove::SeekToFirst => iterator.seek_to_first(),
            IteratorMove::SeekToLast => iterator.seek_to_last(),
            IteratorMove::Seek(key) => iterator.seek(key),
            IteratorMove::Next | IteratorMove::Prev if !iterator.valid() => {}
            IteratorMove::Next => iterator.next(),
            IteratorMove::Prev => iterator.prev(),
        }
        iterator.status().map_err(error_text)?;
        Ok(iterator.valid().then(|| (iterator.key().to_vec(), iterator.value().to_vec())))
    }

    fn close_iterator(&mut self, slot: Slot) {
        self.iterators.remove(&slot);
    }

    fn flush(&mut self) -> OpResult<()> {
        self.db()?.flush().map_err(error_text)?;
        if self.has_slow_tables() && self.manual_compaction.as_ref().is_none_or(JoinHandle::is_finished) {
            self.compact_range(None, None)?;
        }
        Ok(())
    }

    fn compact_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()> {
        self.join_manual_compaction()?;
        if !self.has_slow_tables() {
            return self.db()?.compact_range(begin, end).map_err(error_text);
        }
        let db = self.db()?.clone();
        let [begin, end] = [begin, end].map(|bound| bound.map(<[u8]>::to_vec));
        self.manual_compaction =
            Some(std::thread::spawn(move || db.compact_range(begin.as_deref(), end.as_deref())));
        Ok(())
    }

    fn delete_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()> {
        let range =
            (begin.map_or(Bound::Unbounded, Bound::Included), end.map_or(Bound::Unbounded, Bound::Excluded));
        self.db()?.delete_range::<&[u8]>(range).map_err(error_text)
    }

    fn ingest(&mut self, entries: &[(Vec<u8>, ValueSpec)]) -> OpResult<bool> {
        let db = self.db()?;
        let mut sorted = entries.to_vec();
        sorted.sort_by(|(a, _), (b, _)| self.comparator.compare(a, b));
        // In a simulated environment, the path is in memory.
        let path = self.path.with_extension("ingest");
        let options = Options::default().comparator(Arc::clone(&self.comparator)).env(self.env.clone());
        let mut table = SortedTable::create(&path, &options).map_err(error_text)?;
        for (key, value) in &sorted {
            table.add(key, value.bytes()).map_err(error_text)?;
        }
        table.finish().map_err(error_text)?;
        let outcome = db.ingest(&[&path], &IngestOptions::default().timeout(Duration::ZERO));
        self.env.fs.remove(&path).map_err(|error| error.to_string())?;
        match outcome {
            Ok(()) => Ok(true),
            Err(Error::Overlap { .. } | Error::SnapshotsOpen) => Ok(false),
            Err(error) => Err(error_text(error)),
        }
    }

    fn bulk_load(&mut self, entries: &[(Vec<u8>, ValueSpec)]) -> OpResult<()> {
        let options = LoadOptions::default().memory(0).timeout(Duration::ZERO);
        let values = entries.iter().map(|(key, value)| Ok::<_, Error>((key, value.bytes())));
        let report = bulk_load(self.db()?, values, &options).map_err(error_text)?;
        if report.entries != entries.len() as u64 {
            return Err(format!("{report:?} of {} entries", entries.len()));
        }
        Ok(())
    }

    fn reopen(&mut self, settings: &Settings) -> OpResult<()> {
        self.close()?;
        let options = self.open_options(settings);
        self.db = Some(Db::open(&self.path, &options).map_err(error_text)?);
        Ok(())
    }

    fn approximate_size(&mut self, begin: &[u8], end: &[u8]) -> OpResult<u64> {
        let sizes = self.db()?.approximate_sizes(&[(begin, end)]).map_err(error_text)?;
        sizes.first().copied().ok_or_else(|| "approximate_sizes returned no size".to_owned())
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.db.as_ref()?.property(name)
    }

    fn run_lifecycle_op(&mut self, op: LifecycleOp, settings: &Settings) -> OpResult<()> {
        self.apply_lifecycle_op(op, settings)
    }
}
