//! Whether an insert may rely on exclusive access to the memtable.

/// Whether others add to the tree at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertMode {
    /// Any number of them.
    Concurrent,
    /// Nobody: what all others added happened before, and what they will add comes after. Saves the instructions that are
    /// there to meet them.
    Exclusive,
}
