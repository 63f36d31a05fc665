//! A sound table that goes on in the repaired database, by itself or merged with others.

use terrace_format::comparator::Comparator;
use terrace_format::edit::NewFile;
use terrace_format::filename::FileName;
use terrace_format::key::{self, InternalComparator, InternalKey, Sequence};

use crate::error::{Error, Result};

/// What rising entries amount to.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    oldest: Sequence,
    newest: Sequence,
}

impl Tally {
    /// Counts the entry of an internal key.
    pub(super) fn add(&mut self, key: &[u8]) {
        let sequence = key::trailer(key) >> 8;
        if self.entries == 0 {
            self.smallest.extend_from_slice(key);
            self.oldest = sequence;
        }
        self.entries += 1;
        self.oldest = self.oldest.min(sequence);
        self.newest = self.newest.max(sequence);
        self.largest.clear();
        self.largest.extend_from_slice(key);
    }

    /// The greatest sequence number; 0 without entries.
    pub(super) fn newest(&self) -> Sequence {
        self.newest
    }

    /// The last key; nothing without entries.
    pub(super) fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// True if the keys reach beyond what `file` says.
    pub(super) fn exceeds(&self, file: &NewFile, order: &InternalComparator) -> bool {
        order.compare(&self.smallest, file.smallest.as_bytes()).is_lt()
            || order.compare(&self.largest, file.largest.as_bytes()).is_gt()
    }

    /// True if there are user keys that may be in both.
    pub(super) fn overlaps(&self, file: &NewFile, order: &InternalComparator) -> bool {
        let user = order.user();
        user.compare(key::user_key(&self.smallest), file.largest.user_key()).is_le()
            && user.compare(file.smallest.user_key(), key::user_key(&self.largest)).is_le()
    }

    /// The table of number `number` and `size` bytes that holds them.
    pub(super) fn file(&self, number: u64, size: u64) -> Result<NewFile> {
        let key = |bytes: &[u8]| {
            InternalKey::decode(bytes)
                .map_err(|flaw| Error::flaw(FileName::Table(number).to_string().as_ref(), &flaw))
        };
        Ok(NewFile { number, size, smallest: key(&self.smallest)?, largest: key(&self.largest)? })
    }
}

/// A table.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) file: NewFile,
    pub(super) oldest: Sequence,
    pub(super) newest: Sequence,
    /// Where its entries were before this repair.
    pub(super) from: FileName,
    /// True if that is the table itself: it stays where it is.
    pub(super) stored: bool,
}

impl Piece {
    pub(super) fn new(file: NewFile, tally: &Tally, from: FileName, stored: bool) -> Piece {
        Piece { file, oldest: tally.oldest, newest: tally.newest, from, stored }
    }
}

/// True if there are user keys that may be in both.
pub(super) fn overlap(a: &NewFile, b: &NewFile, order: &InternalComparator) -> bool {
    let user = order.user();
    user.compare(a.smallest.user_key(), b.largest.user_key()).is_le()
        && user.compare(b.smallest.user_key(), a.largest.user_key()).is_le()
}
