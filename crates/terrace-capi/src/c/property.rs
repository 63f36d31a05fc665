//! Properties of a database, and its maintenance.

use std::ffi::{c_char, c_int};
use std::ops::Bound;
use std::ptr;

use super::database::DatabaseHandle;
use crate::ffi::{
    ErrPtr, array_from_c, bytes_from_c, malloc_c_string, output_array_from_c, path_from_c, require_non_null,
    run_or_default, run_with_errptr,
};

/// Returns a bound of a key range; None, which means unbounded, if `key` is null.
///
/// # Safety
///
/// As for [`bytes_from_c`].
unsafe fn range_bound<'a>(key: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller fulfils the requirements of `bytes_from_c`, which are those of this
    // function.
    (!key.is_null()).then(|| unsafe { bytes_from_c(key, len) })
}

fn property(database: Option<&DatabaseHandle>, name: *const c_char) -> Option<String> {
    // SAFETY: the caller passes null, or a NUL-terminated string `name` that lives through the
    // call.
    let name = unsafe { path_from_c(name) };
    run_or_default(|| database?.0.property(name.to_str()?))
}

/// Returns a text for `leveldb_free`; null if there is no such property.
#[unsafe(no_mangle)]
extern "C" fn leveldb_property_value(database: Option<&DatabaseHandle>, name: *const c_char) -> *mut c_char {
    property(database, name).map_or(ptr::null_mut(), malloc_c_string)
}

/// Stores the value of a numeric property. Returns 0 and does not touch `*value` if there is none
/// of that name.
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

/// Number of tables and bytes of one level, with the layout of `include/terrace/terrace.h`.
#[derive(Default)]
#[repr(C)]
pub(super) struct LevelSize {
    files: u64,
    bytes: u64,
}

/// Fills up to `count` items of `levels`. Returns the number of levels.
#[unsafe(no_mangle)]
extern "C" fn terrace_levels(
    database: Option<&DatabaseHandle>,
    levels: *mut LevelSize,
    count: usize,
) -> usize {
    let all_levels = run_or_default(|| database.map(|database| database.0.levels()).unwrap_or_default());
    // SAFETY: the caller passes null, or an array `levels` with room for `count` items.
    let levels = unsafe { output_array_from_c(levels, count) };
    for (level, out) in all_levels.iter().zip(levels) {
        let bytes = level.files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        out.write(LevelSize { files: level.files.len() as u64, bytes });
    }
    all_levels.len()
}

/// The sizes are 0 after an error, because the function cannot report one.
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
    // SAFETY: the caller passes null, or arrays `starts` and `start_lens` of `count` items each
    // that live through the call.
    let starts =
        unsafe { array_from_c(starts, count) }.iter().zip(unsafe { array_from_c(start_lens, count) });
    // SAFETY: the caller passes null, or arrays `limits` and `limit_lens` of `count` items each
    // that live through the call.
    let limits =
        unsafe { array_from_c(limits, count) }.iter().zip(unsafe { array_from_c(limit_lens, count) });
    // SAFETY: the caller passes null, or an array `sizes` with room for `count` items.
    let sizes = unsafe { output_array_from_c(sizes, count) };
    for ((start, limit), size) in starts.zip(limits).zip(sizes) {
        // SAFETY: each key is null, or has as many bytes as the length at the same index, which
        // live through the call.
        let start = unsafe { bytes_from_c(*start.0, *start.1) };
        // SAFETY: each limit is null, or has as many bytes as the length at the same index.
        let limit = unsafe { bytes_from_c(*limit.0, *limit.1) };
        let bytes = run_or_default(|| database?.0.approximate_sizes(&[(start, limit)]).ok()?.pop());
        size.write(bytes.unwrap_or(0));
    }
}

/// A null key means no bound.
#[unsafe(no_mangle)]
extern "C" fn leveldb_compact_range(
    database: Option<&DatabaseHandle>,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    // The function cannot report an error; the next write will return it.
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
    // SAFETY: the caller passes null, or a pointer `start` to `start_len` bytes that live through
    // the call.
    let start = unsafe { range_bound(start, start_len) };
    // SAFETY: the caller passes null, or a pointer `limit` to `limit_len` bytes that live through
    // the call.
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
    // SAFETY: the caller passes null, or a pointer `start` to `start_len` bytes that live through
    // the call.
    let start = unsafe { range_bound(start, start_len) };
    // SAFETY: the caller passes null, or a pointer `limit` to `limit_len` bytes that live through
    // the call.
    let limit = unsafe { range_bound(limit, limit_len) };
    let range =
        (start.map_or(Bound::Unbounded, Bound::Included), limit.map_or(Bound::Unbounded, Bound::Excluded));
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.delete_range::<&[u8]>(range)?));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_flush(database: Option<&DatabaseHandle>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.flush()?));
}
