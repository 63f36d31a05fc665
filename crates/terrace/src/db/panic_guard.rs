//! What a panic in somebody's comparator, filter or logger leaves behind: a database that refuses writes.
//!
//! Without this, a job that panics would leave everybody waiting for it, and a write that panics between the log and the
//! memtable would leave the next one to take its sequence numbers again.

use super::components::background_error::panic_error;
use super::inner::{DbInner, DbState};

/// Ends a piece of work that panics as a failure that is final.
pub(super) struct PoisonOnPanic<'a> {
    inner: &'a DbInner,
    clean_up: fn(&mut DbState),
}

impl<'a> PoisonOnPanic<'a> {
    /// For work on `engine`; `clear` takes back what others would wait for.
    pub(super) fn new(engine: &'a DbInner, clear: fn(&mut DbState)) -> PoisonOnPanic<'a> {
        PoisonOnPanic { inner: engine, clean_up: clear }
    }
}

impl PoisonOnPanic<'_> {
    #[cold]
    fn poison(&self) {
        (self.clean_up)(&mut self.inner.state.lock());
        self.inner.set_background_error(&panic_error());
    }
}

impl Drop for PoisonOnPanic<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.poison();
        }
    }
}
