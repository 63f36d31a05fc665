//! Terrace: an embedded, ordered key-value store on LevelDB's files.
//!
//! Keys and values are byte strings; keys are kept in order. A [`Db`] is a directory that one process has open, and
//! that any number of its threads share. Every operation is atomic, batches included; a snapshot or an iterator sees
//! one moment. Databases written by LevelDB 1.23 open as they are, and LevelDB opens what Terrace wrote.
//!
//! ```
//! use terrace::{Db, Env, Options, WriteBatch};
//!
//! let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
//! let db = Db::open("cities", &options)?;
//! db.put(b"CH/Bern", b"46.95,7.45")?;
//!
//! let mut batch = WriteBatch::new();
//! batch.put(b"CH/Chur", b"46.85,9.53");
//! batch.delete(b"CH/Bern");
//! db.write(&batch)?;
//!
//! assert_eq!(db.get(b"CH/Bern")?, None);
//! assert_eq!(db.get(b"CH/Chur")?.as_deref(), Some(b"46.85,9.53".as_slice()));
//! # Ok::<(), terrace::Error>(())
//! ```
//!
//! # Durability
//!
//! A write that returned survives the death of the process. It survives a power cut if it was made with
//! [`WriteOptions::sync`], or if a later write was. After a power cut the database holds a prefix of the writes, in
//! their order, never with a hole.

mod cache;
mod compaction;
mod db;
mod error;
mod file_io;
mod info_log;
mod internal_iterator;
mod iterator;
#[cfg(feature = "loom")]
#[doc(hidden)]
pub mod loom_models;
mod memtable;
mod options;
mod repair;
mod snapshot;
mod stats;
mod sync;
pub mod table;
mod verify;
mod version;

pub use cache::{BlockCache, CachedBlock, ExternalBlockCache};
pub use db::{Db, LevelInfo, PinnedValue, TableInfo, destroy};
pub use error::{Corruption, Error, ErrorKind, Result};
pub use info_log::{Logger, file_logger};
pub use iterator::{Backward, DbIterator, Forward};
pub use options::{Options, ReadOptions, WriteOptions};
pub use repair::{RepairOptions, RepairReport, repair};
pub use snapshot::Snapshot;
pub use verify::{Problem, VerifyReport, verify};

pub use terrace_env::{self as env, Env};
pub use terrace_format::batch::{BatchOp, WriteBatch};
pub use terrace_format::comparator::{Bytewise, Comparator, bytewise};
pub use terrace_format::compress::{self, Codec};
pub use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
