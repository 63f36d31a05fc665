//! Snapshots: sequence numbers that somebody still reads at.

use std::collections::BTreeMap;
use std::fmt;

use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use crate::sync::{Arc, AtomicU64, Mutex, Ordering};

/// The state of a database at one moment. Reads through it see neither later writes nor later deletes.
///
/// Held, it keeps the versions that it sees from being merged away; dropping the last clone releases it. It may
/// outlive the database handle, and then keeps nothing.
///
/// ```
/// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
/// # let db = terrace::Db::open("cities", &options)?;
/// use terrace::ReadOptions;
///
/// let empty = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// assert_eq!(db.get_with(b"CH/Bern", &empty)?, None);
/// drop(empty); // from now on merges need not keep that moment
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<SnapshotInner>,
}

struct SnapshotInner {
    sequence: SequenceNumber,
    list: Arc<SnapshotList>,
}

impl Snapshot {
    /// The number of the last write that it sees.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot().sequence();
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert_eq!(db.snapshot().sequence(), before + 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn sequence(&self) -> SequenceNumber {
        self.inner.sequence
    }

    /// True if it was taken of the database that owns `list`.
    pub(crate) fn belongs_to(&self, list: &Arc<SnapshotList>) -> bool {
        Arc::ptr_eq(&self.inner.list, list)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.sequence())
    }
}

impl Drop for SnapshotInner {
    fn drop(&mut self) {
        self.list.release(self.sequence);
    }
}

/// The snapshots of one database, and how often each is held.
pub(crate) struct SnapshotList {
    counts_by_sequence: Mutex<BTreeMap<SequenceNumber, usize>>,
    /// The first of them, or the greatest number there is. Relaxed: a figure that nothing else depends on.
    approx_oldest: AtomicU64,
    /// Who waits until nobody reads below a number. A lock under which no other is taken.
    waiter: Mutex<Option<SnapshotWaiter>>,
}

/// Called with no lock held.
type ReleaseCallback = Box<dyn FnOnce() + Send>;

struct SnapshotWaiter {
    sequence: SequenceNumber,
    callback: ReleaseCallback,
}

impl Default for SnapshotList {
    fn default() -> SnapshotList {
        let first = AtomicU64::new(SequenceNumber::MAX);
        SnapshotList { counts_by_sequence: Mutex::default(), approx_oldest: first, waiter: Mutex::default() }
    }
}

impl SnapshotList {
    /// Takes a snapshot of everything that `visible` covers.
    pub(crate) fn new_snapshot(self: &Arc<Self>, visible: &AtomicU64) -> Snapshot {
        let early =
            if mutant!(SnapshotSequenceReadTooEarly) { Some(visible.load(Ordering::Acquire)) } else { None };
        let mut held = self.counts_by_sequence.lock();
        // Read under the lock: `oldest` can't slip between the reading and the registration, and so
        // never answers more than a snapshot that is about to appear.
        let sequence = early.unwrap_or_else(|| visible.load(Ordering::Acquire));
        *held.entry(sequence).or_default() += 1;
        self.update_approx_oldest(&held);
        Snapshot { inner: Arc::new(SnapshotInner { sequence, list: Arc::clone(self) }) }
    }

    /// The oldest sequence number that anybody may still read at, now or later.
    pub(crate) fn oldest(&self, visible: &AtomicU64) -> SequenceNumber {
        let held = self.counts_by_sequence.lock();
        held.keys().next().copied().unwrap_or_else(|| visible.load(Ordering::Acquire))
    }

    /// What `oldest` says, or said a moment ago: without a lock, for a choice that need not be right.
    pub(crate) fn approx_oldest(&self, visible: &AtomicU64) -> SequenceNumber {
        self.approx_oldest.load(Ordering::Relaxed).min(visible.load(Ordering::Relaxed))
    }

    /// Calls `wake` when a snapshot goes that was the last below `number`. Whoever waited before does so no longer. False if
    /// there is no such snapshot any more: then nobody is called.
    pub(crate) fn on_released_below(&self, number: SequenceNumber, wake: ReleaseCallback) -> bool {
        let mut waiting = self.waiter.lock();
        // A snapshot that goes is noted first, and then this lock is taken: either this sees it, or it sees this.
        let waits = self.approx_oldest.load(Ordering::Relaxed) < number;
        let before = std::mem::replace(
            &mut *waiting,
            waits.then_some(SnapshotWaiter { sequence: number, callback: wake }),
        );
        drop(waiting);
        // What it holds goes when the lock is free.
        drop(before);
        waits
    }

    /// Forgets who waits. A call that was begun goes on.
    pub(crate) fn clear_waiter(&self) {
        let before = self.waiter.lock().take();
        drop(before);
    }

    fn update_approx_oldest(&self, held: &BTreeMap<SequenceNumber, usize>) {
        self.approx_oldest
            .store(held.keys().next().copied().unwrap_or(SequenceNumber::MAX), Ordering::Relaxed);
    }

    /// Does `work`, during which nobody takes a snapshot; None if somebody holds one.
    pub(crate) fn if_empty<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let held = self.counts_by_sequence.lock();
        held.is_empty().then(work)
    }

    fn release(&self, sequence: SequenceNumber) {
        let mut held = self.counts_by_sequence.lock();
        if let Some(count) = held.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                held.remove(&sequence);
                self.update_approx_oldest(&held);
                drop(held);
                self.notify_waiter();
            }
        }
    }

    /// Calls who waits, if that has come.
    fn notify_waiter(&self) {
        let due = {
            let mut waiting = self.waiter.lock();
            let first = self.approx_oldest.load(Ordering::Relaxed);
            waiting.take_if(|waiting| waiting.sequence <= first)
        };
        if let Some(SnapshotWaiter { callback: wake, .. }) = due {
            wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_is_the_first_held_snapshot() {
        let list = Arc::new(SnapshotList::default());
        let visible = AtomicU64::new(5);
        assert_eq!(list.oldest(&visible), 5);
        let five = list.new_snapshot(&visible);
        let clone = five.clone();
        visible.store(9, Ordering::Release);
        let nine = list.new_snapshot(&visible);
        assert_eq!((five.sequence(), nine.sequence(), list.oldest(&visible)), (5, 9, 5));
        drop(five);
        assert_eq!(list.oldest(&visible), 5, "a clone still holds it");
        drop(clone);
        visible.store(12, Ordering::Release);
        assert_eq!(list.oldest(&visible), 9);
        assert_eq!(list.approx_oldest(&visible), 9);
        drop(nine);
        assert_eq!(list.approx_oldest(&visible), 12);
    }

    #[test]
    fn waiter_is_called_once_when_no_older_snapshot_is_left() {
        let list = Arc::new(SnapshotList::default());
        let called = Arc::new(AtomicU64::new(0));
        let wake = || {
            let called = Arc::clone(&called);
            Box::new(move || {
                called.fetch_add(1, Ordering::Relaxed);
            })
        };
        let calls = || called.load(Ordering::Relaxed);
        assert!(!list.on_released_below(7, wake()), "nobody reads");
        let [three, five, nine] = [3, 5, 9].map(|number| list.new_snapshot(&AtomicU64::new(number)));
        assert!(list.on_released_below(7, wake()));
        drop(five);
        assert_eq!(calls(), 0, "somebody reads at three");
        drop(three);
        assert_eq!(calls(), 1);
        assert!(!list.on_released_below(9, wake()), "nobody reads below nine");
        assert!(list.on_released_below(10, wake()));
        list.clear_waiter();
        drop(nine);
        assert_eq!((calls(), Arc::strong_count(&called)), (1, 1));
    }
}
