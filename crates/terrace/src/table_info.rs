//! Description of a table file, for callers and listeners.

use std::fmt;

/// Table file of a level.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// File number, which is in the name of the file.
    pub number: u64,
    /// File size in bytes.
    pub size: u64,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
    /// Number of entries, tombstones included. Known for a table that was written or opened since
    /// the open of the database, if its file has the count.
    pub entries: Option<u64>,
    /// Estimated number of block reads by gets and iterators since the open of the database.
    pub reads: u64,
}

impl TableInfo {
    /// Creates the description of a table with the file number `number`.
    pub fn new(number: u64, size: u64, smallest: Vec<u8>, largest: Vec<u8>) -> TableInfo {
        TableInfo { number, size, smallest, largest, entries: None, reads: 0 }
    }
}

impl fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableInfo { number, size, smallest, largest, .. } = self;
        let smallest = smallest.escape_ascii();
        let largest = largest.escape_ascii();
        write!(f, "TableInfo({number}: {size} bytes, '{smallest}' to '{largest}')")
    }
}
