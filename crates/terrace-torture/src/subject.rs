//! Terrace as a [`Subject`] of random operations, and its options from [`Settings`].

mod hoard;
mod upheaval;
mod world;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{BlockCache, Bloom, Db, DbIterator, Env, ErrorKind, FilterPolicy, Options, ReadOptions};
use terrace::{Snapshot, WriteBatch, WriteOptions};
use terrace_format::compress::{Codec, NONE, SNAPPY, ZSTD};
use terrace_testkit::op::{Range, Slot, Step, Upheaval, Write};
use terrace_testkit::run::{Answer, Entry, Subject};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::StockClass;

use hoard::Hoard;

pub use world::{Threads, World};

/// The options that `settings` stands for.
pub fn options(settings: &Settings, env: &Env) -> Options {
    let bloom = || Arc::new(Bloom::new(settings.bloom_bits)) as Arc<dyn FilterPolicy>;
    Options {
        comparator: settings.order.comparator(),
        create_if_missing: settings.create_if_missing,
        error_if_exists: settings.error_if_exists,
        paranoid_checks: settings.paranoid_checks,
        env: env.clone(),
        // LevelDB's defaults stand for ours.
        write_buffer_size: Some(settings.write_buffer_size).filter(|&size| size != 4 << 20),
        max_open_files: settings.max_open_files,
        block_cache: settings.cache_bytes.map(BlockCache::new),
        block_size: settings.block_size,
        block_restart_interval: settings.block_restart_interval,
        max_file_size: Some(settings.max_file_size as u64).filter(|&size| size != 2 << 20),
        compression: codec(settings),
        reuse_logs: settings.reuse_logs,
        filter_policy: Some(bloom()),
        ..Options::default()
    }
}

fn codec(settings: &Settings) -> &'static Codec {
    match settings {
        Settings { zstd: true, .. } => &ZSTD,
        Settings { snappy: true, .. } => &SNAPPY,
        _ => &NONE,
    }
}

/// The class that stock LevelDB has for an error.
pub fn class(kind: ErrorKind) -> StockClass {
    match kind {
        ErrorKind::NotFound => StockClass::NotFound,
        ErrorKind::Corruption => StockClass::Corruption,
        ErrorKind::NotSupported => StockClass::NotSupported,
        ErrorKind::InvalidArgument => StockClass::InvalidArgument,
        ErrorKind::Io => StockClass::Io,
    }
}

/// A Terrace database and its slots.
pub struct Engine {
    path: PathBuf,
    env: Env,
    /// What the env is made of, if things may happen to all of it.
    world: Option<World>,
    /// One of each size for all that is ever opened: no life may see blocks of another.
    caches: HashMap<usize, Arc<BlockCache>>,
    /// None only if opening it again failed.
    db: Option<Db>,
    snapshots: HashMap<Slot, Snapshot>,
    cursors: HashMap<Slot, DbIterator>,
}

/// Bytes of a cache from which on it is not Terrace's own.
const LARGE: usize = 1 << 20;

impl Engine {
    /// Opens the database at `path`.
    pub fn open(path: &Path, settings: &Settings, env: &Env) -> terrace::Result<Engine> {
        let mut engine = Engine::closed(path, env);
        engine.db = Some(Db::open(path, &engine.options(settings))?);
        Ok(engine)
    }

    /// Opens the database of `world`, which will be part of all that happens.
    pub fn in_memory(world: World, settings: &Settings) -> terrace::Result<Engine> {
        let engine = Engine::open(Path::new(World::PATH), settings, &world.env())?;
        Ok(Engine { world: Some(world), ..engine })
    }

    /// Around a database that is open.
    pub fn of(db: Db, env: &Env) -> Engine {
        Engine { db: Some(db.clone()), ..Engine::closed(db.path(), env) }
    }

    fn closed(path: &Path, env: &Env) -> Engine {
        Engine {
            path: path.to_path_buf(),
            env: env.clone(),
            world: None,
            caches: HashMap::new(),
            db: None,
            snapshots: HashMap::new(),
            cursors: HashMap::new(),
        }
    }

    fn options(&mut self, settings: &Settings) -> Options {
        // The large ones are somebody else's.
        let made = |bytes| if bytes < LARGE { BlockCache::new(bytes) } else { Hoard::cache(bytes) };
        let mut cache = |bytes| Arc::clone(self.caches.entry(bytes).or_insert_with(|| made(bytes)));
        let block_cache = settings.cache_bytes.map(&mut cache);
        Options { block_cache, ..options(settings, &self.env) }
    }

    fn db(&self) -> Answer<&Db> {
        self.db.as_ref().ok_or_else(|| "the database is closed".to_owned())
    }

    /// True if there is a cursor in the slot.
    pub fn has_cursor(&self, slot: Slot) -> bool {
        self.cursors.contains_key(&slot)
    }

    fn at(&self, at: Option<Slot>) -> ReadOptions {
        let snapshot = at.and_then(|slot| self.snapshots.get(&slot).cloned());
        ReadOptions { snapshot, ..ReadOptions::default() }
    }

    fn close(&mut self) -> Answer<()> {
        self.cursors.clear();
        self.snapshots.clear();
        self.db.take().map_or(Ok(()), Db::close).map_err(text)
    }
}

fn text(error: terrace::Error) -> String {
    error.to_string()
}

impl Subject for Engine {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Answer<()> {
        self.db()?.put_with(key, value, &WriteOptions { sync }).map_err(text)
    }

    fn delete(&mut self, key: &[u8], sync: bool) -> Answer<()> {
        self.db()?.delete_with(key, &WriteOptions { sync }).map_err(text)
    }

    fn write(&mut self, writes: &[Write], sync: bool) -> Answer<()> {
        let mut batch = WriteBatch::new();
        for write in writes {
            match write {
                Write::Put { key, value } => batch.put(key, &value.bytes()),
                Write::Delete { key } => batch.delete(key),
            }
        }
        self.db()?.write_with(&batch, &WriteOptions { sync }).map_err(text)
    }

    fn get(&mut self, key: &[u8], at: Option<Slot>) -> Answer<Option<Vec<u8>>> {
        self.db()?.get_with(key, &self.at(at)).map_err(text)
    }

    fn take(&mut self, slot: Slot) {
        if let Some(db) = &self.db {
            self.snapshots.insert(slot, db.snapshot());
        }
    }

    fn release(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    fn open_cursor(&mut self, slot: Slot, at: Option<Slot>, range: &Range) {
        let Range { lower, upper, prefix } = range.clone();
        let options = ReadOptions { lower_bound: lower, upper_bound: upper, prefix, ..self.at(at) };
        if let Some(db) = &self.db {
            self.cursors.insert(slot, db.iter_with(&options));
        }
    }

    fn step(&mut self, slot: Slot, step: &Step) -> Answer<Option<Entry>> {
        let cursor = self.cursors.get_mut(&slot).ok_or("no cursor")?;
        match step {
            Step::First => cursor.seek_to_first(),
            Step::Last => cursor.seek_to_last(),
            Step::Seek(key) => cursor.seek(key),
            Step::Next | Step::Prev if !cursor.valid() => {}
            Step::Next => cursor.next(),
            Step::Prev => cursor.prev(),
        }
        cursor.status().map_err(text)?;
        Ok(cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec())))
    }

    fn close_cursor(&mut self, slot: Slot) {
        self.cursors.remove(&slot);
    }

    fn flush(&mut self) -> Answer<()> {
        self.db()?.flush().map_err(text)
    }

    fn compact(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Answer<()> {
        self.db()?.compact_range(begin, end).map_err(text)
    }

    fn erase(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Answer<()> {
        self.db()?.delete_range(begin, end).map_err(text)
    }

    fn reopen(&mut self, settings: &Settings) -> Answer<()> {
        self.close()?;
        let options = self.options(settings);
        self.db = Some(Db::open(&self.path, &options).map_err(text)?);
        Ok(())
    }

    fn size(&mut self, begin: &[u8], end: &[u8]) -> Answer<u64> {
        let sizes = self.db()?.approximate_sizes(&[(begin, end)]).map_err(text)?;
        sizes.first().copied().ok_or_else(|| "no size for the range".to_owned())
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.db.as_ref()?.property(name)
    }
    fn upheaval(&mut self, what: Upheaval, settings: &Settings) -> Answer<()> {
        self.happens(what, settings)
    }
}
