//! `leveldb_readoptions_t` and `leveldb_writeoptions_t`. Null means the defaults.

use std::ffi::c_char;

use terrace::{ReadOptions, WriteOptions};

use super::snapshot::SnapshotHandle;
use crate::ffi::{bytes_from_c, run_or_default};

pub(super) struct ReadOptionsHandle(pub(super) ReadOptions);

pub(super) struct WriteOptionsHandle(pub(super) WriteOptions);

static DEFAULT_READ_OPTIONS: ReadOptions = ReadOptions::DEFAULT;

static DEFAULT_WRITE_OPTIONS: WriteOptions = WriteOptions::DEFAULT;

#[inline]
pub(super) fn read_options(handle: Option<&ReadOptionsHandle>) -> &ReadOptions {
    handle.map_or(&DEFAULT_READ_OPTIONS, |handle| &handle.0)
}

#[inline]
pub(super) fn write_options(handle: Option<&WriteOptionsHandle>) -> &WriteOptions {
    handle.map_or(&DEFAULT_WRITE_OPTIONS, |handle| &handle.0)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> Box<ReadOptionsHandle> {
    Box::new(ReadOptionsHandle(ReadOptions::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_destroy(options: Option<Box<ReadOptionsHandle>>) {
    run_or_default(|| drop(options));
}

fn update_options(handle: Option<&mut ReadOptionsHandle>, change: impl FnOnce(&mut ReadOptions)) {
    run_or_default(|| {
        if let Some(handle) = handle {
            change(&mut handle.0);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_verify_checksums(options: Option<&mut ReadOptionsHandle>, yes: u8) {
    update_options(options, |options| options.verify_checksums = yes != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(options: Option<&mut ReadOptionsHandle>, yes: u8) {
    update_options(options, |options| options.fill_cache = yes != 0);
}

/// Null means that each read uses the state at its time.
#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_snapshot(
    options: Option<&mut ReadOptionsHandle>,
    snapshot: Option<&SnapshotHandle>,
) {
    update_options(options, |options| options.snapshot = snapshot.map(|snapshot| snapshot.0.clone()));
}

/// Copies a bound of the caller; None if `start` is null.
fn bound_from_c(start: *const c_char, len: usize) -> Option<Vec<u8>> {
    // SAFETY: the caller passes null, or a pointer `start` to `len` bytes that live through the
    // call.
    (!start.is_null()).then(|| unsafe { bytes_from_c(start, len) }.to_vec())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_readoptions_set_lower_bound(
    options: Option<&mut ReadOptionsHandle>,
    key: *const c_char,
    len: usize,
) {
    update_options(options, |options| options.lower_bound = bound_from_c(key, len));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_readoptions_set_upper_bound(
    options: Option<&mut ReadOptionsHandle>,
    key: *const c_char,
    len: usize,
) {
    update_options(options, |options| options.upper_bound = bound_from_c(key, len));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_readoptions_set_prefix(
    options: Option<&mut ReadOptionsHandle>,
    prefix: *const c_char,
    len: usize,
) {
    update_options(options, |options| options.prefix = bound_from_c(prefix, len));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> Box<WriteOptionsHandle> {
    Box::new(WriteOptionsHandle(WriteOptions::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<WriteOptionsHandle>>) {
    run_or_default(|| drop(options));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_set_sync(options: Option<&mut WriteOptionsHandle>, yes: u8) {
    if let Some(options) = options {
        options.0.sync = yes != 0;
    }
}
