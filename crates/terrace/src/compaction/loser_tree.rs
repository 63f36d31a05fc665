//! Loser tree: merges sorted runs in one forward pass.
//!
//! ```text
//!   a tree of losers        each node keeps the loser of its match, and the winner moves up;
//!                           after a step of the winner, only the matches on its path are replayed
//!        1:  b
//!       /     \            winner: d
//!     2: a    3: c
//!     /  \    /  \
//!    a    b  c    d
//! ```
//!
//! The heads decide most matches: a head holds the eight bytes of the user key after the prefix
//! that all keys share. Of equal keys, the key of the run with the lowest index comes first.

use std::hint::select_unpredictable;

use terrace_format::comparator::Comparator;
use terrace_format::key::{self, InternalComparator};
use terrace_format::key_order::head_after;

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;

/// Forward iterator over several sorted runs.
pub(crate) struct LoserTree<R> {
    comparator: InternalComparator,
    /// Number of key bytes before the head.
    prefix_len: usize,
    runs: Vec<R>,
    /// Losers of the inner nodes. Node i has the children 2i and 2i + 1. The leaf of run r is node
    /// r + the number of runs.
    losers: Vec<Contender>,
    winner: Contender,
}

/// Run that takes part in a match.
#[derive(Clone, Copy)]
struct Contender {
    /// Head of the current key. An exhausted run has `u64::MAX`, which may also be the head of a
    /// key.
    head: u64,
    run: usize,
}

impl<R: InternalIterator<Error = Error>> LoserTree<R> {
    /// Creates an iterator at the first entry whose key is at or after `from`. In the bytewise
    /// order, the first `prefix_len` bytes of all user keys are the same.
    pub(crate) fn new(
        comparator: InternalComparator,
        runs: Vec<R>,
        prefix_len: usize,
        from: Option<&[u8]>,
    ) -> LoserTree<R> {
        let placeholder = Contender { head: u64::MAX, run: 0 };
        let losers = vec![placeholder; runs.len()];
        let mut tree = LoserTree { comparator, prefix_len, runs, losers, winner: placeholder };
        for run in &mut tree.runs {
            match from {
                Some(from) => run.seek(from),
                None => run.seek_to_first(),
            }
        }
        if !tree.runs.is_empty() {
            tree.winner = tree.build_subtree(1);
        }
        tree
    }

    /// Returns the current key and value, or None after the last entry.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.runs.get(self.winner.run)?.entry()
    }

    /// Moves to the next entry. There must be a current entry.
    pub(crate) fn next(&mut self) {
        let run = self.winner.run;
        self.runs[run].next();
        let mut winner = self.contender(run);
        let mut node = (run + self.runs.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            // The result is nearly random, so a branch would be mispredicted every second time.
            let other_wins = self.precedes(loser, winner);
            self.losers[node] = select_unpredictable(other_wins, winner, loser);
            winner = select_unpredictable(other_wins, loser, winner);
            node /= 2;
        }
        self.winner = winner;
    }

    /// Returns the first error of the runs.
    pub(crate) fn status(&self) -> Result<()> {
        self.runs.iter().try_for_each(R::status)
    }

    /// Plays every match below `node` and returns the winner.
    fn build_subtree(&mut self, node: usize) -> Contender {
        if node >= self.runs.len() {
            return self.contender(node - self.runs.len());
        }
        let a = self.build_subtree(2 * node);
        let b = self.build_subtree(2 * node + 1);
        let (winner, loser) = if self.precedes(a, b) { (a, b) } else { (b, a) };
        self.losers[node] = loser;
        winner
    }

    #[inline]
    fn precedes(&self, a: Contender, b: Contender) -> bool {
        if a.head == b.head { self.precedes_by_key(a.run, b.run) } else { a.head < b.head }
    }

    /// Compares the current keys of two runs. An exhausted run comes last.
    #[inline(never)]
    fn precedes_by_key(&self, a: usize, b: usize) -> bool {
        match (self.runs[a].entry(), self.runs[b].entry()) {
            (Some((x, _)), Some((y, _))) => self.comparator.compare(x, y).then(a.cmp(&b)).is_lt(),
            (x, y) => x.is_some() && y.is_none(),
        }
    }

    /// Returns `run` with the head of its current key.
    #[inline]
    fn contender(&self, run: usize) -> Contender {
        let head = match self.runs[run].entry() {
            None => u64::MAX,
            Some(_) if !self.comparator.is_bytewise() => 0,
            Some((key, _)) => head_after(self.prefix_len, key::user_key(key)),
        };
        Contender { head, run }
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::{Comparator, bytewise};
    use terrace_format::key::{InternalKey, ValueType};

    use super::*;
    use crate::sync::Arc;

    /// Comparator that orders keys by descending length, then by bytes.
    struct LongestFirst;

    impl Comparator for LongestFirst {
        fn name(&self) -> &str {
            "test.LongestFirst"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.len().cmp(&a.len()).then_with(|| a.cmp(b))
        }
    }

    /// Keys of a run (`key@sequence`), current index, and the value of all entries: the run's
    /// number.
    struct StringRun(Vec<InternalKey>, usize, String);

    impl InternalIterator for StringRun {
        type Error = Error;

        fn valid(&self) -> bool {
            self.1 < self.0.len()
        }
        fn seek_to_first(&mut self) {
            self.1 = 0;
        }
        fn next(&mut self) {
            self.1 += 1;
        }
        fn key(&self) -> &[u8] {
            self.0[self.1].as_bytes()
        }
        fn value(&self) -> &[u8] {
            self.2.as_bytes()
        }
        fn status(&self) -> Result<()> {
            Ok(())
        }
        fn seek_to_last(&mut self) {}
        fn seek(&mut self, _: &[u8]) {}
        fn prev(&mut self) {}
    }

    fn parse_key(word: &str) -> InternalKey {
        let (user_key, sequence) = word.split_once('@').unwrap();
        InternalKey::new(user_key.as_bytes(), sequence.parse().unwrap(), ValueType::Value)
    }

    fn merged(order: Arc<dyn Comparator>, prefix_len: usize, runs: &[&str]) -> String {
        let runs = runs
            .iter()
            .enumerate()
            .map(|(number, words)| {
                let keys = words.split_whitespace().map(parse_key).collect();
                StringRun(keys, usize::MAX, number.to_string())
            })
            .collect();
        let mut merged = LoserTree::new(InternalComparator::new(order), runs, prefix_len, None);
        let mut text = Vec::new();
        while let Some((key, run)) = merged.entry() {
            let user_key = key::user_key(key).escape_ascii();
            text.push(format!("{user_key}@{}:{}", key::trailer(key) >> 8, run.escape_ascii()));
            merged.next();
        }
        text.join(" ")
    }

    #[track_caller]
    fn check(prefix_len: usize, runs: &[&str], expect: &str) {
        assert_eq!(merged(bytewise(), prefix_len, runs), expect);
    }

    #[test]
    fn no_runs() {
        check(0, &[], "");
        check(0, &["", ""], "");
    }

    #[test]
    fn single_run() {
        check(0, &["a@1 b@2"], "a@1:0 b@2:0");
    }

    #[test]
    fn newest_version_first_then_first_run() {
        check(0, &["k@7", "j@1 k@9", "k@7 l@0"], "j@1:1 k@9:1 k@7:0 k@7:2 l@0:2");
    }

    #[test]
    fn keys_that_differ_after_their_heads() {
        check(
            2,
            &["aa@1 aabcdefghi@1 aabcdefghk@1", "aabcdefghj@1 aac@1"],
            "aa@1:0 aabcdefghi@1:0 aabcdefghj@1:1 aabcdefghk@1:0 aac@1:1",
        );
    }

    #[test]
    fn maximum_heads_precede_exhausted_runs() {
        let run = |user_key: &[u8], number: usize| {
            StringRun(vec![InternalKey::new(user_key, 1, ValueType::Value)], usize::MAX, number.to_string())
        };
        for (first, second) in [(0, 1), (1, 0)] {
            let keys = [[0xff; 8].as_slice(), [0xff; 9].as_slice()];
            let runs = vec![
                StringRun(Vec::new(), 0, String::new()),
                run(keys[first], first),
                run(keys[second], second),
            ];
            let mut merged = LoserTree::new(InternalComparator::new(bytewise()), runs, 0, None);
            for number in ["0", "1"] {
                assert_eq!(merged.entry().unwrap().1, number.as_bytes());
                merged.next();
            }
            assert!(merged.entry().is_none());
        }
    }

    #[test]
    fn custom_comparator_order() {
        let runs = ["ccc@1 a@1", "bb@1 b@1", "aaaa@1"];
        assert_eq!(merged(Arc::new(LongestFirst), 0, &runs), "aaaa@1:2 ccc@1:0 bb@1:1 a@1:0 b@1:1");
    }

    #[test]
    fn matches_sorting_for_any_number_of_runs() {
        for count in 1..=17usize {
            let mut runs = vec![String::new(); count];
            for n in 0..40 {
                runs[(n * 7 + n / 3) % count] += &format!("{n:03}@1 ");
            }
            let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
            let expect: Vec<String> =
                (0..40).map(|n| format!("{n:03}@1:{}", (n * 7 + n / 3) % count)).collect();
            check(0, &runs, &expect.join(" "));
        }
    }
}
