//! The writes of a workload, and the contents that a power cut may leave.

use std::collections::BTreeMap;

use terrace_testkit::differential::Entry;
use terrace_testkit::op::{ValueSpec, Write};

use crate::harness::process_kill::thread_writes;

/// Key that each batch writes, so that no two states are equal.
const LAST_KEY: &[u8] = b"last";

type State = BTreeMap<Vec<u8>, ValueSpec>;

/// Returns batch `number` of a workload, counted from 1.
pub(super) fn nth_batch(seed: u64, number: u64) -> Vec<Write> {
    let mut batch = thread_writes::nth_batch(seed, 0, number);
    batch.push(Write::Put { key: LAST_KEY.to_vec(), value: ValueSpec { len: 16, seed: number as u32 } });
    batch
}

/// All batches of a workload.
#[derive(Debug)]
pub(super) struct History {
    batches: Vec<Vec<Write>>,
}

/// Contents after a power cut, if every durable write is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Survivors {
    /// All batches up to a number.
    Prefix(u64),
    /// Later batches without earlier ones.
    Holes,
}

impl History {
    pub(super) fn new(seed: u64, batches: u64) -> History {
        History { batches: (1..=batches).map(|number| nth_batch(seed, number)).collect() }
    }

    /// Checks that the first `durable` batches are there, and what there is of later ones.
    pub(super) fn classify(&self, found: &[Entry], durable: u64) -> Result<Survivors, String> {
        let found: BTreeMap<&[u8], &[u8]> =
            found.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
        let last = found.get(LAST_KEY).and_then(|value| self.number_of_last(value));
        let count = last.unwrap_or(0);
        if count >= durable && is_equal(&self.state_after(count), &found) {
            return Ok(Survivors::Prefix(count));
        }
        self.check_durable(&found, durable)?;
        Ok(Survivors::Holes)
    }

    fn number_of_last(&self, value: &[u8]) -> Option<u64> {
        (1..=self.batches.len() as u64)
            .rev()
            .find(|&number| ValueSpec { len: 16, seed: number as u32 }.matches(value))
    }

    fn state_after(&self, count: u64) -> State {
        let mut state = State::new();
        for write in self.batches[..count as usize].iter().flatten() {
            apply(&mut state, write);
        }
        state
    }

    /// Checks that each key has the value after the durable batches, or that of a later batch.
    fn check_durable(&self, found: &BTreeMap<&[u8], &[u8]>, durable: u64) -> Result<(), String> {
        let state = self.state_after(durable);
        let mut allowed: BTreeMap<&[u8], Vec<Option<ValueSpec>>> = BTreeMap::new();
        for (key, &value) in &state {
            allowed.insert(key, vec![Some(value)]);
        }
        for write in self.batches[durable as usize..].iter().flatten() {
            let values = allowed.entry(write.key()).or_insert_with(|| vec![None]);
            values.push(write.value());
        }
        for (key, bytes) in found {
            let values = allowed.get(key).map_or(&[][..], Vec::as_slice);
            if !values.iter().any(|value| value.is_some_and(|value| value.matches(bytes))) {
                return Err(format!(
                    "\"{}\" has a wrong value: {}",
                    key.escape_ascii(),
                    self.origin(key, bytes)
                ));
            }
        }
        let mut missing = allowed.iter().filter(|(key, _)| !found.contains_key(**key));
        match missing.find(|(_, values)| !values.contains(&None)) {
            Some((key, _)) => Err(format!("\"{}\" is missing", key.escape_ascii())),
            None => Ok(()),
        }
    }

    /// Describes which batch wrote these bytes.
    fn origin(&self, key: &[u8], bytes: &[u8]) -> String {
        let index = self.batches.iter().rposition(|batch| has_value(batch, key, bytes));
        index.map_or("no batch wrote it".into(), |index| format!("batch {} wrote it", index + 1))
    }
}

/// Returns true if a batch gives a key this value.
fn has_value(batch: &[Write], key: &[u8], bytes: &[u8]) -> bool {
    batch.iter().any(|write| write.key() == key && write.value().is_some_and(|value| value.matches(bytes)))
}

fn apply(state: &mut State, write: &Write) {
    match write {
        Write::Put { key, value } => state.insert(key.clone(), *value),
        Write::Delete { key } => state.remove(key),
    };
}

fn is_equal(state: &State, found: &BTreeMap<&[u8], &[u8]>) -> bool {
    state.len() == found.len()
        && state
            .iter()
            .zip(found)
            .all(|((key, value), (found_key, bytes))| key.as_slice() == *found_key && value.matches(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(state: &State) -> Vec<Entry> {
        state.iter().map(|(key, value)| (key.clone(), value.bytes())).collect()
    }

    #[test]
    fn prefixes_are_recognized() {
        let history = History::new(3, 50);
        for count in 20..=50 {
            let found = entries(&history.state_after(count));
            assert_eq!(history.classify(&found, 20), Ok(Survivors::Prefix(count)));
        }
        assert!(history.classify(&entries(&history.state_after(19)), 20).is_err());
    }

    /// Returns true if no other batch writes the first key of a batch.
    fn is_only_writer(history: &History, index: usize) -> bool {
        let first = &history.batches[index][0];
        let writers = history.batches.iter().flatten().filter(|write| write.key() == first.key());
        first.value().is_some() && writers.count() == 1
    }

    #[test]
    fn a_missing_batch_is_a_hole_or_a_loss() {
        let history = History::new(3, 50);
        let lost = (0..49).rev().find(|&index| is_only_writer(&history, index)).unwrap();
        let mut state = State::new();
        for (index, batch) in history.batches.iter().enumerate() {
            for write in batch.iter().filter(|_| index != lost) {
                apply(&mut state, write);
            }
        }
        let found = entries(&state);
        assert_eq!(history.classify(&found, lost as u64), Ok(Survivors::Holes));
        assert!(history.classify(&found, lost as u64 + 1).is_err());
    }
}
