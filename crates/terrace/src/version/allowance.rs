//! How often look-ups may pass through a file in vain before it is worth merging it away.
//!
//! Who has counted against an allowance that is at its end is told so, and asks for a merge. What that merge costs is known
//! only then: if it costs more than was granted, more is granted first.

use crate::sync::{AtomicI64, Ordering};

/// Of one file. Relaxed: a figure that nothing else depends on.
pub(crate) struct Allowance {
    left: AtomicI64,
    /// In all.
    granted: AtomicI64,
}

impl Allowance {
    pub(crate) fn new(granted: i64) -> Allowance {
        Allowance { left: AtomicI64::new(granted), granted: AtomicI64::new(granted) }
    }

    /// Counts `by`; true if it has ended with that, or had ended. Said again each time: while another file waits for its
    /// merge, this one is forgotten.
    pub(crate) fn spend(&self, by: i64) -> bool {
        self.left.fetch_sub(by, Ordering::Relaxed) <= by
    }

    /// Grants `most` in all, unless as much was granted. True if that changes anything. One thread at a time.
    pub(crate) fn grant(&self, most: i64) -> bool {
        let more = most.saturating_sub(self.granted.load(Ordering::Relaxed)).max(0);
        self.granted.fetch_add(more, Ordering::Relaxed);
        self.left.fetch_add(more, Ordering::Relaxed);
        more > 0
    }

    /// Lets so many pass before anybody is told again.
    pub(crate) fn put_off(&self, by: i64) {
        self.left.store(by, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn ends_when_all_that_was_granted_is_spent() {
        let allowance = Allowance::new(100);
        assert_eq!([64, 32, 4, 1].map(|by| allowance.spend(by)), [false, false, true, true]);
        assert!(!allowance.grant(100), "as much as there was");
        assert!(allowance.grant(150));
        assert_eq!([48, 1, 1].map(|by| allowance.spend(by)), [false, true, true], "one was spent too much");
        allowance.put_off(16);
        assert_eq!([15, 1].map(|by| allowance.spend(by)), [false, true]);
    }
}
