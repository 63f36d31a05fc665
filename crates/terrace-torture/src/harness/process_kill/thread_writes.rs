//! The writes of a thread and the expected state after them. The seed and the number of a write
//! determine both.

use std::collections::BTreeMap;

use terrace_testkit::differential::Entry;
use terrace_testkit::op::{ValueSpec, Write};
use terrace_testkit::rng::Rng;

/// Number of keys of a thread.
const KEYS_PER_THREAD: u64 = 400;

/// Maximum number of writes in a batch.
const MAX_BATCH_LEN: u64 = 10;

/// Maximum length in bytes of most values.
const MAX_VALUE_LEN: u64 = 500;

/// Returns batch `number` of a thread, counted from 1.
pub(in crate::harness) fn nth_batch(seed: u64, thread: u64, number: u64) -> Vec<Write> {
    let mut rng = Rng::new(seed ^ thread << 56 ^ number);
    let count = if rng.one_in(4) { 2 + rng.below(MAX_BATCH_LEN - 1) } else { 1 };
    (0..count).map(|_| random_write(&mut rng, thread)).collect()
}

fn random_write(rng: &mut Rng, thread: u64) -> Write {
    let key = format!("{}{:03}", key_prefix(thread), rng.below(KEYS_PER_THREAD)).into_bytes();
    if rng.one_in(6) {
        return Write::Delete { key };
    }
    let len = if rng.one_in(500) { rng.below(60_000) } else { rng.skewed(MAX_VALUE_LEN) };
    Write::Put { key, value: ValueSpec { len: len as u32, seed: rng.next_u64() as u32 } }
}

fn key_prefix(thread: u64) -> String {
    format!("thread {thread}, key ")
}

/// Expected contents of one thread's keys.
pub(in crate::harness) struct ExpectedState {
    seed: u64,
    thread: u64,
    batches_applied: u64,
    state: BTreeMap<Vec<u8>, ValueSpec>,
}

impl ExpectedState {
    /// Creates the state before the first batch.
    pub(in crate::harness) fn new(seed: u64, thread: u64) -> ExpectedState {
        ExpectedState { seed, thread, batches_applied: 0, state: BTreeMap::new() }
    }

    /// Returns the number of batches in the state.
    pub(in crate::harness) fn batches_applied(&self) -> u64 {
        self.batches_applied
    }

    /// Returns true if the key belongs to this thread.
    pub(in crate::harness) fn owns(&self, key: &[u8]) -> bool {
        key.starts_with(key_prefix(self.thread).as_bytes())
    }

    /// Advances to the state in `found`, which is the one after `acknowledged` batches or after one
    /// more.
    pub(in crate::harness) fn advance_to_match(
        &mut self,
        found: &[Entry],
        acknowledged: u64,
    ) -> Result<(), String> {
        while self.batches_applied < acknowledged {
            self.apply_next_batch();
        }
        let Some(difference) = self.first_difference(found) else { return Ok(()) };
        self.apply_next_batch();
        let Some(next_difference) = self.first_difference(found) else { return Ok(()) };
        let thread = self.thread;
        let next = self.batches_applied;
        Err(format!(
            "thread {thread} had {acknowledged} acknowledged writes. After them, expected\n  \
             {difference}\nAfter write {next}, {:?}, expected\n  {next_difference}",
            nth_batch(self.seed, thread, next).iter().map(ToString::to_string).collect::<Vec<_>>()
        ))
    }

    fn apply_next_batch(&mut self) {
        self.batches_applied += 1;
        for write in nth_batch(self.seed, self.thread, self.batches_applied) {
            match write {
                Write::Put { key, value } => self.state.insert(key, value),
                Write::Delete { key } => self.state.remove(&key),
            };
        }
    }

    /// Describes the first key with an unexpected value.
    fn first_difference(&self, found: &[Entry]) -> Option<String> {
        let actual: BTreeMap<&[u8], &[u8]> =
            found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let mut keys = self.state.keys().map(Vec::as_slice).chain(actual.keys().copied());
        keys.find_map(|key| self.difference_at(key, actual.get(key).copied()))
    }

    /// Describes the expected and the actual value of a key, if they differ.
    fn difference_at(&self, key: &[u8], actual: Option<&[u8]>) -> Option<String> {
        match (self.state.get(key), actual) {
            (Some(value), Some(bytes)) if value.matches(bytes) => None,
            (None, None) => None,
            (expected, bytes) => Some(format!(
                "\"{}\" with {}, but found {}",
                key.escape_ascii(),
                expected.map_or("nothing".into(), ValueSpec::to_string),
                bytes.map_or("nothing".into(), |bytes| self.describe_origin(key, bytes))
            )),
        }
    }

    /// Describes which batch wrote these bytes.
    fn describe_origin(&self, key: &[u8], bytes: &[u8]) -> String {
        let number = (1..=self.batches_applied).rev().find(|&n| {
            let batch = nth_batch(self.seed, self.thread, n);
            let mut values = batch.iter().filter(|write| write.key() == key).filter_map(Write::value);
            values.any(|value| value.matches(bytes))
        });
        number.map_or("bytes that were never written".into(), |number| format!("the value of write {number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries_after(count: u64) -> Vec<Entry> {
        let mut expected = ExpectedState::new(5, 1);
        for _ in 0..count {
            expected.apply_next_batch();
        }
        expected.state.iter().map(|(key, value)| (key.clone(), value.bytes())).collect()
    }

    #[test]
    fn accepts_acknowledged_state_or_one_batch_more() {
        // Finds a range of batches that each change the state, because the deletion of an absent
        // key has no effect.
        let n = (100..).find(|n| (n - 1..n + 2).all(|m| entries_after(m) != entries_after(m + 1))).unwrap();
        for (found, right) in [(n, true), (n + 1, true), (n - 1, false), (n + 2, false)] {
            let outcome = ExpectedState::new(5, 1).advance_to_match(&entries_after(found), n);
            assert_eq!(outcome.is_ok(), right, "{found} of {n}, {outcome:?}");
        }
    }

    #[test]
    fn rejects_partial_batch() {
        let number = (1..)
            .find(|&n| nth_batch(5, 1, n).iter().filter(|write| write.value().is_some()).count() > 3)
            .unwrap();
        let mut found = entries_after(number);
        let last = nth_batch(5, 1, number);
        let key = last.iter().find(|write| write.value().is_some()).unwrap().key();
        found.retain(|(other, _)| other != key);
        let outcome = ExpectedState::new(5, 1).advance_to_match(&found, number - 1).unwrap_err();
        assert!(outcome.contains("found"), "{outcome}");
    }
}
