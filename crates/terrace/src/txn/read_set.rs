//! Read set: the keys and ranges on which a transaction depends.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_format::comparator::Comparator;
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use crate::db::{UnchangedKey, UnchangedRange};
use crate::iterator::{is_after_begin, is_before_end};
use crate::sync::{Arc, Mutex};

/// Memory of an entry of the read set beyond its bytes.
const ENTRY_OVERHEAD: usize = 64;

/// Keys and ranges that a transaction read.
#[derive(Default)]
pub(super) struct ReadSet {
    /// Sequence number at which each key was read. 0 means the snapshot of the transaction.
    keys: BTreeMap<Vec<u8>, SequenceNumber>,
    /// None before the first iterator.
    ranges: Option<Arc<Mutex<ReadRanges>>>,
    bytes: usize,
    /// True if a key was read after the snapshot.
    has_later_reads: bool,
}

/// Ranges that the iterators of a transaction read. An iterator extends its last range.
#[derive(Default)]
pub(super) struct ReadRanges {
    ranges: Vec<ReadRange>,
    bytes: usize,
}

/// Range that an iterator has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadRange {
    pub(super) begin: Bound<Vec<u8>>,
    pub(super) end: Bound<Vec<u8>>,
}

impl ReadSet {
    /// Adds a read of `key` at sequence number `since`, or at the snapshot if it is 0.
    pub(super) fn add_key(&mut self, key: &[u8], since: SequenceNumber) {
        self.has_later_reads |= since > 0;
        if let Some(earlier) = self.keys.get_mut(key) {
            *earlier = since.min(*earlier);
            return;
        }
        self.bytes += key.len() + ENTRY_OVERHEAD;
        self.keys.insert(key.to_vec(), since);
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.bytes + self.ranges.as_ref().map_or(0, |ranges| ranges.lock().bytes)
    }

    /// Returns true if a key was read after the snapshot, so that even a transaction without writes
    /// needs a check.
    pub(super) fn has_later_reads(&self) -> bool {
        self.has_later_reads
    }

    /// Returns the keys in any order.
    pub(super) fn keys(&self) -> impl Iterator<Item = UnchangedKey<'_>> {
        self.keys.iter().map(|(key, &since)| UnchangedKey { key, since })
    }

    pub(super) fn contains_key(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Returns the ranges, for an iterator that extends them.
    pub(super) fn ranges_mut(&mut self) -> &Arc<Mutex<ReadRanges>> {
        self.ranges.get_or_insert_default()
    }

    /// Returns the ranges, if there was an iterator.
    pub(super) fn ranges(&self) -> Option<&Mutex<ReadRanges>> {
        self.ranges.as_deref()
    }
}

impl ReadRanges {
    /// Adds a range. Returns its index.
    pub(super) fn add(&mut self, range: ReadRange) -> usize {
        self.bytes += ENTRY_OVERHEAD + range.len();
        if !mutant!(ReadRangeForgotten) {
            self.ranges.push(range);
        }
        self.ranges.len().saturating_sub(1)
    }

    /// Extends range `index` so that it contains the key of `position` or, if the iterator has
    /// passed the end of its bounds, `position` itself. Returns false if it did already.
    pub(super) fn extend(
        &mut self,
        index: usize,
        is_forward: bool,
        position: Bound<&[u8]>,
        comparator: &dyn Comparator,
    ) -> bool {
        let Some(range) = self.ranges.get(index) else { return false };
        let goes_beyond = match (if is_forward { &range.end } else { &range.begin }, position) {
            (Bound::Unbounded, _) => false,
            (_, Bound::Unbounded) => true,
            (Bound::Included(old) | Bound::Excluded(old), Bound::Included(new) | Bound::Excluded(new)) => {
                let order = comparator.compare(new, old);
                if is_forward { order.is_gt() } else { order.is_lt() }
            }
        };
        if goes_beyond {
            self.move_edge(index, is_forward, position);
        }
        goes_beyond
    }

    /// Extends range `index` to `position`, which is beyond it.
    #[inline]
    pub(super) fn move_edge(&mut self, index: usize, is_forward: bool, position: Bound<&[u8]>) {
        let Some(range) = self.ranges.get_mut(index) else { return };
        let edge = if is_forward { &mut range.end } else { &mut range.begin };
        match (edge, position) {
            // Reuses the memory of the old key.
            (Bound::Included(old), Bound::Included(new)) => {
                self.bytes = self.bytes + new.len() - old.len();
                old.clear();
                old.extend_from_slice(new);
            }
            (edge, position) => *edge = position.map(<[u8]>::to_vec),
        }
    }

    /// Returns true if range `index` contains `key`.
    pub(super) fn contains(&self, index: usize, key: &[u8], comparator: &dyn Comparator) -> bool {
        self.ranges.get(index).map(ReadRange::as_unchanged).is_some_and(|range| {
            is_after_begin(comparator, key, range.begin) && is_before_end(comparator, key, range.end)
        })
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.bytes
    }

    /// Returns the ranges as parts of a condition.
    pub(super) fn as_unchanged(&self) -> Vec<UnchangedRange<'_>> {
        self.ranges.iter().map(ReadRange::as_unchanged).collect()
    }
}

impl ReadRange {
    fn as_unchanged(&self) -> UnchangedRange<'_> {
        UnchangedRange {
            begin: self.begin.as_ref().map(Vec::as_slice),
            end: self.end.as_ref().map(Vec::as_slice),
        }
    }

    /// Returns the size of both keys in bytes.
    fn len(&self) -> usize {
        [&self.begin, &self.end]
            .into_iter()
            .map(|bound| match bound {
                Bound::Included(key) | Bound::Excluded(key) => key.len(),
                Bound::Unbounded => 0,
            })
            .sum()
    }
}
