//! The memtable: recent writes in key order, in memory.
//!
//! Any number of threads add records, and any number read beside them. A reader that knows the sequence number of its
//! snapshot sees the same records however many are added meanwhile, because newer ones carry greater numbers. Records
//! are never removed.

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
pub(crate) use btree::VersionPtr;
pub(crate) use insert_mode::InsertMode;

use btree::BTree;
use cursor::BTreeCursor;

use crate::error::Result;
use crate::internal_iterator::InternalIterator;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// What a look-up found: the newest version of the key that the reader may see.
pub(crate) struct FoundVersion<'a> {
    /// None if the key was deleted.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) version: VersionPtr,
}

pub(crate) struct Memtable {
    comparator: InternalComparator,
    tree: Arc<BTree>,
    /// Entries that walks passed over here. Relaxed: a figure that nothing else depends on.
    skipped_entries: AtomicUsize,
}

/// To pass over so many entries takes some milliseconds, as making a table of some hundred KiB does.
const SKIPPED_ENTRIES_MAX: usize = 64 << 10;

impl Memtable {
    pub(crate) fn new(comparator: InternalComparator) -> Arc<Memtable> {
        Memtable::with_pool(comparator, &Arc::default(), 0, false)
    }

    /// One that takes its memory from memtables that went, and leaves it to those to come. It will take about `expected` bytes,
    /// perhaps `soon`, and answers fast for keys that it does not have; at 0 it answers them like others.
    pub(crate) fn with_pool(
        comparator: InternalComparator,
        spare: &Arc<ChunkPool>,
        expected: usize,
        soon: bool,
    ) -> Arc<Memtable> {
        let tree = BTree::new(Arc::clone(comparator.user_comparator()), Arc::clone(spare), expected, soon);
        let tree = Arc::new(tree);
        Arc::new(Memtable { comparator, tree, skipped_entries: AtomicUsize::new(0) })
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.tree.memory_usage()
    }

    /// The memory that it has from the system, used or not, with its filter.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.tree.allocated_bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Adds operations that take the sequence numbers from `sequence` on.
    ///
    /// They become visible to readers one by one: the caller publishes their numbers only afterwards.
    pub(crate) fn insert<'a>(
        &self,
        sequence: SequenceNumber,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        self.insert_with_mode(InsertMode::Concurrent, sequence, operations);
    }

    /// As [`Memtable::insert`], in such company. Readers may read in any.
    #[inline]
    pub(crate) fn insert_with_mode<'a>(
        &self,
        company: InsertMode,
        sequence: SequenceNumber,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        for (sequence, (user_key, value)) in (sequence..).zip(operations) {
            let kind = if value.is_some() { ValueType::Value } else { ValueType::Deletion };
            self.tree.insert(
                user_key,
                key::pack_sequence_and_type(sequence, kind),
                value.unwrap_or_default(),
                company,
            );
        }
    }

    /// Counts entries that a walk passed over here. True once, when they are so many that a table would have been cheaper, from which
    /// they can be merged away.
    pub(crate) fn record_skipped(&self, entries: usize) -> bool {
        let before = self.skipped_entries.fetch_add(entries, Ordering::Relaxed);
        before < SKIPPED_ENTRIES_MAX && before + entries >= SKIPPED_ENTRIES_MAX
    }

    /// Lets [`Memtable::record_skipped`] be true again soon.
    pub(crate) fn rearm_skip_trigger(&self) {
        self.skipped_entries.store(SKIPPED_ENTRIES_MAX / 16 * 15, Ordering::Relaxed);
    }

    /// True if adding asks no comparator of somebody else's.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.tree.is_bytewise()
    }

    /// The newest version of `user_key` with a number up to `sequence`, which is one that was published.
    pub(crate) fn get(&self, user_key: &[u8], sequence: SequenceNumber) -> Option<FoundVersion<'_>> {
        let at = self.tree.find(user_key, sequence)?;
        let (trailer, value) = self.tree.read_version(at);
        Some(FoundVersion { value: (trailer as u8 == ValueType::Value as u8).then_some(value), version: at })
    }

    /// The value of a version that was found in this memtable.
    pub(crate) fn value(&self, at: VersionPtr) -> &[u8] {
        self.tree.read_version(at).1
    }

    /// True if there is a record of a user key from `begin` to `end`, both included; an end that is None is open.
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

    /// The first and the last internal key.
    pub(crate) fn key_bounds(self: &Arc<Self>) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.iter();
        entries.seek_to_first();
        let first = entries.valid().then(|| entries.key().to_vec())?;
        entries.seek_to_last();
        Some((first, entries.key().to_vec()))
    }

    /// A copy without the records whose numbers `left_out` names.
    pub(crate) fn copy_excluding(&self, left_out: &RangeInclusive<SequenceNumber>) -> Arc<Memtable> {
        let copy = Memtable::new(self.comparator.clone());
        let mut cursor = BTreeCursor::new(Arc::clone(&self.tree));
        cursor.seek_to_first();
        while let Some((found, value)) = cursor.entry() {
            let trailer = key::trailer(found);
            if !left_out.contains(&(trailer >> 8)) {
                copy.tree.insert(key::user_key(found), trailer, value, InsertMode::Exclusive);
            }
            cursor.next();
        }
        copy
    }

    /// An iterator over everything, also over what is added while it lives.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter { cursor: BTreeCursor::new(Arc::clone(&self.tree)) }
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memtable({} bytes)", self.memory_usage())
    }
}

/// A walk over a memtable.
pub(crate) struct MemtableIter {
    cursor: BTreeCursor,
}

impl MemtableIter {
    fn current_entry(&self) -> (&[u8], &[u8]) {
        // The promise of the trait: nobody asks at no place.
        self.cursor.entry().expect("an iterator at a valid place")
    }
}

impl InternalIterator for MemtableIter {
    type Error = crate::error::Error;

    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn seek_to_first(&mut self) {
        self.cursor.seek_to_first();
    }

    fn seek_to_last(&mut self) {
        self.cursor.seek_to_last();
    }

    fn seek(&mut self, target: &[u8]) {
        self.cursor.seek(target);
    }

    fn next(&mut self) {
        self.cursor.next();
    }

    fn prev(&mut self) {
        self.cursor.prev();
    }

    fn key(&self) -> &[u8] {
        self.current_entry().0
    }

    fn value(&self) -> &[u8] {
        self.current_entry().1
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.entry()
    }

    fn status(&self) -> Result<()> {
        Ok(())
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
    fn check(memtable: &Memtable, key: &str, sequence: SequenceNumber, expect: Option<Option<&str>>) {
        let found = memtable.get(key.as_bytes(), sequence).map(|f| f.value);
        assert_eq!(found, expect.map(|v| v.map(str::as_bytes)), "{key} at {sequence}");
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
        for (begin, end, expect) in [
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
            assert_eq!(found, expect, "{begin:?} to {end:?}");
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
