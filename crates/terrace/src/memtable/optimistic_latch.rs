//! A latch that readers don't take: they look at its number before and after.
//!
//! ```text
//!   number   even: free     odd: taken     every taking makes it another
//!   reader   number ── reads ── the same number still: nothing changed in between
//!   writer   number ── looks ── takes it at that number ── changes ── frees it
//! ```
//!
//! What it guards are atomics that are stored with Release and loaded with Acquire. A reader that loads anything which a
//! writer stored has then seen the writer's taking of the latch too, and finds the number changed.

use terrace_sync::mutant;

use crate::sync::{AtomicU64, Ordering, spin_or_yield};

/// The number of a latch that was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LatchVersion(u64);

#[derive(Default)]
pub(super) struct OptimisticLatch {
    version: AtomicU64,
}

impl OptimisticLatch {
    /// The number, once the latch is free.
    pub(super) fn read_version(&self) -> LatchVersion {
        let mut turn = 0;
        loop {
            // Pairs with the Release of the last owner.
            let number = self.version.load(Ordering::Acquire);
            if number.is_multiple_of(2) {
                return LatchVersion(number);
            }
            spin_or_yield(&mut turn);
        }
    }

    /// True if nothing has changed since. Relaxed: loads that came before acquire, and so stay before.
    pub(super) fn validate(&self, seen: LatchVersion) -> bool {
        self.version.load(Ordering::Relaxed) == seen.0 || mutant!(LatchVersionNotValidated)
    }

    /// Takes the latch, if nothing has changed since.
    pub(super) fn try_lock_at(&self, seen: LatchVersion) -> Option<LatchGuard<'_>> {
        let taken =
            self.version.compare_exchange(seen.0, seen.0 + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Not `then_some`: one that is made is dropped, and frees the latch.
        taken.then(|| LatchGuard { latch: self, version: seen })
    }

    /// As [`OptimisticLatch::try_lock_at`], for the only thread that takes latches at present: nobody else can, so that no exchange is needed.
    /// Relaxed: what the owner stores then is stored with Release, and puts this before itself.
    pub(super) fn try_lock_at_exclusive(&self, seen: LatchVersion) -> Option<LatchGuard<'_>> {
        if self.version.load(Ordering::Relaxed) != seen.0 {
            return None;
        }
        self.version.store(seen.0 + 1, Ordering::Relaxed);
        Some(LatchGuard { latch: self, version: seen })
    }
}

/// A latch that is taken, until this is dropped.
pub(super) struct LatchGuard<'a> {
    latch: &'a OptimisticLatch,
    version: LatchVersion,
}

impl Drop for LatchGuard<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire of the next to see it.
        self.latch.version.store(self.version.0 + 2, Ordering::Release);
    }
}
