//! What a thread writes, and what must be there after some of it: both follow from the seed and the number of a write.

use std::collections::BTreeMap;

use terrace_testkit::differential::Entry;
use terrace_testkit::op::{ValueSpec, Write};
use terrace_testkit::rng::Rng;

/// Keys of a thread.
const KEYS_PER_THREAD: u64 = 400;

/// The most writes of a batch.
const MAX_BATCH_LEN: u64 = 10;

/// The longest value but for a few.
const MAX_VALUE_LEN: u64 = 500;

/// The `number`th batch of a thread, counted from 1.
pub(super) fn nth_batch(seed: u64, thread: u64, number: u64) -> Vec<Write> {
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

/// What a thread has written.
pub(super) struct ExpectedState {
    seed: u64,
    thread: u64,
    batches_applied: u64,
    state: BTreeMap<Vec<u8>, ValueSpec>,
}

impl ExpectedState {
    /// Nothing yet.
    pub(super) fn new(seed: u64, thread: u64) -> ExpectedState {
        ExpectedState { seed, thread, batches_applied: 0, state: BTreeMap::new() }
    }

    /// How many batches are in its state.
    pub(super) fn batches_applied(&self) -> u64 {
        self.batches_applied
    }

    /// True if the key is one of this thread's.
    pub(super) fn owns(&self, key: &[u8]) -> bool {
        key.starts_with(key_prefix(self.thread).as_bytes())
    }

    /// Goes on to the state that `found` shows: that after the batches that were acknowledged, or after one more.
    pub(super) fn advance_to_match(&mut self, found: &[Entry], acknowledged: u64) -> Result<(), String> {
        while self.batches_applied < acknowledged {
            self.apply_next_batch();
        }
        let Some(lost) = self.first_difference(found) else { return Ok(()) };
        self.apply_next_batch();
        let Some(extra) = self.first_difference(found) else { return Ok(()) };
        let (thread, next) = (self.thread, self.batches_applied);
        Err(format!(
            "thread {thread} had {acknowledged} writes acknowledged. They give\n  {lost}\nand write {next} on top \
             of them, {:?}, gives\n  {extra}",
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

    /// The first key that is not as it should be.
    fn first_difference(&self, found: &[Entry]) -> Option<String> {
        let there: BTreeMap<&[u8], &[u8]> = found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let wrong = |key: &[u8]| match (self.state.get(key), there.get(key)) {
            (Some(value), Some(bytes)) if value.matches(bytes) => None,
            (None, None) => None,
            (expected, bytes) => Some(format!(
                "\"{}\" with {}, but found {}",
                key.escape_ascii(),
                expected.map_or("nothing".into(), ValueSpec::to_string),
                bytes.map_or("nothing".into(), |bytes| self.describe_origin(key, bytes))
            )),
        };
        let keys = self.state.keys().map(Vec::as_slice).chain(there.keys().copied());
        keys.into_iter().find_map(wrong)
    }

    /// Which batch wrote these bytes.
    fn describe_origin(&self, key: &[u8], bytes: &[u8]) -> String {
        let wrote =
            |write: &Write| write.key() == key && write.value().is_some_and(|value| value.matches(bytes));
        let number = (1..=self.batches_applied)
            .rev()
            .find(|&n| nth_batch(self.seed, self.thread, n).iter().any(wrote));
        number.map_or("bytes that nobody wrote".into(), |number| format!("what write {number} gave it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(count: u64) -> Vec<Entry> {
        let mut track = ExpectedState::new(5, 1);
        (0..count).for_each(|_| track.apply_next_batch());
        track.state.iter().map(|(key, value)| (key.clone(), value.bytes())).collect()
    }

    #[test]
    fn accepts_acknowledged_state_or_one_batch_more() {
        // Writes around number n that change something each: a delete of nothing can't be told from its absence.
        let n = (100..).find(|n| (n - 1..n + 2).all(|m| after(m) != after(m + 1))).unwrap();
        for (found, right) in [(n, true), (n + 1, true), (n - 1, false), (n + 2, false)] {
            let outcome = ExpectedState::new(5, 1).advance_to_match(&after(found), n);
            assert_eq!(outcome.is_ok(), right, "{found} of {n}, {outcome:?}");
        }
    }

    /// A batch of several of which a part is missing.
    #[test]
    fn rejects_partial_batch() {
        let number = (1..)
            .find(|&n| nth_batch(5, 1, n).iter().filter(|write| write.value().is_some()).count() > 3)
            .unwrap();
        let mut found = after(number);
        let last = nth_batch(5, 1, number);
        let key = last.iter().find(|write| write.value().is_some()).unwrap().key();
        found.retain(|(other, _)| other != key);
        let outcome = ExpectedState::new(5, 1).advance_to_match(&found, number - 1).unwrap_err();
        assert!(outcome.contains("found"), "{outcome}");
    }
}
