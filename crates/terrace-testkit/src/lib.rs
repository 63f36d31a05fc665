//! Common parts of Terrace's tests.
//!
//! ```text
//!   rng, settings             random numbers and options from a seed
//!   op, model, differential   random operations as data, expected answers, and the comparison
//!   stock_leveldb             the distribution's LevelDB, loaded at run time
//!   crafted                   databases that are assembled byte by byte
//!   emulator                  programs of another architecture
//!   etcd, tikv_double, http   clusters of etcd, and of a double of TiKV; requests over HTTP
//! ```
//!
//! For tests only: failures panic, and files are created without an environment. This crate does
//! not know the engine, which is a [`differential::DatabaseUnderTest`] like the stock library.

pub mod crafted;
pub mod differential;
pub mod emulator;
pub mod etcd;
pub mod http;
pub mod model;
pub mod op;
pub mod rng;
pub mod settings;
pub mod stock_leveldb;
pub mod tikv_double;

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped. So the other threads of a test end also after a panic.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
