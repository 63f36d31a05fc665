//! A model checker's locks, spoken to as parking_lot's are: no poison, and a condition variable that takes the guard by
//! reference.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

#[cfg(feature = "loom")]
use loom::sync as under;
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
use shuttle::sync as under;

/// A lock for one thread at a time.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: under::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Around `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex { inner: under::Mutex::new(value) }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.lock_inner()) }
    }

    /// Locks it if nobody has it locked.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().ok().map(|held| MutexGuard { mutex: self, guard: Some(held) })
    }

    fn lock_inner(&self) -> under::MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock, held.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// None only inside of a wait, when nobody can look.
    guard: Option<under::MutexGuard<'a, T>>,
}

impl<'a, T> MutexGuard<'a, T> {
    /// Gives up the lock while `work` runs.
    pub fn unlocked<R>(guard: &mut MutexGuard<'a, T>, work: impl FnOnce() -> R) -> R {
        guard.guard = None;
        let outcome = work();
        guard.guard = Some(guard.mutex.lock_inner());
        outcome
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // Held: the two methods that take it out put it back, and borrow the guard until then.
        self.guard.as_ref().expect("a guard is looked at only while it holds the lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // Held, as above.
        self.guard.as_mut().expect("a guard is looked at only while it holds the lock")
    }
}

/// What a wait for another thread does meanwhile: it lets that one go on.
pub fn spin_or_yield(turn: &mut u32) {
    *turn += 1;
    crate::thread::yield_now();
}

/// Loom's, which does not take constants for what they are.
#[cfg(feature = "loom")]
macro_rules! constants_of_threads {
    ($($(#[$meta:meta])* static $name:ident: $type:ty = const { $value:expr };)*) => {
        loom::thread_local! { $($(#[$meta])* static $name: $type = $value;)* }
    };
}
#[cfg(feature = "loom")]
pub(crate) use constants_of_threads as thread_local;

/// Between two SeqCst accesses that rely on the one order of all such. Loom knows that order only of fences, and takes the
/// accesses for AcqRel; shuttle knows no other order.
pub(crate) fn fence_for_checker() {
    #[cfg(feature = "loom")]
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// What threads wait at for a change.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: under::Condvar,
}

impl Condvar {
    /// With nobody waiting.
    pub fn new() -> Condvar {
        Condvar { inner: under::Condvar::new() }
    }

    /// Gives up the lock, waits to be notified, and takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.guard.take() {
            guard.guard = Some(self.inner.wait(held).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all of those who wait.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}
