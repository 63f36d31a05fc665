//! Conditional writes: `terrace_write_if`, its condition `terrace_unchanged_t`, and sequence
//! numbers.

use std::ffi::c_char;
use std::ops::Bound;

use terrace::{Error, ErrorKind, Snapshot, Unchanged, UnchangedKey, UnchangedRange};

use super::batch::BatchHandle;
use super::database::DatabaseHandle;
use super::read_write_options::{WriteOptionsHandle, write_options};
use super::snapshot::SnapshotHandle;
use crate::ffi::{
    ErrPtr, OutParam, StatusError, bytes_from_c, require_non_null, run_or_default, run_with_errptr,
    write_out_param,
};

/// Condition: no other writer wrote these keys and ranges since the snapshot.
pub(super) struct UnchangedHandle {
    since: Snapshot,
    keys: Vec<(Vec<u8>, u64)>,
    ranges: Vec<UnchangedKeyRange>,
}

/// Bounds of a range: its first key, and the key at which it ends.
struct UnchangedKeyRange {
    begin: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
}

/// Returns null for a null snapshot.
#[unsafe(no_mangle)]
extern "C" fn terrace_unchanged_create(since: Option<&SnapshotHandle>) -> Option<Box<UnchangedHandle>> {
    run_or_default(|| {
        let since = since?.0.clone();
        Some(Box::new(UnchangedHandle { since, keys: Vec::new(), ranges: Vec::new() }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_unchanged_destroy(unchanged: Option<Box<UnchangedHandle>>) {
    run_or_default(|| drop(unchanged));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_unchanged_add_key(
    unchanged: Option<&mut UnchangedHandle>,
    key: *const c_char,
    key_len: usize,
    since: u64,
) {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    run_or_default(|| {
        if let Some(unchanged) = unchanged {
            unchanged.keys.push((key.to_vec(), since));
        }
    });
}

/// A null key means no bound.
#[unsafe(no_mangle)]
extern "C" fn terrace_unchanged_add_range(
    unchanged: Option<&mut UnchangedHandle>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    // SAFETY: the caller passes null, or a pointer `start` to `start_len` bytes that live through
    // the call.
    let begin = unsafe { bytes_from_c(start, start_len) };
    // SAFETY: the caller passes null, or a pointer `limit` to `limit_len` bytes that live through
    // the call.
    let end = unsafe { bytes_from_c(limit, limit_len) };
    run_or_default(|| {
        let begin = if start.is_null() { Bound::Unbounded } else { Bound::Included(begin.to_vec()) };
        let end = if limit.is_null() { Bound::Unbounded } else { Bound::Excluded(end.to_vec()) };
        if let Some(unchanged) = unchanged {
            unchanged.ranges.push(UnchangedKeyRange { begin, end });
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_write_if(
    database: Option<&DatabaseHandle>,
    options: Option<&WriteOptionsHandle>,
    batch: Option<&BatchHandle>,
    unchanged: Option<&UnchangedHandle>,
    sequence: OutParam<'_, u64>,
    errptr: ErrPtr<'_>,
) -> u8 {
    return_sequence(sequence, errptr, || {
        let database = &require_non_null(database)?.0;
        let batch = &require_non_null(batch)?.0;
        let UnchangedHandle { since, keys, ranges } = require_non_null(unchanged)?;
        let keys: Vec<_> = keys.iter().map(|(key, since)| UnchangedKey { key, since: *since }).collect();
        let ranges: Vec<_> = ranges
            .iter()
            .map(|UnchangedKeyRange { begin, end }| UnchangedRange {
                begin: begin.as_ref().map(Vec::as_slice),
                end: end.as_ref().map(Vec::as_slice),
            })
            .collect();
        let condition = Unchanged { since, keys: &keys, ranges: &ranges };
        Ok(database.write_if_with(batch, &condition, write_options(options)))
    })
}

/// Stores the sequence number of a write, and returns 1. Stores 0 and returns 0 if another writer
/// or transaction interfered, which is no error, and after an error.
pub(super) fn return_sequence(
    sequence: OutParam<'_, u64>,
    errptr: ErrPtr<'_>,
    write: impl FnOnce() -> Result<Result<u64, Error>, StatusError>,
) -> u8 {
    let written = run_with_errptr(errptr, || match write()? {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
        Err(error) => Err(error.into()),
    });
    let written = written.flatten();
    write_out_param(sequence, written.unwrap_or(0));
    u8::from(written.is_some())
}

/// Returns 0, and stores 0, if no write of the key is known, and after an error.
#[unsafe(no_mangle)]
extern "C" fn terrace_last_change(
    database: Option<&DatabaseHandle>,
    key: *const c_char,
    key_len: usize,
    sequence: OutParam<'_, u64>,
    errptr: ErrPtr<'_>,
) -> u8 {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    let last = run_with_errptr(errptr, || Ok(require_non_null(database)?.0.last_change(key)?)).flatten();
    write_out_param(sequence, last.unwrap_or(0));
    u8::from(last.is_some())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_snapshot_sequence(snapshot: Option<&SnapshotHandle>) -> u64 {
    snapshot.map_or(0, |snapshot| snapshot.0.sequence())
}
