//! A value that is read where it lies.

use std::fmt;
use std::ops::Deref;

use crate::memtable::{FoundVersion, PinnedVersion};
use crate::table::{FoundEntry, PinnedEntry};

/// A value of a database, where it lies: in a block or among the recent writes, not copied. Made by
/// [`Db::get_pinned`](crate::Db::get_pinned).
///
/// What it lies in stays in memory as long as this does, a block or a whole memtable, beyond the limits of the cache and
/// of the write buffer: let go of it soon. It outlives later writes, and the database.
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

    /// A value may be pinned in one thread and let go in another.
    #[test]
    fn is_send_and_sync() {
        fn check<T: Send + Sync>() {}
        check::<PinnedValue>();
    }
}
