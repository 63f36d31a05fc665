//! An intact table of the repaired database, and the key and sequence ranges of its entries.

use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalComparator, InternalKey, SequenceNumber};
use terrace_format::version_edit::NewFile;

use crate::error::{Error, Result};

/// Counts and bounds of entries in key order.
#[derive(Debug, Clone, Default)]
pub(super) struct EntryStats {
    pub(super) entries: u64,
    smallest_key: Vec<u8>,
    largest_key: Vec<u8>,
    min_sequence: SequenceNumber,
    max_sequence: SequenceNumber,
}

impl EntryStats {
    /// Adds the entry with internal key `key`.
    pub(super) fn add(&mut self, key: &[u8]) {
        let sequence = key::trailer(key) >> 8;
        if self.entries == 0 {
            self.smallest_key.extend_from_slice(key);
            self.min_sequence = sequence;
        }
        self.entries += 1;
        self.min_sequence = self.min_sequence.min(sequence);
        self.max_sequence = self.max_sequence.max(sequence);
        self.largest_key.clear();
        self.largest_key.extend_from_slice(key);
    }

    /// Largest sequence number; 0 without entries.
    pub(super) fn max_sequence(&self) -> SequenceNumber {
        self.max_sequence
    }

    /// Largest internal key; empty without entries.
    pub(super) fn largest_key(&self) -> &[u8] {
        &self.largest_key
    }

    /// Returns whether the smallest and the largest key are those of `file`.
    pub(super) fn has_key_range(&self, file: &NewFile, order: &InternalComparator) -> bool {
        order.compare(&self.smallest_key, file.smallest.as_bytes()).is_eq()
            && order.compare(&self.largest_key, file.largest.as_bytes()).is_eq()
    }

    /// Returns whether the user key ranges overlap.
    pub(super) fn overlaps_user_keys(&self, file: &NewFile, order: &InternalComparator) -> bool {
        let user = order.user_comparator();
        user.compare(key::user_key(&self.smallest_key), file.largest.user_key()).is_le()
            && user.compare(file.smallest.user_key(), key::user_key(&self.largest_key)).is_le()
    }

    /// Returns the manifest entry of table `number` with `size` bytes that holds the entries.
    pub(super) fn to_new_file(&self, number: u64, size: u64) -> Result<NewFile> {
        let key = |bytes: &[u8]| {
            InternalKey::decode(bytes).map_err(|error| {
                Error::from_decode_error(FileName::Table(number).to_string().as_ref(), &error)
            })
        };
        Ok(NewFile { number, size, smallest: key(&self.smallest_key)?, largest: key(&self.largest_key)? })
    }
}

/// A table of the repaired database.
#[derive(Debug, Clone)]
pub(super) struct RecoveredTable {
    pub(super) file: NewFile,
    pub(super) min_sequence: SequenceNumber,
    pub(super) max_sequence: SequenceNumber,
    /// File that held the entries before this repair.
    pub(super) source: FileName,
    /// Whether the table is `source` itself, unchanged.
    pub(super) is_original: bool,
    /// Whether a block needs the marker that makes stock LevelDB refuse the database.
    pub(super) needs_marker: bool,
}

impl RecoveredTable {
    pub(super) fn new(
        file: NewFile,
        stats: &EntryStats,
        source: FileName,
        is_original: bool,
        needs_marker: bool,
    ) -> RecoveredTable {
        RecoveredTable {
            file,
            min_sequence: stats.min_sequence,
            max_sequence: stats.max_sequence,
            source,
            is_original,
            needs_marker,
        }
    }
}

/// Returns whether the user key ranges of the two tables overlap.
pub(super) fn user_keys_overlap(a: &NewFile, b: &NewFile, order: &InternalComparator) -> bool {
    let user = order.user_comparator();
    user.compare(a.smallest.user_key(), b.largest.user_key()).is_le()
        && user.compare(b.smallest.user_key(), a.largest.user_key()).is_le()
}
