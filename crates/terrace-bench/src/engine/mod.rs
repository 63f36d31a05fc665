//! Engines and their adapters. A new engine is one file here and one row in [`ENGINES`].
//!
//! An adapter only translates calls. It has no cache, batch or thread of its own, so that the
//! benchmark measures the engine. Errors are the engine's own messages.

mod c_api;
mod entry_source;
#[cfg(test)]
pub(crate) mod faulty;
#[cfg(feature = "fjall")]
mod fjall;
mod go_program;
mod leveldb_c;
mod lmdb_c;
mod lockfile_versions;
#[cfg(any(test, feature = "fjall", feature = "redb"))]
mod range_cursor;
#[cfg(feature = "redb")]
mod redb;
mod rocksdb_c;
mod rocksdb_tables;
mod rocksdb_txn;
mod scanned_entries;
mod terrace;

use std::path::{Path, PathBuf};

pub use scanned_entries::ScannedEntries;

use crate::report::model::Settings;
use crate::workload::phase_spec::Kind;
pub use entry_source::EntrySource;

/// Result whose error is the engine's message.
pub type Result<T> = std::result::Result<T, String>;

/// Row of the engine table.
pub struct EngineEntry {
    /// Name on the command line.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Interface of the engine: `Rust API`, `C API`, `Go program`.
    pub interface: &'static str,
    /// Whether `id=PATH` may select a library or program.
    pub accepts_path: bool,
    /// Finds the engine, without building it. The error names the missing part and the command that
    /// installs it.
    pub find: FindFn,
}

/// An engine that is available.
pub struct FoundEngine {
    /// Version that the engine reports, or empty.
    pub version: String,
    /// Path of the library or program; empty if the engine is compiled into this program.
    pub location: String,
    /// Differences from other engines, and from the engine as its users run it: missing codecs,
    /// ignored settings, build options.
    pub note: String,
    /// Whether the engine compacts. Without compaction, it takes no part in rows that compact.
    pub has_compaction: bool,
    /// Whether [`Store::transact`] works. Without it, the engine takes no part in rows of
    /// transactions.
    pub has_transactions: bool,
    /// Optional kinds of operations that the adapter implements.
    pub optional_kinds: &'static [Kind],
    /// Program that executes the engine's operations.
    pub runner: EngineRunner,
}

/// Program that executes an engine's operations.
pub enum EngineRunner {
    /// This program, in a new process.
    InProcess(Box<dyn Engine>),
    /// Another program, which uses the protocol of [`crate::run::protocol`].
    External {
        /// Path of the program.
        program: PathBuf,
        /// Arguments of the program.
        arguments: Vec<String>,
        /// Builds the program, if that is necessary.
        build: fn() -> Result<()>,
    },
}

/// An engine that opens databases.
pub trait Engine: Send + Sync {
    /// Opens the database in the existing directory `dir`, and creates it if it does not exist.
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>>;
}

/// An open database that threads share. Dropping it closes the database.
pub trait Store: Send + Sync {
    /// Puts one entry.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Deletes one key, which may be missing.
    fn delete(&self, key: &[u8], sync: bool) -> Result<()>;

    /// Applies all of `changes` atomically.
    fn write(&self, changes: &[Change], sync: bool) -> Result<()>;

    /// Gets the value of `key` into `value`. Returns false if the key is missing.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Returns a cursor over the current entries, not yet at an entry. It must be dropped before
    /// the store.
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>>;

    /// Compacts the whole database and waits for the end. An engine without compactions does
    /// nothing.
    fn compact(&self) -> Result<()>;

    /// Adds all entries of `entries`, which are in any order, by the engine's fastest way to load.
    /// Of several entries with one key, the last one counts. The entries are durable at the end.
    fn bulk_load(&self, entries: EntrySource<'_>) -> Result<()> {
        let _ = entries;
        Err("the engine has no bulk load".to_owned())
    }

    /// Copies the database to `dir`, which does not exist.
    fn checkpoint(&self, dir: &Path) -> Result<()> {
        let _ = dir;
        Err("the engine has no checkpoints".to_owned())
    }

    /// Opens the database for reads beside this store.
    fn follow(&self) -> Result<Box<dyn Follower>> {
        Err("the engine has no followers".to_owned())
    }

    /// Runs `body` in a transaction and commits it. Runs it again after each conflict. Nothing is
    /// written if it fails.
    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        let _ = body;
        Err("the engine has no transactions".to_owned())
    }
}

/// Database that shows the writes of another store after a short time.
pub trait Follower: Send + Sync {
    /// Gets the value of `key` into `value`. Returns false if the key is missing.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Reads all writes that have returned.
    fn catch_up(&self) -> Result<()>;
}

/// Operations of a transaction. They may run several times.
pub type TxnBody<'a> = dyn FnMut(&mut dyn Txn) -> std::result::Result<(), TxnError> + 'a;

/// An open transaction of [`Store::transact`].
pub trait Txn {
    /// Gets the value of `key`, which the transaction will put, into `value`. Returns false if the
    /// key is missing.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError>;

    /// Puts one entry.
    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError>;

    /// Visits the entries from `from`, included, to `to`, excluded.
    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError>;
}

/// Receiver of the entries of a scan.
pub type EntryVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> std::result::Result<(), TxnError> + 'a;

/// Reason for the end of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub enum TxnError {
    /// Another transaction interfered. The engine repeats the transaction.
    Conflict,
    /// Error of the engine, or a wrong value.
    Failed(String),
}

impl From<String> for TxnError {
    fn from(error: String) -> TxnError {
        TxnError::Failed(error)
    }
}

impl From<TxnError> for String {
    fn from(error: TxnError) -> String {
        match error {
            TxnError::Conflict => "a conflict between transactions".to_owned(),
            TxnError::Failed(error) => error,
        }
    }
}

/// One change of a batch.
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// New value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// Position among the entries. Every move returns whether the cursor is at an entry.
pub trait Cursor {
    /// Moves to the first entry.
    fn first(&mut self) -> Result<bool>;

    /// Moves to the last entry.
    fn last(&mut self) -> Result<bool>;

    /// Moves to the first entry with a key not less than `key`.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// Moves to the next entry. The cursor must be at an entry.
    fn next(&mut self) -> Result<bool>;

    /// Moves to the previous entry. The cursor must be at an entry.
    fn prev(&mut self) -> Result<bool>;

    /// Key and value of the entry, valid until the next move. The cursor must be at an entry.
    fn entry(&self) -> (&[u8], &[u8]);

    /// Moves by `steps`, backward if `reverse`, and adds a copy of the entry of each step to
    /// `entries`. Stops at the last entry. The cursor must be at an entry.
    fn copy_steps(&mut self, steps: u64, reverse: bool, entries: &mut ScannedEntries) -> Result<()> {
        entries.copy_steps(self, steps, reverse)
    }
}

/// All engines, in the order of `--list`.
pub static ENGINES: &[EngineEntry] = &[
    EngineEntry {
        id: "terrace",
        name: "Terrace",
        interface: "Rust API",
        accepts_path: false,
        find: terrace::find,
    },
    EngineEntry {
        id: "terrace-appended",
        name: "Terrace (appended logs)",
        interface: "Rust API",
        accepts_path: false,
        find: terrace::find_appended,
    },
    EngineEntry {
        id: "terrace-leveled",
        name: "Terrace (leveled)",
        interface: "Rust API",
        accepts_path: false,
        find: terrace::find_leveled,
    },
    EngineEntry {
        id: "terrace-c",
        name: "Terrace (C)",
        interface: "C API",
        accepts_path: true,
        find: leveldb_c::find_terrace,
    },
    EngineEntry {
        id: "leveldb",
        name: "LevelDB",
        interface: "C API",
        accepts_path: true,
        find: leveldb_c::find,
    },
    EngineEntry {
        id: "rocksdb",
        name: "RocksDB",
        interface: "C API",
        accepts_path: true,
        find: rocksdb_c::find,
    },
    EngineEntry {
        id: "rocksdb-optimistic",
        name: "RocksDB (optimistic transactions)",
        interface: "C API",
        accepts_path: true,
        find: rocksdb_txn::find_optimistic,
    },
    EngineEntry {
        id: "rocksdb-pessimistic",
        name: "RocksDB (pessimistic transactions)",
        interface: "C API",
        accepts_path: true,
        find: rocksdb_txn::find_pessimistic,
    },
    EngineEntry { id: "lmdb", name: "LMDB", interface: "C API", accepts_path: true, find: lmdb_c::find },
    EngineEntry {
        id: "lmdb-renewed",
        name: "LMDB (renewed)",
        interface: "C API",
        accepts_path: true,
        find: lmdb_c::find_renewed,
    },
    EngineEntry { id: "fjall", name: "fjall", interface: "Rust API", accepts_path: false, find: FIND_FJALL },
    EngineEntry { id: "redb", name: "redb", interface: "Rust API", accepts_path: false, find: FIND_REDB },
    EngineEntry {
        id: "goleveldb",
        name: "goleveldb",
        interface: "Go program",
        accepts_path: true,
        find: go_program::goleveldb,
    },
    EngineEntry {
        id: "pebble",
        name: "Pebble",
        interface: "Go program",
        accepts_path: true,
        find: go_program::pebble,
    },
    EngineEntry {
        id: "badger",
        name: "Badger",
        interface: "Go program",
        accepts_path: true,
        find: go_program::badger,
    },
];

/// Returns the engine called `id`.
pub fn by_id(id: &str) -> Option<&'static EngineEntry> {
    ENGINES.iter().find(|row| row.id == id)
}

/// Function that finds an engine.
type FindFn = fn(Option<&Path>) -> Result<FoundEngine>;

#[cfg(feature = "fjall")]
const FIND_FJALL: FindFn = fjall::find;
#[cfg(not(feature = "fjall"))]
const FIND_FJALL: FindFn = not_built_in;

#[cfg(feature = "redb")]
const FIND_REDB: FindFn = redb::find;
#[cfg(not(feature = "redb"))]
const FIND_REDB: FindFn = not_built_in;

#[cfg(not(all(feature = "fjall", feature = "redb")))]
fn not_built_in(_: Option<&Path>) -> Result<FoundEngine> {
    Err("not built in: cargo build --release -p terrace-cli --features peers".to_owned())
}

#[cfg(test)]
mod tests;
