//! Locks, atomics and threads in one module, so that a model checker can replace them.
//!
//! ```text
//!   feature   Mutex, Condvar                  atomics   ArcSwap            HazardCell   threads
//!   none      std, through `native_locks`     std       arc_swap           `hazard`     std
//!   loom      loom, through `model_locks`     loom      `model_arc_swap`   `hazard`     loom
//!   shuttle   shuttle, through `model_locks`  shuttle   `model_arc_swap`   `hazard`     shuttle
//! ```
//!
//! The interface is that of parking_lot and arc_swap. The product uses the first row: re-exports,
//! locks that survive a fork, and `hazard`, which all three rows share. The other two rows work
//! only within a run of their checker. Every lock, atomic and swap is then a point at which the
//! checker may switch threads. Loom tries all schedules of a small model, including weak memory
//! orders. Shuttle samples schedules of the whole engine. Only `cargo xtask` enables these
//! features, one package at a time, so no other build has them.
//!
//! [`Arc`] is the standard one in all three rows: the models trust its memory ordering.

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("one model checker at a time: the features `loom` and `shuttle` exclude each other");

#[cfg(feature = "loom")]
mod explore;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod fork;
#[cfg(any(feature = "loom", feature = "shuttle"))]
#[path = "fork_noop.rs"]
mod fork;
mod hazard;
#[cfg(feature = "loom")]
mod loom_cell;
#[cfg(not(feature = "loom"))]
#[path = "loom_cell_noop.rs"]
mod loom_cell;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model_arc_swap;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model_locks;
#[doc(hidden)]
pub mod mutants;
pub mod native_locks;

pub use fork::{
    ForkLocks, ForkParticipant, ForkRank, ForkRegistration, finish_fork_in_child, finish_fork_in_parent,
    get_or_init_for_fork, prepare_fork, register_fork_participant, register_fork_participant_until,
    set_for_fork,
};
pub use hazard::{HazardCell, HazardGuard, HazardValue, RetireList, Retired, thread_slot};
pub use loom_cell::LoomCells;
pub use std::sync::atomic::Ordering;
pub use std::sync::{Arc, Weak};

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(crate) use model_locks::fence_for_checker;
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use {
    model_arc_swap::{ArcSwap, ArcSwapOption, Guard, ModelSwap},
    model_locks::{Condvar, Mutex, MutexGuard, spin_or_yield, spin_then_yield},
};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native {
    pub use crate::native_locks::{Condvar, Mutex, MutexGuard};
    pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
    pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::thread;
    pub(crate) use std::thread_local;

    /// Pauses while another thread completes its work. `turn` counts the calls of one wait, from 0.
    ///
    /// The other thread is running on another core and done soon, or it is not running and gets
    /// this core.
    pub fn spin_or_yield(turn: &mut u32) {
        /// Number of calls that spin, before the wait yields the core.
        const MAX_SPINS: u32 = 64;
        spin_then_yield(turn, MAX_SPINS);
    }

    /// Pauses like [`spin_or_yield`], and yields the core only after `max_spins` calls.
    pub fn spin_then_yield(turn: &mut u32, max_spins: u32) {
        *turn += 1;
        if *turn < max_spins { std::hint::spin_loop() } else { thread::yield_now() }
    }

    /// Does nothing: SeqCst accesses have a total order without a fence.
    #[inline(always)]
    pub(crate) fn fence_for_checker() {}
}
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use native::*;

#[cfg(feature = "loom")]
pub use explore::explore;
#[cfg(feature = "loom")]
pub use loom::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize},
    thread,
};
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
pub(crate) use shuttle::{lazy_static, thread_local};
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
pub use shuttle::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize},
    thread,
};
#[cfg(feature = "loom")]
pub(crate) use {loom::lazy_static, model_locks::thread_local};
