//! Guard for calls of the caller's comparator, filter policy or logger, which may panic.
//!
//! A job that panics would let its waiters wait forever. After a write that panics between the WAL
//! and the memtable, the next write would take the same sequence numbers. The guard therefore sets
//! the background error, so that the database refuses writes.

use super::components::background_error::panic_error;
use super::inner::{DbInner, DbState};

/// Moment after which a panic counts. A destructor may call the database while its thread unwinds
/// an earlier panic, which is not one of the call.
pub(super) struct PanicDetector {
    was_panicking: bool,
}

impl PanicDetector {
    #[inline]
    pub(super) fn new() -> PanicDetector {
        PanicDetector { was_panicking: std::thread::panicking() }
    }

    /// Returns true if this thread has begun to panic since the creation.
    #[inline]
    pub(super) fn has_panicked(&self) -> bool {
        std::thread::panicking() && !self.was_panicking
    }
}

/// Sets the background error if it is dropped by a panic.
pub(super) struct PoisonOnPanic<'a> {
    inner: &'a DbInner,
    clean_up: fn(&mut DbState),
    detector: PanicDetector,
}

impl<'a> PoisonOnPanic<'a> {
    /// Creates a guard. After a panic, `clean_up` resets the state that other threads wait for.
    pub(super) fn new(inner: &'a DbInner, clean_up: fn(&mut DbState)) -> PoisonOnPanic<'a> {
        PoisonOnPanic { inner, clean_up, detector: PanicDetector::new() }
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
        if self.detector.has_panicked() {
            self.poison();
        }
    }
}
