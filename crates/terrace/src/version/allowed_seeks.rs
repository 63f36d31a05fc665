//! How often look-ups may pass through a file in vain before it is worth merging it away.
//!
//! Who has counted against an allowance that is at its end is told so, and asks for a merge. What that merge costs is known
//! only then: if it costs more than was granted, more is granted first.

use crate::sync::{AtomicI64, Ordering};

/// Of one file. Relaxed: a figure that nothing else depends on.
pub(crate) struct AllowedSeeks {
    remaining: AtomicI64,
    /// In all.
    granted: AtomicI64,
}

impl AllowedSeeks {
    pub(crate) fn new(granted: i64) -> AllowedSeeks {
        AllowedSeeks { remaining: AtomicI64::new(granted), granted: AtomicI64::new(granted) }
    }

    /// Counts `by`; true if it has ended with that, or had ended. Said again each time: while another file waits for its
    /// merge, this one is forgotten.
    pub(crate) fn charge(&self, by: i64) -> bool {
        self.remaining.fetch_sub(by, Ordering::Relaxed) <= by
    }

    /// Grants `most` in all, unless as much was granted. True if that changes anything. One thread at a time.
    pub(crate) fn raise_to(&self, most: i64) -> bool {
        let more = most.saturating_sub(self.granted.load(Ordering::Relaxed)).max(0);
        self.granted.fetch_add(more, Ordering::Relaxed);
        self.remaining.fetch_add(more, Ordering::Relaxed);
        more > 0
    }

    /// Lets so many pass before anybody is told again.
    pub(crate) fn reset(&self, by: i64) {
        self.remaining.store(by, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn exhausted_when_all_granted_seeks_are_charged() {
        let allowance = AllowedSeeks::new(100);
        assert_eq!([64, 32, 4, 1].map(|by| allowance.charge(by)), [false, false, true, true]);
        assert!(!allowance.raise_to(100), "as much as there was");
        assert!(allowance.raise_to(150));
        assert_eq!([48, 1, 1].map(|by| allowance.charge(by)), [false, true, true], "one was spent too much");
        allowance.reset(16);
        assert_eq!([15, 1].map(|by| allowance.charge(by)), [false, true]);
    }
}
