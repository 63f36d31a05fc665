//! RocksDB, through its C interface.

#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

use super::c_api::{CStore, Library, Object, OwnedObjects, c_functions, loaded_from};
use super::rocksdb_tables::{RocksDbStore, TableFunctions};
use super::{Engine, EngineRunner, FoundEngine, Result, Store};
use crate::report::model::Settings;
use crate::workload::phase_spec::Kind;

c_functions! {
    /// Functions that only RocksDB has, or that differ from LevelDB's.
    RocksDbOptions {
        fn options_create() -> Object;
        fn options_destroy(Object);
        fn options_set_create_if_missing(Object, u8);
        fn options_set_write_buffer_size(Object, usize);
        fn options_set_compression(Object, c_int);
        fn options_set_block_based_table_factory(Object, Object);
        fn block_based_options_create() -> Object;
        fn block_based_options_destroy(Object);
        fn block_based_options_set_block_cache(Object, Object);
        fn block_based_options_set_filter_policy(Object, Object);
        fn cache_create_lru(usize) -> Object;
        fn cache_destroy(Object);
        fn filterpolicy_create_bloom(f64) -> Object;
    }
}

static NAMES: &[&str] =
    &["librocksdb.so.7.8", "librocksdb.so.8.9", "librocksdb.so.9.10", "librocksdb.so.6.11", "librocksdb.so"];

/// Finds the library at `path`, or the system's.
pub(super) fn find(path: Option<&Path>) -> Result<FoundEngine> {
    let mut found = find_with(path, |rocksdb| Ok(Box::new(rocksdb)))?;
    found.note += "; the adapter sorts a bulk load in memory";
    found.optional_kinds = &[Kind::Load, Kind::Checkpoint];
    Ok(found)
}

/// Finds the library, and converts it to an engine.
pub(super) fn find_with(
    path: Option<&Path>,
    to_engine: fn(RocksDb) -> Result<Box<dyn Engine>>,
) -> Result<FoundEngine> {
    match path {
        Some(path) => load_engine(path, to_engine),
        None => NAMES
            .iter()
            .find_map(|name| load_engine(Path::new(name), to_engine).ok())
            .ok_or_else(|| format!("{} not found: apt-get install librocksdb7.8", NAMES[0])),
    }
}

fn load_engine(path: &Path, to_engine: fn(RocksDb) -> Result<Box<dyn Engine>>) -> Result<FoundEngine> {
    let library = Library::load(path, "rocksdb")?;
    let options =
        RocksDbOptions::load(&library.handle, "rocksdb").map_err(|e| format!("{}: {e}", path.display()))?;
    let tables =
        TableFunctions::load(&library.handle, "rocksdb").map_err(|e| format!("{}: {e}", path.display()))?;
    let location = loaded_from(path);
    // The C interface has no version function, but the file's name contains the version.
    let version = location.rsplit_once(".so.").map_or_else(String::new, |(_, version)| version.to_owned());
    // The library of Debian 12.
    let age = if version.starts_with("7.8.") { "a release of 2022; " } else { "" };
    Ok(FoundEngine {
        version,
        location,
        note: format!("{age}its users have its default write buffer of 64 MiB"),
        has_compaction: true,
        has_transactions: false,
        optional_kinds: &[],
        runner: EngineRunner::InProcess(to_engine(RocksDb {
            library: Arc::new(library),
            options,
            tables: Arc::new(tables),
        })?),
    })
}

pub(super) struct RocksDb {
    options: RocksDbOptions,
    tables: Arc<TableFunctions>,
    pub(super) library: Arc<Library>,
}

impl RocksDb {
    /// Creates the options. They are the first of the objects that must outlive the database.
    pub(super) fn options(&self, settings: &Settings) -> OwnedObjects {
        let api = &self.options;
        // SAFETY: has no preconditions and returns a new object.
        let raw = unsafe { (api.options_create)() };
        let mut owned: OwnedObjects = vec![(raw, api.options_destroy)];
        // SAFETY: `raw` is the new object.
        unsafe { (api.options_set_create_if_missing)(raw, 1) };
        if let Some(bytes) = settings.write_buffer_bytes {
            // SAFETY: `raw` is the new object.
            unsafe { (api.options_set_write_buffer_size)(raw, bytes as usize) };
        }
        if let Some(name) = &settings.compression {
            // SAFETY: `raw` is the new object.
            unsafe { (api.options_set_compression)(raw, compression_number(name)) };
        }
        self.set_table_options(raw, settings, &mut owned);
        owned
    }

    /// Sets cache and filter, which are part of RocksDB's table options.
    fn set_table_options(&self, options: Object, settings: &Settings, owned: &mut OwnedObjects) {
        let api = &self.options;
        // SAFETY: has no preconditions and returns a new object.
        let tables = unsafe { (api.block_based_options_create)() };
        owned.push((tables, api.block_based_options_destroy));
        if let Some(bytes) = settings.cache_bytes {
            // SAFETY: has no preconditions and returns a new object.
            let cache = unsafe { (api.cache_create_lru)(bytes as usize) };
            owned.push((cache, api.cache_destroy));
            // SAFETY: both objects are new; the table options share the cache.
            unsafe { (api.block_based_options_set_block_cache)(tables, cache) };
        }
        if let Some(bits) = settings.filter_bits.filter(|bits| *bits > 0) {
            // SAFETY: has no preconditions and returns a new object.
            let filter = unsafe { (api.filterpolicy_create_bloom)(f64::from(bits)) };
            // SAFETY: both objects are new; the table options take ownership of the filter.
            unsafe { (api.block_based_options_set_filter_policy)(tables, filter) };
        }
        // SAFETY: both objects are live; the options copy the table options.
        unsafe { (api.options_set_block_based_table_factory)(options, tables) };
    }
}

fn compression_number(name: &str) -> c_int {
    match name {
        "none" => 0,
        "zstd" => 7,
        _ => 1,
    }
}

impl Engine for RocksDb {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let owned = self.options(settings);
        let options = owned[0].0;
        Ok(Box::new(RocksDbStore {
            store: CStore::open(&self.library, dir, options, owned)?,
            functions: Arc::clone(&self.tables),
            options,
            directory: dir.to_owned(),
        }))
    }
}
