//! Conversion of the C++ options to the engine's.

use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

use terrace::{BlockCache, BloomFilterPolicy, Env, Options, ReadOptions, Snapshot, compress};

use super::callbacks::{
    CacheCallbacks, ComparatorCallbacks, EnvCallbacks, FilterCallbacks, LoggerCallbacks, UserEnv,
};
use super::types::NullableUserObject;

/// LevelDB's default in bytes. For a value that equals its default, the engine's default applies.
const LEVELDB_WRITE_BUFFER_SIZE: usize = 4 << 20;
/// LevelDB's default in bytes.
const LEVELDB_MAX_FILE_SIZE: usize = 2 << 20;

/// Options as the C++ classes pass them. The library's own objects have no callbacks, so the engine
/// does not call C++ for them: no comparator means the bytewise one, no environment the default
/// one.
#[repr(C)]
pub(super) struct CxxOptions {
    comparator: NullableUserObject<ComparatorCallbacks>,
    env: NullableUserObject<EnvCallbacks>,
    logger: NullableUserObject<LoggerCallbacks>,
    filter: NullableUserObject<FilterCallbacks>,
    cache: NullableUserObject<CacheCallbacks>,
    /// The built-in block cache, or null.
    block_cache: *const BlockCache,
    /// Bits per key of the built-in filter policy, or -1.
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
    /// Converts the options.
    pub(super) fn to_options(&self) -> Options {
        self.to_options_with_env(self.user_env().as_ref())
    }

    /// Converts the options. If the program passed an environment and no logger, that environment
    /// creates the info log in `directory`.
    pub(super) fn to_options_for(&self, directory: &Path) -> Options {
        let user_env = self.user_env();
        let mut options = self.to_options_with_env(user_env.as_ref());
        if let (None, Some(user_env)) = (&options.logger, &user_env) {
            options.logger = Some(user_env.info_log(directory));
        }
        options
    }

    fn user_env(&self) -> Option<UserEnv> {
        self.env.non_null().map(UserEnv::new)
    }

    fn to_options_with_env(&self, user_env: Option<&UserEnv>) -> Options {
        let mut options = Options::default()
            .create_if_missing(self.create_if_missing)
            .error_if_exists(self.error_if_exists)
            .paranoid_checks(self.paranoid_checks)
            .reuse_logs(self.reuse_logs)
            .write_buffer_size(
                (self.write_buffer_size != LEVELDB_WRITE_BUFFER_SIZE).then_some(self.write_buffer_size),
            )
            .block_size(self.block_size)
            .max_file_size((self.max_file_size != LEVELDB_MAX_FILE_SIZE).then_some(self.max_file_size as u64))
            // Negative numbers become 0, which is later clipped to the minimum.
            .max_open_files(usize::try_from(self.max_open_files).unwrap_or(0))
            .block_restart_interval(usize::try_from(self.block_restart_interval).unwrap_or(0))
            // Snappy, the default, keeps the codec of an existing database.
            .compression((self.compression == 0).then_some(&compress::NO_COMPRESSION))
            .env(user_env.map_or_else(Env::system, UserEnv::to_env));
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
        // SAFETY: the pointer comes from `Arc::into_raw` in `terrace_cxx_cache`, and its C++ object
        // keeps a reference through this call.
        unsafe { Arc::increment_strong_count(self.block_cache) };
        // SAFETY: the reference was added by the previous statement.
        Some(unsafe { Arc::from_raw(self.block_cache) })
    }
}

/// Read options as the C++ classes pass them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxReadOptions {
    /// A snapshot from `terrace_cxx_snapshot`, or null.
    snapshot: *const Snapshot,
    verify_checksums: bool,
    fill_cache: bool,
}

impl CxxReadOptions {
    pub(super) fn to_read_options(self) -> ReadOptions {
        // SAFETY: the program passes null, or a snapshot that it has not released.
        let snapshot = unsafe { self.snapshot.as_ref() }.cloned();
        ReadOptions::default()
            .verify_checksums(self.verify_checksums)
            .fill_cache(self.fill_cache)
            .snapshot(snapshot)
    }
}
