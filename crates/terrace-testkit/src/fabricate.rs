//! Databases assembled byte by byte: files that no LevelDB writes, but that one may meet.
//!
//! ```text
//!   Fabricated            manifest, CURRENT, and any files
//!    +-- Table            a table file whose shape can be bent
//!    +-- Log              a log of batches, zeros, stumps and holes
//!   catalogue             the cases that every reader of the format must agree on
//! ```

pub mod catalogue;
mod log;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

pub use log::Log;
pub use table::{Filter, Table};

use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::filename::{FileName, current};

/// A database that is not written yet.
#[derive(Debug, Clone)]
pub struct Fabricated {
    edit: VersionEdit,
    /// Manifest records behind the first.
    records: Vec<Vec<u8>>,
    flipped: Option<usize>,
    files: BTreeMap<String, Vec<u8>>,
}

/// The number of every fabricated manifest.
const MANIFEST: u64 = 2;

impl Default for Fabricated {
    fn default() -> Fabricated {
        Fabricated::new()
    }
}

impl Fabricated {
    /// An empty database in bytewise order. Logs count from number 3, and numbers below 1,000 are taken.
    pub fn new() -> Fabricated {
        let edit = VersionEdit {
            comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
            log_number: Some(3),
            prev_log_number: Some(0),
            next_file: Some(1_000),
            last_sequence: Some(0),
            ..VersionEdit::default()
        };
        Fabricated { edit, records: Vec::new(), flipped: None, files: BTreeMap::new() }
    }

    /// Names another comparator.
    pub fn comparator(mut self, name: &str) -> Fabricated {
        self.edit.comparator = Some(name.as_bytes().to_vec());
        self
    }

    /// Adds a table file to a level.
    pub fn table(mut self, level: usize, number: u64, table: &Table) -> Fabricated {
        let bytes = table.encode();
        let (smallest, largest) = table.bounds();
        self.edit.added.push((level, NewFile { number, size: bytes.len() as u64, smallest, largest }));
        self.edit.last_sequence = self.edit.last_sequence.max(Some(table.last_sequence()));
        self.file(&FileName::Table(number).to_string(), bytes)
    }

    /// Adds a log file.
    pub fn log(self, number: u64, log: &Log) -> Fabricated {
        self.file(&FileName::Log(number).to_string(), log.bytes().to_vec())
    }

    /// Adds a record of any bytes to the manifest, behind the one that describes the tables.
    pub fn manifest_record(mut self, record: &[u8]) -> Fabricated {
        self.records.push(record.to_vec());
        self
    }

    /// Adds any file.
    pub fn file(mut self, name: &str, bytes: Vec<u8>) -> Fabricated {
        self.files.insert(name.to_owned(), bytes);
        self
    }

    /// Takes a file away that was added.
    pub fn without(mut self, name: &str) -> Fabricated {
        self.files.remove(name);
        self
    }

    /// Gives a file that was added another name.
    pub fn rename(mut self, from: &str, to: &str) -> Fabricated {
        let bytes = self.files.remove(from).unwrap_or_else(|| panic!("no {from}"));
        self.file(to, bytes)
    }

    /// Flips a bit of the manifest.
    pub fn flip_manifest(mut self, at: usize) -> Fabricated {
        self.flipped = Some(at);
        self
    }

    /// Every file by name.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut manifest = Log::new();
        let mut first = Vec::new();
        self.edit.encode(&mut first);
        for record in std::iter::once(&first).chain(&self.records) {
            manifest = manifest.record(record);
        }
        if let Some(at) = self.flipped {
            manifest = manifest.flip(at);
        }
        let mut files = self.files.clone();
        files.insert(FileName::Manifest(MANIFEST).to_string(), manifest.bytes().to_vec());
        files.insert(FileName::Current.to_string(), current::encode(MANIFEST));
        files
    }

    /// Writes the files into an existing directory.
    #[expect(clippy::disallowed_methods, reason = "makes the files that the engines under test are given")]
    pub fn write_to(&self, dir: &Path) {
        for (name, bytes) in self.files() {
            std::fs::write(dir.join(&name), bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
