//! The memtable: recent writes in key order, in memory.
//!
//! One writer at a time adds records; any number of threads read beside it. A reader that knows the sequence number
//! of its snapshot sees the same records however many are added meanwhile, because newer ones carry greater numbers.
//! Records are never removed.

use std::fmt;
use std::ops::RangeInclusive;

use terrace_format::comparator::Comparator;
use terrace_format::key::{self, InternalComparator, InternalKey, Kind, MAX_SEQUENCE, Sequence};

use crate::arena::Arena;
use crate::btree::{Order, Place, Tree};
use crate::error::Result;
use crate::sync::{Arc, AtomicUsize, Ordering, RwLock};
use crate::walk::InternalIterator;

/// What a look-up found: the newest version of the key that the reader may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) sequence: Sequence,
    /// None if the key was deleted.
    pub(crate) value: Option<Vec<u8>>,
}

pub(crate) struct Memtable {
    comparator: InternalComparator,
    bytewise: bool,
    /// Published after each insertion, so that the size is known without the lock.
    bytes: AtomicUsize,
    contents: RwLock<Contents>,
}

#[derive(Default)]
struct Contents {
    arena: Arena,
    tree: Tree,
}

impl Memtable {
    pub(crate) fn new(comparator: InternalComparator) -> Arc<Memtable> {
        let bytewise = comparator.user().name() == terrace_format::comparator::Bytewise.name();
        Arc::new(Memtable { comparator, bytewise, bytes: AtomicUsize::new(0), contents: RwLock::default() })
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.contents.read().tree.len() == 0
    }

    /// Adds operations that take the sequence numbers from `sequence` on.
    ///
    /// They become visible to readers one by one: the caller publishes their numbers only afterwards.
    pub(crate) fn insert<'a>(
        &self,
        mut sequence: Sequence,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let compare = |a: &[u8], b: &[u8]| self.comparator.compare(a, b);
        let order = Order { bytewise: self.bytewise, compare: &compare };
        let mut contents = self.contents.write();
        let Contents { arena, tree } = &mut *contents;
        for (user_key, value) in operations {
            let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
            let record = arena.push(user_key, key::pack(sequence, kind), value.unwrap_or_default());
            tree.insert(record, arena, &order);
            sequence += 1;
        }
        self.bytes.store(arena.bytes() + tree.bytes(), Ordering::Relaxed);
    }

    /// The newest version of `user_key` with a number up to `sequence`.
    pub(crate) fn get(&self, user_key: &[u8], sequence: Sequence) -> Option<Found> {
        let mut target = Vec::with_capacity(user_key.len() + key::TRAILER_SIZE);
        key::append(&mut target, user_key, sequence, Kind::SEEK);
        self.with_order(|contents, order| {
            let place = contents.tree.lower_bound(&target, &contents.arena, order)?;
            let (found, value) = contents.arena.record(contents.tree.record(place));
            if self.comparator.user().compare(key::user_key(found), user_key).is_ne() {
                return None;
            }
            let number = key::trailer(found);
            let value = (number as u8 == Kind::Put as u8).then(|| value.to_vec());
            Some(Found { sequence: number >> 8, value })
        })
    }

    /// True if there is a record of a user key from `begin` to `end`, both included; an end that is None is open.
    pub(crate) fn overlaps(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        let target = begin.map(|begin| InternalKey::new(begin, MAX_SEQUENCE, Kind::SEEK));
        self.with_order(|contents, order| {
            let place = match &target {
                Some(target) => contents.tree.lower_bound(target.as_bytes(), &contents.arena, order),
                None => contents.tree.first(),
            };
            place.is_some_and(|place| {
                let (found, _) = contents.arena.record(contents.tree.record(place));
                let user = self.comparator.user();
                end.is_none_or(|end| user.compare(key::user_key(found), end).is_le())
            })
        })
    }

    /// The first and the last internal key.
    pub(crate) fn ends(self: &Arc<Self>) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut entries = self.iter();
        entries.seek_to_first();
        let first = entries.valid().then(|| entries.key().to_vec())?;
        entries.seek_to_last();
        Some((first, entries.key().to_vec()))
    }

    /// A copy without the records whose numbers `left_out` names.
    pub(crate) fn without(&self, left_out: &RangeInclusive<Sequence>) -> Arc<Memtable> {
        let copy = Memtable::new(self.comparator.clone());
        self.with_order(|contents, _| {
            let mut here = contents.tree.first();
            while let Some(place) = here {
                let (found, value) = contents.arena.record(contents.tree.record(place));
                let trailer = key::trailer(found);
                let value = (trailer as u8 == Kind::Put as u8).then_some(value);
                if !left_out.contains(&(trailer >> 8)) {
                    copy.insert(trailer >> 8, std::iter::once((key::user_key(found), value)));
                }
                here = contents.tree.next(place);
            }
        });
        copy
    }

    /// An iterator over everything, also over what is added while it lives.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter { memtable: Arc::clone(self), place: None, len: 0, key: Vec::new(), value: Vec::new() }
    }

    fn with_order<T>(&self, read: impl FnOnce(&Contents, &Order<'_>) -> T) -> T {
        let compare = |a: &[u8], b: &[u8]| self.comparator.compare(a, b);
        let order = Order { bytewise: self.bytewise, compare: &compare };
        read(&self.contents.read(), &order)
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memtable({} bytes)", self.bytes())
    }
}

/// A walk over a memtable. Holds a copy of its record, so that the writer need not wait for it.
pub(crate) struct MemtableIter {
    memtable: Arc<Memtable>,
    place: Option<Place>,
    /// The size of the tree when `place` was found: places move when records are added.
    len: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl MemtableIter {
    fn move_to(&mut self, find: impl FnOnce(&Contents, &Order<'_>, Option<Place>, &[u8]) -> Option<Place>) {
        let memtable = Arc::clone(&self.memtable);
        memtable.with_order(|contents, order| {
            let here = match self.place {
                Some(_) if contents.tree.len() != self.len => {
                    contents.tree.lower_bound(&self.key, &contents.arena, order)
                }
                place => place,
            };
            self.place = find(contents, order, here, &self.key);
            self.len = contents.tree.len();
            if let Some(place) = self.place {
                let (key, value) = contents.arena.record(contents.tree.record(place));
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value.clear();
                self.value.extend_from_slice(value);
            }
        });
    }
}

impl InternalIterator for MemtableIter {
    fn valid(&self) -> bool {
        self.place.is_some()
    }

    fn seek_to_first(&mut self) {
        self.move_to(|contents, _, _, _| contents.tree.first());
    }

    fn seek_to_last(&mut self) {
        self.move_to(|contents, _, _, _| contents.tree.last());
    }

    fn seek(&mut self, target: &[u8]) {
        self.move_to(|contents, order, _, _| contents.tree.lower_bound(target, &contents.arena, order));
    }

    fn next(&mut self) {
        self.move_to(|contents, _, here, _| contents.tree.next(here?));
    }

    fn prev(&mut self) {
        self.move_to(|contents, _, here, _| contents.tree.prev(here?));
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> &[u8] {
        &self.value
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
    fn check(memtable: &Memtable, key: &str, sequence: Sequence, expect: Option<Option<&str>>) {
        let found = memtable.get(key.as_bytes(), sequence).map(|f| f.value);
        assert_eq!(found, expect.map(|v| v.map(|v| v.as_bytes().to_vec())), "{key} at {sequence}");
    }

    #[test]
    fn a_look_up_sees_the_newest_version_up_to_its_number() {
        let memtable = memtable(&[("a", Some("1")), ("a", None), ("a", Some("3")), ("ab", Some("x"))]);
        check(&memtable, "a", 0, None);
        check(&memtable, "a", 1, Some(Some("1")));
        check(&memtable, "a", 2, Some(None));
        check(&memtable, "a", 9, Some(Some("3")));
        check(&memtable, "", 9, None);
        check(&memtable, "b", 9, None);
    }

    #[test]
    fn ranges_that_have_a_record() {
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
    fn a_copy_without_some_numbers() {
        let memtable = memtable(&[("a", Some("1")), ("b", Some("2")), ("a", None), ("c", Some("4"))]);
        let copy = memtable.without(&(2..=3));
        check(&copy, "a", 9, Some(Some("1")));
        check(&copy, "b", 9, None);
        check(&copy, "c", 9, Some(Some("4")));
    }

    #[test]
    fn an_iterator_keeps_its_place_while_records_are_added() {
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
