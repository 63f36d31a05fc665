//! Read set: the keys and ranges on which a transaction depends.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_format::comparator::Comparator;
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use super::key_order::OrderedKey;
use crate::db::{UnchangedKey, UnchangedRange};
use crate::iterator::{RangeBound, is_after_begin, is_before_end};
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

/// Ranges that the iterators of a transaction read.
#[derive(Default)]
pub(super) struct ReadRanges {
    /// Ranges of earlier seeks: the end of each by its begin, which is included. None: from the
    /// first key on. They neither overlap nor touch.
    earlier: BTreeMap<Option<OrderedKey>, Bound<Vec<u8>>>,
    /// Range of the last seek of each iterator, which its steps extend.
    current: Vec<Option<ReadRange>>,
    /// Indexes of `current` for new iterators, because theirs have ended.
    free: Vec<usize>,
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
    /// Begins a range after a seek of the iterator with index `index`, or of a new iterator.
    /// Returns its index.
    pub(super) fn begin(
        &mut self,
        index: Option<usize>,
        range: ReadRange,
        comparator: &Arc<dyn Comparator>,
    ) -> usize {
        let index = index.or_else(|| self.free.pop()).unwrap_or(self.current.len());
        if index == self.current.len() {
            self.current.push(None);
        }
        self.bytes += range.memory_usage();
        let range = if mutant!(ReadRangeForgotten) { None } else { Some(range) };
        if let Some(earlier) = std::mem::replace(&mut self.current[index], range) {
            self.add_earlier(earlier, comparator);
        }
        index
    }

    /// Makes `index` free for the next iterator. Its range stays.
    pub(super) fn end_iterator(&mut self, index: usize) {
        self.free.push(index);
    }

    /// Adds the range of an earlier seek, joined with those that it overlaps or touches.
    fn add_earlier(&mut self, mut range: ReadRange, comparator: &Arc<dyn Comparator>) {
        self.bytes -= range.memory_usage();
        if range.begin_bound().compare(range.end_bound(), &**comparator).is_ge() {
            return;
        }
        while let Some(other) = self.take_neighbor(&range, comparator) {
            range.join(other, &**comparator);
        }
        self.bytes += range.memory_usage();
        let begin = match range.begin {
            Bound::Included(bytes) | Bound::Excluded(bytes) => {
                Some(OrderedKey { comparator: Arc::clone(comparator), bytes })
            }
            Bound::Unbounded => None,
        };
        self.earlier.insert(begin, range.end);
    }

    /// Removes an earlier range that overlaps or touches `range`.
    fn take_neighbor(&mut self, range: &ReadRange, comparator: &Arc<dyn Comparator>) -> Option<ReadRange> {
        let last = match &range.end {
            Bound::Unbounded => self.earlier.last_key_value(),
            Bound::Included(key) | Bound::Excluded(key) => {
                let end = OrderedKey { comparator: Arc::clone(comparator), bytes: key.clone() };
                self.earlier.range(..=Some(end)).next_back()
            }
        };
        let last = last
            .filter(|(_, end)| RangeBound::of_end(end).compare(range.begin_bound(), &**comparator).is_ge());
        let begin = last.map(|(begin, _)| begin.clone())?;
        let end = self.earlier.remove(&begin)?;
        let range =
            ReadRange { begin: begin.map_or(Bound::Unbounded, |key| Bound::Included(key.bytes)), end };
        self.bytes -= range.memory_usage();
        Some(range)
    }

    /// Extends the range of iterator `index` so that it contains the key of `position` or, if the
    /// iterator has passed the end of its bounds, `position` itself. Returns false if it did
    /// already.
    pub(super) fn extend(
        &mut self,
        index: usize,
        is_forward: bool,
        position: Bound<&[u8]>,
        comparator: &dyn Comparator,
    ) -> bool {
        let Some(range) = self.current_range(index) else { return false };
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

    /// Extends the range of iterator `index` to `position`, which is beyond it.
    #[inline]
    pub(super) fn move_edge(&mut self, index: usize, is_forward: bool, position: Bound<&[u8]>) {
        let Some(Some(range)) = self.current.get_mut(index) else { return };
        let edge = if is_forward { &mut range.end } else { &mut range.begin };
        self.bytes = self.bytes + len_of(position) - len_of(edge.as_ref().map(Vec::as_slice));
        match (edge, position) {
            // Reuses the memory of the old key.
            (Bound::Included(old), Bound::Included(new)) => {
                old.clear();
                old.extend_from_slice(new);
            }
            (edge, position) => *edge = position.map(<[u8]>::to_vec),
        }
    }

    fn current_range(&self, index: usize) -> Option<&ReadRange> {
        self.current.get(index)?.as_ref()
    }

    /// Returns true if the range of iterator `index` contains `key`.
    pub(super) fn contains(&self, index: usize, key: &[u8], comparator: &dyn Comparator) -> bool {
        self.current_range(index).map(ReadRange::as_unchanged).is_some_and(|range| {
            is_after_begin(comparator, key, range.begin) && is_before_end(comparator, key, range.end)
        })
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.bytes
    }

    /// Returns the ranges as parts of a condition.
    pub(super) fn as_unchanged(&self) -> Vec<UnchangedRange<'_>> {
        let earlier = self.earlier.iter().map(|(begin, end)| UnchangedRange {
            begin: begin.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(&key.bytes)),
            end: end.as_ref().map(Vec::as_slice),
        });
        earlier.chain(self.current.iter().flatten().map(ReadRange::as_unchanged)).collect()
    }
}

impl ReadRange {
    fn as_unchanged(&self) -> UnchangedRange<'_> {
        UnchangedRange {
            begin: self.begin.as_ref().map(Vec::as_slice),
            end: self.end.as_ref().map(Vec::as_slice),
        }
    }

    fn begin_bound(&self) -> RangeBound<'_> {
        RangeBound::of_begin(&self.begin)
    }

    fn end_bound(&self) -> RangeBound<'_> {
        RangeBound::of_end(&self.end)
    }

    /// Extends the range to the bounds of `other`.
    fn join(&mut self, other: ReadRange, comparator: &dyn Comparator) {
        if other.end_bound().compare(self.end_bound(), comparator).is_gt() {
            self.end.clone_from(&other.end);
        }
        if other.begin_bound().compare(self.begin_bound(), comparator).is_lt() {
            self.begin = other.begin;
        }
    }

    fn memory_usage(&self) -> usize {
        let UnchangedRange { begin, end } = self.as_unchanged();
        ENTRY_OVERHEAD + len_of(begin) + len_of(end)
    }
}

fn len_of(bound: Bound<&[u8]>) -> usize {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
        Bound::Unbounded => 0,
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    fn range(begin: u8, end: u8, kind: u32) -> ReadRange {
        let begin = if kind.is_multiple_of(11) { Bound::Unbounded } else { Bound::Included(vec![begin]) };
        let end = match kind % 7 {
            0 => Bound::Unbounded,
            1..=3 => Bound::Excluded(vec![end]),
            _ => Bound::Included(vec![end]),
        };
        ReadRange { begin, end }
    }

    fn contains(range: &UnchangedRange<'_>, key: u8) -> bool {
        is_after_begin(&*bytewise(), &[key], range.begin) && is_before_end(&*bytewise(), &[key], range.end)
    }

    /// Several iterators seek. The ranges contain exactly the keys that they read, and the earlier
    /// ones are disjoint.
    #[test]
    fn ranges_contain_what_was_read() {
        let comparator = bytewise();
        for seed in 0..400u32 {
            let mut state = seed.wrapping_mul(2_654_435_761) | 1;
            let mut random = |below: u32| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state % below
            };
            let mut ranges = ReadRanges::default();
            let mut iterators = [None; 3];
            let mut is_read = [false; 64];
            for _ in 0..30 {
                let index = random(3) as usize;
                let begin = random(60) as u8;
                let kind = if random(30) == 0 { 77 } else { random(6) + 1 };
                let read = range(begin, begin + random(5) as u8, kind);
                for key in 0..64 {
                    is_read[usize::from(key)] |= contains(&read.as_unchanged(), key);
                }
                iterators[index] = Some(ranges.begin(iterators[index], read, &comparator));
                if random(5) == 0 {
                    ranges.end_iterator(iterators[index].take().unwrap());
                }
            }
            let all = ranges.as_unchanged();
            for key in 0..64 {
                let is_found = all.iter().any(|range| contains(range, key));
                assert_eq!(is_found, is_read[usize::from(key)], "seed {seed}, key {key}");
                let earlier = &all[..ranges.earlier.len()];
                assert!(earlier.iter().filter(|range| contains(range, key)).count() <= 1, "{earlier:?}");
            }
            let bytes = all.iter().map(|range| ENTRY_OVERHEAD + len_of(range.begin) + len_of(range.end));
            assert_eq!(bytes.sum::<usize>(), ranges.bytes);
        }
    }
}
