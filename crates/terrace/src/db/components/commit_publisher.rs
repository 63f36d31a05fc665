//! Publication of writes in the order of their sequence numbers.
//!
//! ```text
//!   sequence numbers   .. 7 | 8 9 | 10 | 11 12 ..  8 9, 11 12 are being inserted, 10 is complete
//!   visible                7                         complete: the ring has 10 at slot 10
//!   8 9 completes: visible becomes 9 and then, because 10 is complete, 10
//! ```
//!
//! A write that completes after all earlier writes advances the visible sequence number itself, and
//! continues over all completed writes that follow. Any other write stores its last sequence number
//! in a ring, at the slot of its first one. Then it waits until another thread has advanced the
//! visible sequence number over it. That takes an instant, unless the scheduler has interrupted an
//! earlier writer. So writers sleep only if they wait for an interrupted thread.
//!
//! No completed write is missed. A writer that stores in the ring reads the visible sequence number
//! afterwards. A writer that advances the visible sequence number reads the ring afterwards. Both
//! accesses to the visible sequence number are read-modify-write operations of one atomic, so one
//! of them is first. Either the storing writer sees the advanced number and continues itself, or
//! the advancing writer sees the slot. The same argument holds for writers that fall asleep.

use terrace_format::key::SequenceNumber;

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, spin_or_yield};

/// Maximum distance of a running write from the visible sequence number.
const COMMIT_RING_SLOTS: u64 = if cfg!(feature = "loom") { 4 } else { 1024 };

/// Number of loads before a waiting writer sleeps, about a microsecond.
const VISIBILITY_SPINS: usize = if cfg!(feature = "loom") { 1 } else { 50 };

/// Visible sequence number and the completed writes after it.
pub(crate) struct CommitPublisher {
    /// Advanced in order with Release. Pairs with the Acquire load of each reader.
    visible_seqno: AtomicU64,
    /// Last sequence number of each completed write, at the slot of its first one modulo the ring
    /// size. Older values in a slot are never above the visible sequence number, because the writes
    /// of the previous round are visible.
    completed_ring: Box<[AtomicU64]>,
    /// Number of writers that sleep or are about to.
    sleeping_writers: AtomicUsize,
    /// True if a write will never complete.
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

    /// Sequence number up to which writes are visible.
    pub(crate) fn visible_seqno(&self) -> &AtomicU64 {
        &self.visible_seqno
    }

    /// Waits until a write with the first sequence number `first` may start. Returns false as
    /// [`CommitPublisher::wait_until_visible`] does.
    pub(crate) fn reserve_slot(&self, first: SequenceNumber) -> bool {
        self.wait_until_visible(first.saturating_sub(COMMIT_RING_SLOTS))
    }

    /// Records that the write from `first` to `last` is complete. It becomes visible together with
    /// the last write before it.
    pub(crate) fn publish(&self, first: SequenceNumber, last: SequenceNumber) {
        let mut visible = self.visible_seqno.load(Ordering::Acquire);
        if visible + 1 != first {
            // Pairs with the Acquire load of the slot in this function.
            self.slot(first).store(last, Ordering::Release);
            visible = self.visible_seqno.fetch_add(0, Ordering::AcqRel);
        }
        loop {
            let next = visible + 1;
            let end = if next == first { last } else { self.slot(next).load(Ordering::Acquire) };
            if end <= visible {
                return; // the next write is not complete
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

    /// Returns true if all writes before `first` are visible. The caller assigns sequence numbers
    /// and has assigned none from `first` on. Until it does, the write that gets `first` is the
    /// only one. All earlier writes happened before this call.
    #[inline]
    pub(crate) fn is_next(&self, first: SequenceNumber) -> bool {
        self.visible_seqno.load(Ordering::Acquire) + 1 == first
    }

    /// Records that the exclusive write up to `last` is complete: see [`CommitPublisher::is_next`].
    /// A plain store suffices: no other thread advances the number, and no other writer waits.
    #[inline]
    pub(crate) fn publish_exclusive(&self, last: SequenceNumber) {
        self.visible_seqno.store(last, Ordering::Release);
    }

    /// Returns true if writes up to `number` become visible within about a microsecond.
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

    /// Waits until writes up to `number` are visible. Returns false if they never will be.
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

    /// Records that a write with sequence numbers will never complete. No later write becomes
    /// visible.
    pub(crate) fn poison(&self) {
        *self.is_poisoned.lock() = true;
        self.visible_advanced.notify_all();
    }

    fn slot(&self, first: SequenceNumber) -> &AtomicU64 {
        &self.completed_ring[(first % COMMIT_RING_SLOTS) as usize]
    }

    /// Wakes the sleeping writers. Relaxed: a writer that read the old number has counted itself
    /// before its read.
    fn notify_sleeping_writers(&self) {
        if self.sleeping_writers.load(Ordering::Relaxed) > 0 {
            // A writer that has read the old number, and does not sleep yet, holds this lock until
            // it does.
            drop(self.is_poisoned.lock());
            self.visible_advanced.notify_all();
        }
    }
}
