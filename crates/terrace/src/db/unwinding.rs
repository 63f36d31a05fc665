//! What a panic in somebody's comparator, filter or logger leaves behind: a database that refuses writes.
//!
//! Without this, a job that panics would leave everybody waiting for it, and a write that panics between the log and the
//! memtable would leave the next one to take its sequence numbers again.

use super::{Engine, State};
use crate::error::Error;

/// Ends a piece of work that panics as a failure that is final.
pub(super) struct Unwinding<'a> {
    engine: &'a Engine,
    clear: fn(&mut State),
}

impl<'a> Unwinding<'a> {
    /// For work on `engine`; `clear` takes back what others would wait for.
    pub(super) fn new(engine: &'a Engine, clear: fn(&mut State)) -> Unwinding<'a> {
        Unwinding { engine, clear }
    }
}

impl Unwinding<'_> {
    #[cold]
    fn end(&self) {
        (self.clear)(&mut self.engine.state.lock());
        self.engine.refuse(&panicked());
    }
}

/// What is told to those who waited for it.
pub(super) fn panicked() -> Error {
    Error::InvalidArgument("a comparator, filter or logger that panics".into())
}

impl Drop for Unwinding<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end();
        }
    }
}
