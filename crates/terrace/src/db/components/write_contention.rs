//! Hints whether writers meet.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// So many writes go side by side behind one that met another: to try whether it is alone costs a crowd more than it saves.
const CONCURRENT_WRITES_AFTER_CONTENTION: usize = 256;

/// Whether writers meet. Hints, all Relaxed: either way of writing is right at any time.
#[derive(Default)]
pub(crate) struct WriteContention {
    /// True while somebody writes who takes himself for alone.
    pub(crate) has_exclusive_writer: AtomicBool,
    /// So many more writes go side by side. Changed by who has the lock, but for its beginning.
    concurrent_writes_left: AtomicUsize,
}

impl WriteContention {
    /// Somebody wants to write.
    #[inline]
    pub(crate) fn arrive(&self) {
        if self.has_exclusive_writer.load(Ordering::Relaxed) {
            self.record_contention();
        }
    }

    pub(crate) fn record_contention(&self) {
        self.concurrent_writes_left.store(CONCURRENT_WRITES_AFTER_CONTENTION, Ordering::Relaxed);
    }

    /// True if a write may try whether it is alone.
    #[inline]
    pub(crate) fn try_exclusive(&self) -> bool {
        let left = self.concurrent_writes_left.load(Ordering::Relaxed);
        if left > 0 {
            self.concurrent_writes_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }
}
