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
use std::rc::Rc;

use terrace::{Db, DbIterator, ReadOptions, StateStamp};

use super::object::{MEMBER_PREFIX, Object, member_prefix};
use super::scan_start::ScanStart;
use super::scratch::Scratch;
use super::{Backend, Store};
use crate::failure::CommandResult;

/// Reason why an iterator is not taken.
const UNTIL_DROP: &str = "the iterator is here until the drop";

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
pub(super) struct IterPlace(RefCell<Option<Box<KeptIter>>>);

/// Iterator with the state and the bounds that it shows.
#[derive(Debug)]
struct KeptIter {
    iter: DbIterator,
    stamp: StateStamp,
    options: ReadOptions,
    /// First entries of the scans since the second one.
    start: ScanStart,
    /// True from the second scan on.
    is_recording: bool,
    /// Number of the entry that `iter` shows, in the direction of `start`.
    position: Option<usize>,
}

/// Iterator that goes to the place of its thread on drop.
#[derive(Debug)]
pub(super) struct ReturnedIter {
    /// None only during the drop.
    kept: Option<Box<KeptIter>>,
    place: Rc<IterPlace>,
    /// Number of the next entry of the scan.
    next: usize,
}

impl IterPlace {
    /// Returns the kept iterator, if it has the bounds `bounds` and shows the present state of
    /// `db`.
    pub(super) fn take(self: &Rc<Self>, db: &Db, bounds: &ScanBounds<'_>) -> Option<ReturnedIter> {
        let mut kept = self.0.take()?;
        if !bounds.are_those_of(&kept.options) || !db.is_unchanged_since(kept.stamp) {
            return None;
        }
        kept.is_recording = true;
        Some(ReturnedIter { kept: Some(kept), place: Rc::clone(self), next: 0 })
    }

    /// Returns `iter`, which has the options `options` and shows the state of `stamp`, as an
    /// iterator that the thread will keep.
    pub(super) fn lend(
        self: &Rc<Self>,
        iter: Box<DbIterator>,
        stamp: StateStamp,
        options: ReadOptions,
    ) -> ReturnedIter {
        let start = ScanStart::default();
        let kept = KeptIter { iter: *iter, stamp, options, start, is_recording: false, position: None };
        ReturnedIter { kept: Some(Box::new(kept)), place: Rc::clone(self), next: 0 }
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

impl ReturnedIter {
    /// Moves to the next entry. Returns false at the end. The direction is the same for the whole
    /// scan.
    ///
    /// # Errors
    ///
    /// A block is damaged.
    pub(super) fn step(&mut self, is_reverse: bool) -> CommandResult<bool> {
        let next = self.next;
        self.next += 1;
        // Only the drop takes it.
        self.kept.as_mut().expect(UNTIL_DROP).move_to(next, is_reverse)
    }

    fn kept(&self) -> &KeptIter {
        // Only the drop takes it.
        self.kept.as_ref().expect(UNTIL_DROP)
    }

    /// Key of the current entry.
    pub(super) fn key(&self) -> &[u8] {
        let kept = self.kept();
        match self.started_entry(kept) {
            Some(index) => kept.start.key(index),
            None => kept.iter.key(),
        }
    }

    /// Value of the current entry.
    pub(super) fn value(&self) -> &[u8] {
        let kept = self.kept();
        match self.started_entry(kept) {
            Some(index) => kept.start.value(index),
            None => kept.iter.value(),
        }
    }

    /// Number of the current entry, if it is one of the first entries that `kept` has.
    fn started_entry(&self, kept: &KeptIter) -> Option<usize> {
        self.next.checked_sub(1).filter(|index| *index < kept.start.len())
    }
}

impl KeptIter {
    /// Moves to the entry `next` of a scan that has shown the entries before.
    fn move_to(&mut self, next: usize, is_reverse: bool) -> CommandResult<bool> {
        if self.start.is_reverse != is_reverse {
            self.start = ScanStart::new(is_reverse);
            self.position = None;
        }
        if next < self.start.len() || self.start.is_complete {
            return Ok(next < self.start.len());
        }
        self.move_iter_to(next);
        if !self.iter.valid() {
            self.iter.status()?;
            self.start.is_complete = self.is_recording && next == self.start.len();
            return Ok(false);
        }
        if self.is_recording && next == self.start.len() {
            self.start.push(self.iter.key(), self.iter.value());
        }
        Ok(true)
    }

    /// Moves the iterator to the entry `next`, which is not in `start`.
    fn move_iter_to(&mut self, next: usize) {
        let is_before = next > 0 && self.position == Some(next - 1);
        if next > 0 && !is_before {
            // The scan has shown entries of `start` only, and an earlier one went further.
            self.iter.seek(self.start.key(next - 1));
            self.position = None;
            if !self.iter.valid() {
                return;
            }
        }
        match (next, self.start.is_reverse) {
            (0, false) => self.iter.seek_to_first(),
            (0, true) => self.iter.seek_to_last(),
            (_, false) => self.iter.next(),
            (_, true) => self.iter.prev(),
        }
        self.position = Some(next);
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
            assert!(kept.step(false).unwrap());
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

    /// Suffixes of the members of a scan by the kept iterator, at most `limit` of them.
    fn scan(iter: &mut ReturnedIter, is_reverse: bool, limit: usize) -> Vec<u8> {
        let mut found = Vec::new();
        while found.len() < limit && iter.step(is_reverse).unwrap() {
            assert_eq!(iter.value().first(), iter.key().last());
            found.push(iter.key()[MEMBER_PREFIX]);
        }
        found
    }

    #[test]
    fn scans_of_all_lengths_and_directions() {
        let db = db();
        let place = Rc::<IterPlace>::default();
        let object = Object::new(ValueType::Set, 7);
        let bounds = ScanBounds::new(&object, b"", None);
        let mut record = Vec::new();
        for member in 0..9_u8 {
            object.member_key(&[member], &mut record);
            // The first entries of the repeated scans have room for some members only.
            db.put(&record, [&[member], &[0; 600][..]].concat()).unwrap();
        }
        keep(&place, &db, &bounds);
        for (is_reverse, limit) in
            [(false, 2), (false, 1), (false, 4), (false, 9), (false, 20), (false, 8), (false, 7), (true, 3)]
                .into_iter()
                .chain([(true, 3), (true, 20), (true, 8), (true, 6), (false, 20), (true, 20)])
        {
            let mut kept = place.take(&db, &bounds).unwrap();
            let mut expected: Vec<u8> = (0..9).collect();
            if is_reverse {
                expected.reverse();
            }
            expected.truncate(limit);
            assert_eq!(scan(&mut kept, is_reverse, limit), expected, "{is_reverse} {limit}");
        }
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
