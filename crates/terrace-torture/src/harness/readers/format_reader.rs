//! The trait and the table of readers, and the copies that they read.

use std::path::Path;
use std::sync::OnceLock;

use terrace_testkit::differential::{Entry, OpResult};

use super::{goleveldb, kezhuw, rocksdb, rocksdict, rusty_leveldb, stock_leveldb};

/// Program or library that reads LevelDB's format.
pub(super) trait FormatReader: Send + Sync {
    /// Opens the database in `dir`, whose files the reader may change, and returns all entries.
    fn read(&self, dir: &Path) -> OpResult<Vec<Entry>>;
}

/// Row of the table of readers.
pub(super) struct ReaderRow {
    /// Name in messages.
    pub(super) name: &'static str,
    /// Finds the reader. The error names the missing part and the command that installs it.
    pub(super) find: fn() -> Result<Box<dyn FormatReader>, String>,
}

/// All readers.
pub(super) static READERS: &[ReaderRow] = &[
    ReaderRow { name: "LevelDB", find: stock_leveldb::find },
    ReaderRow { name: "LevelDB with paranoid checks", find: stock_leveldb::find_paranoid },
    ReaderRow { name: "RocksDB", find: rocksdb::find },
    ReaderRow { name: "RocksDB for writing", find: rocksdict::find },
    ReaderRow { name: "goleveldb", find: goleveldb::find },
    ReaderRow { name: "kezhuw/leveldb", find: kezhuw::find },
    ReaderRow { name: "rusty-leveldb", find: rusty_leveldb::find },
];

/// Difference between a reader and Terrace that the reader also shows for LevelDB's databases.
pub(super) struct KnownDifference {
    /// Name of the reader.
    pub(super) reader: &'static str,
    /// Part of the message.
    pub(super) message: &'static str,
    /// True if the difference is known only for databases that LevelDB wrote.
    pub(super) only_leveldb: bool,
}

/// All known differences. A row needs a case with LevelDB as the writer that shows it.
pub(super) static KNOWN_DIFFERENCES: &[KnownDifference] = &[
    // RocksDB compares sequence numbers of the tables of level 0, which LevelDB's MANIFEST lacks.
    KnownDifference { reader: "RocksDB", message: "force_consistency_checks", only_leveldb: false },
    // goleveldb drops log records below the last sequence number of the MANIFEST. LevelDB stores a
    // later number there than that of the first record of the log; Terrace must not.
    KnownDifference { reader: "goleveldb", message: " entries, Terrace has ", only_leveldb: true },
];

impl KnownDifference {
    /// Returns true if this row explains a difference.
    pub(super) fn explains(&self, reader: &str, by_leveldb: bool, message: &str) -> bool {
        self.reader == reader && message.contains(self.message) && (by_leveldb || !self.only_leveldb)
    }
}

/// Reader that this machine has.
pub(super) struct AvailableReader {
    pub(super) name: &'static str,
    pub(super) reader: Box<dyn FormatReader>,
}

/// Returns the readers that this machine has. The first call of a process names the others.
pub(super) fn available_readers() -> &'static [AvailableReader] {
    static AVAILABLE: OnceLock<Vec<AvailableReader>> = OnceLock::new();
    AVAILABLE.get_or_init(|| READERS.iter().filter_map(find_or_report).collect())
}

fn find_or_report(row: &ReaderRow) -> Option<AvailableReader> {
    match (row.find)() {
        Ok(reader) => Some(AvailableReader { name: row.name, reader }),
        Err(reason) => {
            eprintln!("\nNOT TESTED: readers: {}: {reason}", row.name);
            None
        }
    }
}

/// Lets a reader read a copy of the files in `dir`.
pub(super) fn read_copy(reader: &dyn FormatReader, dir: &Path) -> OpResult<Vec<Entry>> {
    let copy = tempfile::tempdir().map_err(|error| error.to_string())?;
    copy_files(dir, copy.path()).map_err(|error| format!("copy: {error}"))?;
    reader.read(copy.path())
}

/// Copies the files of a directory, without its subdirectories and the lock.
pub(in super::super) fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Returns an error with the first entry that differs from Terrace's.
pub(super) fn check_equal(name: &str, theirs: &[Entry], ours: &[Entry]) -> Result<(), String> {
    if theirs == ours {
        return Ok(());
    }
    let index = theirs.iter().zip(ours).take_while(|(a, b)| a == b).count();
    Err(format!(
        "{} entries, Terrace has {}; at entry {index} {name} has {}, Terrace {}",
        theirs.len(),
        ours.len(),
        describe(theirs.get(index)),
        describe(ours.get(index))
    ))
}

fn describe(entry: Option<&Entry>) -> String {
    entry.map_or("no entry".into(), |(key, value)| {
        format!("\"{}\" with {} bytes", key.escape_ascii(), value.len())
    })
}
