//! Allowed seeks: the number of wasted probes that a file may cause before its compaction is worth
//! its cost.
//!
//! A reader that uses up the last allowed seek requests a read-triggered compaction. The cost of
//! the compaction is known only then. If it is greater than the granted number, the database grants
//! more seeks first.

use crate::sync::{AtomicI64, Ordering};

/// Allowed seeks of one file. Relaxed accesses suffice, because no other memory depends on the
/// counters.
pub(crate) struct AllowedSeeks {
    remaining: AtomicI64,
    /// Total number of granted seeks.
    granted: AtomicI64,
}

impl AllowedSeeks {
    /// Creates a counter with `granted` seeks.
    pub(crate) fn new(granted: i64) -> AllowedSeeks {
        AllowedSeeks { remaining: AtomicI64::new(granted), granted: AtomicI64::new(granted) }
    }

    /// Charges `seeks`. Returns true if none remain.
    ///
    /// It returns true again at every further call, because the database drops a request while
    /// another file waits for its compaction.
    pub(crate) fn charge(&self, seeks: i64) -> bool {
        self.remaining.fetch_sub(seeks, Ordering::Relaxed) <= seeks
    }

    /// Raises the total number of granted seeks to `total`. Returns true if it was lower. Only one
    /// thread at a time may call this method.
    pub(crate) fn raise_to(&self, total: i64) -> bool {
        let more = total.saturating_sub(self.granted.load(Ordering::Relaxed)).max(0);
        self.granted.fetch_add(more, Ordering::Relaxed);
        self.remaining.fetch_add(more, Ordering::Relaxed);
        more > 0
    }

    /// Sets the number of remaining seeks.
    pub(crate) fn reset(&self, remaining: i64) {
        self.remaining.store(remaining, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn exhausted_when_all_granted_seeks_are_charged() {
        let seeks = AllowedSeeks::new(100);
        assert_eq!([64, 32, 4, 1].map(|count| seeks.charge(count)), [false, false, true, true]);
        assert!(!seeks.raise_to(100), "already granted");
        assert!(seeks.raise_to(150));
        assert_eq!(
            [48, 1, 1].map(|count| seeks.charge(count)),
            [false, true, true],
            "one seek was charged too many"
        );
        seeks.reset(16);
        assert_eq!([15, 1].map(|count| seeks.charge(count)), [false, true]);
    }
}
