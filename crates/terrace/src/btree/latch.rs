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

use crate::sync::{AtomicU64, Ordering, relax};

/// The number of a latch that was free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen(u64);

#[derive(Default)]
pub(super) struct Latch {
    number: AtomicU64,
}

impl Latch {
    /// The number, once the latch is free.
    pub(super) fn seen(&self) -> Seen {
        let mut turn = 0;
        loop {
            // Pairs with the Release of the last owner.
            let number = self.number.load(Ordering::Acquire);
            if number.is_multiple_of(2) {
                return Seen(number);
            }
            relax(&mut turn);
        }
    }

    /// True if nothing has changed since. Relaxed: loads that came before acquire, and so stay before.
    pub(super) fn is_still(&self, seen: Seen) -> bool {
        self.number.load(Ordering::Relaxed) == seen.0 || mutant!(LatchVersionNotValidated)
    }

    /// Takes the latch, if nothing has changed since.
    pub(super) fn take(&self, seen: Seen) -> Option<Taken<'_>> {
        let taken =
            self.number.compare_exchange(seen.0, seen.0 + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Not `then_some`: one that is made is dropped, and frees the latch.
        taken.then(|| Taken { latch: self, seen })
    }

    /// As [`Latch::take`], for the only thread that takes latches at present: nobody else can, so that no exchange is needed.
    /// Relaxed: what the owner stores then is stored with Release, and puts this before itself.
    pub(super) fn take_alone(&self, seen: Seen) -> Option<Taken<'_>> {
        if self.number.load(Ordering::Relaxed) != seen.0 {
            return None;
        }
        self.number.store(seen.0 + 1, Ordering::Relaxed);
        Some(Taken { latch: self, seen })
    }
}

/// A latch that is taken, until this is dropped.
pub(super) struct Taken<'a> {
    latch: &'a Latch,
    seen: Seen,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire of the next to see it.
        self.latch.number.store(self.seen.0 + 2, Ordering::Release);
    }
}
