//! Locks of a model checker with the interface of parking_lot: no poisoning, and a condition
//! variable that takes the guard by reference.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

#[cfg(feature = "loom")]
use loom::sync as checker;
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
use shuttle::sync as checker;

/// Mutual exclusion lock.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: checker::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a lock that protects `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex { inner: checker::Mutex::new(value) }
    }

    /// Waits for the lock and locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.lock_inner()) }
    }

    /// Locks it if no thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().ok().map(|guard| MutexGuard { mutex: self, guard: Some(guard) })
    }

    /// Returns the value. The mutable borrow proves that no thread holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_inner(&self) -> checker::MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a held lock.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// None only during a wait, while no thread can access the guard.
    guard: Option<checker::MutexGuard<'a, T>>,
}

impl<'a, T> MutexGuard<'a, T> {
    /// Releases the lock while `work` runs.
    pub fn unlocked<R>(guard: &mut MutexGuard<'a, T>, work: impl FnOnce() -> R) -> R {
        guard.guard = None;
        let result = work();
        guard.guard = Some(guard.mutex.lock_inner());
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // The two methods that take the guard put it back before they return, and borrow it mutably
        // until then.
        self.guard.as_ref().expect("the guard holds the lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // The two methods that take the guard put it back before they return, and borrow it mutably
        // until then.
        self.guard.as_mut().expect("the guard holds the lock")
    }
}

/// Pauses while another thread completes its work: lets the checker switch threads.
pub fn spin_or_yield(turn: &mut u32) {
    *turn += 1;
    crate::thread::yield_now();
}

/// Pauses like [`spin_or_yield`].
pub fn spin_then_yield(turn: &mut u32, _max_spins: u32) {
    spin_or_yield(turn);
}

/// Loom's macro, which does not support constant initialisers.
#[cfg(feature = "loom")]
macro_rules! constants_of_threads {
    ($($(#[$meta:meta])* static $name:ident: $type:ty = const { $value:expr };)*) => {
        loom::thread_local! { $($(#[$meta])* static $name: $type = $value;)* }
    };
}
#[cfg(feature = "loom")]
pub(crate) use constants_of_threads as thread_local;

/// Fence between two SeqCst accesses that depend on the total order of such accesses. Loom
/// implements that order only for fences, and treats the accesses as AcqRel. Shuttle runs all
/// accesses in a total order.
pub(crate) fn fence_for_checker() {
    #[cfg(feature = "loom")]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: checker::Condvar,
}

impl Condvar {
    /// Creates a condition variable.
    pub fn new() -> Condvar {
        Condvar { inner: checker::Condvar::new() }
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(inner) = guard.guard.take() {
            guard.guard = Some(self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits like [`Condvar::wait`]: the time of a model does not pass.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        self.wait(guard);
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}
