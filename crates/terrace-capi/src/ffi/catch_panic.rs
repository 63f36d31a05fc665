//! Panics stop here.
//!
//! Unwinding into a caller that is not Rust is undefined. The engine promises not to panic on what files say; a
//! caller's comparator, logger or filter that is Rust itself may, and so may a fault that nobody knows yet. The caller
//! then sees an error, as of a file that failed, and goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace::ErrorKind;

use super::StatusError;

/// What `call` returns; a failure if it panics.
///
/// The engine refuses writes after a panic that left a database in doubt, so nothing torn is seen through this.
#[inline]
pub fn catch_panic<T>(call: impl FnOnce() -> Result<T, StatusError>) -> Result<T, StatusError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(StatusError { kind: ErrorKind::Io, message: format!("a fault inside: {what}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let failure = catch_panic(|| -> Result<(), StatusError> { panic!("at entry {}", 7) }).unwrap_err();
        assert_eq!(failure.to_string(), "IO error: a fault inside: at entry 7");
    }

    #[test]
    fn results_are_passed_through() {
        assert_eq!(catch_panic(|| Ok(7)).unwrap(), 7);
        assert!(catch_panic(|| Err::<(), _>(StatusError::invalid_argument("a"))).is_err());
    }
}
