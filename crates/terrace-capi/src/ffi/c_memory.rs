//! Memory that crosses the interface: borrowed arguments, and `malloc`ed results that the caller
//! frees.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::Path;

use super::StatusError;

/// Memory of the caller that receives a result, or null.
pub type OutParam<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Stores `value` in the memory of the caller, unless it is null.
#[inline]
pub fn write_out_param<T>(out: OutParam<'_, T>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

/// Returns the bytes of a caller; none if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to `len` bytes that live and do not change during `'a`.
#[inline]
pub unsafe fn bytes_from_c<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { array_from_c(start.cast(), len) }
}

/// Returns an array of the caller; an empty one if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to `count` items that live and do not change during `'a`.
#[inline]
pub unsafe fn array_from_c<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// Returns memory of the caller for results; none if `start` is null.
///
/// # Safety
///
/// `start` is null, or points to memory for `count` items that nothing else accesses during `'a`.
pub unsafe fn output_array_from_c<'a, T>(start: *mut T, count: usize) -> &'a mut [MaybeUninit<T>] {
    if start.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), count) }
}

/// Returns a path of the caller; the empty path if `name` is null, or no path of the system: names
/// of Windows are UTF-8 here.
///
/// # Safety
///
/// `name` is null, or a NUL-terminated string that lives and does not change during `'a`.
pub unsafe fn path_from_c<'a>(name: *const c_char) -> &'a Path {
    if name.is_null() {
        return Path::new("");
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    terrace_env::path_from_bytes(name.to_bytes()).unwrap_or(Path::new(""))
}

/// Copies the bytes of a caller. Memory that the system refuses is an error.
pub fn try_copy(bytes: &[u8]) -> Result<Vec<u8>, StatusError> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| StatusError::out_of_memory(bytes.len()))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Returns a `malloc`ed copy of `bytes`; null only if memory is exhausted. An empty slice gets a
/// block of its own too.
#[inline]
pub fn malloc_bytes(bytes: &[u8]) -> *mut c_char {
    // SAFETY: `malloc` accepts every size. Size 0 could return null, so at least one byte is
    // requested.
    let block = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    if !block.is_null() {
        // SAFETY: `block` is a new block of at least `bytes.len()` bytes, so the two do not
        // overlap.
        unsafe { block.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    block.cast()
}

/// Returns the memory of `value` without a copy: it comes from `malloc`, see `global_allocator.rs`.
/// Like [`malloc_bytes`], never null for an empty value.
#[inline]
pub fn malloc_value(value: Vec<u8>) -> *mut c_char {
    if value.capacity() == 0 {
        return malloc_bytes(&[]);
    }
    value.leak().as_mut_ptr().cast()
}

/// Returns a `malloc`ed, NUL-terminated copy of `text`. C code sees the text up to its first zero
/// byte.
pub fn malloc_c_string(text: impl AsRef<[u8]>) -> *mut c_char {
    malloc_bytes(&[text.as_ref(), &[0]].concat())
}
