//! Locks and atomics, from one room, so that a model checker can take their place.
//!
//! Lock order of the engine: `commit` before `manifest` before `state`. No lock is held across a user's callback
//! other than a comparator or filter, and `state` is never held across a read, a write or a sync.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

pub(crate) use arc_swap::{ArcSwap, ArcSwapOption};
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
