//! History of a database that followers read. The state after each write is known, so that any
//! state that a follower shows can be checked.
//!
//! ```text
//!   write n    "count" := n    slot a(n) := n, and some bytes    every third: delete slot d(n)
//!   state n    count = n, and for each slot the number of its last write
//! ```
//!
//! A writer may also execute a [`BulkOperation`] after some of the writes.

mod bulk_operation;

use std::collections::{BTreeMap, BTreeSet};

use terrace::{Db, Snapshot};
use terrace_testkit::rng::splitmix;

pub use bulk_operation::{BULK_PERIOD, BulkOperation, Entry};

/// Number of slots. They fit a few memtables of the smallest size.
const SLOTS: u64 = 400;

/// Key with the number of the last write.
const COUNT: &[u8] = b"count";

/// Maximum length of a value, in bytes.
const MAX_VALUE_LEN: u64 = 300;

/// Number of writes from one delete to the next.
const DELETE_PERIOD: u64 = 3;

/// Operation of a batch: a key, and a value or a deletion.
pub type Operation = (Vec<u8>, Option<Vec<u8>>);

fn random(write: u64, purpose: u64) -> u64 {
    let mut state = write * 4 + purpose;
    splitmix(&mut state)
}

fn slot_key(slot: u64) -> Vec<u8> {
    format!("slot{slot:05}").into_bytes()
}

/// Returns the slot of a key, or None for other keys.
fn slot_of(key: &[u8]) -> Option<usize> {
    std::str::from_utf8(key.strip_prefix(b"slot")?).ok()?.parse().ok()
}

fn put_slot(write: u64) -> u64 {
    random(write, 0) % SLOTS
}

/// Returns the slot that `write` deletes, which is never the one that it sets.
fn deleted_slot(write: u64) -> Option<u64> {
    let other = 1 + random(write, 1) % (SLOTS - 1);
    write.is_multiple_of(DELETE_PERIOD).then(|| (put_slot(write) + other) % SLOTS)
}

fn value(write: u64) -> Vec<u8> {
    let mut bytes = write.to_le_bytes().to_vec();
    bytes.resize(bytes.len() + (random(write, 2) % MAX_VALUE_LEN) as usize, write as u8);
    bytes
}

/// Returns the operations of the batch with this number. The first number is 1.
pub fn batch(write: u64) -> Vec<Operation> {
    let mut operations = vec![
        (COUNT.to_vec(), Some(write.to_le_bytes().to_vec())),
        (slot_key(put_slot(write)), Some(value(write))),
    ];
    operations.extend(deleted_slot(write).map(|slot| (slot_key(slot), None)));
    operations
}

/// Returns the sequence number of the last operation of the batches up to this number.
fn last_sequence(write: u64) -> u64 {
    2 * write + write / DELETE_PERIOD
}

/// Returns the number of the last write, by a value of the key that [`batch`] sets in each batch.
pub fn count_of(value: Option<&[u8]>) -> Result<u64, String> {
    match value {
        None => Ok(0),
        Some(bytes) => Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| "malformed count".to_owned())?)),
    }
}

/// Returns the number of the last write in `db`.
pub fn count_in(db: &Db) -> Result<u64, String> {
    count_of(db.get(COUNT).map_err(|error| error.to_string())?.as_deref())
}

/// Key of the count.
pub fn count_key() -> &'static [u8] {
    COUNT
}

/// State after some writes.
#[derive(Debug, Clone)]
pub struct ExpectedState {
    write: u64,
    /// Number of the write that set each slot.
    slots: Vec<Option<u64>>,
    /// Bulk operations of the writer, or None if it executes none.
    bulk: Option<BulkState>,
    /// True if a writer may skip sequence numbers when it opens the database.
    may_skip_sequences: bool,
    /// Number of skipped sequence numbers, and of those of bulk operations, before a write, with
    /// the number of the bulk operations. None if they are unknown. Negative after a repair that
    /// forgot sequence numbers.
    other_sequences: Option<(u64, i64)>,
    /// Number of repairs that `other_sequences` includes.
    repairs: u64,
}

/// Result of the bulk operations.
#[derive(Debug, Clone, Default)]
struct BulkState {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for ExpectedState {
    fn default() -> ExpectedState {
        ExpectedState {
            write: 0,
            slots: vec![None; SLOTS as usize],
            bulk: None,
            may_skip_sequences: false,
            other_sequences: Some((0, 0)),
            repairs: 0,
        }
    }
}

impl ExpectedState {
    /// Number of the last write.
    pub fn write(&self) -> u64 {
        self.write
    }

    /// Returns the empty state of a writer that also executes bulk operations.
    pub fn with_bulk_operations() -> ExpectedState {
        ExpectedState { bulk: Some(BulkState::default()), ..ExpectedState::default() }
    }

    /// Accepts that goleveldb skips a sequence number when it opens a database.
    pub fn with_skipped_sequences(self) -> ExpectedState {
        ExpectedState { may_skip_sequences: true, ..self }
    }

    /// Accepts that this number of repairs may each have forgotten sequence numbers of deletions.
    /// A compaction drops a deletion, and then only the MANIFEST knows its sequence number.
    pub fn accept_repairs(&mut self, repairs: u64) {
        if self.repairs != repairs {
            self.repairs = repairs;
            self.other_sequences = None;
        }
    }

    /// Moves to the state after `write`, which is not earlier.
    fn advance_to(&mut self, write: u64) {
        for next in self.write + 1..=write {
            if let Some(operation) = self.bulk_operation_after(next - 1) {
                self.apply(&operation, |_| true);
            }
            self.slots[put_slot(next) as usize] = Some(next);
            if let Some(deleted) = deleted_slot(next) {
                self.slots[deleted as usize] = None;
            }
        }
        self.write = self.write.max(write);
    }

    fn bulk_operation_after(&self, write: u64) -> Option<BulkOperation> {
        self.bulk.as_ref().and_then(|_| BulkOperation::after(write))
    }

    /// Adds the entries of a bulk operation, or deletes those of its keys that `should_delete`
    /// selects.
    fn apply(&mut self, operation: &BulkOperation, should_delete: impl Fn(&[u8]) -> bool) {
        let Some(bulk) = &mut self.bulk else { return };
        match operation {
            BulkOperation::Ingest(entries) | BulkOperation::BulkLoad(entries) => {
                bulk.entries.extend(entries.iter().cloned());
            }
            BulkOperation::DeleteRange { keys, .. } => {
                for key in keys.iter().filter(|key| should_delete(key)) {
                    bulk.entries.remove(key);
                    if let Some(slot) = slot_of(key) {
                        self.slots[slot] = None;
                    }
                }
            }
        }
    }

    /// Applies the part of the bulk operation after the last write that `snapshot` shows: all of
    /// its entries or none, or some of its deletions.
    fn apply_shown_part(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let Some(operation) = self.bulk_operation_after(self.write) else { return Ok(()) };
        let is_shown = |key: &[u8]| match snapshot.get(key) {
            Ok(value) => Ok(value.is_some()),
            Err(error) => Err(error.to_string()),
        };
        if let BulkOperation::DeleteRange { keys, .. } = &operation {
            let mut deleted = BTreeSet::new();
            for key in keys {
                if !is_shown(key)? {
                    deleted.insert(key.as_slice());
                }
            }
            self.apply(&operation, |key| deleted.contains(key));
        } else if operation.added_key().is_some_and(|key| is_shown(key) != Ok(false)) {
            self.apply(&operation, |_| false);
        }
        Ok(())
    }

    /// Compares the sequence number of `snapshot` with the number of operations. Those of bulk
    /// operations are unknown, but the same for all writes of a period.
    fn check_sequence(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let write = self.write;
        let sequence = snapshot.sequence();
        let expected = last_sequence(write);
        let other = sequence.cast_signed() - expected.cast_signed();
        // The operation after this write may be complete.
        let operations = if self.bulk.is_some() { write.saturating_sub(1) / BULK_PERIOD } else { 0 };
        let is_between_operations = self.bulk_operation_after(write).is_none();
        if let Some((known_operations, known_other)) = self.other_sequences {
            let must_be_equal =
                is_between_operations && operations == known_operations && !self.may_skip_sequences;
            if other < known_other || (must_be_equal && other != known_other) {
                let known = expected.cast_signed() + known_other;
                return Err(format!(
                    "write {write} at sequence number {sequence}, expected {known} in period {known_operations}"
                ));
            }
        }
        if is_between_operations {
            self.other_sequences = Some((operations, other));
        }
        Ok(())
    }

    /// Compares each entry of `snapshot` with the state of its count, and moves to that state.
    /// Returns the number of entries.
    pub fn check_next(&mut self, snapshot: &Snapshot) -> Result<u64, String> {
        let count = snapshot.get(COUNT).map_err(|error| error.to_string())?;
        let write = count_of(count.as_deref())?;
        if write < self.write {
            return Err(format!("the state went back from write {} to write {write}", self.write));
        }
        self.advance_to(write);
        self.apply_shown_part(snapshot)?;
        self.check_sequence(snapshot)?;
        self.check(snapshot)
    }

    /// Compares each entry of `snapshot` with this state. Returns their number.
    pub fn check(&self, snapshot: &Snapshot) -> Result<u64, String> {
        let ExpectedState { write, slots, bulk, .. } = self;
        let mut found = snapshot.iter();
        let mut next = || match found.next() {
            None => Ok(None),
            Some(Err(error)) => Err(format!("write {write}: {error}")),
            Some(Ok(entry)) => Ok(Some(entry)),
        };
        let mut expected: Vec<Entry> = Vec::with_capacity(slots.len() + 1);
        // The keys of bulk operations sort before all others.
        let loaded = bulk.iter().flat_map(|bulk| &bulk.entries);
        expected.extend(loaded.map(|(key, value)| (key.clone(), value.clone())));
        if *write > 0 {
            expected.push((COUNT.to_vec(), write.to_le_bytes().to_vec()));
        }
        let live = (0..).zip(slots).filter_map(|(slot, set_by)| Some((slot_key(slot), value((*set_by)?))));
        expected.extend(live);
        let entries = expected.len() as u64;
        for (key, value) in expected {
            let entry = next()?;
            if entry.as_ref() != Some(&(key.clone(), value.clone())) {
                let expected = describe(&key, &value);
                let shown = entry.map(|(key, value)| describe(&key, &value));
                // A run that cannot be read ends early, and the iterator returns its error last.
                let error = loop {
                    match next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break String::new(),
                        Err(error) => break format!(", then {error}"),
                    }
                };
                return Err(format!("write {write}: {shown:?}, expected {expected}{error}"));
            }
        }
        match next()? {
            None => Ok(entries),
            Some((key, value)) => Err(format!("write {write}: unexpected {}", describe(&key, &value))),
        }
    }

    /// Compares gets of some keys with this state. Returns their number.
    pub fn check_gets(&self, snapshot: &Snapshot) -> Result<u64, String> {
        let mut gets = 0;
        for (key, value) in self.bulk.iter().flat_map(|bulk| &bulk.entries).step_by(7) {
            let found = snapshot.get(key).map_err(|error| error.to_string())?;
            gets += 1;
            if found.as_ref() != Some(value) {
                let found = found.map(|value| describe(key, &value));
                return Err(format!("write {}: {found:?}, expected {}", self.write, describe(key, value)));
            }
        }
        for slot in (self.write % 7..SLOTS).step_by(7) {
            let found = snapshot.get(slot_key(slot)).map_err(|error| error.to_string())?;
            gets += 1;
            let expected = self.slots[slot as usize].map(value);
            if found != expected {
                let describe = |value: Option<Vec<u8>>| value.map(|value| describe(&slot_key(slot), &value));
                let write = self.write;
                return Err(format!(
                    "write {write}, slot {slot}: {:?}, expected {:?}",
                    describe(found),
                    describe(expected)
                ));
            }
        }
        Ok(gets)
    }
}

fn describe(key: &[u8], value: &[u8]) -> String {
    let number = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    format!("{} of write {number}, {} bytes", key.escape_ascii(), value.len())
}
