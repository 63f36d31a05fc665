//! Is there an order of these operations, one after the other, that explains what each of them saw?
//!
//! ```text
//!   A   |--put x=1--|                          x=1, then B sees it, then x=2:  an order
//!   B         |--see x=1--|
//!   C               |--put x=2--|
//!        time -->
//! ```
//!
//! An operation takes effect at one moment between its two times, and an operation that ended before another began
//! comes first: linearizability, of all keys together, so that batches and snapshots are judged as the single operations
//! that they claim to be. The search is that of Wing and Gong: at each step try every operation that may come next. Two
//! things keep it short. What only looks, and fits, is taken at once, since that takes nothing from anybody. And a set
//! of operations that once led to some contents and no further is not tried again (Lowe).

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};

/// A key, by its number.
pub type Key = usize;
/// The number that tells a value from all others, or none.
pub type Value = Option<u32>;

/// What an operation did to the contents, or saw of them, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// These keys got these values.
    Put(Vec<(Key, Value)>),
    /// These keys, one perhaps of a range that was deleted, lost their values. What is being written at that moment stays: unlike
    /// other writes it may come before one that a power cut has left already.
    Erased(Vec<(Key, Value)>),
    /// These keys had these values.
    Saw(Vec<(Key, Value)>),
    /// A power cut at time `to` would have left these values. A write that was being made may be among them before
    /// anybody sees it; so what others see later may come before this, but no write that began later.
    Left(Vec<(Key, Value)>),
}

/// One operation of a history.
#[derive(Debug, Clone)]
pub struct Operation {
    /// In words, for a person.
    pub name: String,
    /// It took effect after this time.
    pub from: u64,
    /// And before this one. No two times of a history are equal.
    pub to: u64,
    /// What it did.
    pub what: What,
    /// What looks, and took effect behind the writes of these values, whatever the times say.
    pub behind: Vec<u32>,
}

/// What became of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Fits,
    /// There is none: how far one comes, and what then does not fit.
    Never(String),
    /// Nobody knows: there are too many orders to try.
    TooMany,
}

/// Judges a history of `keys` keys that began without any values, in at most `patience` steps.
pub fn judge(operations: &[Operation], keys: usize, patience: usize) -> Verdict {
    let mut search = Search::new(operations, keys, patience);
    match search.go() {
        _ if search.patience == 0 => Verdict::TooMany,
        true => Verdict::Fits,
        false => Verdict::Never(search.farthest.map_or(String::new(), |point| point.to_string())),
    }
}

/// The part of a history that concerns one key.
pub fn of_key(operations: &[Operation], key: Key) -> Vec<Operation> {
    let part = |operation: &Operation| {
        let only = |values: &[(Key, Value)]| values.iter().copied().filter(|(of, _)| *of == key).collect();
        let what = match &operation.what {
            What::Put(values) => What::Put(only(values)),
            What::Erased(values) => What::Erased(only(values)),
            What::Saw(values) => What::Saw(only(values)),
            What::Left(values) => What::Left(only(values)),
        };
        Operation { what, ..operation.clone() }
    };
    operations.iter().map(part).filter(|operation| !operation.values().is_empty()).collect()
}

impl Operation {
    fn values(&self) -> &[(Key, Value)] {
        match &self.what {
            What::Put(values) | What::Erased(values) | What::Saw(values) | What::Left(values) => values,
        }
    }
}

struct Search<'a> {
    /// By the time they began.
    operations: Vec<&'a Operation>,
    /// Of each, the writes that it took effect behind.
    behind: Vec<Vec<usize>>,
    /// Those that stand in the order so far, a bit each.
    taken: Vec<u64>,
    left: usize,
    contents: Vec<Value>,
    /// Sets of operations and the contents they led to, from where there was no way on.
    dead: HashSet<(Vec<u64>, Vec<Value>)>,
    patience: usize,
    farthest: Option<Point>,
}

/// A place where the search could not go on.
struct Point {
    left: usize,
    contents: Vec<Value>,
    stuck: Vec<String>,
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Operation], keys: usize, patience: usize) -> Search<'a> {
        let mut operations: Vec<&Operation> = operations.iter().collect();
        operations.sort_by_key(|operation| operation.from);
        let taken = vec![0; operations.len().div_ceil(64)];
        let (left, contents) = (operations.len(), vec![None; keys]);
        let behind = writes_behind(&operations);
        Search { operations, behind, taken, left, contents, dead: HashSet::new(), patience, farthest: None }
    }

    /// True if the operations that are left can be put in order.
    fn go(&mut self) -> bool {
        let looked = self.take_what_looks();
        let fits = self.left == 0 || self.go_by_a_write();
        looked.into_iter().for_each(|at| self.put_back(at));
        fits
    }

    fn go_by_a_write(&mut self) -> bool {
        self.patience = self.patience.saturating_sub(1);
        if self.patience == 0 || !self.dead.insert((self.taken.clone(), self.contents.clone())) {
            return false;
        }
        let next = self.next();
        for &at in &next {
            let operation = self.operations[at];
            let (What::Put(values) | What::Erased(values)) = &operation.what else { continue };
            let before = self.contents.clone();
            for (key, value) in values {
                self.contents[*key] = *value;
            }
            self.take(at);
            let fits = self.go();
            self.put_back(at);
            if fits {
                return true;
            }
            self.contents = before;
        }
        self.note(&next);
        false
    }

    /// Takes every operation that only looks, may come next, and fits, until there is none.
    fn take_what_looks(&mut self) -> Vec<usize> {
        let mut looked = Vec::new();
        loop {
            let mut fitting = self.next();
            fitting.retain(|&at| self.fits(self.operations[at]));
            if fitting.is_empty() {
                return looked;
            }
            fitting.iter().for_each(|&at| self.take(at));
            looked.extend(fitting);
        }
    }

    fn fits(&self, operation: &Operation) -> bool {
        match &operation.what {
            What::Put(_) | What::Erased(_) => false,
            What::Saw(values) | What::Left(values) => {
                values.iter().all(|(key, value)| self.contents[*key] == *value)
            }
        }
    }

    /// The operations that may come next: no other that is left ended before they began.
    fn next(&self) -> Vec<usize> {
        let (mut end, mut end_of_writes) = (u64::MAX, u64::MAX);
        let mut begun = Vec::new();
        for at in self.left() {
            let operation = self.operations[at];
            // Nor did any behind it begin, or end, before that.
            if operation.from >= end {
                break;
            }
            begun.push(at);
            match operation.what {
                What::Left(_) => end_of_writes = end_of_writes.min(operation.to),
                _ => end = end.min(operation.to),
            }
        }
        let may_be_next = |at: usize| match self.operations[at].what {
            What::Put(_) => self.operations[at].from < end_of_writes,
            What::Erased(_) => true,
            _ => self.behind[at].iter().all(|&write| self.is_taken(write)),
        };
        begun.retain(|&at| self.operations[at].from < end && may_be_next(at));
        begun
    }

    /// Those that are not in the order yet.
    fn left(&self) -> impl Iterator<Item = usize> {
        let words = self.taken.iter().enumerate().filter(|(_, taken)| **taken != u64::MAX);
        let places = words.flat_map(|(word, &taken)| {
            (0..64).filter(move |bit| taken >> bit & 1 == 0).map(move |bit| 64 * word + bit)
        });
        places.take_while(|&at| at < self.operations.len())
    }

    fn is_taken(&self, at: usize) -> bool {
        self.taken[at / 64] >> (at % 64) & 1 == 1
    }

    fn take(&mut self, at: usize) {
        self.taken[at / 64] |= 1 << (at % 64);
        self.left -= 1;
    }

    fn put_back(&mut self, at: usize) {
        self.taken[at / 64] &= !(1 << (at % 64));
        self.left += 1;
    }

    fn note(&mut self, next: &[usize]) {
        if self.farthest.as_ref().is_none_or(|point| self.left < point.left) {
            let stuck = next.iter().map(|&at| self.operations[at].to_string()).collect();
            self.farthest = Some(Point { left: self.left, contents: self.contents.clone(), stuck });
        }
    }
}

/// Of each operation, the places of the writes that it took effect behind.
fn writes_behind(operations: &[&Operation]) -> Vec<Vec<usize>> {
    let mut writes = HashMap::<u32, Vec<usize>>::new();
    for (at, operation) in operations.iter().enumerate() {
        if let What::Put(values) = &operation.what {
            values
                .iter()
                .filter_map(|(_, value)| *value)
                .for_each(|value| writes.entry(value).or_default().push(at));
        }
    }
    let of_value = |value: &u32| writes.get(value).into_iter().flatten().copied();
    operations.iter().map(|operation| operation.behind.iter().flat_map(of_value).collect()).collect()
}

impl Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.what {
            What::Put(_) | What::Erased(_) => "puts",
            What::Saw(_) => "sees",
            What::Left(_) => "leaves",
        };
        write!(f, "{:>4}..{:<4} {} {verb}", self.from, self.to, self.name)?;
        self.values().iter().try_for_each(|(key, value)| write!(f, " {key}={}", Shown(*value)))
    }
}

/// A value as a person reads it.
struct Shown(Value);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "nothing"),
        }
    }
}

impl Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "No order explains what was seen. The best leaves {} operations over, at contents",
            self.left
        )?;
        for (key, value) in self.contents.iter().enumerate() {
            write!(f, " {key}={}", Shown(*value))?;
        }
        write!(f, ", where one of these would have to be next:")?;
        self.stuck.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}

#[cfg(test)]
mod tests {
    use terrace_testkit::rng::Rng;

    use super::*;

    /// One operation a line: `FROM..TO put|erase|see|left KEY=VALUE ...`, with `-` for no value.
    fn history(text: &str) -> Vec<Operation> {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(operation).collect()
    }

    fn operation(line: &str) -> Operation {
        let mut words = line.split_whitespace();
        let (from, to) = words.next().unwrap().split_once("..").unwrap();
        let verb = words.next().unwrap();
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').unwrap();
            (key.parse().unwrap(), value.parse().ok())
        };
        let values = words.map(pair).collect();
        let what = match verb {
            "put" => What::Put(values),
            "erase" => What::Erased(values),
            "see" => What::Saw(values),
            _ => What::Left(values),
        };
        Operation {
            name: line.into(),
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            what,
            behind: vec![],
        }
    }

    #[track_caller]
    fn check(text: &str, expect: bool) {
        let verdict = judge(&history(text), 3, 100_000);
        assert_eq!(verdict == Verdict::Fits, expect, "{text}\n{verdict:?}");
        assert_ne!(verdict, Verdict::TooMany);
    }

    #[test]
    fn nothing_at_all() {
        check("", true);
    }

    #[test]
    fn one_after_the_other() {
        check("1..2 see 0=-\n3..4 put 0=7\n5..6 see 0=7\n7..8 put 0=-\n9..10 see 0=-", true);
    }

    #[test]
    fn a_value_that_nobody_wrote() {
        check("1..2 put 0=7\n3..4 see 0=8", false);
    }

    #[test]
    fn a_write_that_was_lost() {
        check("1..2 put 0=7\n3..4 see 0=-", false);
    }

    #[test]
    fn a_write_seen_before_it_began() {
        check("1..2 see 0=7\n3..4 put 0=7", false);
    }

    #[test]
    fn a_write_seen_or_not_while_it_is_made() {
        check("1..9 put 0=7\n2..3 see 0=-\n4..5 see 0=7", true);
    }

    #[test]
    fn a_write_seen_and_then_not() {
        check("1..9 put 0=7\n2..3 see 0=7\n4..5 see 0=-", false);
    }

    #[test]
    fn two_writes_seen_in_both_orders() {
        check("1..9 put 0=1\n2..8 put 0=2\n10..11 see 0=1", true);
        check("1..9 put 0=1\n2..8 put 0=2\n10..11 see 0=2", true);
        check("1..9 put 0=1\n2..8 put 0=2\n3..4 see 0=1\n5..6 see 0=2\n10..11 see 0=1", false);
    }

    #[test]
    fn a_batch_seen_in_part() {
        check("1..4 put 0=1 1=1\n2..3 see 0=1 1=-", false);
        check("1..9 put 0=1 1=1\n2..3 see 0=1\n4..5 see 1=-", false);
        check("1..9 put 0=1 1=1\n2..3 see 1=-\n4..5 see 0=1", true);
    }

    #[test]
    fn a_snapshot_of_two_moments() {
        let writes = "1..2 put 0=1\n3..4 put 1=1\n5..6 put 0=2\n";
        check(&format!("{writes}0..7 see 0=1 1=-"), true);
        check(&format!("{writes}0..7 see 0=2 1=-"), false);
    }

    #[test]
    fn readers_who_disagree_about_the_order() {
        let writes = "1..20 put 0=1\n2..19 put 1=1\n";
        check(&format!("{writes}3..4 see 0=1\n5..6 see 1=-\n7..8 see 1=1"), true);
        check(&format!("{writes}3..6 see 0=1 1=-\n4..7 see 0=- 1=1"), false);
    }

    #[test]
    fn behind_a_write_whatever_the_times_say() {
        let mut history = history("1..2 put 0=1\n3..4 put 0=2\n0..9 see 0=1");
        assert_eq!(judge(&history, 1, 1000), Verdict::Fits);
        history[2].behind = vec![2];
        assert!(matches!(judge(&history, 1, 1000), Verdict::Never(_)));
    }

    #[test]
    fn a_power_cut_leaves_a_write_that_nobody_sees_yet() {
        check("1..8 put 0=1\n0..2 left 0=1\n3..4 see 0=-", true);
        check("1..2 put 0=1\n0..3 left 0=2\n4..5 put 0=2", false);
        check("1..2 put 0=1\n3..4 put 1=1\n0..5 left 0=- 1=1", false);
    }

    #[test]
    fn a_deleted_range_passes_over_what_is_being_written() {
        check("1..8 put 0=1\n0..2 left 0=1\n3..4 erase 0=-\n9..10 see 0=1", true);
        check("1..2 put 0=1\n0..3 left 0=1\n4..5 erase 0=-\n6..7 see 0=1", false);
    }

    #[test]
    fn too_many_orders() {
        let mut text: String = (0..12).map(|n| format!("{n}..{} put {}={n}\n", 100 + n, n % 3)).collect();
        text += "200..201 see 0=99";
        assert_eq!(judge(&history(&text), 3, 1000), Verdict::TooMany);
    }

    #[test]
    fn the_part_of_one_key() {
        let history = history("1..4 put 0=1 1=2\n5..6 see 0=1\n7..8 see 1=2 2=-");
        let part: Vec<String> = of_key(&history, 1).iter().map(|o| format!("{:?}", o.what)).collect();
        assert_eq!(part, ["Put([(1, Some(2))])", "Saw([(1, Some(2))])"]);
    }

    /// Few enough operations to try every order.
    fn by_trying_all(operations: &mut Vec<Operation>, contents: &mut [Value; 2]) -> bool {
        if operations.is_empty() {
            return true;
        }
        (0..operations.len()).any(|at| {
            let next = operations[at].clone();
            if operations.iter().any(|other| other.to < next.from) {
                return false;
            }
            let before = *contents;
            let fits = match &next.what {
                What::Put(values) | What::Erased(values) => values.iter().all(|(key, value)| {
                    contents[*key] = *value;
                    true
                }),
                What::Saw(values) | What::Left(values) => {
                    values.iter().all(|(key, value)| contents[*key] == *value)
                }
            };
            operations.remove(at);
            let found = fits && by_trying_all(operations, contents);
            operations.insert(at, next);
            *contents = before;
            found
        })
    }

    /// Random histories of random looks: some fit, most do not, and the slow way agrees on each.
    #[test]
    fn agrees_with_trying_every_order() {
        let (mut rng, mut fitting) = (Rng::new(1), 0);
        for _ in 0..20_000 {
            let mut times: Vec<u64> = (0..12).collect();
            (1..12).rev().for_each(|i| times.swap(i, rng.below(i as u64 + 1) as usize));
            let draw = |pair: &[u64]| {
                let value = |rng: &mut Rng| (!rng.one_in(4)).then(|| rng.below(3) as u32);
                let one = |rng: &mut Rng| vec![(rng.below(2) as usize, value(rng))];
                let both = |rng: &mut Rng| vec![(0, value(rng)), (1, value(rng))];
                let values = if rng.one_in(3) { both(&mut rng) } else { one(&mut rng) };
                let what = if rng.one_in(2) { What::Put(values) } else { What::Saw(values) };
                let (from, to) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                Operation { name: String::new(), from, to, what, behind: vec![] }
            };
            let mut history: Vec<Operation> = times.chunks(2).map(draw).collect();
            let fits = judge(&history, 2, 100_000) == Verdict::Fits;
            assert_eq!(fits, by_trying_all(&mut history, &mut [None; 2]), "{history:#?}");
            fitting += usize::from(fits);
        }
        assert!((1000..19_000).contains(&fitting), "{fitting} of 20,000 fit");
    }
}
