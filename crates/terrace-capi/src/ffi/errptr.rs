//! The `errptr` argument of C functions that can fail.
//!
//! `*errptr` is null or a `malloc`ed text that an earlier call left. A failure frees and replaces
//! it; a success does not touch it. With a null `errptr` no text is stored.

use std::ffi::c_char;

use super::{StatusError, catch_panic, malloc_c_string};

/// Receives the text of an error.
pub type ErrPtr<'a> = Option<&'a mut *mut c_char>;

/// Returns the result of `call`. If `call` fails or panics, stores the text in `errptr` and returns
/// None.
#[inline]
pub fn run_with_errptr<T>(errptr: ErrPtr<'_>, call: impl FnOnce() -> Result<T, StatusError>) -> Option<T> {
    match catch_panic(call) {
        Ok(value) => Some(value),
        Err(error) => {
            set_errptr(errptr, &error);
            None
        }
    }
}

/// Returns the result of `call`, or the default value if it panics. For functions that cannot
/// report an error.
#[inline]
pub fn run_or_default<T: Default>(call: impl FnOnce() -> T) -> T {
    catch_panic(|| Ok(call())).unwrap_or_default()
}

/// Returns the object of `handle`; an error if the caller passed a null pointer.
#[inline]
pub fn require_non_null<T>(handle: Option<T>) -> Result<T, StatusError> {
    handle.ok_or_else(|| StatusError::invalid_argument("null pointer passed for a required object"))
}

#[cold]
fn set_errptr(errptr: ErrPtr<'_>, error: &StatusError) {
    if let Some(text) = errptr {
        // SAFETY: by the contract, `*errptr` is null or a text that an earlier call stored, and
        // those come from `malloc`.
        unsafe { libc::free(text.cast()) };
        *text = malloc_c_string(error.to_string());
    }
}
