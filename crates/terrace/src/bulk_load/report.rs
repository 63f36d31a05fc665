//! Result of a bulk load, and its progress.

/// Result of [`bulk_load`](fn@crate::bulk_load).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Number of entries that the iterator returned.
    pub entries: u64,
    /// Number of different keys.
    pub keys: u64,
    /// Size of the ingested tables in bytes. 0 if the entries were put.
    pub table_bytes: u64,
    /// True if the entries were ingested, and false if they were put.
    pub is_ingested: bool,
}

/// Progress of [`bulk_load`](fn@crate::bulk_load).
///
/// The phases follow each other; not every load has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadProgress {
    /// The load has read this number of entries.
    Read(u64),
    /// The load has merged `done` of `total` bytes of sorted runs.
    Merged {
        /// Merged bytes.
        done: u64,
        /// Bytes of all sorted runs.
        total: u64,
    },
    /// The load has put `done` of `total` entries.
    Put {
        /// Entries in the database.
        done: u64,
        /// Number of different keys.
        total: u64,
    },
}
