//! Snapshots: sequence numbers that the database keeps readable.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

use terrace_env::ProcessToken;
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};

/// State of a database at one moment. Reads with the snapshot see no later write.
///
/// Compactions keep the versions that a live snapshot sees. The drop of the last clone releases the
/// snapshot. A snapshot may outlive the handle of its database; it then has no effect.
///
/// ```
/// # use terrace::{Env, Options};
/// # let env = Env::in_memory();
/// # let options = Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// use terrace::ReadOptions;
///
/// let empty = ReadOptions::default().snapshot(db.snapshot());
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// assert_eq!(db.get_with(b"CH/Bern", &empty)?, None);
/// drop(empty); // releases the snapshot
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<SnapshotInner>,
    /// Handle of the database, for reads of the snapshot. Its type belongs to a higher layer.
    database: Weak<dyn Any + Send + Sync>,
    /// State that the snapshot shows, in a follower. The compactions of the writer do not know the
    /// snapshots of followers. The type belongs to a higher layer.
    held_state: Option<Arc<dyn Any + Send + Sync>>,
}

struct SnapshotInner {
    sequence: SequenceNumber,
    list: Arc<SnapshotList>,
}

impl Snapshot {
    /// Returns the sequence number of the last write that the snapshot sees.
    ///
    /// ```
    /// # use terrace::{Env, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot().sequence();
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert_eq!(db.snapshot().sequence(), before + 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn sequence(&self) -> SequenceNumber {
        self.inner.sequence
    }

    /// Returns this snapshot with `handle` as its database.
    pub(crate) fn attach<H: Any + Send + Sync>(mut self, handle: &Arc<H>) -> Snapshot {
        let handle: Weak<H> = Arc::downgrade(handle);
        self.database = handle;
        self
    }

    /// Returns the handle of the database, unless the last one is dropped.
    pub(crate) fn database(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.database.upgrade()
    }

    /// Returns this snapshot with the state that it shows.
    pub(crate) fn holding<T: Any + Send + Sync>(mut self, state: Arc<T>) -> Snapshot {
        self.held_state = Some(state);
        self
    }

    /// Returns the state of [`Snapshot::holding`].
    pub(crate) fn held_state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.held_state.as_ref()?).downcast().ok()
    }

    /// Returns true if the snapshot belongs to the database that owns `list`.
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

/// Live snapshots of one database, with the number of snapshots per sequence number.
pub(crate) struct SnapshotList {
    /// Process of the database. In a forked child, no compaction asks for the snapshots, and the
    /// locks may belong to threads that the child does not have.
    process: ProcessToken,
    counts_by_sequence: Mutex<BTreeMap<SequenceNumber, usize>>,
    /// Sequence number of the oldest snapshot, or the maximum number if there is none. Relaxed:
    /// only estimates and the waiter use it, and the lock of the waiter orders its accesses.
    approx_oldest: AtomicU64,
    /// Callback of a compaction that waits for the release of old snapshots. A thread that holds
    /// this lock takes no other lock.
    waiter: Mutex<Option<SnapshotWaiter>>,
}

/// Callback that runs without any lock of the database.
type ReleaseCallback = Box<dyn FnOnce() + Send>;

struct SnapshotWaiter {
    sequence: SequenceNumber,
    callback: ReleaseCallback,
}

impl Default for SnapshotList {
    fn default() -> SnapshotList {
        SnapshotList {
            process: ProcessToken::current(),
            counts_by_sequence: Mutex::default(),
            approx_oldest: AtomicU64::new(SequenceNumber::MAX),
            waiter: Mutex::default(),
        }
    }
}

impl SnapshotList {
    /// Creates a snapshot of the current state, whose last sequence number `visible` holds.
    pub(crate) fn new_snapshot(self: &Arc<Self>, visible: &AtomicU64) -> Snapshot {
        if !self.process.is_current() {
            return self.snapshot_at(visible.load(Ordering::Acquire));
        }
        let early =
            if mutant!(SnapshotSequenceReadTooEarly) { Some(visible.load(Ordering::Acquire)) } else { None };
        let mut counts = self.counts_by_sequence.lock();
        // The load happens under the lock, so that `oldest` cannot run between the load and the
        // registration. It never returns more than the sequence number of a snapshot that is being
        // created.
        let sequence = early.unwrap_or_else(|| visible.load(Ordering::Acquire));
        *counts.entry(sequence).or_default() += 1;
        self.update_approx_oldest(&counts);
        drop(counts);
        self.snapshot_at(sequence)
    }

    fn snapshot_at(self: &Arc<Self>, sequence: SequenceNumber) -> Snapshot {
        Snapshot {
            inner: Arc::new(SnapshotInner { sequence, list: Arc::clone(self) }),
            database: Weak::<()>::new(),
            held_state: None,
        }
    }

    /// Returns the oldest sequence number that a reader may use, now or later.
    pub(crate) fn oldest(&self, visible: &AtomicU64) -> SequenceNumber {
        let counts = self.counts_by_sequence.lock();
        counts.keys().next().copied().unwrap_or_else(|| visible.load(Ordering::Acquire))
    }

    /// Returns a recent result of [`SnapshotList::oldest`] without a lock, for estimates.
    pub(crate) fn approx_oldest(&self, visible: &AtomicU64) -> SequenceNumber {
        self.approx_oldest.load(Ordering::Relaxed).min(visible.load(Ordering::Relaxed))
    }

    /// Registers `callback`, which runs at the release of the last snapshot below `sequence`. It
    /// replaces an earlier callback. Returns false, and registers nothing, if there is no such
    /// snapshot.
    pub(crate) fn on_released_below(&self, sequence: SequenceNumber, callback: ReleaseCallback) -> bool {
        let mut waiter = self.waiter.lock();
        // A release first stores `approx_oldest` and then takes this lock. Either this load sees
        // the release, or the release sees the callback.
        let is_registered = self.approx_oldest.load(Ordering::Relaxed) < sequence;
        let new_waiter = is_registered.then_some(SnapshotWaiter { sequence, callback });
        let old_waiter = std::mem::replace(&mut *waiter, new_waiter);
        drop(waiter);
        // The callback is dropped without the lock, because its drop may run user code.
        drop(old_waiter);
        is_registered
    }

    /// Removes the registered callback. A callback that already runs continues.
    pub(crate) fn clear_waiter(&self) {
        let old_waiter = self.waiter.lock().take();
        drop(old_waiter);
    }

    fn update_approx_oldest(&self, counts: &BTreeMap<SequenceNumber, usize>) {
        self.approx_oldest
            .store(counts.keys().next().copied().unwrap_or(SequenceNumber::MAX), Ordering::Relaxed);
    }

    /// Returns true if there is no snapshot now.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts_by_sequence.lock().is_empty()
    }

    /// Runs `work` if there is no snapshot, and returns its result. No thread can create a snapshot
    /// meanwhile.
    pub(crate) fn if_empty<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let counts = self.counts_by_sequence.lock();
        counts.is_empty().then(work)
    }

    fn release(&self, sequence: SequenceNumber) {
        if !self.process.is_current() {
            return;
        }
        let mut counts = self.counts_by_sequence.lock();
        if let Some(count) = counts.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&sequence);
                self.update_approx_oldest(&counts);
                drop(counts);
                self.notify_waiter();
            }
        }
    }

    /// Runs the registered callback if no older snapshot is left.
    fn notify_waiter(&self) {
        let due = {
            let mut waiter = self.waiter.lock();
            let oldest = self.approx_oldest.load(Ordering::Relaxed);
            waiter.take_if(|waiter| waiter.sequence <= oldest)
        };
        if let Some(SnapshotWaiter { callback, .. }) = due {
            callback();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_is_the_first_live_snapshot() {
        let list = Arc::new(SnapshotList::default());
        let visible = AtomicU64::new(5);
        assert_eq!(list.oldest(&visible), 5);
        let five = list.new_snapshot(&visible);
        let clone = five.clone();
        visible.store(9, Ordering::Release);
        let nine = list.new_snapshot(&visible);
        assert_eq!((five.sequence(), nine.sequence(), list.oldest(&visible)), (5, 9, 5));
        drop(five);
        assert_eq!(list.oldest(&visible), 5, "a clone keeps the snapshot alive");
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
        let callback = || {
            let called = Arc::clone(&called);
            Box::new(move || {
                called.fetch_add(1, Ordering::Relaxed);
            })
        };
        let calls = || called.load(Ordering::Relaxed);
        assert!(!list.on_released_below(7, callback()), "there is no snapshot");
        let [three, five, nine] = [3, 5, 9].map(|sequence| list.new_snapshot(&AtomicU64::new(sequence)));
        assert!(list.on_released_below(7, callback()));
        drop(five);
        assert_eq!(calls(), 0, "snapshot 3 is live");
        drop(three);
        assert_eq!(calls(), 1);
        assert!(!list.on_released_below(9, callback()), "there is no snapshot below 9");
        assert!(list.on_released_below(10, callback()));
        list.clear_waiter();
        drop(nine);
        assert_eq!((calls(), Arc::strong_count(&called)), (1, 1));
    }
}
