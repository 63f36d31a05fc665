//! Locks of the standard library with the interface of parking_lot: no poisoning, and a condition
//! variable that takes the guard by reference.
//!
//! A forked child may inherit them. The state of such a lock is one word, and unlocking it wakes at
//! most one waiter. parking_lot keeps its waiters in a table of the process, and may pass a lock to
//! a waiter that the child does not have.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_types)]

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

/// Mutual exclusion lock.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    inner: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a lock that protects `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { inner: std::sync::Mutex::new(value) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.lock_inner()) }
    }

    /// Locks it if no thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: self, guard: Some(guard) })
    }

    /// Returns the value. The mutable borrow proves that no thread holds the lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn lock_inner(&self) -> std::sync::MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a held lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// None only during a wait, while no thread can access the guard.
    guard: Option<std::sync::MutexGuard<'a, T>>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Releases the lock while `work` runs.
    pub fn unlocked<R>(guard: &mut MutexGuard<'a, T>, work: impl FnOnce() -> R) -> R {
        guard.guard = None;
        let result = work();
        guard.guard = Some(guard.mutex.lock_inner());
        result
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // `unlocked` and `Condvar::wait` put the guard back before they return, and borrow it
        // mutably until then.
        self.guard.as_ref().expect("the guard holds the lock")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // `unlocked` and `Condvar::wait` put the guard back before they return, and borrow it
        // mutably until then.
        self.guard.as_mut().expect("the guard holds the lock")
    }
}

/// Condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
}

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar { inner: std::sync::Condvar::new() }
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(inner) = guard.guard.take() {
            guard.guard = Some(self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits like [`Condvar::wait`], at most for `timeout`.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        if let Some(inner) = guard.guard.take() {
            let waited = self.inner.wait_timeout(inner, timeout);
            guard.guard = Some(waited.unwrap_or_else(PoisonError::into_inner).0);
        }
    }

    /// Wakes one waiting thread.
    #[inline]
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiting threads.
    #[inline]
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}
