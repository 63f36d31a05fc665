//! Locks and atomics, from one room, so that a model checker can take their place.
//!
//! Lock order of the engine: `commit` before `manifest` before `state`. No lock is held across a user's callback
//! other than a comparator or filter, and `state` is never held across a read, a write or a sync.

pub(crate) use terrace_sync::{Arc, ArcSwap, ArcSwapOption, Condvar, Mutex, MutexGuard, Weak};
pub(crate) use terrace_sync::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use terrace_sync::{HazardCell, HazardGuard, HazardValue, RetireList, Retired};
pub(crate) use terrace_sync::{LoomCells, spin_or_yield, thread_slot};
