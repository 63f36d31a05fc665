//! Bytes that cross the border: borrowed on the way in, malloc'ed on the way out, for the caller to `free`.

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Room of the caller for a result, or null.
pub type OutParam<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Leaves `value` in the caller's room, if there is any.
#[inline]
pub fn write_out_param<T>(room: OutParam<'_, T>, value: T) {
    if let Some(room) = room {
        room.write(value);
    }
}

/// Bytes of the caller; none if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to `len` bytes that live and stay as they are for `'a`.
#[inline]
pub unsafe fn bytes_from_c<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { array_from_c(start.cast(), len) }
}

/// An array of the caller; an empty one if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to `count` items that live and stay as they are for `'a`.
#[inline]
pub unsafe fn array_from_c<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// Room of the caller for results; none if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to room for `count` items that nobody else touches for `'a`.
pub unsafe fn output_array_from_c<'a, T>(start: *mut T, count: usize) -> &'a mut [MaybeUninit<T>] {
    if start.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), count) }
}

/// A path of the caller; the empty one if `name` is null.
///
/// # Safety
///
/// `name` is null, or a string that ends in zero and lives and stays as it is for `'a`.
pub unsafe fn path_from_c<'a>(name: *const c_char) -> &'a Path {
    if name.is_null() {
        return Path::new("");
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// A copy of `bytes` from `malloc`, never null but when memory is out: no bytes are a block of their own too.
#[inline]
pub fn malloc_bytes(bytes: &[u8]) -> *mut c_char {
    // SAFETY: malloc takes every size; 0 may give null, so it is not asked for.
    let block = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    if !block.is_null() {
        // SAFETY: a fresh block of at least that many bytes.
        unsafe { block.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    block.cast()
}

/// `value` itself, which is in a block from `malloc` already: see `malloc.rs`. As [`malloced`], never null.
#[inline]
pub fn malloc_value(value: Vec<u8>) -> *mut c_char {
    if value.capacity() == 0 {
        return malloc_bytes(&[]);
    }
    value.leak().as_mut_ptr().cast()
}

/// A copy of `text` with a zero behind it, from `malloc`. Its reader sees it end at the first zero inside.
pub fn malloc_c_string(text: impl AsRef<[u8]>) -> *mut c_char {
    malloc_bytes(&[text.as_ref(), &[0]].concat())
}
