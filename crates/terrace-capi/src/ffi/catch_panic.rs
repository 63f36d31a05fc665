//! Conversion of panics to errors.
//!
//! Unwinding into C or C++ code is undefined behaviour. The engine does not panic because of file
//! contents. A Rust comparator, logger or filter may panic, and so may an unknown bug. The caller
//! then gets an I/O error and can continue.

use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace::ErrorKind;

use super::StatusError;

/// Returns the result of `call`; an error if it panics.
///
/// After a panic that leaves a database in doubt the engine rejects all writes, so no later call
/// sees a half-made change.
#[inline]
pub fn catch_panic<T>(call: impl FnOnce() -> Result<T, StatusError>) -> Result<T, StatusError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(StatusError { kind: ErrorKind::Io, message: format!("internal error: {message}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let error = catch_panic(|| -> Result<(), StatusError> { panic!("at entry {}", 7) }).unwrap_err();
        assert_eq!(error.to_string(), "IO error: internal error: at entry 7");
    }

    #[test]
    fn results_are_passed_through() {
        assert_eq!(catch_panic(|| Ok(7)).unwrap(), 7);
        assert!(catch_panic(|| Err::<(), _>(StatusError::invalid_argument("a"))).is_err());
    }
}
