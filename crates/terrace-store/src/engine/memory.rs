//! Engine `memory:`: an ordered map. It is the model of the conformance tests.
//!
//! A snapshot shares the map. The first write after it copies the map, so snapshots are cheap and
//! writes beside them are expensive.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use terrace::{BatchOp, WriteBatch, WriteOptions};
use terrace_sync::native_locks::Mutex;

use super::OpenOptions;
use crate::address::Address;
use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::store::{
    Condition, Limits, Position, Store, StoreIterator, StoreSnapshot, check_batch, foreign_snapshot,
};

/// Opens an empty store.
pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Arc<dyn Store>> {
    if !address.path.is_empty() {
        return Err(Error::InvalidArgument(format!("'memory:{}': expected memory:", address.path)));
    }
    Ok(Arc::new(MemoryStore {
        is_read_only: options.read_only,
        state: Mutex::default(),
        identity: Arc::new(()),
    }))
}

/// A value with the position of its write.
#[derive(Clone)]
struct Version {
    position: Position,
    value: Arc<[u8]>,
}

type Entries = BTreeMap<Vec<u8>, Version>;

#[derive(Default, Clone)]
struct State {
    position: Position,
    entries: Arc<Entries>,
}

struct MemoryStore {
    is_read_only: bool,
    state: Mutex<State>,
    /// Shared with the snapshots of this store.
    identity: Arc<()>,
}

/// State of a [`MemoryStore`] at one moment.
struct MemorySnapshot {
    state: State,
    identity: Arc<()>,
}

impl MemoryStore {
    /// Executes `check` on the entries and then `change`, as one write.
    fn apply(
        &self,
        check: impl FnOnce(&Entries) -> Result<()>,
        change: impl FnOnce(&mut Entries, Position),
    ) -> Result<Position> {
        if self.is_read_only {
            return Err(Error::NotSupported("the store is open for reading only".into()));
        }
        let mut state = self.state.lock();
        check(&state.entries)?;
        state.position += 1;
        let position = state.position;
        change(Arc::make_mut(&mut state.entries), position);
        Ok(position)
    }

    fn current(&self) -> MemorySnapshot {
        MemorySnapshot { state: self.state.lock().clone(), identity: Arc::clone(&self.identity) }
    }
}

/// Applies the operations of `batch` at `position`.
fn apply_batch(entries: &mut Entries, batch: &WriteBatch, position: Position) {
    for op in batch.iter() {
        match op {
            BatchOp::Put { key, value } => {
                entries.insert(key.to_vec(), Version { position, value: value.into() });
            }
            BatchOp::Delete { key } => {
                entries.remove(key);
            }
        }
    }
}

impl Store for MemoryStore {
    fn limits(&self) -> Limits {
        Limits::NONE
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.current().get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.current().multi_get(keys)
    }

    fn write(&self, batch: &WriteBatch, _: &WriteOptions) -> Result<()> {
        check_batch(batch)?;
        self.apply(|_| Ok(()), |entries, position| apply_batch(entries, batch, position)).map(|_| ())
    }

    fn write_if(&self, batch: &WriteBatch, condition: &Condition<'_>, _: &WriteOptions) -> Result<Position> {
        check_batch(batch)?;
        let since = condition.since.as_any().downcast_ref::<MemorySnapshot>();
        let since = since.filter(|since| Arc::ptr_eq(&since.identity, &self.identity));
        let since = since.ok_or_else(foreign_snapshot)?;
        self.apply(
            |entries| check_unchanged(condition, &since.state.entries, entries),
            |entries, position| apply_batch(entries, batch, position),
        )
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        Ok(Box::new(self.current()))
    }

    fn delete_range(&self, range: &KeyRange, _: &WriteOptions) -> Result<()> {
        self.apply(|_| Ok(()), |entries, _| entries.retain(|key, _| !range.contains(key))).map(|_| ())
    }

    fn approximate_size(&self, range: &KeyRange) -> Result<u64> {
        let current = self.current();
        Ok(entries_in(&current.state.entries, range).map(|(key, v)| (key.len() + v.value.len()) as u64).sum())
    }
}

fn entries_in<'a>(
    entries: &'a Entries,
    range: &KeyRange,
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Version)> {
    let last = range.end.clone();
    entries
        .range(range.start.clone()..)
        .take_while(move |(key, _)| last.as_ref().is_none_or(|end| *key < end))
}

/// Returns a conflict if a key or range of `condition` differs in the two states.
fn check_unchanged(condition: &Condition<'_>, old: &Entries, new: &Entries) -> Result<()> {
    let position = |entries: &Entries, key: &[u8]| entries.get(key).map(|version| version.position);
    let changed_key = condition.keys.iter().find(|key| position(old, key) != position(new, key));
    if let Some(key) = changed_key {
        return Err(Error::Conflict { key: Some(key.to_vec()) });
    }
    for range in condition.ranges {
        let in_range = |entries| entries_in(entries, range).map(|(key, version)| (key, version.position));
        if !in_range(old).eq(in_range(new)) {
            return Err(Error::Conflict { key: None });
        }
    }
    Ok(())
}

impl StoreSnapshot for MemorySnapshot {
    fn position(&self) -> Position {
        self.state.position
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.state.entries.get(key).map(|version| version.value.to_vec()))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn iter(&self, range: &KeyRange) -> Result<Box<dyn StoreIterator>> {
        let entries = Arc::clone(&self.state.entries);
        Ok(Box::new(MemoryIterator { entries, range: range.clone(), current: None }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct MemoryIterator {
    entries: Arc<Entries>,
    range: KeyRange,
    current: Option<(Vec<u8>, Arc<[u8]>)>,
}

impl MemoryIterator {
    /// Moves to the first entry from `bound` on.
    fn move_forward(&mut self, bound: Bound<&[u8]>) {
        let found = self.entries.range::<[u8], _>((bound, Bound::Unbounded)).next();
        self.current = copy_entry(found.filter(|(key, _)| self.range.contains(key)));
    }

    /// Moves to the last entry up to `bound`.
    fn move_backward(&mut self, bound: Bound<&[u8]>) {
        let found = self.entries.range::<[u8], _>((Bound::Unbounded, bound)).next_back();
        self.current = copy_entry(found.filter(|(key, _)| self.range.contains(key)));
    }
}

fn copy_entry(entry: Option<(&Vec<u8>, &Version)>) -> Option<(Vec<u8>, Arc<[u8]>)> {
    entry.map(|(key, version)| (key.clone(), Arc::clone(&version.value)))
}

impl StoreIterator for MemoryIterator {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, value)| value)
    }

    fn status(&self) -> Result<()> {
        Ok(())
    }

    fn seek_to_first(&mut self) {
        self.seek(&[]);
    }

    fn seek_to_last(&mut self) {
        let end = self.range.end.clone();
        self.move_backward(end.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
    }

    fn seek(&mut self, target: &[u8]) {
        let first = self.range.start.clone();
        self.move_forward(Bound::Included(target.max(&first)));
    }

    fn next(&mut self) {
        if let Some((key, _)) = self.current.take() {
            self.move_forward(Bound::Excluded(&key));
        }
    }

    fn prev(&mut self) {
        if let Some((key, _)) = self.current.take() {
            self.move_backward(Bound::Excluded(&key));
        }
    }
}
