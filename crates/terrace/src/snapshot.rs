//! Snapshots: sequence numbers that somebody still reads at.

use std::collections::BTreeMap;
use std::fmt;

use terrace_format::key::Sequence;
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
    held: Arc<Held>,
}

struct Held {
    sequence: Sequence,
    list: Arc<Snapshots>,
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
    pub fn sequence(&self) -> Sequence {
        self.held.sequence
    }

    /// True if it was taken of the database that owns `list`.
    pub(crate) fn belongs_to(&self, list: &Arc<Snapshots>) -> bool {
        Arc::ptr_eq(&self.held.list, list)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.sequence())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.list.release(self.sequence);
    }
}

/// The snapshots of one database, and how often each is held.
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Sequence, usize>>,
    /// The first of them, or the greatest number there is. Relaxed: a figure that nothing else depends on.
    first: AtomicU64,
    /// Who waits until nobody reads below a number. A lock under which no other is taken.
    waiting: Mutex<Option<Waiting>>,
}

/// Called with no lock held.
type Wake = Box<dyn FnOnce() + Send>;

struct Waiting {
    number: Sequence,
    wake: Wake,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        let first = AtomicU64::new(Sequence::MAX);
        Snapshots { held: Mutex::default(), first, waiting: Mutex::default() }
    }
}

impl Snapshots {
    /// Takes a snapshot of everything that `visible` covers.
    pub(crate) fn take(self: &Arc<Self>, visible: &AtomicU64) -> Snapshot {
        let early =
            if mutant!(SnapshotSequenceReadTooEarly) { Some(visible.load(Ordering::Acquire)) } else { None };
        let mut held = self.held.lock();
        // Read under the lock: `oldest` can't slip between the reading and the registration, and so
        // never answers more than a snapshot that is about to appear.
        let sequence = early.unwrap_or_else(|| visible.load(Ordering::Acquire));
        *held.entry(sequence).or_default() += 1;
        self.note_first(&held);
        Snapshot { held: Arc::new(Held { sequence, list: Arc::clone(self) }) }
    }

    /// The oldest sequence number that anybody may still read at, now or later.
    pub(crate) fn oldest(&self, visible: &AtomicU64) -> Sequence {
        let held = self.held.lock();
        held.keys().next().copied().unwrap_or_else(|| visible.load(Ordering::Acquire))
    }

    /// What `oldest` says, or said a moment ago: without a lock, for a choice that need not be right.
    pub(crate) fn oldest_or_so(&self, visible: &AtomicU64) -> Sequence {
        self.first.load(Ordering::Relaxed).min(visible.load(Ordering::Relaxed))
    }

    /// Calls `wake` when a snapshot goes that was the last below `number`. Whoever waited before does so no longer. False if
    /// there is no such snapshot any more: then nobody is called.
    pub(crate) fn wake_at(&self, number: Sequence, wake: Wake) -> bool {
        let mut waiting = self.waiting.lock();
        // A snapshot that goes is noted first, and then this lock is taken: either this sees it, or it sees this.
        let waits = self.first.load(Ordering::Relaxed) < number;
        let before = std::mem::replace(&mut *waiting, waits.then_some(Waiting { number, wake }));
        drop(waiting);
        // What it holds goes when the lock is free.
        drop(before);
        waits
    }

    /// Forgets who waits. A call that was begun goes on.
    pub(crate) fn wake_nobody(&self) {
        let before = self.waiting.lock().take();
        drop(before);
    }

    fn note_first(&self, held: &BTreeMap<Sequence, usize>) {
        self.first.store(held.keys().next().copied().unwrap_or(Sequence::MAX), Ordering::Relaxed);
    }

    /// Does `work`, during which nobody takes a snapshot; None if somebody holds one.
    pub(crate) fn while_none<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let held = self.held.lock();
        held.is_empty().then(work)
    }

    fn release(&self, sequence: Sequence) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                held.remove(&sequence);
                self.note_first(&held);
                drop(held);
                self.wake();
            }
        }
    }

    /// Calls who waits, if that has come.
    fn wake(&self) {
        let due = {
            let mut waiting = self.waiting.lock();
            let first = self.first.load(Ordering::Relaxed);
            waiting.take_if(|waiting| waiting.number <= first)
        };
        if let Some(Waiting { wake, .. }) = due {
            wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_first_still_held() {
        let list = Arc::new(Snapshots::default());
        let visible = AtomicU64::new(5);
        assert_eq!(list.oldest(&visible), 5);
        let five = list.take(&visible);
        let clone = five.clone();
        visible.store(9, Ordering::Release);
        let nine = list.take(&visible);
        assert_eq!((five.sequence(), nine.sequence(), list.oldest(&visible)), (5, 9, 5));
        drop(five);
        assert_eq!(list.oldest(&visible), 5, "a clone still holds it");
        drop(clone);
        visible.store(12, Ordering::Release);
        assert_eq!(list.oldest(&visible), 9);
        assert_eq!(list.oldest_or_so(&visible), 9);
        drop(nine);
        assert_eq!(list.oldest_or_so(&visible), 12);
    }

    #[test]
    fn who_waits_is_called_once_when_nobody_reads_below() {
        let list = Arc::new(Snapshots::default());
        let called = Arc::new(AtomicU64::new(0));
        let wake = || {
            let called = Arc::clone(&called);
            Box::new(move || {
                called.fetch_add(1, Ordering::Relaxed);
            })
        };
        let calls = || called.load(Ordering::Relaxed);
        assert!(!list.wake_at(7, wake()), "nobody reads");
        let [three, five, nine] = [3, 5, 9].map(|number| list.take(&AtomicU64::new(number)));
        assert!(list.wake_at(7, wake()));
        drop(five);
        assert_eq!(calls(), 0, "somebody reads at three");
        drop(three);
        assert_eq!(calls(), 1);
        assert!(!list.wake_at(9, wake()), "nobody reads below nine");
        assert!(list.wake_at(10, wake()));
        list.wake_nobody();
        drop(nine);
        assert_eq!((calls(), Arc::strong_count(&called)), (1, 1));
    }
}
