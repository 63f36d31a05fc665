//! Options as the C++ classes have them, as options of the engine.

use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, Bloom, Env, Options, ReadOptions, Snapshot, compress};

use super::abi::Handed;
use super::foreign::{CacheCalls, ComparatorCalls, EnvCalls, FilterCalls, LoggerCalls, World};

/// LevelDB's defaults. What a program left so is the engine's to choose.
const STOCK_BUFFER: usize = 4 << 20;
const STOCK_FILE: usize = 2 << 20;

/// Classes of the library's own come as what they are, so that no call leaves Rust for them: an absent comparator is
/// the bytewise one, an absent environment the machine's.
#[repr(C)]
pub(super) struct FlatOptions {
    comparator: Handed<ComparatorCalls>,
    env: Handed<EnvCalls>,
    logger: Handed<LoggerCalls>,
    filter: Handed<FilterCalls>,
    cache: Handed<CacheCalls>,
    /// The library's own cache, or null.
    block_cache: *const BlockCache,
    /// The library's own filter, or -1.
    bloom_bits: c_int,
    compression: c_int,
    write_buffer_size: usize,
    block_size: usize,
    max_file_size: usize,
    max_open_files: c_int,
    block_restart_interval: c_int,
    create_if_missing: bool,
    error_if_exists: bool,
    paranoid_checks: bool,
    reuse_logs: bool,
}

impl FlatOptions {
    /// For the engine.
    pub(super) fn read(&self) -> Options {
        self.within(self.world().as_ref())
    }

    /// For the engine, with the info log in `directory` if the program brought a world.
    pub(super) fn read_for(&self, directory: &Path) -> Options {
        let world = self.world();
        let mut options = self.within(world.as_ref());
        if let (None, Some(world)) = (&options.logger, &world) {
            options.logger = Some(world.logger(directory));
        }
        options
    }

    fn world(&self) -> Option<World> {
        self.env.foreign().map(World::new)
    }

    fn within(&self, world: Option<&World>) -> Options {
        let mut options = Options {
            create_if_missing: self.create_if_missing,
            error_if_exists: self.error_if_exists,
            paranoid_checks: self.paranoid_checks,
            reuse_logs: self.reuse_logs,
            write_buffer_size: (self.write_buffer_size != STOCK_BUFFER).then_some(self.write_buffer_size),
            block_size: self.block_size,
            max_file_size: (self.max_file_size != STOCK_FILE).then_some(self.max_file_size as u64),
            // Negative numbers go the way of 0: to the least that is allowed.
            max_open_files: usize::try_from(self.max_open_files).unwrap_or(0),
            block_restart_interval: usize::try_from(self.block_restart_interval).unwrap_or(0),
            compression: if self.compression == 0 { &compress::NONE } else { &compress::SNAPPY },
            env: world.map_or_else(Env::system, World::env),
            ..Options::default()
        };
        if let Some(comparator) = self.comparator.foreign() {
            options.comparator = Arc::new(comparator.comparator());
        }
        options.logger = self.logger.foreign().map(|logger| Arc::new(logger) as _);
        options.filter_policy = match (self.filter.foreign(), usize::try_from(self.bloom_bits)) {
            (Some(filter), _) => Some(Arc::new(filter.filter())),
            (None, Ok(bits)) => Some(Arc::new(Bloom::new(bits))),
            (None, Err(_)) => None,
        };
        let cache = self.cache.foreign().map(|cache| BlockCache::over(cache.store()));
        options.block_cache = cache.or_else(|| self.own_cache());
        options
    }

    fn own_cache(&self) -> Option<Arc<BlockCache>> {
        if self.block_cache.is_null() {
            return None;
        }
        // SAFETY: of `terrace_cxx_cache_new`, so of an `Arc` that its class holds through this call.
        unsafe { Arc::increment_strong_count(self.block_cache) };
        // SAFETY: the count that was just added.
        Some(unsafe { Arc::from_raw(self.block_cache) })
    }
}

/// Read options as the C++ classes have them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FlatRead {
    /// Of `terrace_cxx_snapshot`, or null.
    snapshot: *const Snapshot,
    verify_checksums: bool,
    fill_cache: bool,
}

impl FlatRead {
    pub(super) fn read(self) -> ReadOptions {
        // SAFETY: null, or a snapshot that was not released: the program's promise.
        let snapshot = unsafe { self.snapshot.as_ref() }.cloned();
        let (verify_checksums, fill_cache) = (self.verify_checksums, self.fill_cache);
        ReadOptions { verify_checksums, fill_cache, snapshot, ..ReadOptions::default() }
    }
}
