//! What a database should answer: an ordered map that remembers the past.
//!
//! ```text
//!   key "a"   @3 = x   @9 deleted   @12 = y       a reader at 10 finds nothing, one at 12 finds y
//! ```
//!
//! A version is forgotten once a newer one exists and no reader is old enough to see it. What the writes since the last
//! sync replaced is remembered apart, for a power cut may take them back.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::differential::Entry;
use crate::op::{IteratorBounds, IteratorMove, Slot, ValueSpec, Write};
use crate::settings::ComparatorKind;

/// A key with its place in the order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum OrderedKey {
    Bytewise(Vec<u8>),
    Reverse(Reverse<Vec<u8>>),
    Shortlex(usize, Vec<u8>),
}

impl OrderedKey {
    fn new(key: &[u8], order: ComparatorKind) -> OrderedKey {
        match order {
            ComparatorKind::Bytewise => OrderedKey::Bytewise(key.to_vec()),
            ComparatorKind::Reverse => OrderedKey::Reverse(Reverse(key.to_vec())),
            ComparatorKind::Shortlex => OrderedKey::Shortlex(key.len(), key.to_vec()),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            OrderedKey::Bytewise(key) | OrderedKey::Reverse(Reverse(key)) | OrderedKey::Shortlex(_, key) => {
                key
            }
        }
    }
}

#[derive(Debug)]
struct Version {
    sequence: u64,
    value: Option<ValueSpec>,
}

#[derive(Debug)]
struct ModelIterator {
    sequence: u64,
    range: IteratorBounds,
    position: Option<OrderedKey>,
}

/// What a write replaced.
#[derive(Debug)]
struct UnsyncedWrite {
    key: OrderedKey,
    previous_value: Option<ValueSpec>,
    /// True for the first of a batch: a state is one between batches.
    starts_batch: bool,
}

/// The model. Slots are those of [`crate::op`].
#[derive(Debug)]
pub struct Model {
    comparator: ComparatorKind,
    keys: BTreeMap<OrderedKey, Vec<Version>>,
    sequence: u64,
    snapshots: HashMap<Slot, u64>,
    iterators: HashMap<Slot, ModelIterator>,
    /// Of the writes that may still be lost, oldest first.
    unsynced: Vec<UnsyncedWrite>,
}

impl Model {
    /// An empty one.
    pub fn new(order: ComparatorKind) -> Model {
        let (snapshots, cursors) = (HashMap::new(), HashMap::new());
        Model {
            comparator: order,
            keys: BTreeMap::new(),
            sequence: 0,
            snapshots,
            iterators: cursors,
            unsynced: Vec::new(),
        }
    }

    /// The order of its keys.
    pub fn comparator(&self) -> ComparatorKind {
        self.comparator
    }

    /// Makes some changes at once.
    pub fn apply_batch(&mut self, writes: &[Write]) {
        for (at, write) in writes.iter().enumerate() {
            self.add_version(write.key(), write.value(), at == 0);
        }
    }

    /// Gives `key` a value, or none.
    pub fn set(&mut self, key: &[u8], value: Option<ValueSpec>) {
        self.add_version(key, value, true);
    }

    /// Removes every key from `begin` up to, but without, `end`.
    pub fn delete_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) {
        let rank = |key: &[u8]| OrderedKey::new(key, self.comparator);
        let (begin, end) = (begin.map(rank), end.map(rank));
        let inside = |key: &OrderedKey| {
            begin.as_ref().is_none_or(|begin| key >= begin) && end.as_ref().is_none_or(|end| key < end)
        };
        let alive = |versions: &[Version]| versions.last().is_some_and(|last| last.value.is_some());
        let keys = self.keys.iter().filter(|(key, versions)| inside(key) && alive(versions));
        let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.key().to_vec()).collect();
        keys.iter().for_each(|key| self.set(key, None));
    }

    fn add_version(&mut self, key: &[u8], value: Option<ValueSpec>, first: bool) {
        self.sequence += 1;
        let newest_reader = self.reader_sequences().max().unwrap_or(0);
        let key = OrderedKey::new(key, self.comparator);
        let versions = self.keys.entry(key.clone()).or_default();
        self.unsynced.push(UnsyncedWrite {
            key,
            previous_value: versions.last().and_then(|last| last.value),
            starts_batch: first,
        });
        if versions.last().is_some_and(|last| last.sequence > newest_reader) {
            versions.pop();
        }
        versions.push(Version { sequence: self.sequence, value });
    }

    /// Everything so far is on the medium.
    pub fn mark_synced(&mut self) {
        self.unsynced.clear();
    }

    /// How many writes are not.
    pub fn unsynced_writes(&self) -> usize {
        self.unsynced.len()
    }

    /// Goes back to the latest state between batches, and not before the medium's, that is exactly `found`, and says
    /// how many writes that takes away; None if there was no such state. There must be no readers.
    pub fn roll_back_to(&mut self, found: &[Entry]) -> Option<usize> {
        let found: HashMap<&[u8], &[u8]> = found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let is = |key: &OrderedKey, value: Option<ValueSpec>| match (found.get(key.key()), value) {
            (Some(found), Some(value)) => value.matches(found),
            (found, value) => found.is_none() && value.is_none(),
        };
        let newest = |versions: &[Version]| versions.last().and_then(|last| last.value);
        let known = self.keys.keys().filter(|key| found.contains_key(key.key())).count();
        let mut wrong = self.keys.iter().filter(|(key, versions)| !is(key, newest(versions))).count();
        wrong += found.len() - known;
        let (mut lost, mut whole) = (0, true);
        while wrong > 0 || !whole {
            let UnsyncedWrite { key, previous_value: before, starts_batch: first } = self.unsynced.pop()?;
            let versions = self.keys.get_mut(&key)?;
            wrong = wrong + usize::from(!is(&key, before)) - usize::from(!is(&key, newest(versions)));
            *versions = vec![Version { sequence: self.sequence, value: before }];
            (lost, whole) = (lost + 1, first);
        }
        Some(lost)
    }

    /// Forgets everything that was ever written.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.unsynced.clear();
    }

    fn reader_sequences(&self) -> impl Iterator<Item = u64> {
        self.snapshots.values().copied().chain(self.iterators.values().map(|cursor| cursor.sequence))
    }

    /// What `key` holds, now or at the snapshot in a slot.
    pub fn get(&self, key: &[u8], at: Option<Slot>) -> Option<ValueSpec> {
        visible_value(self.keys.get(&OrderedKey::new(key, self.comparator))?, self.read_sequence(at))
    }

    /// Every entry in order, now or at the snapshot in a slot.
    pub fn scan(&self, at: Option<Slot>) -> impl DoubleEndedIterator<Item = (&[u8], ValueSpec)> {
        let when = self.read_sequence(at);
        self.keys.iter().filter_map(move |(key, versions)| Some((key.key(), visible_value(versions, when)?)))
    }

    /// Every key that was ever written, deleted ones included.
    pub fn keys_ever_written(&self) -> Vec<Vec<u8>> {
        self.keys.keys().map(|key| key.key().to_vec()).collect()
    }

    fn read_sequence(&self, at: Option<Slot>) -> u64 {
        at.and_then(|slot| self.snapshots.get(&slot).copied()).unwrap_or(self.sequence)
    }

    /// Takes a snapshot into a slot.
    pub fn take_snapshot(&mut self, slot: Slot) {
        self.snapshots.insert(slot, self.sequence);
    }

    /// Empties a snapshot's slot.
    pub fn release_snapshot(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    /// True if the slot holds a snapshot.
    pub fn has_snapshot(&self, slot: Slot) -> bool {
        self.snapshots.contains_key(&slot)
    }

    /// Opens a cursor in a slot.
    pub fn open_iterator(&mut self, slot: Slot, at: Option<Slot>, range: &IteratorBounds) {
        let cursor = ModelIterator { sequence: self.read_sequence(at), range: range.clone(), position: None };
        self.iterators.insert(slot, cursor);
    }

    /// Empties a cursor's slot.
    pub fn close_iterator(&mut self, slot: Slot) {
        self.iterators.remove(&slot);
    }

    /// True if the step is one a caller may make: there is a cursor, and it stands somewhere if it must.
    pub fn can_move(&self, slot: Slot, step: &IteratorMove) -> bool {
        let needs_place = matches!(step, IteratorMove::Next | IteratorMove::Prev);
        self.iterators.get(&slot).is_some_and(|cursor| cursor.position.is_some() || !needs_place)
    }

    /// Moves a cursor that may, and says where it stands.
    pub fn move_iterator(&mut self, slot: Slot, step: &IteratorMove) -> Option<(&[u8], ValueSpec)> {
        let order = self.comparator;
        let mut cursor = self.iterators.remove(&slot)?;
        let here = || cursor.position.clone().map_or(Bound::Unbounded, Bound::Excluded);
        cursor.position = match step {
            IteratorMove::SeekToFirst => self.first_visible_from(&cursor, Bound::Unbounded),
            IteratorMove::SeekToLast => self.last_visible_before(&cursor, Bound::Unbounded),
            IteratorMove::Seek(key) => {
                self.first_visible_from(&cursor, Bound::Included(OrderedKey::new(key, order)))
            }
            IteratorMove::Next => self.first_visible_from(&cursor, here()),
            IteratorMove::Prev => self.last_visible_before(&cursor, here()),
        };
        let (place, at) = (cursor.position.clone(), cursor.sequence);
        self.iterators.insert(slot, cursor);
        let (key, versions) = self.keys.get_key_value(&place?)?;
        Some((key.key(), visible_value(versions, at)?))
    }

    fn first_visible_from(&self, cursor: &ModelIterator, from: Bound<OrderedKey>) -> Option<OrderedKey> {
        let mut after = self.keys.range((from, Bound::Unbounded));
        after.find(|(key, versions)| self.is_visible_to(cursor, key, versions)).map(|(key, _)| key.clone())
    }

    fn last_visible_before(&self, cursor: &ModelIterator, to: Bound<OrderedKey>) -> Option<OrderedKey> {
        let before = self.keys.range((Bound::Unbounded, to));
        before
            .rev()
            .find(|(key, versions)| self.is_visible_to(cursor, key, versions))
            .map(|(key, _)| key.clone())
    }

    fn is_visible_to(&self, cursor: &ModelIterator, key: &OrderedKey, versions: &[Version]) -> bool {
        let IteratorBounds { lower, upper, prefix } = &cursor.range;
        let compare = |limit: &Option<Vec<u8>>, otherwise| {
            limit.as_ref().map_or(otherwise, |limit| key.cmp(&OrderedKey::new(limit, self.comparator)))
        };
        visible_value(versions, cursor.sequence).is_some()
            && compare(lower, Ordering::Greater).is_ge()
            && compare(upper, Ordering::Less).is_lt()
            && prefix.as_ref().is_none_or(|prefix| key.key().starts_with(prefix))
    }

    /// What closing the database does: all slots become empty.
    pub fn drop_readers(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
    }
}

fn visible_value(versions: &[Version], at: u64) -> Option<ValueSpec> {
    versions.iter().rev().find(|version| version.sequence <= at)?.value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seed: u32) -> ValueSpec {
        ValueSpec { len: 1, seed }
    }

    fn seeds(model: &Model, at: Option<Slot>) -> Vec<(Vec<u8>, u32)> {
        model.scan(at).map(|(key, value)| (key.to_vec(), value.seed)).collect()
    }

    #[test]
    fn snapshot_is_stable() {
        let mut model = Model::new(ComparatorKind::Bytewise);
        model.set(b"a", Some(value(1)));
        model.take_snapshot(0);
        model.set(b"a", None);
        model.set(b"a", Some(value(2)));
        model.set(b"b", Some(value(3)));
        assert_eq!(seeds(&model, Some(0)), [(b"a".to_vec(), 1)]);
        assert_eq!(model.get(b"a", Some(0)), Some(value(1)));
        model.release_snapshot(0);
        assert_eq!(seeds(&model, None), [(b"a".to_vec(), 2), (b"b".to_vec(), 3)]);
    }

    #[test]
    fn iterator_changes_direction_within_bounds() {
        let mut model = Model::new(ComparatorKind::Bytewise);
        for key in [b"a", b"b", b"c", b"d"] {
            model.set(key, Some(value(0)));
        }
        let range = IteratorBounds { lower: Some(b"b".to_vec()), upper: Some(b"d".to_vec()), prefix: None };
        model.open_iterator(0, None, &range);
        let mut at = |step| model.move_iterator(0, &step).map(|(key, _)| key.to_vec());
        assert_eq!(at(IteratorMove::SeekToFirst), Some(b"b".to_vec()));
        assert_eq!(at(IteratorMove::Next), Some(b"c".to_vec()));
        assert_eq!(at(IteratorMove::Prev), Some(b"b".to_vec()));
        assert_eq!(at(IteratorMove::Prev), None);
        assert_eq!(at(IteratorMove::SeekToLast), Some(b"c".to_vec()));
        assert_eq!(at(IteratorMove::Seek(b"a".to_vec())), Some(b"b".to_vec()));
        assert!(!model.can_move(1, &IteratorMove::SeekToFirst));
    }

    #[test]
    fn rolls_back_to_batch_boundary_after_last_sync() {
        let put = |key: &[u8], seed| Write::Put { key: key.to_vec(), value: value(seed) };
        let model = || {
            let mut model = Model::new(ComparatorKind::Bytewise);
            model.apply_batch(&[put(b"a", 1)]);
            model.mark_synced();
            model.apply_batch(&[put(b"a", 2), put(b"b", 3)]);
            model.apply_batch(&[Write::Delete { key: b"a".to_vec() }]);
            model
        };
        let entry = |key: &[u8], seed| (key.to_vec(), value(seed).bytes());
        for (found, lost) in [
            (vec![entry(b"b", 3)], Some(0)),
            (vec![entry(b"a", 2), entry(b"b", 3)], Some(1)),
            (vec![entry(b"a", 1)], Some(3)),
            (vec![entry(b"a", 2)], None),
            (vec![], None),
            (vec![entry(b"b", 3), entry(b"c", 4)], None),
        ] {
            let mut model = model();
            assert_eq!(model.roll_back_to(&found), lost, "{found:?}");
            if lost.is_some() {
                let held: Vec<Entry> = model.scan(None).map(|(k, v)| (k.to_vec(), v.bytes())).collect();
                assert_eq!(held, found);
            }
        }
    }

    #[test]
    fn reverse_comparator_scans_descending() {
        let mut model = Model::new(ComparatorKind::Reverse);
        model.set(b"a", Some(value(1)));
        model.set(b"b", Some(value(2)));
        assert_eq!(seeds(&model, None), [(b"b".to_vec(), 2), (b"a".to_vec(), 1)]);
    }
}
