//! Files of a database at one moment, as a capture returns them.

use std::collections::HashMap;

use terrace_env::{RandomAccessFile, SequentialFile};
use terrace_format::key::SequenceNumber;

use crate::memtable::Memtable;
use crate::sync::Arc;
use crate::version::VersionSet;

/// Log with writes that no captured table has.
pub(crate) struct CapturedLog {
    pub(crate) number: u64,
    /// Length of the captured records, in bytes. The file may be longer.
    pub(crate) len: u64,
    /// The file, opened at its start.
    pub(crate) file: Box<dyn SequentialFile>,
}

/// Files of a database at one moment.
pub(crate) struct DatabaseCapture {
    /// Tables and counters. The files of the tables exist as long as this value, except for those
    /// of a follower, whose writer removes them at any time.
    pub(crate) version_set: VersionSet,
    /// Open files of the tables of a follower, by number.
    pub(crate) held_tables: HashMap<u64, Arc<dyn RandomAccessFile>>,
    /// Sequence number of the last write.
    pub(crate) last_sequence: SequenceNumber,
    /// Number that no file of the database has reached.
    pub(crate) next_file_number: u64,
    /// Logs with all writes after the tables, oldest first. Empty for a read-only database.
    pub(crate) logs: Vec<CapturedLog>,
    /// Memtables of a read-only database, oldest first: the result of the replay of its logs.
    pub(crate) memtables: Vec<Arc<Memtable>>,
}
