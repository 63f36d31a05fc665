//! Hints whether several threads write at the same time.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// Number of concurrent writes after contention, before a write tries the exclusive insert again.
/// Each attempt costs concurrent writers more than it saves.
const CONCURRENT_WRITES_AFTER_CONTENTION: usize = 256;

/// Hints about contention. All accesses are Relaxed: both kinds of insert are correct at any time.
#[derive(Default)]
pub(crate) struct WriteContention {
    /// True while an exclusive writer inserts.
    pub(crate) has_exclusive_writer: AtomicBool,
    /// Number of writes that will not try the exclusive insert. Changed under `DbInner::commit`,
    /// except by `arrive`.
    concurrent_writes_left: AtomicUsize,
}

impl WriteContention {
    /// Announces a writer, before it takes `DbInner::commit`.
    #[inline]
    pub(crate) fn arrive(&self) {
        if self.has_exclusive_writer.load(Ordering::Relaxed) {
            self.record_contention();
        }
    }

    pub(crate) fn record_contention(&self) {
        self.concurrent_writes_left.store(CONCURRENT_WRITES_AFTER_CONTENTION, Ordering::Relaxed);
    }

    /// Returns true if another thread has written at the same time, within the last writes.
    #[inline]
    pub(crate) fn is_contended(&self) -> bool {
        self.concurrent_writes_left.load(Ordering::Relaxed) > 0
    }

    /// Returns true if a write may try the exclusive insert.
    #[inline]
    pub(crate) fn try_exclusive(&self) -> bool {
        let left = self.concurrent_writes_left.load(Ordering::Relaxed);
        if left > 0 {
            self.concurrent_writes_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }
}
