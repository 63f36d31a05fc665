//! `leveldb_readoptions_t` and `leveldb_writeoptions_t`: how to read, how to write. Null stands for the defaults.

use std::ffi::c_char;

use terrace::{ReadOptions, WriteOptions};

use super::snapshot::SnapshotHandle;
use crate::border::{bytes, quietly};

pub(super) struct ReadHandle(pub(super) ReadOptions);

pub(super) struct WriteHandle(pub(super) WriteOptions);

static READ: ReadOptions = ReadOptions::DEFAULT;

static WRITE: WriteOptions = WriteOptions { sync: false };

#[inline]
pub(super) fn reading(handle: Option<&ReadHandle>) -> &ReadOptions {
    handle.map_or(&READ, |handle| &handle.0)
}

#[inline]
pub(super) fn writing(handle: Option<&WriteHandle>) -> &WriteOptions {
    handle.map_or(&WRITE, |handle| &handle.0)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> Box<ReadHandle> {
    Box::new(ReadHandle(ReadOptions::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_destroy(options: Option<Box<ReadHandle>>) {
    quietly(|| drop(options));
}

fn set(handle: Option<&mut ReadHandle>, change: impl FnOnce(&mut ReadOptions)) {
    quietly(|| {
        if let Some(handle) = handle {
            change(&mut handle.0);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_verify_checksums(options: Option<&mut ReadHandle>, yes: u8) {
    set(options, |options| options.verify_checksums = yes != 0);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(options: Option<&mut ReadHandle>, yes: u8) {
    set(options, |options| options.fill_cache = yes != 0);
}

/// Null stands for the state when the read is made.
#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_snapshot(
    options: Option<&mut ReadHandle>,
    snapshot: Option<&SnapshotHandle>,
) {
    set(options, |options| options.snapshot = snapshot.map(|snapshot| snapshot.0.clone()));
}

/// A bound from a caller; null stands for none.
fn bound(start: *const c_char, len: usize) -> Option<Vec<u8>> {
    // SAFETY: the contract.
    (!start.is_null()).then(|| unsafe { bytes(start, len) }.to_vec())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_readoptions_set_lower_bound(
    options: Option<&mut ReadHandle>,
    key: *const c_char,
    len: usize,
) {
    set(options, |options| options.lower_bound = bound(key, len));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_readoptions_set_upper_bound(
    options: Option<&mut ReadHandle>,
    key: *const c_char,
    len: usize,
) {
    set(options, |options| options.upper_bound = bound(key, len));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_readoptions_set_prefix(
    options: Option<&mut ReadHandle>,
    prefix: *const c_char,
    len: usize,
) {
    set(options, |options| options.prefix = bound(prefix, len));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> Box<WriteHandle> {
    Box::new(WriteHandle(WriteOptions::default()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<WriteHandle>>) {
    quietly(|| drop(options));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_set_sync(options: Option<&mut WriteHandle>, yes: u8) {
    if let Some(options) = options {
        options.0.sync = yes != 0;
    }
}
