//! Which writes are visible: those up to a number, which rises in the order of the writes, whoever is done first.
//!
//! ```text
//!   numbers   .. 7 | 8 9 | 10 | 11 12 ..        8 9 and 11 12 are at work, 10 is done
//!   visible      7                              done: at 10, up to 10
//!   8 9 is done: visible is 9, then, since 10 is done too, 10
//! ```
//!
//! A write that is done when all before it are raises the number itself, and goes on over what is done behind it. Any
//! other leaves word in a ring, at the place of its first number, and waits until somebody has raised the number over
//! it: an instant, unless a thread was put aside in the middle of its work. So nobody needs to be woken for others to
//! proceed, but for those who wait for that thread.
//!
//! Why nothing is left lying: who leaves word then reads the number, and who raises the number then reads the word.
//! Reading and raising are exchanges of one atomic, so one of them comes first: either the reader sees the number raised,
//! and goes on itself, or the raiser sees what was done before that reading. It is the same with those who fall asleep.

use terrace_format::key::SequenceNumber;

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, spin_or_yield};

/// Writes may run ahead of the visible number by so many numbers.
const COMMIT_RING_SLOTS: u64 = if cfg!(feature = "loom") { 4 } else { 1024 };

/// How often a waiting writer looks before it sleeps: about a microsecond.
const VISIBILITY_SPINS: usize = if cfg!(feature = "loom") { 1 } else { 50 };

/// The visible number, and the writes ahead of it.
pub(crate) struct CommitPublisher {
    /// Raised in order, with Release; Acquire by every reader.
    visible_seqno: AtomicU64,
    /// At the first number of a write that is done, modulo its size: the last one. Anything else there is not above the
    /// visible number: what was done one round before is visible.
    completed_ring: Box<[AtomicU64]>,
    /// How many sleep, or are about to.
    sleeping_writers: AtomicUsize,
    /// True if some write will never be done.
    is_poisoned: Mutex<bool>,
    visible_advanced: Condvar,
}

impl CommitPublisher {
    pub(crate) fn new(visible: SequenceNumber) -> CommitPublisher {
        CommitPublisher {
            visible_seqno: AtomicU64::new(visible),
            completed_ring: (0..COMMIT_RING_SLOTS).map(|_| AtomicU64::new(0)).collect(),
            sleeping_writers: AtomicUsize::new(0),
            is_poisoned: Mutex::new(false),
            visible_advanced: Condvar::new(),
        }
    }

    /// The number up to which writes are visible.
    pub(crate) fn visible_seqno(&self) -> &AtomicU64 {
        &self.visible_seqno
    }

    /// Returns when a write may begin whose first number is `first`; false as [`CommitPublisher::wait_until_visible`].
    pub(crate) fn reserve_slot(&self, first: SequenceNumber) -> bool {
        self.wait_until_visible(first.saturating_sub(COMMIT_RING_SLOTS))
    }

    /// The write with the numbers from `first` to `last` is done. It becomes visible with the last one before it.
    pub(crate) fn publish(&self, first: SequenceNumber, last: SequenceNumber) {
        let mut visible = self.visible_seqno.load(Ordering::Acquire);
        if visible + 1 != first {
            // Pairs with the Acquire below.
            self.slot(first).store(last, Ordering::Release);
            visible = self.visible_seqno.fetch_add(0, Ordering::AcqRel);
        }
        loop {
            let next = visible + 1;
            let end = if next == first { last } else { self.slot(next).load(Ordering::Acquire) };
            if end <= visible {
                return; // the next one is still at work
            }
            match self.visible_seqno.compare_exchange(visible, end, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    visible = end;
                    self.notify_sleeping_writers();
                }
                Err(raised) => visible = raised,
            }
        }
    }

    /// True if all writes before `first` are visible, for who gives out the numbers, and has given out none from `first` on: until
    /// it does, the write that gets `first` is the only one. What the others did happened before this.
    #[inline]
    pub(crate) fn is_next(&self, first: SequenceNumber) -> bool {
        self.visible_seqno.load(Ordering::Acquire) + 1 == first
    }

    /// The only write is done, up to `last`: see [`CommitPublisher::is_next`]. No exchange: nobody else raises the number, and who waits for
    /// this one would have to know it.
    #[inline]
    pub(crate) fn publish_exclusive(&self, last: SequenceNumber) {
        self.visible_seqno.store(last, Ordering::Release);
    }

    /// True as soon as writes up to `number` are visible; false if they are not within about a microsecond.
    pub(crate) fn spin_until_visible(&self, number: SequenceNumber) -> bool {
        let mut turn = 0;
        for _ in 0..VISIBILITY_SPINS {
            if self.visible_seqno.load(Ordering::Acquire) >= number {
                return true;
            }
            spin_or_yield(&mut turn);
        }
        false
    }

    /// Returns when writes up to `number` are visible; false if they never will be.
    pub(crate) fn wait_until_visible(&self, number: SequenceNumber) -> bool {
        if self.spin_until_visible(number) {
            return true;
        }
        self.sleeping_writers.fetch_add(1, Ordering::Relaxed);
        let mut stopped = self.is_poisoned.lock();
        let is_visible = loop {
            if self.visible_seqno.fetch_add(0, Ordering::AcqRel) >= number {
                break true;
            } else if *stopped {
                break false;
            }
            self.visible_advanced.wait(&mut stopped);
        };
        self.sleeping_writers.fetch_sub(1, Ordering::Relaxed);
        is_visible
    }

    /// Some write that took its numbers will never be done: from it on nothing becomes visible.
    pub(crate) fn poison(&self) {
        *self.is_poisoned.lock() = true;
        self.visible_advanced.notify_all();
    }

    fn slot(&self, first: SequenceNumber) -> &AtomicU64 {
        &self.completed_ring[(first % COMMIT_RING_SLOTS) as usize]
    }

    /// Wakes who sleeps. Relaxed: whoever read the number before it was raised has counted itself before that.
    fn notify_sleeping_writers(&self) {
        if self.sleeping_writers.load(Ordering::Relaxed) > 0 {
            // Whoever has read it, and does not sleep yet, holds the lock until it does.
            drop(self.is_poisoned.lock());
            self.visible_advanced.notify_all();
        }
    }
}
