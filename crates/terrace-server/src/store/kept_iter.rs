//! Iterator that a worker keeps for the next scan of the same members.
//!
//! ```text
//!   ZRANGE k 0 9     new iterator, then kept
//!   ZRANGE k 5 7     same range, unchanged database: kept iterator
//!   end of the turns, before the worker waits: dropped
//! ```
//!
//! The creation of an iterator takes longer than its seek. A kept iterator shows the state of its
//! creation, so a scan gets it only while the database is unchanged. It keeps memtables and tables
//! alive, so no worker has one while it waits.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use terrace::{Db, DbIterator, ReadOptions, StateStamp};

use super::object::{MEMBER_PREFIX, Object, member_prefix};
use super::view::Scratch;
use super::{Backend, Store};

/// Bounds of a scan of the member records of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScanBounds<'a> {
    /// First bytes of the keys of all member records of the object.
    prefix: [u8; MEMBER_PREFIX],
    /// First key after them.
    next_prefix: [u8; MEMBER_PREFIX],
    begin: &'a [u8],
    end: Option<&'a [u8]>,
}

impl<'a> ScanBounds<'a> {
    /// Returns the bounds of the records from the suffix `begin` to the suffix `end`, which is not
    /// included, or to the last record.
    pub(super) fn new(object: &Object, begin: &'a [u8], end: Option<&'a [u8]>) -> ScanBounds<'a> {
        // The number is never the maximum: an allocation fails before.
        let next = object.number.saturating_add(1);
        ScanBounds {
            prefix: member_prefix(object.value_type, object.number),
            next_prefix: member_prefix(object.value_type, next),
            begin,
            end,
        }
    }

    /// First key.
    pub(super) fn lower(&self) -> Vec<u8> {
        [&self.prefix, self.begin].concat()
    }

    /// Key after the last one.
    pub(super) fn upper(&self) -> Vec<u8> {
        match self.end {
            Some(end) => [&self.prefix, end].concat(),
            None => self.next_prefix.to_vec(),
        }
    }

    /// True if `options` have these bounds.
    fn are_those_of(&self, options: &ReadOptions) -> bool {
        let (Some(lower), Some(upper)) = (&options.lower_bound, &options.upper_bound) else { return false };
        let has_end = match self.end {
            Some(end) => upper.strip_prefix(&self.prefix) == Some(end),
            None => *upper == self.next_prefix,
        };
        has_end && lower.strip_prefix(&self.prefix) == Some(self.begin)
    }
}

/// Place for the kept iterator of a thread.
#[derive(Debug, Default)]
pub(super) struct IterPlace(RefCell<Option<KeptIter>>);

/// Iterator with the state and the bounds that it shows.
#[derive(Debug)]
struct KeptIter {
    iter: Box<DbIterator>,
    stamp: StateStamp,
    options: ReadOptions,
}

/// Iterator that goes to the place of its thread on drop.
#[derive(Debug)]
pub(super) struct ReturnedIter {
    /// None only during the drop.
    kept: Option<KeptIter>,
    place: Rc<IterPlace>,
}

impl IterPlace {
    /// Returns the kept iterator, if it has the bounds `bounds` and shows the present state of
    /// `db`.
    pub(super) fn take(self: &Rc<Self>, db: &Db, bounds: &ScanBounds<'_>) -> Option<ReturnedIter> {
        let kept = self.0.take()?;
        (bounds.are_those_of(&kept.options) && db.is_unchanged_since(kept.stamp))
            .then(|| ReturnedIter { kept: Some(kept), place: Rc::clone(self) })
    }

    /// Returns `iter`, which has the options `options` and shows the state of `stamp`, as an
    /// iterator that the thread will keep.
    pub(super) fn lend(
        self: &Rc<Self>,
        iter: Box<DbIterator>,
        stamp: StateStamp,
        options: ReadOptions,
    ) -> ReturnedIter {
        ReturnedIter { kept: Some(KeptIter { iter, stamp, options }), place: Rc::clone(self) }
    }

    /// Drops the kept iterator at the end of the turns, and also before it if it shows an earlier
    /// state of `db`.
    pub(super) fn release(&self, db: &Db, is_end: bool) {
        let kept = self.0.borrow_mut().take_if(|kept| is_end || !db.is_unchanged_since(kept.stamp));
        drop(kept);
    }
}

impl Scratch {
    /// Releases the memtables and tables that the thread keeps for its next command: at the end of
    /// its turns, and also before it if the database has changed.
    pub(crate) fn release_state(&self, store: &Store, is_end: bool) {
        if let Backend::Database(db) = &store.backend {
            self.iter_place.release(db, is_end);
        }
    }
}

impl Deref for ReturnedIter {
    type Target = DbIterator;

    fn deref(&self) -> &DbIterator {
        // Only the drop takes it.
        &self.kept.as_ref().expect("the iterator is here until the drop").iter
    }
}

impl DerefMut for ReturnedIter {
    fn deref_mut(&mut self) -> &mut DbIterator {
        // Only the drop takes it.
        &mut self.kept.as_mut().expect("the iterator is here until the drop").iter
    }
}

impl Drop for ReturnedIter {
    fn drop(&mut self) {
        // An iterator never forgets an error, which may be gone at the next scan.
        let kept = self.kept.take().filter(|kept| kept.iter.status().is_ok());
        self.place.0.replace(kept);
    }
}

#[cfg(test)]
mod tests {
    use terrace::{Env, Options};

    use super::super::layout::ValueType;
    use super::*;

    fn db() -> Db {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        Db::open("kept", &options).unwrap()
    }

    /// Lends a new iterator over the bounds, and returns it by a drop.
    fn keep(place: &Rc<IterPlace>, db: &Db, bounds: &ScanBounds<'_>) {
        let mut options = ReadOptions::default();
        options.lower_bound = Some(bounds.lower());
        options.upper_bound = Some(bounds.upper());
        let stamp = db.state_stamp();
        drop(place.lend(Box::new(db.raw_iter_with(&options)), stamp, options));
    }

    #[test]
    fn kept_for_the_same_bounds_and_state() {
        let db = db();
        let place = Rc::<IterPlace>::default();
        let object = Object::new(ValueType::SortedSet, 7);
        let bounds = ScanBounds::new(&object, b"\x01", Some(b"\x02"));
        let mut record = Vec::new();
        object.member_key(b"\x01a", &mut record);
        db.put(&record, b"").unwrap();
        keep(&place, &db, &bounds);
        for _ in 0..2 {
            let mut kept = place.take(&db, &bounds).unwrap();
            kept.seek_to_first();
            assert_eq!(kept.key(), record);
        }
        db.put(b"x", b"").unwrap();
        assert!(place.take(&db, &bounds).is_none(), "another state");
        keep(&place, &db, &bounds);
        place.release(&db, false);
        drop(place.take(&db, &bounds).unwrap());
        place.release(&db, true);
        assert!(place.take(&db, &bounds).is_none(), "end of the turns");
        keep(&place, &db, &bounds);
        db.put(b"x", b"").unwrap();
        place.release(&db, false);
        assert!(place.0.borrow().is_none(), "an earlier state");
    }

    #[test]
    fn other_bounds_get_another_iterator() {
        let db = db();
        let place = Rc::<IterPlace>::default();
        let object = Object::new(ValueType::List, 7);
        let next = Object::new(ValueType::List, 8);
        let all = ScanBounds::new(&object, b"", None);
        assert_eq!(all.upper(), ScanBounds::new(&next, b"", None).lower());
        for other in [
            ScanBounds::new(&object, b"a", None),
            ScanBounds::new(&object, b"", Some(b"a")),
            ScanBounds::new(&next, b"", None),
            ScanBounds::new(&Object::new(ValueType::Hash, 7), b"", None),
        ] {
            keep(&place, &db, &all);
            assert!(place.take(&db, &other).is_none(), "{other:?}");
            keep(&place, &db, &other);
            assert!(place.take(&db, &other).is_some() && place.take(&db, &all).is_none(), "{other:?}");
        }
    }
}
