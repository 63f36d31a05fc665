//! Bytes that cross the border: borrowed on the way in, malloc'ed on the way out, for the caller to `free`.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of the caller; none if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to `len` bytes that live and stay as they are for `'a`.
#[inline]
pub unsafe fn bytes<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// A path of the caller; the empty one if `name` is null.
///
/// # Safety
///
/// `name` is null, or a string that ends in zero and lives and stays as it is for `'a`.
pub unsafe fn path<'a>(name: *const c_char) -> &'a Path {
    if name.is_null() {
        return Path::new("");
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// A copy of `bytes` from `malloc`, never null but when memory is out: no bytes are a block of their own too.
#[inline]
pub fn malloced(bytes: &[u8]) -> *mut c_char {
    // SAFETY: malloc takes every size; 0 may give null, so it is not asked for.
    let block = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    if !block.is_null() {
        // SAFETY: a fresh block of at least that many bytes.
        unsafe { block.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    block.cast()
}

/// A copy of `text` with a zero behind it, from `malloc`. Ends at the first zero inside.
pub fn malloced_string(text: &str) -> *mut c_char {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    malloced(&bytes)
}
