//! What a database tells about itself, and upkeep.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::database::Database;
use crate::border::{ErrPtr, answered, bytes, given, items, malloced_string, path, quietly, room};

/// The end of a range: an open one if it is null.
///
/// # Safety
///
/// As of [`bytes`].
unsafe fn end<'a>(key: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!key.is_null()).then(|| unsafe { bytes(key, len) })
}

fn property(database: Option<&Database>, name: *const c_char) -> Option<String> {
    // SAFETY: the contract.
    let name = unsafe { path(name) };
    quietly(|| database?.0.property(name.to_str()?))
}

/// A text for `leveldb_free`; null if there is no such property.
#[unsafe(no_mangle)]
extern "C" fn leveldb_property_value(database: Option<&Database>, name: *const c_char) -> *mut c_char {
    property(database, name).map_or(ptr::null_mut(), malloced_string)
}

/// A property that is a number; 0 and `*value` as it was if there is none of that name.
#[unsafe(no_mangle)]
extern "C" fn terrace_property_number(
    database: Option<&Database>,
    name: *const c_char,
    value: Option<&mut u64>,
) -> u8 {
    let number = property(database, name).and_then(|text| text.parse().ok());
    if let (Some(value), Some(number)) = (value, number) {
        *value = number;
    }
    u8::from(number.is_some())
}

/// Tables and their bytes on one level, as `include/terrace/terrace.h` lays it out.
#[derive(Default)]
#[repr(C)]
pub(super) struct Level {
    files: u64,
    bytes: u64,
}

/// Fills `levels`, which has room for `count` of them, and says how many there are.
#[unsafe(no_mangle)]
extern "C" fn terrace_levels(database: Option<&Database>, levels: *mut Level, count: usize) -> usize {
    let tree = quietly(|| database.map(|database| database.0.levels()).unwrap_or_default());
    // SAFETY: the contract.
    let levels = unsafe { room(levels, count) };
    for (level, to) in tree.iter().zip(levels) {
        let bytes = level.files.iter().map(|file| file.size).sum();
        to.write(Level { files: level.files.len() as u64, bytes });
    }
    tree.len()
}

/// There is nobody to tell of an error: the sizes are then 0.
#[unsafe(no_mangle)]
extern "C" fn leveldb_approximate_sizes(
    database: Option<&Database>,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
) {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the contract.
    let starts = unsafe { items(starts, count) }.iter().zip(unsafe { items(start_lens, count) });
    // SAFETY: the contract.
    let limits = unsafe { items(limits, count) }.iter().zip(unsafe { items(limit_lens, count) });
    // SAFETY: the contract.
    let sizes = unsafe { room(sizes, count) };
    for ((start, limit), size) in starts.zip(limits).zip(sizes) {
        // SAFETY: the contract: each pointer has the length beside it.
        let (start, limit) = (unsafe { bytes(*start.0, *start.1) }, unsafe { bytes(*limit.0, *limit.1) });
        let known = quietly(|| database?.0.approximate_sizes(&[(start, limit)]).ok()?.pop());
        size.write(known.unwrap_or(0));
    }
}

/// A null key stands for no bound.
#[unsafe(no_mangle)]
extern "C" fn leveldb_compact_range(
    database: Option<&Database>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    // There is nobody to tell: the next write will say what is wrong.
    terrace_compact_range(database, start, start_len, limit, limit_len, None);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_compact_range(
    database: Option<&Database>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let start = unsafe { end(start, start_len) };
    // SAFETY: the contract.
    let limit = unsafe { end(limit, limit_len) };
    answered(errptr, || Ok(given(database)?.0.compact_range(start, limit)?));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_delete_range(
    database: Option<&Database>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let start = unsafe { end(start, start_len) };
    // SAFETY: the contract.
    let limit = unsafe { end(limit, limit_len) };
    answered(errptr, || Ok(given(database)?.0.delete_range(start, limit)?));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_flush(database: Option<&Database>, errptr: ErrPtr<'_>) {
    answered(errptr, || Ok(given(database)?.0.flush()?));
}
