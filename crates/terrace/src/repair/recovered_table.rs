//! A sound table that goes on in the repaired database, by itself or merged with others.

use terrace_format::comparator::Comparator;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalComparator, InternalKey, SequenceNumber};
use terrace_format::version_edit::NewFile;

use crate::error::{Error, Result};

/// What rising entries amount to.
#[derive(Debug, Clone, Default)]
pub(super) struct EntryStats {
    pub(super) entries: u64,
    smallest_key: Vec<u8>,
    largest_key: Vec<u8>,
    min_sequence: SequenceNumber,
    max_sequence: SequenceNumber,
}

impl EntryStats {
    /// Counts the entry of an internal key.
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

    /// The greatest sequence number; 0 without entries.
    pub(super) fn max_sequence(&self) -> SequenceNumber {
        self.max_sequence
    }

    /// The last key; nothing without entries.
    pub(super) fn largest_key(&self) -> &[u8] {
        &self.largest_key
    }

    /// True if the keys reach beyond what `file` says.
    pub(super) fn exceeds_key_range(&self, file: &NewFile, order: &InternalComparator) -> bool {
        order.compare(&self.smallest_key, file.smallest.as_bytes()).is_lt()
            || order.compare(&self.largest_key, file.largest.as_bytes()).is_gt()
    }

    /// True if there are user keys that may be in both.
    pub(super) fn overlaps_user_keys(&self, file: &NewFile, order: &InternalComparator) -> bool {
        let user = order.user_comparator();
        user.compare(key::user_key(&self.smallest_key), file.largest.user_key()).is_le()
            && user.compare(file.smallest.user_key(), key::user_key(&self.largest_key)).is_le()
    }

    /// The table of number `number` and `size` bytes that holds them.
    pub(super) fn to_new_file(&self, number: u64, size: u64) -> Result<NewFile> {
        let key = |bytes: &[u8]| {
            InternalKey::decode(bytes)
                .map_err(|flaw| Error::from_decode_error(FileName::Table(number).to_string().as_ref(), &flaw))
        };
        Ok(NewFile { number, size, smallest: key(&self.smallest_key)?, largest: key(&self.largest_key)? })
    }
}

/// A table.
#[derive(Debug, Clone)]
pub(super) struct RecoveredTable {
    pub(super) file: NewFile,
    pub(super) min_sequence: SequenceNumber,
    pub(super) max_sequence: SequenceNumber,
    /// Where its entries were before this repair.
    pub(super) source: FileName,
    /// True if that is the table itself: it stays where it is.
    pub(super) is_original: bool,
}

impl RecoveredTable {
    pub(super) fn new(file: NewFile, tally: &EntryStats, from: FileName, stored: bool) -> RecoveredTable {
        RecoveredTable {
            file,
            min_sequence: tally.min_sequence,
            max_sequence: tally.max_sequence,
            source: from,
            is_original: stored,
        }
    }
}

/// True if there are user keys that may be in both.
pub(super) fn user_keys_overlap(a: &NewFile, b: &NewFile, order: &InternalComparator) -> bool {
    let user = order.user_comparator();
    user.compare(a.smallest.user_key(), b.largest.user_key()).is_le()
        && user.compare(b.smallest.user_key(), a.largest.user_key()).is_le()
}
