//! Memtable: recent writes in memory, in key order.
//!
//! Any number of threads add records while any number of threads read. A reader with the sequence
//! number of its snapshot sees the same records throughout, because later records have greater
//! sequence numbers. Records are never removed.

mod arena;
mod bloom;
mod btree;
mod cursor;
mod insert_mode;
mod node;
mod optimistic_latch;
mod tagged_ptr;
mod version_chain;

use std::fmt;
use std::ops::RangeInclusive;

use terrace_format::key::{
    self, InternalComparator, InternalKey, MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType,
};

pub(crate) use arena::ChunkPool;
pub(crate) use btree::{FoundVersion, PinnedVersion};
pub(crate) use cursor::BTreeCursor;
pub(crate) use insert_mode::InsertMode;

use btree::BTree;

use crate::internal_iterator::InternalIterator;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering};

pub(crate) struct Memtable {
    comparator: InternalComparator,
    tree: Arc<BTree>,
    /// Number of hidden entries that scans skipped here. Relaxed: nothing else depends on it.
    skipped_entries: AtomicUsize,
    /// Progress of the flush, in entries. Relaxed: only statistics read it.
    flushed_entries: AtomicU64,
}

/// Number of skipped entries that triggers a flush. Skipping them takes a few milliseconds, about
/// as long as writing a table of a few hundred KiB.
const SKIPPED_ENTRIES_MAX: usize = 64 << 10;

impl Memtable {
    pub(crate) fn new(comparator: InternalComparator) -> Arc<Memtable> {
        Memtable::with_pool(comparator, &Arc::default(), 0, false)
    }

    /// Creates a memtable that takes its chunks from `pool` and returns them on drop.
    ///
    /// The memtable will take about `expected_bytes` bytes, and a Bloom filter of that size lets a
    /// lookup skip absent keys. At 0 it has no filter. `fills_soon` makes the first chunk large.
    pub(crate) fn with_pool(
        comparator: InternalComparator,
        pool: &Arc<ChunkPool>,
        expected_bytes: usize,
        fills_soon: bool,
    ) -> Arc<Memtable> {
        let user_comparator = Arc::clone(comparator.user_comparator());
        let tree = BTree::new(user_comparator, Arc::clone(pool), expected_bytes, fills_soon);
        Arc::new(Memtable {
            comparator,
            tree: Arc::new(tree),
            skipped_entries: AtomicUsize::new(0),
            flushed_entries: AtomicU64::new(0),
        })
    }

    /// Returns the approximate size of the records in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.tree.memory_usage()
    }

    /// Returns the size of the memory that the memtable holds in bytes, used or not, with its
    /// filter.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.tree.allocated_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Ensures that a write of `bytes` bytes needs no new chunk, or that this chunk is allocated.
    /// Returns false if the system has no memory. A key or value of more than a quarter of a chunk
    /// gets memory of its own, for which this reserves none.
    #[inline]
    pub(crate) fn try_reserve(&self, bytes: usize) -> bool {
        self.tree.try_reserve(bytes)
    }

    /// Adds operations with the sequence numbers from `sequence` on.
    ///
    /// The records appear one by one. The caller publishes their sequence numbers only afterwards.
    pub(crate) fn insert<'a>(
        &self,
        sequence: SequenceNumber,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        self.insert_with_mode(InsertMode::Concurrent, sequence, operations);
    }

    /// Adds operations like [`Memtable::insert`]. `mode` says whether other threads insert at the
    /// same time. Readers may read in both modes.
    #[inline]
    pub(crate) fn insert_with_mode<'a>(
        &self,
        mode: InsertMode,
        sequence: SequenceNumber,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        for (sequence, (user_key, value)) in (sequence..).zip(operations) {
            let kind = if value.is_some() { ValueType::Value } else { ValueType::Deletion };
            self.tree.insert(
                user_key,
                key::pack_sequence_and_type(sequence, kind),
                value.unwrap_or_default(),
                mode,
            );
        }
    }

    /// Counts hidden entries that a scan skipped. Returns true once, when the count reaches the
    /// limit: a flush is cheaper than more skips, because compactions drop hidden entries from
    /// tables.
    pub(crate) fn record_skipped(&self, entries: usize) -> bool {
        let before = self.skipped_entries.fetch_add(entries, Ordering::Relaxed);
        before < SKIPPED_ENTRIES_MAX && before + entries >= SKIPPED_ENTRIES_MAX
    }

    /// Lets [`Memtable::record_skipped`] return true again, after a sixteenth of the limit.
    pub(crate) fn rearm_skip_trigger(&self) {
        self.skipped_entries.store(SKIPPED_ENTRIES_MAX / 16 * 15, Ordering::Relaxed);
    }

    /// Number of entries that the present flush has passed.
    pub(crate) fn flushed_entries(&self) -> u64 {
        self.flushed_entries.load(Ordering::Relaxed)
    }

    /// Sets the progress of the flush.
    pub(crate) fn set_flushed_entries(&self, entries: u64) {
        self.flushed_entries.store(entries, Ordering::Relaxed);
    }

    /// Returns true if an insert calls no user comparator.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.tree.is_bytewise()
    }

    /// Returns the newest version of `user_key` that `sequence` sees. The commit publisher has
    /// published `sequence`.
    pub(crate) fn get(&self, user_key: &[u8], sequence: SequenceNumber) -> Option<FoundVersion<'_>> {
        self.tree.find(user_key, sequence)
    }

    /// Prefetches the memory that a get of `user_key` reads first.
    #[inline]
    pub(crate) fn prefetch_get(&self, user_key: &[u8]) {
        self.tree.prefetch_find(user_key);
    }

    /// Returns true if the memtable holds a user key from `begin` to `end`, both included. None
    /// means no limit.
    pub(crate) fn overlaps(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        let mut cursor = BTreeCursor::new(Arc::clone(&self.tree));
        match begin {
            Some(begin) => {
                cursor.seek(InternalKey::new(begin, MAX_SEQUENCE_NUMBER, ValueType::FOR_SEEK).as_bytes())
            }
            None => cursor.seek_to_first(),
        }
        cursor.entry().is_some_and(|(found, _)| {
            end.is_none_or(|end| self.comparator.user_comparator().compare(key::user_key(found), end).is_le())
        })
    }

    /// Returns about `count` user keys at even distances, in order, and the number of leaves of the
    /// tree. No thread inserts meanwhile.
    pub(crate) fn sample_keys(&self, count: usize) -> (Vec<&[u8]>, usize) {
        self.tree.sample_keys(count)
    }

    /// Returns the first and the last internal key, or None if the memtable is empty.
    pub(crate) fn key_bounds(self: &Arc<Self>) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.iter();
        entries.seek_to_first();
        let first = entries.valid().then(|| entries.key().to_vec())?;
        entries.seek_to_last();
        Some((first, entries.key().to_vec()))
    }

    /// Returns a copy without the records whose sequence numbers are in `excluded`.
    pub(crate) fn copy_excluding(&self, excluded: &RangeInclusive<SequenceNumber>) -> Arc<Memtable> {
        let copy = Memtable::new(self.comparator.clone());
        let mut cursor = BTreeCursor::new(Arc::clone(&self.tree));
        cursor.seek_to_first();
        while let Some((found, value)) = cursor.entry() {
            let trailer = key::trailer(found);
            if !excluded.contains(&(trailer >> 8)) {
                copy.tree.insert(key::user_key(found), trailer, value, InsertMode::Exclusive);
            }
            cursor.next();
        }
        copy
    }

    /// Returns an iterator over all records, including those that are added during its lifetime.
    pub(crate) fn iter(self: &Arc<Self>) -> BTreeCursor {
        BTreeCursor::new(Arc::clone(&self.tree))
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memtable({} bytes)", self.memory_usage())
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    fn memtable(operations: &[(&str, Option<&str>)]) -> Arc<Memtable> {
        let memtable = Memtable::new(InternalComparator::new(bytewise()));
        memtable.insert(1, operations.iter().map(|(k, v)| (k.as_bytes(), v.map(str::as_bytes))));
        memtable
    }

    #[track_caller]
    fn check(memtable: &Memtable, key: &str, sequence: SequenceNumber, expected: Option<Option<&str>>) {
        let found = memtable.get(key.as_bytes(), sequence).map(|f| f.value);
        assert_eq!(found, expected.map(|v| v.map(str::as_bytes)), "{key} at {sequence}");
    }

    #[test]
    fn get_returns_newest_version_up_to_sequence() {
        let memtable = memtable(&[("a", Some("1")), ("a", None), ("a", Some("3")), ("ab", Some("x"))]);
        check(&memtable, "a", 0, None);
        check(&memtable, "a", 1, Some(Some("1")));
        check(&memtable, "a", 2, Some(None));
        check(&memtable, "a", 9, Some(Some("3")));
        check(&memtable, "", 9, None);
        check(&memtable, "b", 9, None);
    }

    #[test]
    fn overlaps_range_bounds() {
        let memtable = memtable(&[("d", Some("1")), ("f", None)]);
        for (begin, end, expected) in [
            (None, None, true),
            (None, Some("c"), false),
            (None, Some("d"), true),
            (Some("d"), Some("d"), true),
            (Some("e"), Some("e"), false),
            (Some("e"), Some("f"), true),
            (Some("f"), None, true),
            (Some("fa"), None, false),
        ] {
            let found = memtable.overlaps(begin.map(str::as_bytes), end.map(str::as_bytes));
            assert_eq!(found, expected, "{begin:?} to {end:?}");
        }
    }

    #[test]
    fn copy_excludes_sequence_range() {
        let memtable = memtable(&[("a", Some("1")), ("b", Some("2")), ("a", None), ("c", Some("4"))]);
        let copy = memtable.copy_excluding(&(2..=3));
        check(&copy, "a", 9, Some(Some("1")));
        check(&copy, "b", 9, None);
        check(&copy, "c", 9, Some(Some("4")));
    }

    #[test]
    fn iterator_keeps_position_during_inserts() {
        let memtable = memtable(&[("b", Some("1")), ("d", Some("2")), ("f", Some("3"))]);
        let mut iter = memtable.iter();
        iter.seek_to_first();
        memtable.insert(4, (0..500u32).map(|_| (b"c".as_slice(), Some(b"new".as_slice()))));
        memtable.insert(600, [(b"a".as_slice(), Some(b"new".as_slice()))].into_iter());
        iter.next();
        assert_eq!(key::user_key(iter.key()), b"c");
        iter.prev();
        assert_eq!((key::user_key(iter.key()), iter.value()), (b"b".as_slice(), b"1".as_slice()));
        iter.prev();
        assert_eq!(key::user_key(iter.key()), b"a");
        iter.prev();
        assert!(!iter.valid());
    }
}
