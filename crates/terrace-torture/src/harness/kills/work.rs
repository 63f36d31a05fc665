//! What a thread writes, and what must be there after some of it: both follow from the seed and the number of a write.

use std::collections::BTreeMap;

use terrace_testkit::op::{Value, Write};
use terrace_testkit::rng::Rng;
use terrace_testkit::run::Entry;

/// Keys of a thread.
const KEYS: u64 = 400;

/// The most writes of a batch.
const BATCH: u64 = 10;

/// The longest value but for a few.
const VALUE: u64 = 500;

/// The `number`th batch of a thread, counted from 1.
pub(super) fn batch(seed: u64, thread: u64, number: u64) -> Vec<Write> {
    let mut rng = Rng::new(seed ^ thread << 56 ^ number);
    let count = if rng.one_in(4) { 2 + rng.below(BATCH - 1) } else { 1 };
    (0..count).map(|_| write(&mut rng, thread)).collect()
}

fn write(rng: &mut Rng, thread: u64) -> Write {
    let key = format!("{}{:03}", prefix(thread), rng.below(KEYS)).into_bytes();
    if rng.one_in(6) {
        return Write::Delete { key };
    }
    let len = if rng.one_in(500) { rng.below(60_000) } else { rng.skewed(VALUE) };
    Write::Put { key, value: Value { len: len as u32, seed: rng.next_u64() as u32 } }
}

fn prefix(thread: u64) -> String {
    format!("thread {thread}, key ")
}

/// What a thread has written.
pub(super) struct Track {
    seed: u64,
    thread: u64,
    writes: u64,
    state: BTreeMap<Vec<u8>, Value>,
}

impl Track {
    /// Nothing yet.
    pub(super) fn new(seed: u64, thread: u64) -> Track {
        Track { seed, thread, writes: 0, state: BTreeMap::new() }
    }

    /// How many batches are in its state.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// True if the key is one of this thread's.
    pub(super) fn owns(&self, key: &[u8]) -> bool {
        key.starts_with(prefix(self.thread).as_bytes())
    }

    /// Goes on to the state that `found` shows: that after the batches that were acknowledged, or after one more.
    pub(super) fn find(&mut self, found: &[Entry], acknowledged: u64) -> Result<(), String> {
        while self.writes < acknowledged {
            self.go_on();
        }
        let Some(lost) = self.difference(found) else { return Ok(()) };
        self.go_on();
        let Some(extra) = self.difference(found) else { return Ok(()) };
        let (thread, next) = (self.thread, self.writes);
        Err(format!(
            "thread {thread} had {acknowledged} writes acknowledged. They give\n  {lost}\nand write {next} on top \
             of them, {:?}, gives\n  {extra}",
            batch(self.seed, thread, next).iter().map(ToString::to_string).collect::<Vec<_>>()
        ))
    }

    fn go_on(&mut self) {
        self.writes += 1;
        for write in batch(self.seed, self.thread, self.writes) {
            match write {
                Write::Put { key, value } => self.state.insert(key, value),
                Write::Delete { key } => self.state.remove(&key),
            };
        }
    }

    /// The first key that is not as it should be.
    fn difference(&self, found: &[Entry]) -> Option<String> {
        let there: BTreeMap<&[u8], &[u8]> = found.iter().map(|(k, v)| (k.as_slice(), v.as_slice())).collect();
        let wrong = |key: &[u8]| match (self.state.get(key), there.get(key)) {
            (Some(value), Some(bytes)) if value.is(bytes) => None,
            (None, None) => None,
            (expected, bytes) => Some(format!(
                "\"{}\" with {}, but found {}",
                key.escape_ascii(),
                expected.map_or("nothing".into(), Value::to_string),
                bytes.map_or("nothing".into(), |bytes| self.origin(key, bytes))
            )),
        };
        let keys = self.state.keys().map(Vec::as_slice).chain(there.keys().copied());
        keys.into_iter().find_map(wrong)
    }

    /// Which batch wrote these bytes.
    fn origin(&self, key: &[u8], bytes: &[u8]) -> String {
        let wrote = |write: &Write| write.key() == key && write.value().is_some_and(|value| value.is(bytes));
        let number = (1..=self.writes).rev().find(|&n| batch(self.seed, self.thread, n).iter().any(wrote));
        number.map_or("bytes that nobody wrote".into(), |number| format!("what write {number} gave it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(count: u64) -> Vec<Entry> {
        let mut track = Track::new(5, 1);
        (0..count).for_each(|_| track.go_on());
        track.state.iter().map(|(key, value)| (key.clone(), value.bytes())).collect()
    }

    #[test]
    fn the_last_acknowledged_or_one_more() {
        // Writes around number n that change something each: a delete of nothing can't be told from its absence.
        let n = (100..).find(|n| (n - 1..n + 2).all(|m| after(m) != after(m + 1))).unwrap();
        for (found, right) in [(n, true), (n + 1, true), (n - 1, false), (n + 2, false)] {
            let outcome = Track::new(5, 1).find(&after(found), n);
            assert_eq!(outcome.is_ok(), right, "{found} of {n}, {outcome:?}");
        }
    }

    /// A batch of several of which a part is missing.
    #[test]
    fn half_a_batch_is_none() {
        let number = (1..)
            .find(|&n| batch(5, 1, n).iter().filter(|write| write.value().is_some()).count() > 3)
            .unwrap();
        let mut found = after(number);
        let last = batch(5, 1, number);
        let key = last.iter().find(|write| write.value().is_some()).unwrap().key();
        found.retain(|(other, _)| other != key);
        let outcome = Track::new(5, 1).find(&found, number - 1).unwrap_err();
        assert!(outcome.contains("found"), "{outcome}");
    }
}
