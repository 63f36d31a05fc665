//! What a database tells about itself, and upkeep.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::database::DatabaseHandle;
use crate::ffi::{
    ErrPtr, array_from_c, bytes_from_c, malloc_c_string, output_array_from_c, path_from_c, require_non_null,
    run_or_default, run_with_errptr,
};

/// The end of a range: an open one if it is null.
///
/// # Safety
///
/// As of [`bytes`].
unsafe fn range_bound<'a>(key: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!key.is_null()).then(|| unsafe { bytes_from_c(key, len) })
}

fn property(database: Option<&DatabaseHandle>, name: *const c_char) -> Option<String> {
    // SAFETY: the contract.
    let name = unsafe { path_from_c(name) };
    run_or_default(|| database?.0.property(name.to_str()?))
}

/// A text for `leveldb_free`; null if there is no such property.
#[unsafe(no_mangle)]
extern "C" fn leveldb_property_value(database: Option<&DatabaseHandle>, name: *const c_char) -> *mut c_char {
    property(database, name).map_or(ptr::null_mut(), malloc_c_string)
}

/// A property that is a number; 0 and `*value` as it was if there is none of that name.
#[unsafe(no_mangle)]
extern "C" fn terrace_property_number(
    database: Option<&DatabaseHandle>,
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
pub(super) struct LevelSize {
    files: u64,
    bytes: u64,
}

/// Fills `levels`, which has room for `count` of them, and says how many there are.
#[unsafe(no_mangle)]
extern "C" fn terrace_levels(
    database: Option<&DatabaseHandle>,
    levels: *mut LevelSize,
    count: usize,
) -> usize {
    let tree = run_or_default(|| database.map(|database| database.0.levels()).unwrap_or_default());
    // SAFETY: the contract.
    let levels = unsafe { output_array_from_c(levels, count) };
    for (level, to) in tree.iter().zip(levels) {
        let bytes = level.files.iter().map(|file| file.size).sum();
        to.write(LevelSize { files: level.files.len() as u64, bytes });
    }
    tree.len()
}

/// There is nobody to tell of an error: the sizes are then 0.
#[unsafe(no_mangle)]
extern "C" fn leveldb_approximate_sizes(
    database: Option<&DatabaseHandle>,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
) {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the contract.
    let starts =
        unsafe { array_from_c(starts, count) }.iter().zip(unsafe { array_from_c(start_lens, count) });
    // SAFETY: the contract.
    let limits =
        unsafe { array_from_c(limits, count) }.iter().zip(unsafe { array_from_c(limit_lens, count) });
    // SAFETY: the contract.
    let sizes = unsafe { output_array_from_c(sizes, count) };
    for ((start, limit), size) in starts.zip(limits).zip(sizes) {
        // SAFETY: the contract: each pointer has the length beside it.
        let (start, limit) =
            (unsafe { bytes_from_c(*start.0, *start.1) }, unsafe { bytes_from_c(*limit.0, *limit.1) });
        let known = run_or_default(|| database?.0.approximate_sizes(&[(start, limit)]).ok()?.pop());
        size.write(known.unwrap_or(0));
    }
}

/// A null key stands for no bound.
#[unsafe(no_mangle)]
extern "C" fn leveldb_compact_range(
    database: Option<&DatabaseHandle>,
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
    database: Option<&DatabaseHandle>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let start = unsafe { range_bound(start, start_len) };
    // SAFETY: the contract.
    let limit = unsafe { range_bound(limit, limit_len) };
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.compact_range(start, limit)?));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_delete_range(
    database: Option<&DatabaseHandle>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let start = unsafe { range_bound(start, start_len) };
    // SAFETY: the contract.
    let limit = unsafe { range_bound(limit, limit_len) };
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.delete_range(start, limit)?));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_flush(database: Option<&DatabaseHandle>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.flush()?));
}
