//! Entries of tables above the last sequence number of the MANIFEST.
//!
//! ```text
//!   goleveldb   memtable to 447 | transaction to 454, its edit: last 454 | edit of the flush: 447
//!   next open                                                             448 to 454 are hidden
//! ```
//!
//! goleveldb writes a batch larger than its write buffer to tables at once. If it still flushes an
//! earlier memtable, the edit of the flush comes later and states a smaller last sequence number
//! (goleveldb, `leveldb/db_compaction.go`, `memCompaction`). LevelDB and goleveldb then hide the
//! acknowledged batch, and give its sequence numbers to later writes. Such a table has a key range
//! that exceeds the last sequence number, so an open of Terrace finds it, and takes the greatest
//! number from the table.

use std::path::Path;

use terrace_env::AccessMode;
use terrace_format::filename::FileName;
use terrace_format::key::{self, SequenceNumber};

use crate::error::{ErrorKind, Result};
use crate::options::Options;
use crate::table::SstFileReader;
use crate::version::{FileMeta, VersionSet};

/// Returns the greatest sequence number of the tables with hidden entries, or None without such
/// tables. `files` are those of `directory`. A damaged table counts with its readable entries.
pub(super) fn last_sequence(
    directory: &Path,
    files: &[FileName],
    options: &Options,
    version_set: &VersionSet,
) -> Result<Option<SequenceNumber>> {
    let mut last = None;
    for file in version_set.version.levels.iter().flatten() {
        if file.smallest.sequence().max(file.largest.sequence()) > version_set.last_sequence {
            last = last.max(Some(sequence_of_listed_table(directory, files, options, file)?));
        }
    }
    Ok(last.filter(|last| *last > version_set.last_sequence))
}

/// Returns the greatest sequence number of the readable entries of `file`.
fn sequence_of_listed_table(
    directory: &Path,
    files: &[FileName],
    options: &Options,
    file: &FileMeta,
) -> Result<SequenceNumber> {
    let names = [FileName::Table(file.number), FileName::OldTable(file.number)];
    // A read-only open of a damaged database does without missing tables.
    let Some(name) = names.into_iter().find(|name| files.contains(name)) else { return Ok(0) };
    greatest_sequence(&directory.join(name.to_string()), options)
}

/// Returns the greatest sequence number of the readable entries of the table at `path`.
pub(super) fn greatest_sequence(path: &Path, options: &Options) -> Result<SequenceNumber> {
    let opened = options.env.fs.open_random_access(path, AccessMode::Pread)?;
    let mut entries = match SstFileReader::open(opened, path, options) {
        Err(error) if error.kind() == ErrorKind::Corruption => return Ok(0),
        table => table?.iter(false),
    };
    let mut greatest = 0;
    entries.seek_to_first();
    while entries.valid() {
        greatest = greatest.max(key::trailer(entries.key()) >> 8);
        entries.next();
    }
    match entries.status() {
        Err(error) if error.kind() != ErrorKind::Corruption => Err(error),
        _ => Ok(greatest),
    }
}
