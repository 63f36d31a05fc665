//! Panics stop here.
//!
//! Unwinding into a caller that is not Rust is undefined. The engine promises not to panic on what files say; a
//! caller's comparator, logger or filter that is Rust itself may, and so may a fault that nobody knows yet. The caller
//! then sees an error, as of a file that failed, and goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace::ErrorKind;

use super::Failure;

/// What `call` returns; a failure if it panics.
///
/// The engine refuses writes after a panic that left a database in doubt, so nothing torn is seen through this.
#[inline]
pub fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Failure { kind: ErrorKind::Io, what: format!("a fault inside: {what}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let failure = guarded(|| -> Result<(), Failure> { panic!("at entry {}", 7) }).unwrap_err();
        assert_eq!(failure.to_string(), "IO error: a fault inside: at entry 7");
    }

    #[test]
    fn what_is_returned_passes() {
        assert_eq!(guarded(|| Ok(7)).unwrap(), 7);
        assert!(guarded(|| Err::<(), _>(Failure::invalid("a"))).is_err());
    }
}
