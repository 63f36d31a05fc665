//! Engines by adapter. A new one is one file here and one row in [`ENGINES`].
//!
//! An adapter translates and decides nothing: it owns no cache, no batch and no thread of its own, so that what is
//! measured is the engine. Errors are sentences in the engine's own words.

mod c_api;
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
mod terrace;

use std::path::{Path, PathBuf};

use crate::report::model::Settings;

/// What went wrong, in the engine's words.
pub type Result<T> = std::result::Result<T, String>;

/// A row of the table.
pub struct EngineEntry {
    /// The word that asks for it.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// How it is called: `Rust API`, `C API`, `Go program`.
    pub interface: &'static str,
    /// Whether `id=PATH` may name the library or program to use.
    pub accepts_path: bool,
    /// Finds it. The error says what is missing, and what helps.
    pub find: FindFn,
}

/// An engine that is there.
pub struct FoundEngine {
    /// What it says itself, or empty.
    pub version: String,
    /// Where it was found: a library's path; empty if it is part of this program.
    pub location: String,
    /// What is peculiar to it: codecs that it lacks, settings that it ignores.
    pub note: String,
    /// Who does the work.
    pub runner: EngineRunner,
}

/// Who does the work.
pub enum EngineRunner {
    /// This program, in a process of its own.
    InProcess(Box<dyn Engine>),
    /// Another program that speaks the protocol of `run::child`.
    External {
        /// Its path.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// Opens databases.
pub trait Engine: Send + Sync {
    /// Opens the database in `dir`, which exists; makes it if there is none.
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>>;
}

/// An open database; dropping it closes it. Threads share it.
pub trait Store: Send + Sync {
    /// Puts one entry.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Deletes one key, there or not.
    fn delete(&self, key: &[u8], sync: bool) -> Result<()>;

    /// Does all of `changes`, or none.
    fn write(&self, changes: &[Change], sync: bool) -> Result<()>;

    /// Looks `key` up. If it is there, `value` is replaced by its value.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// A cursor over the entries as they are now, at none of them. It ends before the store does.
    fn cursor(&self) -> Result<Box<dyn Cursor + '_>>;

    /// Compacts everything, and returns when that is done. An engine without such a thing does nothing.
    fn compact(&self) -> Result<()>;
}

/// One change of a batch.
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// Its new value; none deletes it.
    pub value: Option<Vec<u8>>,
}

/// A place among the entries. Every move tells whether there is an entry.
pub trait Cursor {
    /// To the first entry.
    fn first(&mut self) -> Result<bool>;

    /// To the last entry.
    fn last(&mut self) -> Result<bool>;

    /// To the first entry whose key is `key` or greater.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// To the entry after. Only from an entry.
    fn next(&mut self) -> Result<bool>;

    /// To the entry before. Only from an entry.
    fn prev(&mut self) -> Result<bool>;

    /// The entry's key and value. Only at an entry; valid until the next move.
    fn entry(&self) -> (&[u8], &[u8]);
}

/// Every engine, in the order of `--list`.
pub static ENGINES: &[EngineEntry] = &[
    EngineEntry {
        id: "terrace",
        name: "Terrace",
        interface: "Rust API",
        accepts_path: false,
        find: terrace::find,
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
    EngineEntry { id: "lmdb", name: "LMDB", interface: "C API", accepts_path: true, find: lmdb_c::find },
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
];

/// The engine that `id` asks for.
pub fn by_id(id: &str) -> Option<&'static EngineEntry> {
    ENGINES.iter().find(|row| row.id == id)
}

/// What finds an engine.
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
