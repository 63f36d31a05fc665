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

use crate::op::{Range, Slot, Step, Value, Write};
use crate::run::Entry;
use crate::settings::Order;

/// A key with its place in the order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Ranked {
    Up(Vec<u8>),
    Down(Reverse<Vec<u8>>),
    Long(usize, Vec<u8>),
}

impl Ranked {
    fn new(key: &[u8], order: Order) -> Ranked {
        match order {
            Order::Bytewise => Ranked::Up(key.to_vec()),
            Order::Reverse => Ranked::Down(Reverse(key.to_vec())),
            Order::Shortlex => Ranked::Long(key.len(), key.to_vec()),
        }
    }

    fn key(&self) -> &[u8] {
        match self {
            Ranked::Up(key) | Ranked::Down(Reverse(key)) | Ranked::Long(_, key) => key,
        }
    }
}

#[derive(Debug)]
struct Version {
    sequence: u64,
    value: Option<Value>,
}

#[derive(Debug)]
struct Cursor {
    at: u64,
    range: Range,
    place: Option<Ranked>,
}

/// What a write replaced.
#[derive(Debug)]
struct Undo {
    key: Ranked,
    before: Option<Value>,
    /// True for the first of a batch: a state is one between batches.
    first: bool,
}

/// The model. Slots are those of [`crate::op`].
#[derive(Debug)]
pub struct Model {
    order: Order,
    keys: BTreeMap<Ranked, Vec<Version>>,
    sequence: u64,
    snapshots: HashMap<Slot, u64>,
    cursors: HashMap<Slot, Cursor>,
    /// Of the writes that may still be lost, oldest first.
    undo: Vec<Undo>,
}

impl Model {
    /// An empty one.
    pub fn new(order: Order) -> Model {
        let (snapshots, cursors) = (HashMap::new(), HashMap::new());
        Model { order, keys: BTreeMap::new(), sequence: 0, snapshots, cursors, undo: Vec::new() }
    }

    /// The order of its keys.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Makes some changes at once.
    pub fn write(&mut self, writes: &[Write]) {
        for (at, write) in writes.iter().enumerate() {
            self.change(write.key(), write.value(), at == 0);
        }
    }

    /// Gives `key` a value, or none.
    pub fn set(&mut self, key: &[u8], value: Option<Value>) {
        self.change(key, value, true);
    }

    /// Removes every key from `begin` up to, but without, `end`.
    pub fn erase(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) {
        let rank = |key: &[u8]| Ranked::new(key, self.order);
        let (begin, end) = (begin.map(rank), end.map(rank));
        let inside = |key: &Ranked| {
            begin.as_ref().is_none_or(|begin| key >= begin) && end.as_ref().is_none_or(|end| key < end)
        };
        let alive = |versions: &[Version]| versions.last().is_some_and(|last| last.value.is_some());
        let keys = self.keys.iter().filter(|(key, versions)| inside(key) && alive(versions));
        let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.key().to_vec()).collect();
        keys.iter().for_each(|key| self.set(key, None));
    }

    fn change(&mut self, key: &[u8], value: Option<Value>, first: bool) {
        self.sequence += 1;
        let newest_reader = self.readers().max().unwrap_or(0);
        let key = Ranked::new(key, self.order);
        let versions = self.keys.entry(key.clone()).or_default();
        self.undo.push(Undo { key, before: versions.last().and_then(|last| last.value), first });
        if versions.last().is_some_and(|last| last.sequence > newest_reader) {
            versions.pop();
        }
        versions.push(Version { sequence: self.sequence, value });
    }

    /// Everything so far is on the medium.
    pub fn settle(&mut self) {
        self.undo.clear();
    }

    /// How many writes are not.
    pub fn unsettled(&self) -> usize {
        self.undo.len()
    }

    /// Goes back to the latest state between batches, and not before the medium's, that is exactly `found`, and says
    /// how many writes that takes away; None if there was no such state. There must be no readers.
    pub fn go_back_to(&mut self, found: &[Entry]) -> Option<usize> {
        let found: HashMap<&[u8], &[u8]> = found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let is = |key: &Ranked, value: Option<Value>| match (found.get(key.key()), value) {
            (Some(found), Some(value)) => value.is(found),
            (found, value) => found.is_none() && value.is_none(),
        };
        let newest = |versions: &[Version]| versions.last().and_then(|last| last.value);
        let known = self.keys.keys().filter(|key| found.contains_key(key.key())).count();
        let mut wrong = self.keys.iter().filter(|(key, versions)| !is(key, newest(versions))).count();
        wrong += found.len() - known;
        let (mut lost, mut whole) = (0, true);
        while wrong > 0 || !whole {
            let Undo { key, before, first } = self.undo.pop()?;
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
        self.undo.clear();
    }

    fn readers(&self) -> impl Iterator<Item = u64> {
        self.snapshots.values().copied().chain(self.cursors.values().map(|cursor| cursor.at))
    }

    /// What `key` holds, now or at the snapshot in a slot.
    pub fn get(&self, key: &[u8], at: Option<Slot>) -> Option<Value> {
        visible(self.keys.get(&Ranked::new(key, self.order))?, self.when(at))
    }

    /// Every entry in order, now or at the snapshot in a slot.
    pub fn scan(&self, at: Option<Slot>) -> impl DoubleEndedIterator<Item = (&[u8], Value)> {
        let when = self.when(at);
        self.keys.iter().filter_map(move |(key, versions)| Some((key.key(), visible(versions, when)?)))
    }

    /// Every key that was ever written, deleted ones included.
    pub fn keys_ever(&self) -> Vec<Vec<u8>> {
        self.keys.keys().map(|key| key.key().to_vec()).collect()
    }

    fn when(&self, at: Option<Slot>) -> u64 {
        at.and_then(|slot| self.snapshots.get(&slot).copied()).unwrap_or(self.sequence)
    }

    /// Takes a snapshot into a slot.
    pub fn take(&mut self, slot: Slot) {
        self.snapshots.insert(slot, self.sequence);
    }

    /// Empties a snapshot's slot.
    pub fn release(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    /// True if the slot holds a snapshot.
    pub fn has_snapshot(&self, slot: Slot) -> bool {
        self.snapshots.contains_key(&slot)
    }

    /// Opens a cursor in a slot.
    pub fn open(&mut self, slot: Slot, at: Option<Slot>, range: &Range) {
        let cursor = Cursor { at: self.when(at), range: range.clone(), place: None };
        self.cursors.insert(slot, cursor);
    }

    /// Empties a cursor's slot.
    pub fn close(&mut self, slot: Slot) {
        self.cursors.remove(&slot);
    }

    /// True if the step is one a caller may make: there is a cursor, and it stands somewhere if it must.
    pub fn may_step(&self, slot: Slot, step: &Step) -> bool {
        let needs_place = matches!(step, Step::Next | Step::Prev);
        self.cursors.get(&slot).is_some_and(|cursor| cursor.place.is_some() || !needs_place)
    }

    /// Moves a cursor that may, and says where it stands.
    pub fn step(&mut self, slot: Slot, step: &Step) -> Option<(&[u8], Value)> {
        let order = self.order;
        let mut cursor = self.cursors.remove(&slot)?;
        let here = || cursor.place.clone().map_or(Bound::Unbounded, Bound::Excluded);
        cursor.place = match step {
            Step::First => self.forward(&cursor, Bound::Unbounded),
            Step::Last => self.backward(&cursor, Bound::Unbounded),
            Step::Seek(key) => self.forward(&cursor, Bound::Included(Ranked::new(key, order))),
            Step::Next => self.forward(&cursor, here()),
            Step::Prev => self.backward(&cursor, here()),
        };
        let (place, at) = (cursor.place.clone(), cursor.at);
        self.cursors.insert(slot, cursor);
        let (key, versions) = self.keys.get_key_value(&place?)?;
        Some((key.key(), visible(versions, at)?))
    }

    fn forward(&self, cursor: &Cursor, from: Bound<Ranked>) -> Option<Ranked> {
        let mut after = self.keys.range((from, Bound::Unbounded));
        after.find(|(key, versions)| self.shows(cursor, key, versions)).map(|(key, _)| key.clone())
    }

    fn backward(&self, cursor: &Cursor, to: Bound<Ranked>) -> Option<Ranked> {
        let before = self.keys.range((Bound::Unbounded, to));
        before.rev().find(|(key, versions)| self.shows(cursor, key, versions)).map(|(key, _)| key.clone())
    }

    fn shows(&self, cursor: &Cursor, key: &Ranked, versions: &[Version]) -> bool {
        let Range { lower, upper, prefix } = &cursor.range;
        let compare = |limit: &Option<Vec<u8>>, otherwise| {
            limit.as_ref().map_or(otherwise, |limit| key.cmp(&Ranked::new(limit, self.order)))
        };
        visible(versions, cursor.at).is_some()
            && compare(lower, Ordering::Greater).is_ge()
            && compare(upper, Ordering::Less).is_lt()
            && prefix.as_ref().is_none_or(|prefix| key.key().starts_with(prefix))
    }

    /// What closing the database does: all slots become empty.
    pub fn forget_readers(&mut self) {
        self.snapshots.clear();
        self.cursors.clear();
    }
}

fn visible(versions: &[Version], at: u64) -> Option<Value> {
    versions.iter().rev().find(|version| version.sequence <= at)?.value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seed: u32) -> Value {
        Value { len: 1, seed }
    }

    fn seeds(model: &Model, at: Option<Slot>) -> Vec<(Vec<u8>, u32)> {
        model.scan(at).map(|(key, value)| (key.to_vec(), value.seed)).collect()
    }

    #[test]
    fn a_snapshot_stays_as_it_was() {
        let mut model = Model::new(Order::Bytewise);
        model.set(b"a", Some(value(1)));
        model.take(0);
        model.set(b"a", None);
        model.set(b"a", Some(value(2)));
        model.set(b"b", Some(value(3)));
        assert_eq!(seeds(&model, Some(0)), [(b"a".to_vec(), 1)]);
        assert_eq!(model.get(b"a", Some(0)), Some(value(1)));
        model.release(0);
        assert_eq!(seeds(&model, None), [(b"a".to_vec(), 2), (b"b".to_vec(), 3)]);
    }

    #[test]
    fn a_cursor_turns_within_its_range() {
        let mut model = Model::new(Order::Bytewise);
        for key in [b"a", b"b", b"c", b"d"] {
            model.set(key, Some(value(0)));
        }
        let range = Range { lower: Some(b"b".to_vec()), upper: Some(b"d".to_vec()), prefix: None };
        model.open(0, None, &range);
        let mut at = |step| model.step(0, &step).map(|(key, _)| key.to_vec());
        assert_eq!(at(Step::First), Some(b"b".to_vec()));
        assert_eq!(at(Step::Next), Some(b"c".to_vec()));
        assert_eq!(at(Step::Prev), Some(b"b".to_vec()));
        assert_eq!(at(Step::Prev), None);
        assert_eq!(at(Step::Last), Some(b"c".to_vec()));
        assert_eq!(at(Step::Seek(b"a".to_vec())), Some(b"b".to_vec()));
        assert!(!model.may_step(1, &Step::First));
    }

    #[test]
    fn goes_back_between_batches_and_not_before_the_last_sync() {
        let put = |key: &[u8], seed| Write::Put { key: key.to_vec(), value: value(seed) };
        let model = || {
            let mut model = Model::new(Order::Bytewise);
            model.write(&[put(b"a", 1)]);
            model.settle();
            model.write(&[put(b"a", 2), put(b"b", 3)]);
            model.write(&[Write::Delete { key: b"a".to_vec() }]);
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
            assert_eq!(model.go_back_to(&found), lost, "{found:?}");
            if lost.is_some() {
                let held: Vec<Entry> = model.scan(None).map(|(k, v)| (k.to_vec(), v.bytes())).collect();
                assert_eq!(held, found);
            }
        }
    }

    #[test]
    fn reverse_order_walks_down() {
        let mut model = Model::new(Order::Reverse);
        model.set(b"a", Some(value(1)));
        model.set(b"b", Some(value(2)));
        assert_eq!(seeds(&model, None), [(b"b".to_vec(), 2), (b"a".to_vec(), 1)]);
    }
}
