//! The versions of one key, newest first.
//!
//! ```text
//!   slot ──> [ 9 | depth 3 ] ──older──> [ 7 | 2 ] ──older──> [ 4 | 1 ] ──older──> [ 2 | 0 ]
//!                 └───────────jump─────────────────────────────────────────────────^
//! ```
//!
//! A key that was written once is its record alone. Each of several versions stands before the older ones, with a link
//! far ahead besides (a list with jumps, after Myers): an old version of a key that was overwritten many times since is found
//! in a logarithmic number of steps.
//!
//! Order is by number, whatever the order of arrival: writers that take their numbers one after the other may arrive
//! here the other way round. One thread at a time adds, under the latch of the leaf; any number read.

use terrace_format::key;

use super::arena::{Arena, At, Record, RecordAt};
use super::slot::{Named, Slot};

/// A version and, behind it, all older ones.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Entry {
    /// There is no other one.
    Only(RecordAt),
    Newest(At<Versions>),
}

/// One of several versions.
pub(super) struct Versions {
    record: RecordAt,
    /// Changes only when a version arrives late.
    older: Slot,
    /// Some version that is not newer than `older`. Never changes.
    jump: Slot,
    /// How many older ones there were; a little less is no harm, it only decides how far jumps go.
    depth: usize,
}

impl Arena {
    /// The newest version of `entry`.
    pub(super) fn newest(&self, entry: Entry) -> Record<'_> {
        self.read(self.record_at(entry))
    }

    pub(super) fn older(&self, entry: Entry) -> Option<Entry> {
        match entry {
            Entry::Only(_) => None,
            Entry::Newest(at) => self.get(at).older.entry(),
        }
    }

    /// The oldest version whose trailer is `above` a border, and the version behind it. What is above comes first.
    pub(super) fn border(&self, entry: Entry, above: impl Fn(u64) -> bool) -> (Option<Entry>, Option<Entry>) {
        let above = |entry| above(self.trailer(entry));
        if !above(entry) {
            return (None, Some(entry));
        }
        let mut here = entry;
        while let Entry::Newest(at) = here {
            let (jump, older) = (self.get(at).jump.entry(), self.get(at).older.entry());
            match jump.filter(|&jump| above(jump)).or(older.filter(|&older| above(older))) {
                Some(next) => here = next,
                None => return (Some(here), older),
            }
        }
        (Some(here), None)
    }

    /// Adds a version. Gives what stands first then.
    pub(super) fn with(&self, entry: Entry, record: RecordAt) -> Entry {
        let head = match entry {
            Entry::Only(first) => self.link(first, None),
            head @ Entry::Newest(_) => head,
        };
        let trailer = key::trailer(self.read(record).key);
        let (newer, older) = self.border(head, |other| other > trailer);
        let added = self.link(record, older);
        match newer {
            Some(Entry::Newest(newer)) => {
                self.get(newer).older.store(Named::Entry(added));
                head
            }
            _ => added,
        }
    }

    /// `record` with the versions from `older` on behind it.
    fn link(&self, record: RecordAt, older: Option<Entry>) -> Entry {
        let (older, jump, depth) = match older {
            None => (Named::Nothing, Named::Nothing, 0),
            Some(older) => {
                let (far, farther) = (self.jump(older), self.jump(self.jump(older)));
                let near = self.depth(older) - self.depth(far);
                let is_as_far = near == self.depth(far) - self.depth(farther);
                let jump = if is_as_far { farther } else { older };
                (Named::Entry(older), Named::Entry(jump), self.depth(older) + 1)
            }
        };
        Entry::Newest(self.put(Versions { record, older: Slot::new(older), jump: Slot::new(jump), depth }))
    }

    pub(super) fn record_at(&self, entry: Entry) -> RecordAt {
        match entry {
            Entry::Only(record) => record,
            Entry::Newest(at) => self.get(at).record,
        }
    }

    fn trailer(&self, entry: Entry) -> u64 {
        key::trailer(self.newest(entry).key)
    }

    fn jump(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Only(_) => entry,
            Entry::Newest(at) => self.get(at).jump.entry().unwrap_or(entry),
        }
    }

    fn depth(&self, entry: Entry) -> usize {
        match entry {
            Entry::Only(_) => 0,
            Entry::Newest(at) => self.get(at).depth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Company;
    use super::*;
    use crate::sync::Arc;

    fn add(arena: &Arena, head: Option<Entry>, number: u64) -> Entry {
        let record = arena.record(b"key", number, b"", Company::Others);
        head.map_or(Entry::Only(record), |head| arena.with(head, record))
    }

    fn all(arena: &Arena, head: Entry) -> Vec<u64> {
        std::iter::successors(Some(head), |&at| arena.older(at)).map(|at| arena.trailer(at)).collect()
    }

    /// Versions that arrive in this order stand in the order of their numbers, and are found.
    #[track_caller]
    fn check(arrivals: &[u64]) {
        let arena = Arena::new(Arc::default(), false);
        let head = arrivals.iter().fold(None, |head, &number| Some(add(&arena, head, number))).unwrap();
        let mut expect = arrivals.to_vec();
        expect.sort_by(|a, b| b.cmp(a));
        assert_eq!(all(&arena, head), expect, "{arrivals:?}");
        for border in 0..=expect[0] + 1 {
            let (newer, older) = arena.border(head, |number| number > border);
            let found = (newer.map(|at| arena.trailer(at)), older.map(|at| arena.trailer(at)));
            let expect = (
                expect.iter().rfind(|&&number| number > border).copied(),
                expect.iter().find(|&&number| number <= border).copied(),
            );
            assert_eq!(found, expect, "border {border} of {arrivals:?}");
        }
    }

    #[test]
    fn in_order() {
        check(&[3]);
        check(&[1, 2]);
        check(&(1..200).collect::<Vec<_>>());
    }

    #[test]
    fn late() {
        check(&[2, 1]);
        check(&[3, 1, 2]);
        check(&[3, 2, 1]);
        check(&[1, 2, 9, 7, 8, 3, 30, 5, 4, 6]);
        check(&(1..200u64).map(|i| i ^ 5).collect::<Vec<_>>());
        check(&(1..100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_same_twice() {
        let arena = Arena::new(Arc::default(), false);
        let head = add(&arena, None, 5);
        let again = add(&arena, Some(head), 5);
        assert!(again != head, "the later stands first");
        assert_eq!(all(&arena, again), [5, 5]);
    }

    #[test]
    fn a_long_history_is_searched_in_few_steps() {
        let arena = Arena::new(Arc::default(), false);
        let head = (1..100_000).fold(None, |head, number| Some(add(&arena, head, number)));
        let steps = std::cell::Cell::new(0);
        arena.border(head.unwrap(), |number| {
            steps.set(steps.get() + 1);
            number > 7
        });
        assert!(steps.get() < 100, "{} steps", steps.get());
    }
}
