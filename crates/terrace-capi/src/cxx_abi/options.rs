//! Options as the C++ classes have them, as options of the engine.

use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, BloomFilterPolicy, Env, Options, ReadOptions, Snapshot, compress};

use super::callbacks::{
    CacheCallbacks, ComparatorCallbacks, EnvCallbacks, FilterCallbacks, LoggerCallbacks, UserEnv,
};
use super::types::NullableUserObject;

/// LevelDB's defaults. What a program left so is the engine's to choose.
const LEVELDB_WRITE_BUFFER_SIZE: usize = 4 << 20;
const LEVELDB_MAX_FILE_SIZE: usize = 2 << 20;

/// Classes of the library's own come as what they are, so that no call leaves Rust for them: an absent comparator is
/// the bytewise one, an absent environment the machine's.
#[repr(C)]
pub(super) struct CxxOptions {
    comparator: NullableUserObject<ComparatorCallbacks>,
    env: NullableUserObject<EnvCallbacks>,
    logger: NullableUserObject<LoggerCallbacks>,
    filter: NullableUserObject<FilterCallbacks>,
    cache: NullableUserObject<CacheCallbacks>,
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

impl CxxOptions {
    /// For the engine.
    pub(super) fn to_options(&self) -> Options {
        self.to_options_with_env(self.user_env().as_ref())
    }

    /// For the engine, with the info log in `directory` if the program brought a world.
    pub(super) fn to_options_for(&self, directory: &Path) -> Options {
        let world = self.user_env();
        let mut options = self.to_options_with_env(world.as_ref());
        if let (None, Some(world)) = (&options.logger, &world) {
            options.logger = Some(world.info_log(directory));
        }
        options
    }

    fn user_env(&self) -> Option<UserEnv> {
        self.env.non_null().map(UserEnv::new)
    }

    fn to_options_with_env(&self, world: Option<&UserEnv>) -> Options {
        let mut options = Options {
            create_if_missing: self.create_if_missing,
            error_if_exists: self.error_if_exists,
            paranoid_checks: self.paranoid_checks,
            reuse_logs: self.reuse_logs,
            write_buffer_size: (self.write_buffer_size != LEVELDB_WRITE_BUFFER_SIZE)
                .then_some(self.write_buffer_size),
            block_size: self.block_size,
            max_file_size: (self.max_file_size != LEVELDB_MAX_FILE_SIZE).then_some(self.max_file_size as u64),
            // Negative numbers go the way of 0: to the least that is allowed.
            max_open_files: usize::try_from(self.max_open_files).unwrap_or(0),
            block_restart_interval: usize::try_from(self.block_restart_interval).unwrap_or(0),
            compression: if self.compression == 0 { &compress::NO_COMPRESSION } else { &compress::SNAPPY },
            env: world.map_or_else(Env::system, UserEnv::to_env),
            ..Options::default()
        };
        if let Some(comparator) = self.comparator.non_null() {
            options.comparator = Arc::new(comparator.into_comparator());
        }
        options.logger = self.logger.non_null().map(|logger| Arc::new(logger) as _);
        options.filter_policy = match (self.filter.non_null(), usize::try_from(self.bloom_bits)) {
            (Some(filter), _) => Some(Arc::new(filter.into_filter_policy())),
            (None, Ok(bits)) => Some(Arc::new(BloomFilterPolicy::new(bits))),
            (None, Err(_)) => None,
        };
        let cache = self.cache.non_null().map(|cache| BlockCache::with_store(cache.into_external_cache()));
        options.block_cache = cache.or_else(|| self.builtin_cache());
        options
    }

    fn builtin_cache(&self) -> Option<Arc<BlockCache>> {
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
pub(super) struct CxxReadOptions {
    /// Of `terrace_cxx_snapshot`, or null.
    snapshot: *const Snapshot,
    verify_checksums: bool,
    fill_cache: bool,
}

impl CxxReadOptions {
    pub(super) fn to_read_options(self) -> ReadOptions {
        // SAFETY: null, or a snapshot that was not released: the program's promise.
        let snapshot = unsafe { self.snapshot.as_ref() }.cloned();
        let (verify_checksums, fill_cache) = (self.verify_checksums, self.fill_cache);
        ReadOptions { verify_checksums, fill_cache, snapshot, ..ReadOptions::default() }
    }
}
