//! Terrace: an embedded, ordered key-value store that reads and writes LevelDB's files.
//!
//! Keys and values are byte strings, and keys are ordered. A [`Db`] is a directory that one process
//! has open and that all of its threads may use. Every write is atomic, also a batch. A snapshot or
//! an iterator sees the state at one moment. Terrace opens databases of LevelDB 1.23 without
//! conversion, and LevelDB opens databases of Terrace.
//!
//! ```
//! use terrace::{Db, Env, Options, WriteBatch};
//!
//! let options = Options::default().create_if_missing(true).env(Env::in_memory());
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
//! A write survives a process crash as soon as its call returns. It survives a power cut if its own
//! [`WriteOptions::sync`] or that of a later write was set, or if [`Db::sync`] was called later.
//! With mapped logs, the database then holds a prefix of the writes in their order, without gaps.
//! With appended logs, as on file systems that copy on write, unsynced writes may be missing
//! between others, as with LevelDB ([`Options::mapped_logs`]).
//!
//! # Threads and processes
//!
//! A [`Db`] is `Send` and `Sync`, its clones share one database, and all calls take `&self`. One
//! process at a time has a database open for writing. [`Db::follow`] reads it from other processes.
//!
//! # Limits
//!
//! A key or a value has less than 4 GiB. A batch and the writes of a transaction are in memory. The
//! databases of a process share half of its memory, unless [`Options::memory_budget`] is set.
//!
//! # Errors
//!
//! Each [`Error`] has a [kind](ErrorKind), and the fault of a file has its name and the place.
//! After an error for which [`Error::is_retryable`] is true, such as that of a full disk, the same
//! call may succeed later. After a failed sync, the database refuses writes until it is opened
//! again. Reads continue.

mod bulk_load;
mod cache;
mod checkpoint;
mod compaction;
mod db;
mod error;
mod event;
mod file_io;
mod info_log;
mod ingest;
mod internal_iterator;
mod iterator;
#[cfg(feature = "loom")]
#[doc(hidden)]
pub mod loom_models;
mod memtable;
mod options;
mod repair;
mod shared_budget;
mod snapshot;
mod stats;
mod sync;
pub mod table;
mod table_info;
mod txn;
mod verify;
mod version;

pub use bulk_load::{LoadOptions, LoadProgress, LoadReport, bulk_load, bulk_load_with_progress};
pub use cache::{BlockCache, CachedBlock, ExternalBlockCache};
pub use checkpoint::{BackupInfo, BackupReport, Backups};
pub use db::{
    CompactionStatus, Db, DestroyOptions, DestroyReport, FollowOptions, LevelInfo, LevelStats, LogEndReason,
    MemoryPart, MemoryUse, MemtableState, MemtableStats, PinnedValue, RecoveredLog, RecoveryReport,
    StalledWriters, StateStamp, Stats, Unchanged, UnchangedKey, UnchangedRange, comparator_name, destroy,
    destroy_with,
};
pub use error::{Corruption, Error, ErrorKind, Result};
pub use event::{
    CompactionInputs, CompactionReason, Event, EventListener, FlushedTable, StallState, TableChangeCause,
    TableChanges,
};
pub use info_log::{Logger, file_logger};
pub use ingest::IngestOptions;
pub use iterator::{DbIterator, Iter};
pub use options::{CompactionStyle, Options, ReadOptions, RepairOptions, WriteOptions};
pub use repair::{RepairReport, repair};
pub use snapshot::Snapshot;
pub use stats::{HistogramData, Ticker, Timer};
pub use table::{SortedTable, SortedTableInfo};
pub use table_info::TableInfo;
pub use txn::{
    Isolation, Savepoint, Transaction, TransactionEntries, TransactionIterator, TransactionOptions,
};
pub use verify::{Problem, VerifyReport, verify, verify_with_progress};

pub use terrace_env::{Env, MappedLogs};
pub use terrace_format::batch::{BatchOp, WriteBatch};
pub use terrace_format::comparator::{Bytewise, Comparator, bytewise};
pub use terrace_format::compress::Codec;
pub use terrace_format::filter::{BloomFilterPolicy, FilterPolicy};
pub use terrace_format::key::SequenceNumber;

/// Interface to the operating system: files, clocks, threads and randomness.
///
/// [`Env`] combines the parts. A program that replaces one of them implements its trait.
pub mod env {
    #[cfg(unix)]
    pub use terrace_env::posix;
    #[cfg(windows)]
    pub use terrace_env::windows;
    pub use terrace_env::{
        AccessMode, AppendingLog, Clock, DeterministicScheduler, DirectoryStamp, Env, FileError,
        FileIdentity, FileLock, FileSystem, LiveFile, LockHolder, LockMode, LogFile, ManualClock, Priority,
        Random, RandomAccessFile, Result, ScheduledJob, Scheduler, SeededRandom, SequentialFile, SystemClock,
        SystemFs, SystemRandom, ThreadPool, WritableFile,
    };
    pub use terrace_env::{fault, mem};
}

/// Compression of blocks: the codecs, and their lookup by name or id.
pub mod compress {
    pub use terrace_format::compress::{
        CODECS, Codec, DEFLATE, MAX_BLOCK_CONTENTS, NO_COMPRESSION, SNAPPY, ZLIB, ZSTD, codec_by_name,
        codec_of_block, decompress, decompress_into,
    };
}
