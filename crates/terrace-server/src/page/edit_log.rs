//! Edit log: the last changes of the set of tables, so that the picture of the levels can go back.
//!
//! ```text
//!   base: tables before edit 1      edit 0 is the oldest kept state
//!   edits: [+ 9] [+ 10 11 - 7 8] .. each with its time and its cause
//! ```

/// Table at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRow {
    pub(crate) number: u64,
    pub(crate) level: usize,
    pub(crate) bytes: u64,
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
    /// Number of entries, if it is known.
    pub(crate) entries: Option<u64>,
    /// Milliseconds since 1970.
    pub(crate) created_at: u64,
}

impl TableRow {
    /// Table without figures.
    pub(crate) fn new(number: u64, level: usize, smallest: Vec<u8>, largest: Vec<u8>) -> TableRow {
        TableRow {
            number,
            level,
            bytes: 0,
            smallest: smallest.into(),
            largest: largest.into(),
            entries: None,
            created_at: 0,
        }
    }
}
