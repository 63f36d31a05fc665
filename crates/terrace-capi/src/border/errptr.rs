//! The last argument of a C function that can fail.
//!
//! `*errptr` is null or a text from `malloc` that an earlier call left; a failure replaces it, success leaves it alone.
//! A null `errptr` asks for no text.

use std::ffi::c_char;

use super::{Failure, guarded, malloced_string};

/// Where the text of a failure goes.
pub type ErrPtr<'a> = Option<&'a mut *mut c_char>;

/// What `call` returns; if it fails or panics, the text goes to `errptr`.
#[inline]
pub fn answered<T>(errptr: ErrPtr<'_>, call: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    match guarded(call) {
        Ok(value) => Some(value),
        Err(failure) => {
            report(errptr, &failure);
            None
        }
    }
}

/// What `call` returns, where nobody can be told of a failure or a panic: then nothing, or zero.
#[inline]
pub fn quietly<T: Default>(call: impl FnOnce() -> T) -> T {
    guarded(|| Ok(call())).unwrap_or_default()
}

/// What a null pointer stood for is an error wherever there is room for one.
#[inline]
pub fn given<T>(handle: Option<T>) -> Result<T, Failure> {
    handle.ok_or_else(|| Failure::invalid("a null pointer where an object is needed"))
}

#[cold]
fn report(errptr: ErrPtr<'_>, failure: &Failure) {
    if let Some(text) = errptr {
        // SAFETY: null, or a text from an earlier call, which malloc made.
        unsafe { libc::free(text.cast()) };
        *text = malloced_string(failure.to_string());
    }
}
