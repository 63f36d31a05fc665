//! `ArcSwap` of a model checker: a shared value that is replaced as a whole.
//!
//! It guarantees the memory order of arc_swap and no more: a load acquires, a store or an exchange
//! acquires and releases. The checkers switch threads only directly before one of their own
//! operations. The code after an access to `sync_point`, up to the next such operation, is
//! therefore one step.
#![allow(clippy::disallowed_types, reason = "the model itself needs no model checker")]

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{AtomicUsize, Ordering};

/// Shared `Arc` that is replaced as a whole.
pub type ArcSwap<T> = ModelSwap<Arc<T>>;
/// Shared `Arc`, or none, that is replaced as a whole.
pub type ArcSwapOption<T> = ModelSwap<Option<Arc<T>>>;

/// Shared value that is replaced as a whole.
#[derive(Debug)]
pub struct ModelSwap<T> {
    sync_point: AtomicUsize,
    /// Never contended: the checker does not switch threads while it is held.
    value: Mutex<T>,
}

/// Loaded value.
#[derive(Debug)]
pub struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> ModelSwap<Arc<T>> {
    /// Creates a cell with `value`.
    pub fn from_pointee(value: T) -> ModelSwap<Arc<T>> {
        ModelSwap::new(Arc::new(value))
    }
}

impl<T> ModelSwap<Option<Arc<T>>> {
    /// Creates an empty cell.
    pub fn empty() -> ModelSwap<Option<Arc<T>>> {
        ModelSwap::new(None)
    }
}

impl<T: Clone> ModelSwap<T> {
    /// Creates a cell with `value`.
    pub fn new(value: T) -> ModelSwap<T> {
        ModelSwap { sync_point: AtomicUsize::new(0), value: Mutex::new(value) }
    }

    /// Returns the current value.
    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    /// Returns the current value.
    pub fn load_full(&self) -> T {
        // An exchange reads the newest value. A load might read an older one, which arc_swap never
        // does.
        self.sync_point.fetch_add(0, Ordering::Acquire);
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value.
    pub fn store(&self, value: T) {
        self.sync_point.fetch_add(1, Ordering::AcqRel);
        // Drops the old value after the lock is released, because its drop may use operations of
        // the checker.
        let _old = std::mem::replace(&mut *self.value.lock().unwrap_or_else(PoisonError::into_inner), value);
    }

    /// Replaces the value by the result of `update`, and retries if another thread replaced it
    /// meanwhile.
    pub fn rcu<R: Into<T>>(&self, mut update: impl FnMut(&T) -> R) -> T {
        loop {
            let version = self.sync_point.load(Ordering::Acquire);
            let old = self.load_full();
            let new = update(&old).into();
            if self
                .sync_point
                .compare_exchange(version, version + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                *self.value.lock().unwrap_or_else(PoisonError::into_inner) = new;
                return old;
            }
        }
    }
}

impl<T: Clone + Default> Default for ModelSwap<T> {
    fn default() -> ModelSwap<T> {
        ModelSwap::new(T::default())
    }
}
