//! Checker of transaction histories.
//!
//! Each commit returns the sequence number of its last operation. So the order of all versions is
//! known, and no search is necessary: a serializable transaction must read what it would read if it
//! ran alone at its commit. The checker replays the commits in their order and compares every read.
//! The names of the anomalies are those of Adya ("Weak Consistency", MIT, 1999).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// Key of the history. A small number.
pub type Key = u8;

/// Value of a put, unique in the history.
pub type Value = u64;

/// Read of a transaction, without reads of its own writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A get.
    Key(Key, Option<Value>),
    /// A scan from the first to the second key, both included, with all entries in between.
    Range(Key, Key, Vec<(Key, Value)>),
}

/// Committed transaction.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Sequence number of the last operation, or of the state that a transaction without writes
    /// saw.
    pub position: u64,
    /// All reads.
    pub reads: Vec<Read>,
    /// Last write of each key. None is a tombstone.
    pub writes: BTreeMap<Key, Option<Value>>,
}

/// All that happened.
#[derive(Debug, Default)]
pub struct History {
    /// Committed transactions and plain writes, in any order.
    pub committed: Vec<Transaction>,
    /// Values of transactions that were rolled back or failed.
    pub aborted_values: HashSet<Value>,
    /// Values that a transaction overwrote or rolled back to a savepoint before its commit.
    pub intermediate_values: HashSet<Value>,
}

/// Kind of a wrong read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Anomaly {
    /// G1a: a value of a transaction that was rolled back.
    AbortedRead,
    /// G1b: a value that is not the last one of its transaction.
    IntermediateRead,
    /// G1c: a value that was written later than the commit of the reader.
    FutureRead,
    /// G-single, lost update: an old value of a key that the transaction writes.
    LostUpdate,
    /// G-single: values of different moments.
    ReadSkew,
    /// G2-item: an old value of a key that the transaction does not write.
    WriteSkew,
    /// G2: an old state of a range.
    PredicateWriteSkew,
}

/// Wrong read of a transaction.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Kind of the anomaly.
    pub anomaly: Anomaly,
    /// Transaction with the read.
    pub transaction: Transaction,
    /// The wrong read.
    pub read: Read,
    /// Result of the same read at the commit.
    pub expected: Read,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { anomaly, transaction, read, expected } = self;
        write!(f, "{anomaly:?}: read {read:?}, expected {expected:?} at the commit of {transaction:?}")
    }
}

type State = BTreeMap<Key, Value>;

fn read_at(state: &State, read: &Read) -> Read {
    match read {
        Read::Key(key, _) => Read::Key(*key, state.get(key).copied()),
        Read::Range(first, last, _) => {
            Read::Range(*first, *last, state.range(first..=last).map(|(key, value)| (*key, *value)).collect())
        }
    }
}

/// Returns the values that `read` saw.
fn values(read: &Read) -> impl Iterator<Item = Value> {
    let (item, range) = match read {
        Read::Key(_, value) => (*value, &[][..]),
        Read::Range(_, _, entries) => (None, &entries[..]),
    };
    item.into_iter().chain(range.iter().map(|(_, value)| *value))
}

/// Returns the wrong reads of `history`, and the state after its last commit. Reads of a
/// serializable history have none.
pub fn check(history: &History) -> (Vec<Violation>, State) {
    let mut order: Vec<&Transaction> = history.committed.iter().collect();
    // A transaction without writes saw the state after the commit with its position.
    order.sort_by_key(|transaction| (transaction.position, transaction.writes.is_empty()));
    let written_at: HashMap<Value, u64> = order
        .iter()
        .flat_map(|transaction| {
            transaction.writes.values().flatten().map(|value| (*value, transaction.position))
        })
        .collect();
    let mut violations = Vec::new();
    let mut states = vec![(0, State::new())];
    let mut state = State::new();
    for transaction in order {
        for read in &transaction.reads {
            let expected = read_at(&state, read);
            if expected != *read {
                let anomaly = classify(history, transaction, read, &written_at, &states);
                violations.push(Violation {
                    anomaly,
                    transaction: transaction.clone(),
                    read: read.clone(),
                    expected,
                });
            }
        }
        for (key, value) in &transaction.writes {
            match value {
                Some(value) => state.insert(*key, *value),
                None => state.remove(key),
            };
        }
        if !transaction.writes.is_empty() {
            states.push((transaction.position, state.clone()));
        }
    }
    (violations, state)
}

fn classify(
    history: &History,
    transaction: &Transaction,
    read: &Read,
    written_at: &HashMap<Value, u64>,
    states: &[(u64, State)],
) -> Anomaly {
    if values(read).any(|value| history.aborted_values.contains(&value)) {
        return Anomaly::AbortedRead;
    }
    if values(read).any(|value| history.intermediate_values.contains(&value)) {
        return Anomaly::IntermediateRead;
    }
    if values(read)
        .any(|value| written_at.get(&value).is_none_or(|position| *position > transaction.position))
    {
        return Anomaly::FutureRead;
    }
    let seen = states
        .iter()
        .rposition(|(_, state)| transaction.reads.iter().all(|read| read_at(state, read) == *read));
    // All reads saw one state. No other transaction may have written the same keys since.
    let Some(seen) = seen else { return Anomaly::ReadSkew };
    let steps = states[seen..].windows(2);
    let mut overwritten = steps.flat_map(|pair| changed_keys(&pair[0].1, &pair[1].1));
    if overwritten.any(|key| transaction.writes.contains_key(&key)) {
        return Anomaly::LostUpdate;
    }
    match read {
        Read::Key(..) => Anomaly::WriteSkew,
        Read::Range(..) => Anomaly::PredicateWriteSkew,
    }
}

fn changed_keys(before: &State, after: &State) -> Vec<Key> {
    let keys = before.keys().chain(after.keys());
    keys.filter(|key| before.get(key) != after.get(key)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(position: u64, reads: &[Read], writes: &[(Key, Option<Value>)]) -> Transaction {
        Transaction { position, reads: reads.to_vec(), writes: writes.iter().copied().collect() }
    }

    #[track_caller]
    fn check_anomalies(committed: &[Transaction], expected: &[Anomaly]) {
        let history = History {
            committed: committed.to_vec(),
            aborted_values: [90].into(),
            intermediate_values: [80].into(),
        };
        let found: Vec<_> = super::check(&history).0.iter().map(|violation| violation.anomaly).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn serial_history_has_no_anomaly() {
        check_anomalies(
            &[
                transaction(1, &[Read::Key(1, None)], &[(1, Some(10))]),
                transaction(2, &[Read::Key(1, Some(10)), Read::Range(0, 9, vec![(1, 10)])], &[(2, Some(20))]),
                transaction(4, &[Read::Range(0, 9, vec![(1, 10), (2, 20)])], &[(1, None), (2, Some(21))]),
                transaction(4, &[Read::Key(1, None), Read::Key(2, Some(21))], &[]),
            ],
            &[],
        );
    }

    #[test]
    fn anomalies_have_their_kinds() {
        let first = transaction(1, &[], &[(1, Some(10)), (2, Some(20))]);
        let second = transaction(2, &[], &[(1, Some(11))]);
        let third = |reads: &[Read], writes: &[(Key, Option<Value>)]| {
            let third = transaction(3, reads, writes);
            [first.clone(), second.clone(), third, transaction(9, &[], &[(3, Some(30))])]
        };
        check_anomalies(&third(&[Read::Key(1, Some(90))], &[(2, None)]), &[Anomaly::AbortedRead]);
        check_anomalies(&third(&[Read::Key(1, Some(80))], &[(2, None)]), &[Anomaly::IntermediateRead]);
        check_anomalies(&third(&[Read::Key(3, Some(30))], &[(2, None)]), &[Anomaly::FutureRead]);
        check_anomalies(&third(&[Read::Key(1, Some(10))], &[(1, Some(12))]), &[Anomaly::LostUpdate]);
        check_anomalies(&third(&[Read::Key(1, Some(10))], &[(2, Some(22))]), &[Anomaly::WriteSkew]);
        let range = Read::Range(0, 1, vec![(1, 10)]);
        check_anomalies(&third(&[range], &[(2, Some(22))]), &[Anomaly::PredicateWriteSkew]);
        let skewed = [Read::Key(2, None), Read::Key(1, Some(11))];
        check_anomalies(&third(&skewed, &[(4, Some(40))]), &[Anomaly::ReadSkew]);
    }
}
