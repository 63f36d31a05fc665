//! Sorted runs as one, walked once from front to back.
//!
//! ```text
//!   a tree of losers        node 1 keeps who lost its match, the winner went on upwards;
//!                           after a step of the winner only the matches on its way up are played again
//!        1:  b
//!       /     \            winner: d
//!     2: a    3: c
//!     /  \    /  \
//!    a    b  c    d
//! ```
//!
//! Most matches are decided by the heads: the eight bytes of the user key behind what all keys share. Of keys that are
//! the same, that of the run that was given first comes first.

use std::hint::select_unpredictable;

use terrace_format::comparator::Comparator;
use terrace_format::key::{self, InternalComparator};
use terrace_format::key_order::head_after;

use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;

/// A walk over several runs.
pub(super) struct LoserTree<R> {
    comparator: InternalComparator,
    /// How many bytes of a key its head passes over.
    prefix_len: usize,
    runs: Vec<R>,
    /// Node i has the children 2i and 2i + 1; run r stands below, as node r + the number of runs.
    losers: Vec<Contender>,
    winner: Contender,
}

/// A run in its matches.
#[derive(Clone, Copy)]
struct Contender {
    /// Of the key that it stands at; behind the last entry the greatest there is, which a key may have, too.
    head: u64,
    run: usize,
}

impl<R: InternalIterator<Error = Error>> LoserTree<R> {
    /// Stands at the first entry that is not below `from`. All user keys begin with the same `prefix` bytes, if the order is
    /// that of bytes.
    pub(super) fn new(
        comparator: InternalComparator,
        runs: Vec<R>,
        prefix: usize,
        from: Option<&[u8]>,
    ) -> LoserTree<R> {
        let nobody = Contender { head: u64::MAX, run: 0 };
        let losers = vec![nobody; runs.len()];
        let mut merged = LoserTree { comparator, prefix_len: prefix, runs, losers, winner: nobody };
        merged.runs.iter_mut().for_each(|run| match from {
            Some(from) => run.seek(from),
            None => run.seek_to_first(),
        });
        if !merged.runs.is_empty() {
            merged.winner = merged.build_subtree(1);
        }
        merged
    }

    /// The key and the value here, if there is a here.
    #[inline]
    pub(super) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.runs.get(self.winner.run)?.entry()
    }

    /// To the entry behind. Only at an entry.
    pub(super) fn next(&mut self) {
        let run = self.winner.run;
        self.runs[run].next();
        let mut winner = self.contender(run);
        let mut node = (run + self.runs.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            // As good as random: a branch would be taken wrong every other time.
            let other_wins = self.precedes(loser, winner);
            self.losers[node] = select_unpredictable(other_wins, winner, loser);
            winner = select_unpredictable(other_wins, loser, winner);
            node /= 2;
        }
        self.winner = winner;
    }

    /// The first damage met so far.
    pub(super) fn status(&self) -> Result<()> {
        self.runs.iter().try_for_each(R::status)
    }

    /// Plays every match below `node`, and says who won.
    fn build_subtree(&mut self, node: usize) -> Contender {
        if node >= self.runs.len() {
            return self.contender(node - self.runs.len());
        }
        let (a, b) = (self.build_subtree(2 * node), self.build_subtree(2 * node + 1));
        let (winner, loser) = if self.precedes(a, b) { (a, b) } else { (b, a) };
        self.losers[node] = loser;
        winner
    }

    #[inline]
    fn precedes(&self, a: Contender, b: Contender) -> bool {
        if a.head == b.head { self.precedes_by_key(a.run, b.run) } else { a.head < b.head }
    }

    /// Who is at an entry is before who is not.
    #[inline(never)]
    fn precedes_by_key(&self, a: usize, b: usize) -> bool {
        match (self.runs[a].entry(), self.runs[b].entry()) {
            (Some((x, _)), Some((y, _))) => self.comparator.compare(x, y).then(a.cmp(&b)).is_lt(),
            (x, y) => x.is_some() && y.is_none(),
        }
    }

    /// `run` as it stands.
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

    /// Keys in the order of the longest first, then of the bytes.
    struct LongestFirst;

    impl Comparator for LongestFirst {
        fn name(&self) -> &str {
            "test.LongestFirst"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.len().cmp(&a.len()).then_with(|| a.cmp(b))
        }
    }

    /// A run of `key@sequence`, each with the run's number for its value.
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

    fn merged(order: Arc<dyn Comparator>, prefix: usize, runs: &[&str]) -> String {
        let run = |(number, words): (usize, &&str)| {
            let key = |word: &str| {
                let (user, sequence) = word.split_once('@').unwrap();
                InternalKey::new(user.as_bytes(), sequence.parse().unwrap(), ValueType::Value)
            };
            StringRun(words.split_whitespace().map(key).collect(), usize::MAX, number.to_string())
        };
        let runs = runs.iter().enumerate().map(run).collect();
        let mut merged = LoserTree::new(InternalComparator::new(order), runs, prefix, None);
        let mut text = Vec::new();
        while let Some((key, run)) = merged.entry() {
            let (user, sequence) = (key::user_key(key), key::trailer(key) >> 8);
            text.push(format!("{}@{sequence}:{}", user.escape_ascii(), run.escape_ascii()));
            merged.next();
        }
        text.join(" ")
    }

    #[track_caller]
    fn check(prefix: usize, runs: &[&str], expect: &str) {
        assert_eq!(merged(bytewise(), prefix, runs), expect);
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
        let run = |user: &[u8], number: usize| {
            StringRun(vec![InternalKey::new(user, 1, ValueType::Value)], usize::MAX, number.to_string())
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
            let words = |run: usize| (0..40).filter(move |n| (n * 7 + n / 3) % count == run);
            let runs: Vec<String> = (0..count)
                .map(|run| words(run).map(|n| format!("{n:03}@1")).collect::<Vec<_>>().join(" "))
                .collect();
            let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
            let expect: Vec<String> =
                (0..40).map(|n| format!("{n:03}@1:{}", (n * 7 + n / 3) % count)).collect();
            check(0, &runs, &expect.join(" "));
        }
    }
}
