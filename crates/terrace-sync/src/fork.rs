//! Locks that a thread holds while it forks, so that the child gets each of them free.
//!
//! ```text
//!   prepare   registry, participants in the order of their ranks, initializations, hazard records
//!   fork      the child has one thread, with the same locks
//!   parent    releases the locks
//!   child     forgets the announcements of the other threads, releases the locks, runs callbacks
//! ```
//!
//! A child has only the thread that forked. A lock of another thread would stay locked in the child
//! for ever, and the data under it could be half changed. The forking thread therefore takes each
//! lock that a child may need, in lock order.
//!
//! A participant decides how long the thread waits. A lock that is held only for short work is
//! taken without a limit. The others are tried until [`ForkLocks::may_wait`] returns false; the
//! participant then records in the child that its lock is lost.
#![allow(unsafe_code)] // Keeps guards beyond the borrow of their locks.

use std::any::Any;
use std::cell::Cell;
use std::mem::{ManuallyDrop, transmute};
use std::sync::{Arc, OnceLock, Weak};

use crate::{Mutex, MutexGuard};

/// Object with locks that a forked child may need.
pub trait ForkParticipant: Any + Send + Sync {
    /// Takes these locks.
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks);
}

/// Lock of its own, which is held only for short work.
impl<T: Send + 'static> ForkParticipant for Mutex<T> {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        locks.lock(&self, |lock| lock);
    }
}

/// Position in the order in which a forking thread locks the participants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForkRank {
    /// Database. Its threads may take the locks of all other participants.
    Database,
    /// Cache or info log, which the threads of several databases share.
    Cache,
    /// Object of the env.
    Env,
}

struct Participant {
    id: u64,
    rank: ForkRank,
    object: Weak<dyn ForkParticipant>,
}

struct Registry {
    last_id: u64,
    /// Participants in the order of their ranks.
    participants: Vec<Participant>,
    /// Number of participants at which the dropped ones are removed.
    prune_at: usize,
}

/// All participants. A thread takes no other lock while it holds this one, except for a thread that
/// forks.
static PARTICIPANTS: Mutex<Registry> =
    Mutex::new(Registry { last_id: 0, participants: Vec::new(), prune_at: 16 });

/// Lock that is held during the initialization of a static or a cell that a child may need.
static INITIALIZATION: Mutex<()> = Mutex::new(());

/// Locks of a thread that forks.
pub struct ForkLocks {
    may_wait: Box<dyn FnMut() -> bool>,
    /// Guards in the order of their locks.
    guards: Vec<Box<dyn Any>>,
    in_child: Vec<Box<dyn FnOnce()>>,
}

/// Guard of a lock in a value that the guard keeps alive.
struct OwnedGuard<O: 'static, T: 'static> {
    /// Borrows from `_owner`. Dropped first.
    guard: ManuallyDrop<MutexGuard<'static, T>>,
    _owner: Arc<O>,
}

impl<O, T> Drop for OwnedGuard<O, T> {
    fn drop(&mut self) {
        // SAFETY: this is the only place that drops the guard, and it runs once. `_owner`, which
        // contains the lock, is dropped afterwards.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
    }
}

impl ForkLocks {
    /// Pauses before the next attempt to take a lock. Returns false if the time is over.
    pub fn may_wait(&mut self) -> bool {
        (self.may_wait)()
    }

    /// Takes a lock that is held only for short work.
    pub fn lock<O, T>(&mut self, owner: &Arc<O>, lock: for<'a> fn(&'a O) -> &'a Mutex<T>)
    where
        O: Send + Sync + 'static,
        T: 'static,
    {
        let guard = lock(owner).lock();
        self.hold(owner, guard);
    }

    /// Tries to take a lock until the time is over. Returns the result of `read` for its value.
    pub fn lock_in_time<O, T, R>(
        &mut self,
        owner: &Arc<O>,
        lock: for<'a> fn(&'a O) -> &'a Mutex<T>,
        read: impl FnOnce(&T) -> R,
    ) -> Option<R>
    where
        O: Send + Sync + 'static,
        T: 'static,
    {
        loop {
            if let Some(guard) = lock(owner).try_lock() {
                let result = read(&guard);
                self.hold(owner, guard);
                return Some(result);
            }
            if !self.may_wait() {
                return None;
            }
        }
    }

    /// Takes the lock of a static that is held only for short work.
    pub fn lock_static<T: 'static>(&mut self, lock: &'static Mutex<T>) {
        self.guards.push(Box::new(lock.lock()));
    }

    fn hold<'a, O, T>(&mut self, owner: &'a Arc<O>, guard: MutexGuard<'a, T>)
    where
        O: Send + Sync + 'static,
        T: 'static,
    {
        // SAFETY: only the lifetime changes. The guard borrows from a lock in the value of `owner`,
        // or from a static. `OwnedGuard` keeps that value, which does not move, and drops the guard
        // first.
        let guard = unsafe { transmute::<MutexGuard<'a, T>, MutexGuard<'static, T>>(guard) };
        let guard = ManuallyDrop::new(guard);
        self.guards.push(Box::new(OwnedGuard { guard, _owner: Arc::clone(owner) }));
    }

    /// Returns the number of locks.
    pub fn len(&self) -> usize {
        self.guards.len()
    }

    /// Returns true if no lock is held.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Releases the locks after the first `len`, latest first.
    pub fn truncate(&mut self, len: usize) {
        while self.guards.len() > len {
            self.guards.pop();
        }
    }

    /// Runs `callback` in the child, after all locks are released.
    pub fn run_in_child(&mut self, callback: impl FnOnce() + 'static) {
        self.in_child.push(Box::new(callback));
    }
}

/// Registration of a participant. Its drop waits for the end of a fork that uses the participant.
#[derive(Debug)]
pub struct ForkRegistration(u64);

impl Drop for ForkRegistration {
    fn drop(&mut self) {
        let id = self.0;
        PARTICIPANTS.lock().participants.retain(|participant| participant.id != id);
    }
}

/// Registers a participant until its drop.
pub fn register_fork_participant(rank: ForkRank, object: Weak<dyn ForkParticipant>) {
    PARTICIPANTS.lock().add(rank, object);
}

/// Registers a participant until the drop of the registration. The thread that drops it holds no
/// lock.
pub fn register_fork_participant_until(
    rank: ForkRank,
    object: Weak<dyn ForkParticipant>,
) -> ForkRegistration {
    ForkRegistration(PARTICIPANTS.lock().add(rank, object))
}

impl Registry {
    fn add(&mut self, rank: ForkRank, object: Weak<dyn ForkParticipant>) -> u64 {
        if self.participants.len() >= self.prune_at {
            self.participants.retain(|participant| participant.object.strong_count() > 0);
            self.prune_at = (2 * self.participants.len()).max(16);
        }
        self.last_id += 1;
        let id = self.last_id;
        let index = self.participants.partition_point(|participant| participant.rank <= rank);
        self.participants.insert(index, Participant { id, rank, object });
        id
    }

    fn live(&self) -> Vec<Arc<dyn ForkParticipant>> {
        self.participants.iter().filter_map(|participant| participant.object.upgrade()).collect()
    }
}

/// Returns the value of `cell`, which the first call initializes. No fork falls into the
/// initialization. `init` initializes no other cell.
pub fn get_or_init_for_fork<T>(cell: &OnceLock<T>, init: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    set_for_fork(cell, init());
    // The call sets the cell, unless it has a value.
    cell.get().expect("the cell has a value")
}

/// Sets `cell` if it is empty, and returns true if it was. No fork falls into the change.
pub fn set_for_fork<T>(cell: &OnceLock<T>, value: T) -> bool {
    let guard = INITIALIZATION.lock();
    let result = cell.set(value);
    // The drop of a refused value may need a lock that a forking thread holds. That thread may wait
    // for this one.
    drop(guard);
    result.is_ok()
}

/// Everything that the forking thread keeps until the end of the fork.
struct RunningFork {
    locks: ForkLocks,
    participants: Vec<Arc<dyn ForkParticipant>>,
    registry: MutexGuard<'static, Registry>,
}

thread_local! {
    static RUNNING_FORK: Cell<Option<RunningFork>> = const { Cell::new(None) };
}

/// Takes the locks of all participants, and then those that `lock_statics` takes. `may_wait` pauses
/// and returns false when the time for a database is over.
pub fn prepare_fork(may_wait: impl FnMut() -> bool + 'static, lock_statics: fn(&mut ForkLocks)) {
    let registry = PARTICIPANTS.lock();
    let participants = registry.live();
    let may_wait = Box::new(may_wait);
    let mut locks = ForkLocks { may_wait, guards: Vec::new(), in_child: Vec::new() };
    for participant in &participants {
        Arc::clone(participant).lock_for_fork(&mut locks);
    }
    lock_statics(&mut locks);
    locks.lock_static(&INITIALIZATION);
    crate::hazard::lock_for_fork(&mut locks);
    // At the end of the thread, the variable does not exist any more. The locks are then released
    // here, and the child is not protected.
    let _ = RUNNING_FORK.try_with(|fork| fork.set(Some(RunningFork { locks, participants, registry })));
}

/// Releases the locks in the parent.
pub fn finish_fork_in_parent() {
    finish_fork();
}

/// Releases the locks in the child and runs its callbacks.
pub fn finish_fork_in_child() {
    for callback in finish_fork() {
        callback();
    }
}

fn finish_fork() -> Vec<Box<dyn FnOnce()>> {
    let running = RUNNING_FORK.try_with(Cell::take).ok().flatten();
    let Some(RunningFork { mut locks, participants, registry }) = running else {
        return Vec::new();
    };
    locks.truncate(0);
    drop(registry);
    // Without the locks, because this may be the last owner of a participant.
    drop(participants);
    locks.in_child
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Participant whose lock is tried in time. It records the order of the participants.
    struct Recorder {
        name: &'static str,
        order: Arc<Mutex<Vec<&'static str>>>,
        lock: Mutex<()>,
    }

    impl ForkParticipant for Recorder {
        fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
            let is_locked = locks.lock_in_time(&self, |recorder| &recorder.lock, |()| ()).is_some();
            self.order.lock().push(if is_locked { self.name } else { "lost" });
        }
    }

    /// Value whose drop records that the lock of initializations is free.
    struct NeedsLockToDrop(Arc<AtomicUsize>);

    impl Drop for NeedsLockToDrop {
        fn drop(&mut self) {
            // Another test may hold the lock for a moment.
            let is_free = (0..10_000_000).any(|_| INITIALIZATION.try_lock().is_some());
            self.0.fetch_add(usize::from(is_free), Ordering::Relaxed);
        }
    }

    /// Two threads allocated the same memory of a table. The second one dropped its own, which
    /// needs the lock of the cache, before it released the lock of initializations. A thread that
    /// forked held the first lock and waited for the second one, for ever.
    #[test]
    fn refused_value_is_dropped_without_the_lock() {
        let drops = Arc::new(AtomicUsize::new(0));
        let value = || NeedsLockToDrop(Arc::clone(&drops));
        let cell = OnceLock::new();
        get_or_init_for_fork(&cell, || {
            assert!(set_for_fork(&cell, value()), "another thread is faster");
            value()
        });
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert!(!set_for_fork(&cell, value()));
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    }

    /// Runs the handlers of the parent, without a fork. All tests of this crate share the registry.
    #[test]
    fn participants_are_locked_in_order_and_released() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let recorder = |name| Arc::new(Recorder { name, order: Arc::clone(&order), lock: Mutex::new(()) });
        let [env, database, dropped, unregistered] =
            ["env", "database", "dropped", "unregistered"].map(recorder);
        let weak = |recorder: &Arc<Recorder>| -> Weak<dyn ForkParticipant> {
            let weak: Weak<Recorder> = Arc::downgrade(recorder);
            weak
        };
        register_fork_participant(ForkRank::Env, weak(&env));
        register_fork_participant(ForkRank::Cache, weak(&dropped));
        let registration = register_fork_participant_until(ForkRank::Database, weak(&database));
        drop(register_fork_participant_until(ForkRank::Env, weak(&unregistered)));
        drop(dropped);

        prepare_fork(|| false, |_| ());
        assert_eq!(*order.lock(), ["database", "env"]);
        for locked in [&env, &database] {
            assert!(locked.lock.try_lock().is_none());
        }
        finish_fork_in_parent();

        let attempts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&attempts);
        let busy = database.lock.try_lock().expect("the lock is free after the fork");
        prepare_fork(move || counted.fetch_add(1, Ordering::Relaxed) < 3, |_| ());
        assert_eq!(order.lock()[2..], ["lost", "env"]);
        assert_eq!(attempts.load(Ordering::Relaxed), 4);
        finish_fork_in_parent();
        drop((busy, registration));
        assert_eq!([&env, &database].map(Arc::strong_count), [1, 1], "a fork leaks no participant");
    }
}
