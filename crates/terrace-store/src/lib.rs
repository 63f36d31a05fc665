//! One interface for databases on this machine, in memory and on a distributed engine.
//!
//! A program that uses a [`Store`] runs on every engine without a change. [`open`] takes an
//! address and finds the engine in the table [`ENGINES`]:
//!
//! ```text
//!   memory:                          ordered map, lost at the end of the process
//!   local:PATH                       database of the crate `terrace` in a directory
//!   etcd://HOST[:PORT],../PREFIX     etcd cluster (feature `etcd`)
//!   tikv://HOST[:PORT],../PREFIX     TiKV cluster (feature `tikv`)
//! ```
//!
//! ```text
//!   store         traits of a store, its snapshots and its iterators
//!   transaction   transactions over any store: snapshot, own writes, conditional write
//!   engine/       table of the engines, one file or folder each
//!   paged_cursor  iterator over pages that a server sends
//!   migrate       copy of a store to another one
//! ```
//!
//! Engines differ in latency, limits and the lifetime of snapshots. A difference appears as a typed
//! [`Error`] or in [`Limits`], never as a wrong result.
//!
//! ```
//! use terrace_store::{OpenOptions, open};
//!
//! let store = open("memory:", &OpenOptions::default())?;
//! store.put(b"CH/Bern", b"46.95,7.45")?;
//! let before = store.snapshot()?;
//! store.delete(b"CH/Bern")?;
//! assert_eq!(before.get(b"CH/Bern")?.as_deref(), Some(b"46.95,7.45".as_slice()));
//! assert_eq!(store.get(b"CH/Bern")?, None);
//! # Ok::<(), terrace_store::Error>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod engine;
mod error;
mod key_range;
pub mod migrate;
#[cfg(any(feature = "etcd", feature = "tikv"))]
mod paged_cursor;
mod store;
mod transaction;
mod transaction_iterator;

pub use address::Address;
pub use engine::{ENGINES, Engine, OpenOptions, is_address, open};
pub use error::{Error, Result};
pub use key_range::KeyRange;
pub use store::{
    Condition, Limits, Position, RequestCount, SnapshotWithValues, Store, StoreIterator, StoreSnapshot,
};
pub use transaction::{Transaction, TransactionOptions};
pub use transaction_iterator::TransactionIterator;

pub use terrace::{Isolation, WriteBatch, WriteOptions};
