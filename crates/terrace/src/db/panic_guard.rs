//! Guard for calls of the caller's comparator, filter policy or logger, which may panic.
//!
//! A job that panics would let its waiters wait forever. After a write that panics between the WAL
//! and the memtable, the next write would take the same sequence numbers. The guard therefore sets
//! the background error, so that the database refuses writes.

use super::components::background_error::panic_error;
use super::inner::{DbInner, DbState};

/// Sets the background error if it is dropped by a panic.
pub(super) struct PoisonOnPanic<'a> {
    inner: &'a DbInner,
    clean_up: fn(&mut DbState),
}

impl<'a> PoisonOnPanic<'a> {
    /// Creates a guard. After a panic, `clean_up` resets the state that other threads wait for.
    pub(super) fn new(inner: &'a DbInner, clean_up: fn(&mut DbState)) -> PoisonOnPanic<'a> {
        PoisonOnPanic { inner, clean_up }
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
