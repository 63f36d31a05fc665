//! A model checker's `ArcSwap`: a shared value that is replaced whole.
//!
//! Orders what arc_swap promises to order and no more: a load acquires, a store or an exchange acquires and releases.
//! The checkers let threads change places only right before one of their own operations; so what follows `turn` here,
//! up to the next such operation, is one step.
#![allow(clippy::disallowed_types, reason = "below what a model checker sees")]

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{AtomicUsize, Ordering};

/// An `Arc` that is replaced whole.
pub type ArcSwap<T> = ModelSwap<Arc<T>>;
/// An `Arc` or nothing, replaced whole.
pub type ArcSwapOption<T> = ModelSwap<Option<Arc<T>>>;

/// A value that is replaced whole.
#[derive(Debug)]
pub struct ModelSwap<T> {
    sync_point: AtomicUsize,
    /// Never waited for: nobody changes places while it is held.
    value: Mutex<T>,
}

/// A value that was loaded.
#[derive(Debug)]
pub struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> ModelSwap<Arc<T>> {
    /// Holding `value`.
    pub fn from_pointee(value: T) -> ModelSwap<Arc<T>> {
        ModelSwap::new(Arc::new(value))
    }
}

impl<T> ModelSwap<Option<Arc<T>>> {
    /// Holding nothing.
    pub fn empty() -> ModelSwap<Option<Arc<T>>> {
        ModelSwap::new(None)
    }
}

impl<T: Clone> ModelSwap<T> {
    /// Holding `value`.
    pub fn new(value: T) -> ModelSwap<T> {
        ModelSwap { sync_point: AtomicUsize::new(0), value: Mutex::new(value) }
    }

    /// The value now.
    pub fn load(&self) -> Guard<T> {
        Guard(self.load_full())
    }

    /// The value now.
    pub fn load_full(&self) -> T {
        // An exchange reads the newest value, where a load might find an older one, which arc_swap never does.
        self.sync_point.fetch_add(0, Ordering::Acquire);
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value.
    pub fn store(&self, value: T) {
        self.sync_point.fetch_add(1, Ordering::AcqRel);
        // What was there goes when the lock is free again: it may end with operations of its own.
        let _old = std::mem::replace(&mut *self.value.lock().unwrap_or_else(PoisonError::into_inner), value);
    }

    /// Replaces the value with what `update` makes of it, unless it was replaced meanwhile: then once more.
    pub fn rcu<R: Into<T>>(&self, mut update: impl FnMut(&T) -> R) -> T {
        loop {
            let turn = self.sync_point.load(Ordering::Acquire);
            let old = self.load_full();
            let new = update(&old).into();
            if self.sync_point.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
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
