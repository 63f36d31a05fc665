//! The writes of a case, and the contents that they allow.
//!
//! Most batches put a key of their own, the marker, which is never written again. A batch that only
//! deletes a key deletes one that is never written again either, the victim. So the contents show
//! for each batch whether they include it, and then determine every other entry:
//!
//! ```text
//!   mark000007   put by batch 7 alone                      there: batch 7 is there
//!   once000009   put by batch 9, deleted at most once      gone: that deletion is there
//!   key31        put and deleted by any batch              as the last batch that is there left it
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use terrace_testkit::rng::Rng;

use super::engine::Engine;

/// Number of keys that several batches write.
const SHARED_KEYS: u64 = 40;

/// Maximum number of bytes of an operation's kind and lengths in a record.
const MAX_OPERATION_HEADER: usize = 7;

/// Maximum number of operations of a batch, without its marker.
const MAX_OPERATIONS: u64 = 8;

/// Maximum length in bytes of most values.
const MAX_SMALL_VALUE: u64 = 600;

/// Maximum length in bytes of the other values. It exceeds the block of a log, 32 KiB, twice.
const MAX_LARGE_VALUE: u64 = 70_000;

/// Entries of a database.
pub(super) type Contents = BTreeMap<String, ValueId>;

/// Length and hash of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueId {
    pub(super) len: usize,
    pub(super) hash: u64,
}

impl ValueId {
    pub(super) fn of(bytes: &[u8]) -> ValueId {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        ValueId { len: bytes.len(), hash }
    }
}

/// Returns the first `len` bytes of the repeated pattern.
pub(super) fn value_bytes(len: usize, pattern: &str) -> Vec<u8> {
    pattern.bytes().cycle().take(len).collect()
}

#[derive(Debug, Clone)]
enum Operation {
    Put { key: String, len: usize, pattern: String },
    Delete { key: String },
}

/// Key that shows whether the contents include a batch.
#[derive(Debug, Clone)]
enum Witness {
    /// Key that only this batch puts.
    Marker(String),
    /// Key that only this batch deletes.
    Victim(String),
    /// An empty batch has no effect.
    Nothing,
}

/// Knowledge about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// The engine has not acknowledged the batch, and no later open has shown it.
    Undecided,
    /// The engine has acknowledged the batch, or a later open has shown it.
    Present,
    /// A later open has not shown the batch.
    Absent,
}

/// Batch of a case.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    operations: Vec<Operation>,
    witness: Witness,
    is_sync: bool,
    presence: Presence,
    /// Index of the turn that wrote it.
    pub(super) turn: usize,
    /// Engine that wrote it.
    pub(super) author: Engine,
}

impl Batch {
    /// Returns the command of `engine_process`.
    pub(super) fn command(&self) -> String {
        let mut command = format!("write {}", if self.is_sync { "sync" } else { "nosync" });
        for operation in &self.operations {
            // Writing to a string cannot fail.
            let _ = match operation {
                Operation::Put { key, len, pattern } => write!(command, " put {key} {len} {pattern}"),
                Operation::Delete { key } => write!(command, " delete {key}"),
            };
        }
        command
    }

    /// Returns the size of the record, in bytes.
    pub(super) fn size(&self) -> usize {
        let sizes = self.operations.iter().map(|operation| match operation {
            Operation::Put { key, len, .. } => key.len() + len,
            Operation::Delete { key } => key.len(),
        });
        sizes.map(|size| size + MAX_OPERATION_HEADER).sum()
    }

    /// Returns true if `contents` include the batch, or None if they do not show it. `before` are
    /// the expected contents before the batch.
    fn is_in(&self, contents: &Contents, before: &Contents) -> Option<bool> {
        match &self.witness {
            Witness::Marker(key) => Some(contents.contains_key(key)),
            Witness::Victim(key) => before.contains_key(key).then(|| !contents.contains_key(key)),
            Witness::Nothing => None,
        }
    }

    fn apply_to(&self, contents: &mut Contents) {
        for operation in &self.operations {
            match operation {
                Operation::Put { key, len, pattern } => {
                    contents.insert(key.clone(), ValueId::of(&value_bytes(*len, pattern)))
                }
                Operation::Delete { key } => contents.remove(key),
            };
        }
    }

    /// Returns the key that a record of the batch in a log contains, and that no other put or
    /// deletion has.
    pub(super) fn witness_key(&self) -> Option<&str> {
        match &self.witness {
            Witness::Marker(key) | Witness::Victim(key) => Some(key),
            Witness::Nothing => None,
        }
    }

    /// Returns true if the only operation of the batch is a deletion.
    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.witness, Witness::Victim(_))
    }
}

/// All batches of a case, in their order.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) batches: Vec<Batch>,
    /// Victims that no batch has deleted.
    victims: Vec<String>,
}

impl History {
    /// Draws the next batch and returns its index.
    pub(super) fn draw_batch(&mut self, rng: &mut Rng, turn: usize, author: Engine) -> usize {
        let index = self.batches.len();
        let (operations, witness) = self.draw_operations(rng, index);
        let is_sync = rng.one_in(6);
        self.batches.push(Batch {
            operations,
            witness,
            is_sync,
            presence: Presence::Undecided,
            turn,
            author,
        });
        index
    }

    fn draw_operations(&mut self, rng: &mut Rng, index: usize) -> (Vec<Operation>, Witness) {
        if rng.one_in(25) {
            return (Vec::new(), Witness::Nothing);
        }
        if rng.one_in(8) && !self.victims.is_empty() {
            let victim = self.victims.swap_remove(rng.below(self.victims.len() as u64) as usize);
            return (vec![Operation::Delete { key: victim.clone() }], Witness::Victim(victim));
        }
        let mut operations = vec![draw_put(rng, format!("mark{index:06}"), index, 0)];
        if rng.one_in(2) {
            for position in 1..=1 + rng.below(MAX_OPERATIONS) as usize {
                let key = format!("key{:02}", rng.below(SHARED_KEYS));
                operations.push(match rng.one_in(4) {
                    true => Operation::Delete { key },
                    false => draw_put(rng, key, index, position),
                });
            }
        }
        if rng.one_in(4) {
            let victim = format!("once{index:06}");
            operations.push(draw_put(rng, victim.clone(), index, operations.len()));
            self.victims.push(victim);
        }
        (operations, Witness::Marker(format!("mark{index:06}")))
    }

    /// Records that an engine has acknowledged a batch.
    pub(super) fn acknowledge(&mut self, index: usize) {
        self.batches[index].presence = Presence::Present;
    }

    /// Checks the contents that an open database shows while it is in use. Every acknowledged
    /// batch is there.
    pub(super) fn check_in_use(&self, found: &Contents) -> Result<(), String> {
        let (lost, expected) = self.compare(found);
        match lost.first() {
            Some(&index) => Err(format!("{} is missing", self.describe_batch(index))),
            None => self.check_equal(found, &expected),
        }
    }

    /// Checks the contents after an open, and records for each batch whether they include it.
    /// Returns the lost batches: those that were acknowledged, or that an earlier open has shown.
    pub(super) fn check_after_open(&mut self, found: &Contents) -> Result<Vec<usize>, String> {
        let (lost, expected) = self.compare(found);
        self.check_equal(found, &expected)?;
        for batch in &mut self.batches {
            let is_found = match &batch.witness {
                Witness::Marker(key) => found.contains_key(key),
                Witness::Victim(key) => !found.contains_key(key),
                Witness::Nothing => continue,
            };
            batch.presence = if is_found { Presence::Present } else { Presence::Absent };
        }
        Ok(lost)
    }

    /// Returns the lost batches, and the contents that all other batches leave.
    fn compare(&self, found: &Contents) -> (Vec<usize>, Contents) {
        let mut lost = Vec::new();
        let mut expected = Contents::new();
        for (index, batch) in self.batches.iter().enumerate() {
            let is_in = batch.is_in(found, &expected);
            match (batch.presence, is_in) {
                (Presence::Present, Some(false)) => lost.push(index),
                // A batch that an open did not show must not appear later. The difference shows it.
                (Presence::Absent, _) | (Presence::Undecided, Some(false)) => {}
                _ => batch.apply_to(&mut expected),
            }
        }
        (lost, expected)
    }

    fn check_equal(&self, found: &Contents, expected: &Contents) -> Result<(), String> {
        let mut keys = expected.keys().chain(found.keys());
        let Some(key) = keys.find(|&key| expected.get(key) != found.get(key)) else { return Ok(()) };
        let describe = |value: Option<&ValueId>| match value {
            Some(value) => self.describe_value(key, *value),
            None => "nothing".to_owned(),
        };
        Err(format!(
            "\"{key}\": expected {}, found {}",
            describe(expected.get(key)),
            describe(found.get(key))
        ))
    }

    fn describe_value(&self, key: &str, value: ValueId) -> String {
        let origin = self.batches.iter().rposition(|batch| {
            batch.operations.iter().any(|operation| match operation {
                Operation::Put { key: put, len, pattern } => {
                    put == key && *len == value.len && ValueId::of(&value_bytes(*len, pattern)) == value
                }
                Operation::Delete { .. } => false,
            })
        });
        let origin = origin.map_or("that no batch has put".into(), |index| self.describe_batch(index));
        format!("{} bytes, {origin}", value.len)
    }

    /// Describes a batch for messages.
    pub(super) fn describe_batch(&self, index: usize) -> String {
        let Batch { operations, is_sync, presence, turn, author, .. } = &self.batches[index];
        let sync = if *is_sync { ", sync" } else { "" };
        format!(
            "batch {index} of {author:?} in turn {turn} ({presence:?}, {} operations{sync})",
            operations.len()
        )
    }
}

fn draw_put(rng: &mut Rng, key: String, batch: usize, position: usize) -> Operation {
    let len = if rng.one_in(16) { rng.below(MAX_LARGE_VALUE) } else { rng.skewed(MAX_SMALL_VALUE) };
    Operation::Put { key, len: len as usize, pattern: format!("{batch}.{position};") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contents after all batches except for `left_out`.
    fn contents_without(history: &History, left_out: &[usize]) -> Contents {
        let mut contents = Contents::new();
        for (index, batch) in history.batches.iter().enumerate() {
            if !left_out.contains(&index) {
                batch.apply_to(&mut contents);
            }
        }
        contents
    }

    /// Returns a history with batches of all kinds, all of them acknowledged except for `failed`.
    fn history_with_failed(failed: &[usize]) -> History {
        let mut history = History::default();
        let mut rng = Rng::new(7);
        for _ in 0..300 {
            let index = history.draw_batch(&mut rng, 0, Engine::Terrace);
            if !failed.contains(&index) {
                history.acknowledge(index);
            }
        }
        history
    }

    /// Returns the first batch from `start` whose presence the contents show.
    fn visible_from(history: &History, start: usize, is_deletion: bool) -> usize {
        let mut batches = history.batches.iter().enumerate().skip(start);
        batches.find(|(_, b)| b.is_deletion() == is_deletion && b.witness_key().is_some()).unwrap().0
    }

    #[test]
    fn each_lost_batch_is_named() {
        for is_deletion in [false, true] {
            let mut history = history_with_failed(&[]);
            let lost = visible_from(&history, 200, is_deletion);
            let found = contents_without(&history, &[lost]);
            assert!(history.check_in_use(&found).unwrap_err().contains("is missing"));
            assert_eq!(history.check_after_open(&found), Ok(vec![lost]));
            assert_eq!(history.check_after_open(&found), Ok(Vec::new()), "it counts once");
            let all = contents_without(&history, &[]);
            assert!(history.check_after_open(&all).is_err(), "it must not reappear");
        }
    }

    #[test]
    fn failed_batch_may_be_there_or_not() {
        for is_deletion in [false, true] {
            let failed = visible_from(&history_with_failed(&[]), 100, is_deletion);
            for left_out in [vec![], vec![failed]] {
                let mut history = history_with_failed(&[failed]);
                let found = contents_without(&history, &left_out);
                assert_eq!(history.check_in_use(&found), Ok(()));
                assert_eq!(history.check_after_open(&found), Ok(Vec::new()));
                assert_eq!(history.batches[failed].presence == Presence::Absent, !left_out.is_empty());
            }
        }
    }

    #[test]
    fn partial_batch_and_wrong_value_are_rejected() {
        let mut history = history_with_failed(&[]);
        let all = contents_without(&history, &[]);
        let shared = all.keys().find(|key| key.starts_with("key")).unwrap().clone();
        let mut partial = all.clone();
        partial.remove(&shared);
        assert!(history.check_after_open(&partial).unwrap_err().contains("found nothing"));
        let mut wrong = all;
        wrong.insert(shared, ValueId::of(b"x"));
        assert!(history.check_after_open(&wrong).unwrap_err().contains("that no batch has put"));
    }

    #[test]
    fn value_repeats_its_pattern() {
        assert_eq!(value_bytes(5, "ab"), b"ababa");
        assert_eq!(value_bytes(0, "ab"), b"");
        assert_eq!(ValueId::of(b"").hash, 0xcbf2_9ce4_8422_2325);
    }
}
