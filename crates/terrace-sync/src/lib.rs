//! Locks, atomics and threads, from one room, so that a model checker can take their place.
//!
//! ```text
//!   built with            Mutex, Condvar           atomics   ArcSwap       Spot       threads
//!   nothing               parking_lot              std       arc_swap      `hazard`   std
//!   the feature loom      loom, by `checked`       loom      `swap`        `hazard`   loom
//!   the feature shuttle   shuttle, by `checked`    shuttle   `swap`        `hazard`   shuttle
//! ```
//!
//! One vocabulary, that of parking_lot and arc_swap, in three worlds. The first is the product: re-exports, and `hazard`, which
//! is the same in all three. The other two work only inside of a run of their checker, where every lock, atomic and swap is a point at
//! which another thread may go on: loom tries all such schedules of a small model, memory orderings included; shuttle
//! draws schedules of the whole engine. Only `cargo xtask` asks for them, package by package, so that no other build
//! has them.
//!
//! [`Arc`] is the standard one in all three: what its counts order among threads is taken for granted.

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("one model checker at a time: the features `loom` and `shuttle` exclude each other");

#[cfg(feature = "loom")]
mod explore;
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

pub use hazard::{HazardCell, HazardGuard, HazardValue, RetireList, Retired, thread_slot};
pub use loom_cell::LoomCells;
pub use std::sync::atomic::Ordering;
pub use std::sync::{Arc, Weak};

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(crate) use model_locks::fence_for_checker;
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use {
    model_arc_swap::{ArcSwap, ArcSwapOption, Guard, ModelSwap},
    model_locks::{Condvar, Mutex, MutexGuard, spin_or_yield},
};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native {
    pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
    pub use parking_lot::{Condvar, Mutex, MutexGuard};
    pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
    pub use std::thread;
    pub(crate) use std::thread_local;

    /// What a wait for another thread does meanwhile; `turn` counts its calls, from 0. That thread is at work on another
    /// core and done in an instant, or it was put aside: then it gets this core.
    pub fn spin_or_yield(turn: &mut u32) {
        *turn += 1;
        if *turn < 64 { std::hint::spin_loop() } else { thread::yield_now() }
    }

    /// Nothing: SeqCst accesses have one order by themselves.
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
