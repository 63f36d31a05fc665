//! Model of a database: an ordered map with versions.
//!
//! ```text
//!   key "a"   @3 = x   @9 deleted   @12 = y       a reader at 10 finds nothing, one at 12 finds y
//! ```
//!
//! The model drops a version when a newer one exists and no reader is old enough to see it. It also
//! keeps the values that unsynced writes replaced, because a power cut may undo these writes.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::differential::Entry;
use crate::op::{IteratorBounds, IteratorMove, Slot, ValueSpec, Write};
use crate::settings::ComparatorKind;

/// Key that sorts in the order of its comparator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum OrderedKey {
    Bytewise(Vec<u8>),
    Reverse(Reverse<Vec<u8>>),
    Shortlex(usize, Vec<u8>),
}

impl OrderedKey {
    fn new(key: &[u8], comparator: ComparatorKind) -> OrderedKey {
        match comparator {
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

/// Keys of a model in a range.
#[derive(Debug, Default)]
pub struct RangeKeys {
    /// A key with a value, if there is one.
    pub visible: Option<Vec<u8>>,
    /// True if a key of the range was ever written, or deleted.
    pub any_written: bool,
}

/// Key and previous value of an unsynced write.
#[derive(Debug)]
struct UnsyncedWrite {
    key: OrderedKey,
    previous_value: Option<ValueSpec>,
    /// True for the first write of a batch. Only batch boundaries are valid states.
    starts_batch: bool,
}

/// The model. Its slots are those of [`crate::op`].
#[derive(Debug)]
pub struct Model {
    comparator: ComparatorKind,
    keys: BTreeMap<OrderedKey, Vec<Version>>,
    sequence: u64,
    snapshots: HashMap<Slot, u64>,
    iterators: HashMap<Slot, ModelIterator>,
    /// Unsynced writes, oldest first.
    unsynced: Vec<UnsyncedWrite>,
}

impl Model {
    /// Creates an empty model.
    pub fn new(comparator: ComparatorKind) -> Model {
        Model {
            comparator,
            keys: BTreeMap::new(),
            sequence: 0,
            snapshots: HashMap::new(),
            iterators: HashMap::new(),
            unsynced: Vec::new(),
        }
    }

    /// Returns the comparator.
    pub fn comparator(&self) -> ComparatorKind {
        self.comparator
    }

    /// Applies a batch of writes.
    pub fn apply_batch(&mut self, writes: &[Write]) {
        for (index, write) in writes.iter().enumerate() {
            self.add_version(write.key(), write.value(), index == 0);
        }
    }

    /// Sets the value of `key`, or deletes it.
    pub fn set(&mut self, key: &[u8], value: Option<ValueSpec>) {
        self.add_version(key, value, true);
    }

    /// Deletes all keys from `begin` to `end`, which is excluded.
    pub fn delete_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) {
        let begin = begin.map(|key| OrderedKey::new(key, self.comparator));
        let end = end.map(|key| OrderedKey::new(key, self.comparator));
        let keys = self.keys.iter().filter(|(key, versions)| {
            begin.as_ref().is_none_or(|begin| *key >= begin)
                && end.as_ref().is_none_or(|end| *key < end)
                && versions.last().is_some_and(|last| last.value.is_some())
        });
        let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.key().to_vec()).collect();
        for key in keys {
            self.set(&key, None);
        }
    }

    fn add_version(&mut self, key: &[u8], value: Option<ValueSpec>, starts_batch: bool) {
        self.sequence += 1;
        let newest_reader = self.reader_sequences().max().unwrap_or(0);
        let key = OrderedKey::new(key, self.comparator);
        let versions = self.keys.entry(key.clone()).or_default();
        self.unsynced.push(UnsyncedWrite {
            key,
            previous_value: versions.last().and_then(|last| last.value),
            starts_batch,
        });
        if versions.last().is_some_and(|last| last.sequence > newest_reader) {
            versions.pop();
        }
        versions.push(Version { sequence: self.sequence, value });
    }

    /// Marks all writes as durable.
    pub fn mark_synced(&mut self) {
        self.unsynced.clear();
    }

    /// Returns the number of unsynced writes.
    pub fn unsynced_writes(&self) -> usize {
        self.unsynced.len()
    }

    /// Rolls back to the latest batch boundary since the last sync whose state equals `found`.
    /// Returns the number of lost writes, or None if no such state exists. No readers may exist.
    pub fn roll_back_to(&mut self, found: &[Entry]) -> Option<usize> {
        let found: HashMap<&[u8], &[u8]> = found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let matches = |key: &OrderedKey, value: Option<ValueSpec>| match (found.get(key.key()), value) {
            (Some(found), Some(value)) => value.matches(found),
            (found, value) => found.is_none() && value.is_none(),
        };
        let newest = |versions: &[Version]| versions.last().and_then(|last| last.value);
        let common = self.keys.keys().filter(|key| found.contains_key(key.key())).count();
        let mut differing =
            self.keys.iter().filter(|(key, versions)| !matches(key, newest(versions))).count();
        differing += found.len() - common;
        let mut lost = 0;
        let mut at_batch_boundary = true;
        while differing > 0 || !at_batch_boundary {
            let UnsyncedWrite { key, previous_value, starts_batch } = self.unsynced.pop()?;
            let versions = self.keys.get_mut(&key)?;
            differing += usize::from(!matches(&key, previous_value));
            differing -= usize::from(!matches(&key, newest(versions)));
            *versions = vec![Version { sequence: self.sequence, value: previous_value }];
            lost += 1;
            at_batch_boundary = starts_batch;
        }
        Some(lost)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.unsynced.clear();
    }

    fn reader_sequences(&self) -> impl Iterator<Item = u64> {
        self.snapshots.values().copied().chain(self.iterators.values().map(|iterator| iterator.sequence))
    }

    /// Returns the value of `key`, now or at the snapshot in a slot.
    pub fn get(&self, key: &[u8], snapshot: Option<Slot>) -> Option<ValueSpec> {
        visible_value(self.keys.get(&OrderedKey::new(key, self.comparator))?, self.read_sequence(snapshot))
    }

    /// Returns all entries in order, now or at the snapshot in a slot.
    pub fn scan(&self, snapshot: Option<Slot>) -> impl DoubleEndedIterator<Item = (&[u8], ValueSpec)> {
        let sequence = self.read_sequence(snapshot);
        self.keys
            .iter()
            .filter_map(move |(key, versions)| Some((key.key(), visible_value(versions, sequence)?)))
    }

    /// Returns all keys that were ever written, including deleted ones.
    pub fn keys_ever_written(&self) -> Vec<Vec<u8>> {
        self.keys.keys().map(|key| key.key().to_vec()).collect()
    }

    fn read_sequence(&self, snapshot: Option<Slot>) -> u64 {
        snapshot.and_then(|slot| self.snapshots.get(&slot).copied()).unwrap_or(self.sequence)
    }

    /// Takes a snapshot into a slot.
    pub fn take_snapshot(&mut self, slot: Slot) {
        self.snapshots.insert(slot, self.sequence);
    }

    /// Releases the snapshot in a slot.
    pub fn release_snapshot(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    /// Returns true if there is a snapshot.
    pub fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Returns true if there is a snapshot or an iterator.
    pub fn has_readers(&self) -> bool {
        self.has_snapshots() || !self.iterators.is_empty()
    }

    /// Returns the keys from the smallest to the largest of `bounds`.
    pub fn keys_in_range_of<'a>(&self, bounds: impl Iterator<Item = &'a [u8]>) -> RangeKeys {
        let mut bounds: Vec<OrderedKey> = bounds.map(|key| OrderedKey::new(key, self.comparator)).collect();
        bounds.sort();
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return RangeKeys::default() };
        let mut keys = RangeKeys::default();
        for (key, versions) in self.keys.range(first..=last) {
            keys.any_written = true;
            if versions.last().is_some_and(|last| last.value.is_some()) {
                keys.visible = Some(key.key().to_vec());
            }
        }
        keys
    }

    /// Returns true if the slot holds a snapshot.
    pub fn has_snapshot(&self, slot: Slot) -> bool {
        self.snapshots.contains_key(&slot)
    }

    /// Opens an iterator in a slot.
    pub fn open_iterator(&mut self, slot: Slot, snapshot: Option<Slot>, range: &IteratorBounds) {
        let iterator =
            ModelIterator { sequence: self.read_sequence(snapshot), range: range.clone(), position: None };
        self.iterators.insert(slot, iterator);
    }

    /// Closes the iterator in a slot.
    pub fn close_iterator(&mut self, slot: Slot) {
        self.iterators.remove(&slot);
    }

    /// Returns true if a caller may make the movement: the iterator exists, and it has a position
    /// if the movement needs one.
    pub fn can_move(&self, slot: Slot, movement: &IteratorMove) -> bool {
        let needs_position = matches!(movement, IteratorMove::Next | IteratorMove::Prev);
        self.iterators.get(&slot).is_some_and(|iterator| iterator.position.is_some() || !needs_position)
    }

    /// Moves an iterator and returns its entry.
    pub fn move_iterator(&mut self, slot: Slot, movement: &IteratorMove) -> Option<(&[u8], ValueSpec)> {
        let comparator = self.comparator;
        let mut iterator = self.iterators.remove(&slot)?;
        let current = || iterator.position.clone().map_or(Bound::Unbounded, Bound::Excluded);
        iterator.position = match movement {
            IteratorMove::SeekToFirst => self.first_visible_from(&iterator, Bound::Unbounded),
            IteratorMove::SeekToLast => self.last_visible_before(&iterator, Bound::Unbounded),
            IteratorMove::Seek(key) => {
                self.first_visible_from(&iterator, Bound::Included(OrderedKey::new(key, comparator)))
            }
            IteratorMove::Next => self.first_visible_from(&iterator, current()),
            IteratorMove::Prev => self.last_visible_before(&iterator, current()),
        };
        let position = iterator.position.clone();
        let sequence = iterator.sequence;
        self.iterators.insert(slot, iterator);
        let (key, versions) = self.keys.get_key_value(&position?)?;
        Some((key.key(), visible_value(versions, sequence)?))
    }

    fn first_visible_from(&self, iterator: &ModelIterator, from: Bound<OrderedKey>) -> Option<OrderedKey> {
        let mut after = self.keys.range((from, Bound::Unbounded));
        after.find(|(key, versions)| self.is_visible_to(iterator, key, versions)).map(|(key, _)| key.clone())
    }

    fn last_visible_before(&self, iterator: &ModelIterator, to: Bound<OrderedKey>) -> Option<OrderedKey> {
        let before = self.keys.range((Bound::Unbounded, to));
        before
            .rev()
            .find(|(key, versions)| self.is_visible_to(iterator, key, versions))
            .map(|(key, _)| key.clone())
    }

    fn is_visible_to(&self, iterator: &ModelIterator, key: &OrderedKey, versions: &[Version]) -> bool {
        let IteratorBounds { lower, upper, prefix } = &iterator.range;
        let compare = |limit: &Option<Vec<u8>>, otherwise| {
            limit.as_ref().map_or(otherwise, |limit| key.cmp(&OrderedKey::new(limit, self.comparator)))
        };
        visible_value(versions, iterator.sequence).is_some()
            && compare(lower, Ordering::Greater).is_ge()
            && compare(upper, Ordering::Less).is_lt()
            && prefix.as_ref().is_none_or(|prefix| key.key().starts_with(prefix))
    }

    /// Empties all slots, as the close of a database does.
    pub fn drop_readers(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
    }
}

fn visible_value(versions: &[Version], sequence: u64) -> Option<ValueSpec> {
    versions.iter().rev().find(|version| version.sequence <= sequence)?.value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seed: u32) -> ValueSpec {
        ValueSpec { len: 1, seed }
    }

    fn seeds(model: &Model, snapshot: Option<Slot>) -> Vec<(Vec<u8>, u32)> {
        model.scan(snapshot).map(|(key, value)| (key.to_vec(), value.seed)).collect()
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
        let mut key_after = |step| model.move_iterator(0, &step).map(|(key, _)| key.to_vec());
        assert_eq!(key_after(IteratorMove::SeekToFirst), Some(b"b".to_vec()));
        assert_eq!(key_after(IteratorMove::Next), Some(b"c".to_vec()));
        assert_eq!(key_after(IteratorMove::Prev), Some(b"b".to_vec()));
        assert_eq!(key_after(IteratorMove::Prev), None);
        assert_eq!(key_after(IteratorMove::SeekToLast), Some(b"c".to_vec()));
        assert_eq!(key_after(IteratorMove::Seek(b"a".to_vec())), Some(b"b".to_vec()));
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
                let contents: Vec<Entry> = model.scan(None).map(|(k, v)| (k.to_vec(), v.bytes())).collect();
                assert_eq!(contents, found);
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
