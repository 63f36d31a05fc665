//! Locks and atomics from the crate `terrace-sync`, so that a model checker can replace them.
//!
//! `db/inner.rs` documents the lock order.

pub(crate) use terrace_sync::{Arc, ArcSwap, ArcSwapOption, Condvar, Mutex, MutexGuard, Weak};
pub(crate) use terrace_sync::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use terrace_sync::{HazardCell, HazardGuard, HazardValue, RetireList, Retired};
pub(crate) use terrace_sync::{LoomCells, spin_or_yield, thread_slot};
