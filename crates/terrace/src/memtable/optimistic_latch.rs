//! Latch of a tree node. Readers validate its version instead of locking the node (optimistic lock
//! coupling, Leis et al. 2016).
//!
//! ```text
//!   version  even: free     odd: locked     every lock changes it
//!   reader   read version ── read fields ── validate: the same version, so nothing changed
//!   writer   read version ── read fields ── lock at that version ── change fields ── unlock
//! ```
//!
//! The latch protects atomics that writers store with Release and readers load with Acquire. A
//! reader that loads a value of a writer also sees that the writer locked the latch, and finds
//! another version.

use terrace_sync::mutant;

use crate::sync::{AtomicU64, Ordering, spin_or_yield};

/// Version of a free latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LatchVersion(u64);

#[derive(Default)]
pub(super) struct OptimisticLatch {
    version: AtomicU64,
}

impl OptimisticLatch {
    /// Waits until the latch is free and returns its version.
    pub(super) fn read_version(&self) -> LatchVersion {
        let mut turn = 0;
        loop {
            // Pairs with the Release store in `LatchGuard::drop`.
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                return LatchVersion(version);
            }
            spin_or_yield(&mut turn);
        }
    }

    /// Returns true if the node has not changed since `version`. Relaxed: the preceding loads of
    /// the fields are Acquire loads, so this load stays after them.
    pub(super) fn validate(&self, version: LatchVersion) -> bool {
        self.version.load(Ordering::Relaxed) == version.0 || mutant!(LatchVersionNotValidated)
    }

    /// Locks the latch if the node has not changed since `version`.
    pub(super) fn try_lock_at(&self, version: LatchVersion) -> Option<LatchGuard<'_>> {
        // The Acquire pairs with the Release store in `LatchGuard::drop`.
        let is_locked = self
            .version
            .compare_exchange(version.0, version.0 + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        // `then_some` would create and drop a guard, which unlocks the latch.
        is_locked.then(|| LatchGuard { latch: self, version })
    }

    /// Locks the latch like [`OptimisticLatch::try_lock_at`], without a compare-exchange.
    ///
    /// The caller must be the only thread that locks latches of this memtable. Relaxed: the owner
    /// stores fields with Release, which orders this store before them.
    pub(super) fn try_lock_at_exclusive(&self, version: LatchVersion) -> Option<LatchGuard<'_>> {
        if self.version.load(Ordering::Relaxed) != version.0 {
            return None;
        }
        self.version.store(version.0 + 1, Ordering::Relaxed);
        Some(LatchGuard { latch: self, version })
    }
}

/// Guard of a locked latch. Its drop unlocks the latch.
pub(super) struct LatchGuard<'a> {
    latch: &'a OptimisticLatch,
    version: LatchVersion,
}

impl Drop for LatchGuard<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire operations of `read_version` and `try_lock_at`.
        self.latch.version.store(self.version.0 + 2, Ordering::Release);
    }
}
