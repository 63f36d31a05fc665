//! Databases that are assembled byte by byte, with files that no LevelDB writes but that a reader
//! may find.
//!
//! ```text
//!   CraftedDb            MANIFEST, CURRENT, and any other files
//!    +-- CraftedTable    a table file with unusual properties
//!    +-- CraftedLog      a log of batches, zeros, incomplete records and gaps
//!   format_cases         cases on which all readers of the format must agree
//! ```

pub mod format_cases;
mod log;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

pub use log::CraftedLog;
pub use table::{CraftedFilter, CraftedTable};

use terrace_format::filename::{FileName, current};
use terrace_format::version_edit::{NewFile, VersionEdit};

/// A database in memory.
#[derive(Debug, Clone)]
pub struct CraftedDb {
    edit: VersionEdit,
    /// Records of the MANIFEST after the first.
    extra_manifest_records: Vec<Vec<u8>>,
    manifest_flip_offset: Option<usize>,
    files: BTreeMap<String, Vec<u8>>,
}

/// File number of the MANIFEST of each crafted database.
const MANIFEST_NUMBER: u64 = 2;

impl Default for CraftedDb {
    fn default() -> CraftedDb {
        CraftedDb::new()
    }
}

impl CraftedDb {
    /// Creates an empty database with bytewise order. Logs from number 3 on are live, and the next
    /// file number is 1,000.
    pub fn new() -> CraftedDb {
        let edit = VersionEdit {
            comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
            log_number: Some(3),
            prev_log_number: Some(0),
            next_file_number: Some(1_000),
            last_sequence: Some(0),
            ..VersionEdit::default()
        };
        CraftedDb {
            edit,
            extra_manifest_records: Vec::new(),
            manifest_flip_offset: None,
            files: BTreeMap::new(),
        }
    }

    /// Sets the name of the comparator.
    pub fn comparator(mut self, name: &str) -> CraftedDb {
        self.edit.comparator = Some(name.as_bytes().to_vec());
        self
    }

    /// Adds a table file to a level.
    pub fn table(mut self, level: usize, number: u64, table: &CraftedTable) -> CraftedDb {
        let bytes = table.encode();
        let (smallest, largest) = table.key_range();
        self.edit.new_files.push((level, NewFile { number, size: bytes.len() as u64, smallest, largest }));
        self.edit.last_sequence = self.edit.last_sequence.max(Some(table.last_sequence()));
        self.file(&FileName::Table(number).to_string(), bytes)
    }

    /// Adds a log file.
    pub fn log(self, number: u64, log: &CraftedLog) -> CraftedDb {
        self.file(&FileName::Log(number).to_string(), log.bytes().to_vec())
    }

    /// Adds a record to the MANIFEST, after the one that describes the tables.
    pub fn manifest_record(mut self, record: &[u8]) -> CraftedDb {
        self.extra_manifest_records.push(record.to_vec());
        self
    }

    /// Adds a file.
    pub fn file(mut self, name: &str, bytes: Vec<u8>) -> CraftedDb {
        self.files.insert(name.to_owned(), bytes);
        self
    }

    /// Removes a file.
    pub fn without_file(mut self, name: &str) -> CraftedDb {
        self.files.remove(name);
        self
    }

    /// Renames a file.
    pub fn rename_file(mut self, from: &str, to: &str) -> CraftedDb {
        let bytes = self.files.remove(from).unwrap_or_else(|| panic!("no {from}"));
        self.file(to, bytes)
    }

    /// Flips a bit of the MANIFEST at a byte offset.
    pub fn flip_manifest_bit(mut self, offset: usize) -> CraftedDb {
        self.manifest_flip_offset = Some(offset);
        self
    }

    /// Returns all files by name.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut manifest = CraftedLog::new();
        let mut first = Vec::new();
        self.edit.encode(&mut first);
        for record in std::iter::once(&first).chain(&self.extra_manifest_records) {
            manifest = manifest.record(record);
        }
        if let Some(offset) = self.manifest_flip_offset {
            manifest = manifest.flip_bit(offset);
        }
        let mut files = self.files.clone();
        files.insert(FileName::Manifest(MANIFEST_NUMBER).to_string(), manifest.bytes().to_vec());
        files.insert(FileName::Current.to_string(), current::encode(MANIFEST_NUMBER));
        files
    }

    /// Writes the files into an existing directory.
    #[expect(clippy::disallowed_methods, reason = "creates the files for the databases under test")]
    pub fn write_to(&self, dir: &Path) {
        for (name, bytes) in self.files() {
            std::fs::write(dir.join(&name), bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
