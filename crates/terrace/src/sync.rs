//! Locks and atomics of this crate. A model checker can replace them all at once.
//!
//! `db/inner.rs` documents the lock order. A thread that calls user code, except for a comparator
//! or a filter policy, holds no lock.

pub(crate) use terrace_sync::{Arc, ArcSwap, ArcSwapOption, Condvar, Mutex, MutexGuard, Weak};
pub(crate) use terrace_sync::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use terrace_sync::{ForkLocks, ForkParticipant, ForkRank, ForkRegistration};
pub(crate) use terrace_sync::{HazardCell, HazardGuard, HazardValue, RetireList, Retired};
pub(crate) use terrace_sync::{LoomCells, spin_or_yield, spin_then_yield, thread_slot};
pub(crate) use terrace_sync::{register_fork_participant, register_fork_participant_until};
