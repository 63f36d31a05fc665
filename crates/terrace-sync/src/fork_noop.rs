//! Interface of `fork` without an effect, for the model checkers: a model does not fork.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

/// Object with locks that a forked child may need.
pub trait ForkParticipant: Any + Send + Sync {
    /// Takes these locks.
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks);
}

impl<T: Send + 'static> ForkParticipant for crate::native_locks::Mutex<T> {
    fn lock_for_fork(self: Arc<Self>, _locks: &mut ForkLocks) {}
}

/// Position in the order in which a forking thread locks the participants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForkRank {
    /// Database.
    Database,
    /// Cache or info log.
    Cache,
    /// Object of the env.
    Env,
}

/// Locks of a thread that forks.
pub struct ForkLocks(());

impl ForkLocks {
    /// Returns false.
    pub fn may_wait(&mut self) -> bool {
        false
    }

    /// Does nothing.
    pub fn lock<O, L>(&mut self, _owner: &Arc<O>, _lock: for<'a> fn(&'a O) -> &'a L) {}

    /// Returns None.
    pub fn lock_in_time<O, T, R>(
        &mut self,
        _owner: &Arc<O>,
        _lock: for<'a> fn(&'a O) -> &'a crate::Mutex<T>,
        _read: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        None
    }

    /// Does nothing.
    pub fn lock_static<L>(&mut self, _lock: &'static L) {}

    /// Returns 0.
    pub fn len(&self) -> usize {
        0
    }

    /// Returns true.
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Does nothing.
    pub fn truncate(&mut self, _len: usize) {}

    /// Does nothing.
    pub fn run_in_child(&mut self, _callback: impl FnOnce() + 'static) {}
}

/// Registration of a participant.
#[derive(Debug)]
pub struct ForkRegistration(());

/// Does nothing.
pub fn register_fork_participant(_rank: ForkRank, _object: Weak<dyn ForkParticipant>) {}

/// Does nothing.
pub fn register_fork_participant_until(
    _rank: ForkRank,
    _object: Weak<dyn ForkParticipant>,
) -> ForkRegistration {
    ForkRegistration(())
}

/// Returns the value of `cell`, which the first call initializes.
pub fn get_or_init_for_fork<T>(cell: &OnceLock<T>, init: impl FnOnce() -> T) -> &T {
    cell.get_or_init(init)
}

/// Sets `cell` if it is empty, and returns true if it was.
pub fn set_for_fork<T>(cell: &OnceLock<T>, value: T) -> bool {
    cell.set(value).is_ok()
}

/// Does nothing.
pub fn prepare_fork(_may_wait: impl FnMut() -> bool + 'static, _lock_statics: fn(&mut ForkLocks)) {}

/// Does nothing.
pub fn finish_fork_in_parent() {}

/// Does nothing.
pub fn finish_fork_in_child() {}
