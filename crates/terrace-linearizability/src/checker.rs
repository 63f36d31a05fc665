//! Linearizability checker: searches for a sequential order of operations that explains all reads.
//!
//! ```text
//!   A   |--put x=1--|                          x=1, then B reads it, then x=2:  a valid order
//!   B         |--read x=1--|
//!   C                |--put x=2--|
//!        time -->
//! ```
//!
//! An operation takes effect at one instant between its invocation and its return. An operation
//! that returned before another one was invoked comes first. The checker treats all keys together,
//! so batches and snapshots count as single operations. The search is that of Wing and Gong (1993):
//! each step tries every operation that may come next. Two rules keep it short. A read that matches
//! the state is taken at once, because it excludes no other order. A set of operations that led to
//! a state without success is not tried again (Lowe 2017).

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};

/// Key, by its index.
pub type Key = usize;
/// Unique number of a value, or `None` for a missing key.
pub type Value = Option<u32>;

/// Effect of an operation on the state, or its view of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write of these values.
    Write(Vec<(Key, Value)>),
    /// Range delete of these keys. A concurrent write may survive it. Unlike other writes, it may
    /// precede a write that a power cut has already kept.
    RangeDelete(Vec<(Key, Value)>),
    /// Read of these values.
    Read(Vec<(Key, Value)>),
    /// Transaction that has read values and written values.
    Update {
        /// Values before the transaction.
        reads: Vec<(Key, Value)>,
        /// Values after it.
        writes: Vec<(Key, Value)>,
    },
    /// State after a power cut at time `returned_at`. It may contain a concurrent write before any
    /// reader sees that write. It contains no write that was invoked later.
    PowerCutState(Vec<(Key, Value)>),
}

/// One operation of a history.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Description in words, for a person.
    pub name: String,
    /// Time of the invocation.
    pub invoked_at: u64,
    /// Time of the return. No two times of a history are equal.
    pub returned_at: u64,
    /// Effect on the state.
    pub effect: Effect,
    /// Values whose writes precede this read, whatever the times say.
    pub after_values: Vec<u32>,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A valid order exists.
    Linearizable,
    /// No valid order exists. The text shows the longest valid prefix and the operations that do
    /// not fit.
    NotLinearizable(String),
    /// The search exceeded its step budget.
    Undecided,
}

/// Checks a history of `keys` keys, all missing at the start, in at most `step_budget` steps.
pub fn check_linearizable(operations: &[Operation], keys: usize, step_budget: usize) -> Verdict {
    let mut search = Search::new(operations, keys, step_budget);
    match search.search() {
        _ if search.step_budget == 0 => Verdict::Undecided,
        true => Verdict::Linearizable,
        false => {
            Verdict::NotLinearizable(search.deepest_dead_end.map_or(String::new(), |point| point.to_string()))
        }
    }
}

/// Returns the part of a history that concerns one key.
pub fn project_to_key(operations: &[Operation], key: Key) -> Vec<Operation> {
    let projected = operations
        .iter()
        .map(|operation| Operation { effect: operation.effect.project_to_key(key), ..operation.clone() });
    projected.filter(|operation| operation.values().next().is_some()).collect()
}

impl Effect {
    fn project_to_key(&self, key: Key) -> Effect {
        let only = |values: &[(Key, Value)]| values.iter().copied().filter(|(k, _)| *k == key).collect();
        match self {
            Effect::Write(values) => Effect::Write(only(values)),
            Effect::RangeDelete(values) => Effect::RangeDelete(only(values)),
            Effect::Read(values) => Effect::Read(only(values)),
            Effect::Update { reads, writes } => match only(writes) {
                writes if writes.is_empty() => Effect::Read(only(reads)),
                writes => Effect::Update { reads: only(reads), writes },
            },
            Effect::PowerCutState(values) => Effect::PowerCutState(only(values)),
        }
    }
}

impl Operation {
    /// Values that it has read, and then those that it has written.
    fn values(&self) -> impl Iterator<Item = &(Key, Value)> {
        let (first, second) = match &self.effect {
            Effect::Write(values)
            | Effect::RangeDelete(values)
            | Effect::Read(values)
            | Effect::PowerCutState(values) => (values, &[][..]),
            Effect::Update { reads, writes } => (reads, &writes[..]),
        };
        first.iter().chain(second)
    }
}

struct Search<'a> {
    /// Operations, ordered by invocation.
    operations: Vec<&'a Operation>,
    /// Indexes of the writes that must precede each operation.
    required_writes: Vec<Vec<usize>>,
    /// Bit set of the operations that the current order contains.
    linearized: Vec<u64>,
    remaining: usize,
    state: Vec<Value>,
    /// Pairs of an operation set and a state that led to no valid order.
    visited: HashSet<(Vec<u64>, Vec<Value>)>,
    step_budget: usize,
    deepest_dead_end: Option<DeadEnd>,
}

/// Deepest point that the search reached without success.
struct DeadEnd {
    remaining: usize,
    state: Vec<Value>,
    candidates: Vec<String>,
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Operation], keys: usize, step_budget: usize) -> Search<'a> {
        let mut operations: Vec<&Operation> = operations.iter().collect();
        operations.sort_by_key(|operation| operation.invoked_at);
        Search {
            required_writes: required_writes(&operations),
            linearized: vec![0; operations.len().div_ceil(64)],
            remaining: operations.len(),
            operations,
            state: vec![None; keys],
            visited: HashSet::new(),
            step_budget,
            deepest_dead_end: None,
        }
    }

    /// Returns true if a valid order of the remaining operations exists.
    fn search(&mut self) -> bool {
        let reads = self.linearize_matching_reads();
        let fits = self.remaining == 0 || self.try_writes();
        reads.into_iter().for_each(|at| self.undo(at));
        fits
    }

    fn try_writes(&mut self) -> bool {
        self.step_budget = self.step_budget.saturating_sub(1);
        if self.step_budget == 0 || !self.visited.insert((self.linearized.clone(), self.state.clone())) {
            return false;
        }
        let next = self.candidates();
        for &at in &next {
            let operation = self.operations[at];
            let values = match &operation.effect {
                Effect::Write(values) | Effect::RangeDelete(values) => values,
                Effect::Update { reads, writes } if self.has(reads) => writes,
                _ => continue,
            };
            let before = self.state.clone();
            for (key, value) in values {
                self.state[*key] = *value;
            }
            self.linearize(at);
            let fits = self.search();
            self.undo(at);
            if fits {
                return true;
            }
            self.state = before;
        }
        self.record_dead_end(&next);
        false
    }

    /// Appends every read that may come next and matches the state, until no such read remains.
    fn linearize_matching_reads(&mut self) -> Vec<usize> {
        let mut reads = Vec::new();
        loop {
            let mut fitting = self.candidates();
            fitting.retain(|&at| self.matches_state(self.operations[at]));
            if fitting.is_empty() {
                return reads;
            }
            fitting.iter().for_each(|&at| self.linearize(at));
            reads.extend(fitting);
        }
    }

    fn matches_state(&self, operation: &Operation) -> bool {
        match &operation.effect {
            Effect::Write(_) | Effect::RangeDelete(_) | Effect::Update { .. } => false,
            Effect::Read(values) | Effect::PowerCutState(values) => self.has(values),
        }
    }

    /// Returns true if the state has `values`.
    fn has(&self, values: &[(Key, Value)]) -> bool {
        values.iter().all(|(key, value)| self.state[*key] == *value)
    }

    /// Returns the operations that may come next: no other remaining one returned before they
    /// began.
    fn candidates(&self) -> Vec<usize> {
        let mut end = u64::MAX;
        let mut end_of_writes = u64::MAX;
        let mut begun = Vec::new();
        for at in self.unlinearized() {
            let operation = self.operations[at];
            // Later operations in the list began even later.
            if operation.invoked_at >= end {
                break;
            }
            begun.push(at);
            match operation.effect {
                Effect::PowerCutState(_) => end_of_writes = end_of_writes.min(operation.returned_at),
                _ => end = end.min(operation.returned_at),
            }
        }
        begun.retain(|&at| {
            self.operations[at].invoked_at < end
                && match self.operations[at].effect {
                    Effect::Write(_) => self.operations[at].invoked_at < end_of_writes,
                    Effect::RangeDelete(_) => true,
                    _ => self.required_writes[at].iter().all(|&write| self.is_linearized(write)),
                }
        });
        begun
    }

    /// Returns the operations that the current order does not contain.
    fn unlinearized(&self) -> impl Iterator<Item = usize> {
        let words = self.linearized.iter().enumerate().filter(|(_, taken)| **taken != u64::MAX);
        let places = words.flat_map(|(word, &taken)| {
            (0..64).filter(move |bit| taken >> bit & 1 == 0).map(move |bit| 64 * word + bit)
        });
        places.take_while(|&at| at < self.operations.len())
    }

    fn is_linearized(&self, at: usize) -> bool {
        self.linearized[at / 64] >> (at % 64) & 1 == 1
    }

    fn linearize(&mut self, at: usize) {
        self.linearized[at / 64] |= 1 << (at % 64);
        self.remaining -= 1;
    }

    fn undo(&mut self, at: usize) {
        self.linearized[at / 64] &= !(1 << (at % 64));
        self.remaining += 1;
    }

    fn record_dead_end(&mut self, next: &[usize]) {
        if self.deepest_dead_end.as_ref().is_none_or(|point| self.remaining < point.remaining) {
            let candidates = next.iter().map(|&at| self.operations[at].to_string()).collect();
            self.deepest_dead_end =
                Some(DeadEnd { remaining: self.remaining, state: self.state.clone(), candidates });
        }
    }
}

/// Returns, for each operation, the indexes of the writes that must precede it.
fn required_writes(operations: &[&Operation]) -> Vec<Vec<usize>> {
    let mut writes = HashMap::<u32, Vec<usize>>::new();
    for (at, operation) in operations.iter().enumerate() {
        if let Effect::Write(values) = &operation.effect {
            values
                .iter()
                .filter_map(|(_, value)| *value)
                .for_each(|value| writes.entry(value).or_default().push(at));
        }
    }
    let mut required = Vec::with_capacity(operations.len());
    for operation in operations {
        let indexes = operation.after_values.iter().filter_map(|value| writes.get(value)).flatten();
        required.push(indexes.copied().collect());
    }
    required
}

impl Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.effect {
            Effect::Write(_) | Effect::RangeDelete(_) => "writes",
            Effect::Read(_) => "reads",
            Effect::Update { .. } => "reads, then writes,",
            Effect::PowerCutState(_) => "leaves",
        };
        write!(f, "{:>4}..{:<4} {} {verb}", self.invoked_at, self.returned_at, self.name)?;
        self.values().try_for_each(|(key, value)| write!(f, " {key}={}", DisplayValue(*value)))
    }
}

/// Displays a value.
struct DisplayValue(Value);

impl Display for DisplayValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "nothing"),
        }
    }
}

impl Display for DeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no order explains all results; the best one leaves {} operations, at state",
            self.remaining
        )?;
        for (key, value) in self.state.iter().enumerate() {
            write!(f, " {key}={}", DisplayValue(*value))?;
        }
        write!(f, ", where one of these operations must be next:")?;
        self.candidates.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}

#[cfg(test)]
mod tests {
    use terrace_testkit::rng::Rng;

    use super::*;

    /// Parses one operation per line: `FROM..TO put|erase|see|left KEY=VALUE ...`, or `FROM..TO
    /// update KEY=VALUE ... then KEY=VALUE ...`, with `-` for a missing value.
    fn history(text: &str) -> Vec<Operation> {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(operation).collect()
    }

    fn operation(line: &str) -> Operation {
        let mut words = line.split_whitespace();
        let (from, to) = words.next().unwrap().split_once("..").unwrap();
        let verb = words.next().unwrap();
        let values = words.by_ref().take_while(|word| *word != "then").map(key_and_value).collect();
        let what = match verb {
            "update" => Effect::Update { reads: values, writes: words.map(key_and_value).collect() },
            "put" => Effect::Write(values),
            "erase" => Effect::RangeDelete(values),
            "see" => Effect::Read(values),
            _ => Effect::PowerCutState(values),
        };
        Operation {
            name: line.into(),
            invoked_at: from.parse().unwrap(),
            returned_at: to.parse().unwrap(),
            effect: what,
            after_values: vec![],
        }
    }

    /// Parses `KEY=VALUE`.
    fn key_and_value(word: &str) -> (Key, Value) {
        let (key, value) = word.split_once('=').unwrap();
        (key.parse().unwrap(), value.parse().ok())
    }

    #[track_caller]
    fn check(text: &str, expect: bool) {
        let verdict = check_linearizable(&history(text), 3, 100_000);
        assert_eq!(verdict == Verdict::Linearizable, expect, "{text}\n{verdict:?}");
        assert_ne!(verdict, Verdict::Undecided);
    }

    #[test]
    fn empty_history() {
        check("", true);
    }

    #[test]
    fn sequential_history() {
        check("1..2 see 0=-\n3..4 put 0=7\n5..6 see 0=7\n7..8 put 0=-\n9..10 see 0=-", true);
    }

    #[test]
    fn read_of_unwritten_value() {
        check("1..2 put 0=7\n3..4 see 0=8", false);
    }

    #[test]
    fn lost_write() {
        check("1..2 put 0=7\n3..4 see 0=-", false);
    }

    #[test]
    fn read_before_write_was_invoked() {
        check("1..2 see 0=7\n3..4 put 0=7", false);
    }

    #[test]
    fn reads_concurrent_with_write() {
        check("1..9 put 0=7\n2..3 see 0=-\n4..5 see 0=7", true);
    }

    #[test]
    fn write_visible_then_invisible() {
        check("1..9 put 0=7\n2..3 see 0=7\n4..5 see 0=-", false);
    }

    #[test]
    fn concurrent_writes_in_either_order() {
        check("1..9 put 0=1\n2..8 put 0=2\n10..11 see 0=1", true);
        check("1..9 put 0=1\n2..8 put 0=2\n10..11 see 0=2", true);
        check("1..9 put 0=1\n2..8 put 0=2\n3..4 see 0=1\n5..6 see 0=2\n10..11 see 0=1", false);
    }

    #[test]
    fn partially_visible_batch() {
        check("1..4 put 0=1 1=1\n2..3 see 0=1 1=-", false);
        check("1..9 put 0=1 1=1\n2..3 see 0=1\n4..5 see 1=-", false);
        check("1..9 put 0=1 1=1\n2..3 see 1=-\n4..5 see 0=1", true);
    }

    #[test]
    fn updates_of_one_key() {
        check("1..2 put 0=1\n3..9 update 0=1 then 0=2\n4..8 update 0=2 then 0=3\n10..11 see 0=3", true);
        // A lost update.
        check("1..2 put 0=1\n3..9 update 0=1 then 0=2\n4..8 update 0=1 then 0=3", false);
    }

    #[test]
    fn write_skew() {
        check("1..9 update 0=- 1=- then 0=1\n2..8 update 0=- 1=- then 1=1", false);
        check("1..9 update 0=- 1=- then 0=1\n2..8 update 0=1 1=- then 1=1", true);
    }

    #[test]
    fn snapshot_of_two_states() {
        let writes = "1..2 put 0=1\n3..4 put 1=1\n5..6 put 0=2\n";
        check(&format!("{writes}0..7 see 0=1 1=-"), true);
        check(&format!("{writes}0..7 see 0=2 1=-"), false);
    }

    #[test]
    fn readers_disagree_on_write_order() {
        let writes = "1..20 put 0=1\n2..19 put 1=1\n";
        check(&format!("{writes}3..4 see 0=1\n5..6 see 1=-\n7..8 see 1=1"), true);
        check(&format!("{writes}3..6 see 0=1 1=-\n4..7 see 0=- 1=1"), false);
    }

    #[test]
    fn read_required_after_write() {
        let mut history = history("1..2 put 0=1\n3..4 put 0=2\n0..9 see 0=1");
        assert_eq!(check_linearizable(&history, 1, 1000), Verdict::Linearizable);
        history[2].after_values = vec![2];
        assert!(matches!(check_linearizable(&history, 1, 1000), Verdict::NotLinearizable(_)));
    }

    #[test]
    fn power_cut_keeps_invisible_write() {
        check("1..8 put 0=1\n0..2 left 0=1\n3..4 see 0=-", true);
        check("1..2 put 0=1\n0..3 left 0=2\n4..5 put 0=2", false);
        check("1..2 put 0=1\n3..4 put 1=1\n0..5 left 0=- 1=1", false);
    }

    #[test]
    fn range_delete_skips_concurrent_write() {
        check("1..8 put 0=1\n0..2 left 0=1\n3..4 erase 0=-\n9..10 see 0=1", true);
        check("1..2 put 0=1\n0..3 left 0=1\n4..5 erase 0=-\n6..7 see 0=1", false);
    }

    #[test]
    fn step_budget_exceeded() {
        let mut text: String = (0..12).map(|n| format!("{n}..{} put {}={n}\n", 100 + n, n % 3)).collect();
        text += "200..201 see 0=99";
        assert_eq!(check_linearizable(&history(&text), 3, 1000), Verdict::Undecided);
    }

    #[test]
    fn projection_to_one_key() {
        let history = history("1..4 put 0=1 1=2\n5..6 see 0=1\n7..8 see 1=2 2=-");
        let part: Vec<String> =
            project_to_key(&history, 1).iter().map(|o| format!("{:?}", o.effect)).collect();
        assert_eq!(part, ["Write([(1, Some(2))])", "Read([(1, Some(2))])"]);
    }

    /// Reference implementation for short histories: tries every order.
    fn brute_force(operations: &mut Vec<Operation>, state: &mut [Value; 2]) -> bool {
        if operations.is_empty() {
            return true;
        }
        (0..operations.len()).any(|at| {
            let next = operations[at].clone();
            if operations.iter().any(|other| other.returned_at < next.invoked_at) {
                return false;
            }
            let before = *state;
            let fits = match &next.effect {
                Effect::Write(values) | Effect::RangeDelete(values) => values.iter().all(|(key, value)| {
                    state[*key] = *value;
                    true
                }),
                Effect::Read(values) | Effect::PowerCutState(values) => {
                    values.iter().all(|(key, value)| state[*key] == *value)
                }
                Effect::Update { reads, writes } => {
                    let fits = reads.iter().all(|(key, value)| state[*key] == *value);
                    writes.iter().for_each(|(key, value)| state[*key] = *value);
                    fits
                }
            };
            operations.remove(at);
            let found = fits && brute_force(operations, state);
            operations.insert(at, next);
            *state = before;
            found
        })
    }

    /// Draws six operations. Their twelve begin and end times are distinct.
    fn draw_history(rng: &mut Rng) -> Vec<Operation> {
        let mut times: Vec<u64> = (0..12).collect();
        (1..12).rev().for_each(|i| times.swap(i, rng.below(i as u64 + 1) as usize));
        times.chunks(2).map(|pair| draw_operation(rng, pair[0].min(pair[1]), pair[0].max(pair[1]))).collect()
    }

    /// Draws a read or a write of one key or of both keys, or both.
    fn draw_operation(rng: &mut Rng, invoked_at: u64, returned_at: u64) -> Operation {
        let values = draw_values(rng);
        let effect = match rng.below(5) {
            0 | 1 => Effect::Write(values),
            2 | 3 => Effect::Read(values),
            _ => Effect::Update { reads: values, writes: draw_values(rng) },
        };
        Operation { name: String::new(), invoked_at, returned_at, effect, after_values: vec![] }
    }

    fn draw_values(rng: &mut Rng) -> Vec<(Key, Value)> {
        if rng.one_in(3) {
            vec![(0, draw_value(rng)), (1, draw_value(rng))]
        } else {
            vec![(rng.below(2) as Key, draw_value(rng))]
        }
    }

    fn draw_value(rng: &mut Rng) -> Value {
        (!rng.one_in(4)).then(|| rng.below(3) as u32)
    }

    /// Compares the search with the reference on random histories, of which some have a valid
    /// order.
    #[test]
    fn agrees_with_brute_force() {
        let mut rng = Rng::new(1);
        let mut fitting = 0;
        for _ in 0..20_000 {
            let mut history = draw_history(&mut rng);
            let fits = check_linearizable(&history, 2, 100_000) == Verdict::Linearizable;
            assert_eq!(fits, brute_force(&mut history, &mut [None; 2]), "{history:#?}");
            fitting += usize::from(fits);
        }
        assert!((1000..19_000).contains(&fitting), "{fitting} of 20,000 are linearizable");
    }
}
