//! Value that a reader borrows without a copy.

use std::fmt;
use std::ops::Deref;

use crate::memtable::{FoundVersion, PinnedVersion};
use crate::table::{FoundEntry, PinnedEntry};

/// Value in the memory of a block, a memtable or a mapped table.
/// [`Db::get_pinned`](crate::Db::get_pinned) returns it.
///
/// The block or the whole memtable stays in memory as long as this value, beyond the limits of the
/// block cache and the write buffer. A value of more than 4 KiB in an uncompressed block keeps its
/// table open and mapped, and the space of the file in use; a smaller one is copied. Drop the value
/// soon. It stays valid after later writes, after the removal of the table, and after the close of
/// the database.
pub struct PinnedValue {
    location: PinnedLocation,
}

enum PinnedLocation {
    Table(PinnedEntry),
    Memtable(PinnedVersion),
}

impl PinnedValue {
    pub(crate) fn from_table(hit: &FoundEntry) -> PinnedValue {
        PinnedValue { location: PinnedLocation::Table(hit.pin()) }
    }

    pub(crate) fn from_memtable(found: &FoundVersion<'_>) -> PinnedValue {
        PinnedValue { location: PinnedLocation::Memtable(found.pin()) }
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.location {
            PinnedLocation::Table(value) => value.value(),
            PinnedLocation::Memtable(version) => version.value(),
        }
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedValue('{}')", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread may pin a value and another one may drop it.
    #[test]
    fn is_send_and_sync() {
        fn check<T: Send + Sync>() {}
        check::<PinnedValue>();
    }
}
