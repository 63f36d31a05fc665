//! `leveldb_options_t`. Values outside LevelDB's bounds are clipped when they are used.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use terrace::{Env, Options, bytewise, compress};

use super::cache::CacheHandle;
use super::comparator::ComparatorHandle;
use super::env::EnvHandle;
use super::filter::FilterHandle;
use super::logger::LoggerHandle;
use crate::ffi::{StatusError, path_from_c, require_non_null, run_or_default};

pub(super) struct OptionsHandle {
    options: Options,
    /// Whether a null comparator was set. An open must then fail: a wrong comparator would corrupt
    /// the database.
    null_comparator: bool,
}

/// Returns the options of the caller; an error if the handle or its comparator is null.
pub(super) fn checked_options(handle: Option<&OptionsHandle>) -> Result<&Options, StatusError> {
    match require_non_null(handle)? {
        OptionsHandle { null_comparator: true, .. } => {
            Err(StatusError::invalid_argument("the comparator is a null pointer"))
        }
        handle => Ok(&handle.options),
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_create() -> Box<OptionsHandle> {
    Box::new(OptionsHandle { options: Options::default(), null_comparator: false })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_destroy(options: Option<Box<OptionsHandle>>) {
    run_or_default(|| drop(options));
}

/// Changes the options, unless the handle is null.
fn update_options(handle: Option<&mut OptionsHandle>, change: impl FnOnce(&mut Options)) {
    run_or_default(|| {
        if let Some(handle) = handle {
            change(&mut handle.options);
        }
    });
}

/// Converts a number; negative ones become 0, which is later clipped to the minimum.
fn clamp_negative_to_0(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_comparator(
    options: Option<&mut OptionsHandle>,
    comparator: Option<&ComparatorHandle>,
) {
    let Some(options) = options else { return };
    options.null_comparator = comparator.is_none();
    let order = comparator.map_or_else(bytewise, |comparator| Arc::clone(&comparator.0) as _);
    update_options(Some(options), |options| options.comparator = order);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_filter_policy(
    options: Option<&mut OptionsHandle>,
    filter: Option<&FilterHandle>,
) {
    update_options(options, |options| options.filter_policy = filter.map(|filter| Arc::clone(&filter.0)));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_create_if_missing(options: Option<&mut OptionsHandle>, yes: u8) {
    update_options(options, |options| options.create_if_missing = yes != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_error_if_exists(options: Option<&mut OptionsHandle>, yes: u8) {
    update_options(options, |options| options.error_if_exists = yes != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_paranoid_checks(options: Option<&mut OptionsHandle>, yes: u8) {
    update_options(options, |options| options.paranoid_checks = yes != 0);
}

/// Null means the default environment.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_env(options: Option<&mut OptionsHandle>, env: Option<&EnvHandle>) {
    update_options(options, |options| options.env = env.map_or_else(Env::system, |env| env.0.clone()));
}

/// Null means the file `LOG` of the database.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_info_log(
    options: Option<&mut OptionsHandle>,
    logger: Option<&LoggerHandle>,
) {
    update_options(options, |options| options.logger = logger.map(|logger| Arc::clone(&logger.0) as _));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_write_buffer_size(options: Option<&mut OptionsHandle>, bytes: usize) {
    update_options(options, |options| options.write_buffer_size = Some(bytes));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_open_files(options: Option<&mut OptionsHandle>, files: c_int) {
    update_options(options, |options| options.max_open_files = clamp_negative_to_0(files));
}

/// Null means the cache that the databases of the process share.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_cache(options: Option<&mut OptionsHandle>, cache: Option<&CacheHandle>) {
    update_options(options, |options| options.block_cache = cache.map(|cache| Arc::clone(&cache.0)));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_size(options: Option<&mut OptionsHandle>, bytes: usize) {
    update_options(options, |options| options.block_size = bytes);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_restart_interval(options: Option<&mut OptionsHandle>, keys: c_int) {
    update_options(options, |options| options.block_restart_interval = clamp_negative_to_0(keys));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_file_size(options: Option<&mut OptionsHandle>, bytes: usize) {
    update_options(options, |options| options.max_file_size = Some(bytes as u64));
}

/// 0 means no compression. Every other value means snappy, LevelDB's default: a new database gets
/// snappy, and an existing one keeps its codec.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_compression(options: Option<&mut OptionsHandle>, kind: c_int) {
    let codec = (kind == 0).then_some(&compress::NO_COMPRESSION);
    update_options(options, |options| options.compression = codec);
}

/// Sets the codec of new tables by name, also for a database with another codec. Returns 0 if there
/// is no such codec, or none that can write.
#[unsafe(no_mangle)]
extern "C" fn terrace_options_set_codec(options: Option<&mut OptionsHandle>, name: *const c_char) -> u8 {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) }.to_str();
    let codec = name.and_then(compress::codec_by_name).filter(|codec| codec.writable);
    if let Some(codec) = codec {
        update_options(options, |options| options.compression = Some(codec));
    }
    u8::from(codec.is_some())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_options_set_memory_budget(options: Option<&mut OptionsHandle>, bytes: usize) {
    update_options(options, |options| options.memory_budget = (bytes > 0).then_some(bytes));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_options_set_reuse_logs(options: Option<&mut OptionsHandle>, yes: u8) {
    update_options(options, |options| options.reuse_logs = yes != 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program cannot show that it means LevelDB's default, snappy. So neither the default nor an
    /// explicit snappy converts a database with another codec.
    #[test]
    fn snappy_keeps_the_codec_of_the_database() {
        let mut handle = leveldb_options_create();
        let codec = |handle: &OptionsHandle| handle.options.compression.map(|codec| codec.name);
        assert_eq!(codec(&handle), None);
        leveldb_options_set_compression(Some(&mut handle), 1);
        assert_eq!(codec(&handle), None);
        leveldb_options_set_compression(Some(&mut handle), 0);
        assert_eq!(codec(&handle), Some("none"));
        assert_eq!(terrace_options_set_codec(Some(&mut handle), c"deflate".as_ptr()), 1);
        assert_eq!(codec(&handle), Some("deflate"));
        assert_eq!(terrace_options_set_codec(Some(&mut handle), c"lz4".as_ptr()), 0);
        assert_eq!(codec(&handle), Some("deflate"));
        leveldb_options_set_compression(Some(&mut handle), 1);
        assert_eq!(codec(&handle), None);
    }
}
