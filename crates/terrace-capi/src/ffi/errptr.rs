//! The last argument of a C function that can fail.
//!
//! `*errptr` is null or a text from `malloc` that an earlier call left; a failure replaces it, success leaves it alone.
//! A null `errptr` asks for no text.

use std::ffi::c_char;

use super::{StatusError, catch_panic, malloc_c_string};

/// Where the text of a failure goes.
pub type ErrPtr<'a> = Option<&'a mut *mut c_char>;

/// What `call` returns; if it fails or panics, the text goes to `errptr`.
#[inline]
pub fn run_with_errptr<T>(errptr: ErrPtr<'_>, call: impl FnOnce() -> Result<T, StatusError>) -> Option<T> {
    match catch_panic(call) {
        Ok(value) => Some(value),
        Err(failure) => {
            set_errptr(errptr, &failure);
            None
        }
    }
}

/// What `call` returns, where nobody can be told of a failure or a panic: then nothing, or zero.
#[inline]
pub fn run_or_default<T: Default>(call: impl FnOnce() -> T) -> T {
    catch_panic(|| Ok(call())).unwrap_or_default()
}

/// What a null pointer stood for is an error wherever there is room for one.
#[inline]
pub fn require_non_null<T>(handle: Option<T>) -> Result<T, StatusError> {
    handle.ok_or_else(|| StatusError::invalid_argument("a null pointer where an object is needed"))
}

#[cold]
fn set_errptr(errptr: ErrPtr<'_>, failure: &StatusError) {
    if let Some(text) = errptr {
        // SAFETY: null, or a text from an earlier call, which malloc made.
        unsafe { libc::free(text.cast()) };
        *text = malloc_c_string(failure.to_string());
    }
}
