//! Whether an insert may rely on exclusive access to the memtable.

/// Access of an insert to the memtable. Readers may read in both modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertMode {
    /// Other threads may insert at the same time.
    Concurrent,
    /// No other thread inserts: every other insert happens before this one or after it. Saves the
    /// atomic read-modify-write instructions.
    Exclusive,
}
