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

use super::arena::{Arena, ArenaPtr, ArenaRecord, RecordPtr};
use super::tagged_ptr::{AtomicTaggedPtr, Tagged};

/// A version and, behind it, all older ones.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum VersionChain {
    /// There is no other one.
    Single(RecordPtr),
    Multiple(ArenaPtr<VersionNode>),
}

/// One of several versions.
pub(super) struct VersionNode {
    record: RecordPtr,
    /// Changes only when a version arrives late.
    older: AtomicTaggedPtr,
    /// Some version that is not newer than `older`. Never changes.
    jump: AtomicTaggedPtr,
    /// How many older ones there were; a little less is no harm, it only decides how far jumps go.
    depth: usize,
}

impl Arena {
    /// The newest version of `entry`.
    pub(super) fn newest_record(&self, entry: VersionChain) -> ArenaRecord<'_> {
        self.read_record(self.newest_record_ptr(entry))
    }

    pub(super) fn older_versions(&self, entry: VersionChain) -> Option<VersionChain> {
        match entry {
            VersionChain::Single(_) => None,
            VersionChain::Multiple(at) => self.get(at).older.load_versions(),
        }
    }

    /// The oldest version whose trailer is `above` a border, and the version behind it. What is above comes first.
    pub(super) fn split_at(
        &self,
        entry: VersionChain,
        above: impl Fn(u64) -> bool,
    ) -> (Option<VersionChain>, Option<VersionChain>) {
        let above = |entry| above(self.newest_trailer(entry));
        if !above(entry) {
            return (None, Some(entry));
        }
        let mut here = entry;
        while let VersionChain::Multiple(at) = here {
            let (jump, older) = (self.get(at).jump.load_versions(), self.get(at).older.load_versions());
            match jump.filter(|&jump| above(jump)).or(older.filter(|&older| above(older))) {
                Some(next) => here = next,
                None => return (Some(here), older),
            }
        }
        (Some(here), None)
    }

    /// Adds a version. Gives what stands first then.
    pub(super) fn push_version(&self, entry: VersionChain, record: RecordPtr) -> VersionChain {
        let head = match entry {
            VersionChain::Single(first) => self.new_version_node(first, None),
            head @ VersionChain::Multiple(_) => head,
        };
        let trailer = key::trailer(self.read_record(record).key);
        let (newer, older) = self.split_at(head, |other| other > trailer);
        let added = self.new_version_node(record, older);
        match newer {
            Some(VersionChain::Multiple(newer)) => {
                self.get(newer).older.store(Tagged::Versions(added));
                head
            }
            _ => added,
        }
    }

    /// `record` with the versions from `older` on behind it.
    fn new_version_node(&self, record: RecordPtr, older: Option<VersionChain>) -> VersionChain {
        let (older, jump, depth) = match older {
            None => (Tagged::Null, Tagged::Null, 0),
            Some(older) => {
                let (far, farther) = (self.jump_target(older), self.jump_target(self.jump_target(older)));
                let near = self.chain_depth(older) - self.chain_depth(far);
                let is_as_far = near == self.chain_depth(far) - self.chain_depth(farther);
                let jump = if is_as_far { farther } else { older };
                (Tagged::Versions(older), Tagged::Versions(jump), self.chain_depth(older) + 1)
            }
        };
        VersionChain::Multiple(self.alloc_value(VersionNode {
            record,
            older: AtomicTaggedPtr::new(older),
            jump: AtomicTaggedPtr::new(jump),
            depth,
        }))
    }

    pub(super) fn newest_record_ptr(&self, entry: VersionChain) -> RecordPtr {
        match entry {
            VersionChain::Single(record) => record,
            VersionChain::Multiple(at) => self.get(at).record,
        }
    }

    fn newest_trailer(&self, entry: VersionChain) -> u64 {
        key::trailer(self.newest_record(entry).key)
    }

    fn jump_target(&self, entry: VersionChain) -> VersionChain {
        match entry {
            VersionChain::Single(_) => entry,
            VersionChain::Multiple(at) => self.get(at).jump.load_versions().unwrap_or(entry),
        }
    }

    fn chain_depth(&self, entry: VersionChain) -> usize {
        match entry {
            VersionChain::Single(_) => 0,
            VersionChain::Multiple(at) => self.get(at).depth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::insert_mode::InsertMode;
    use super::*;
    use crate::sync::Arc;

    fn add(arena: &Arena, head: Option<VersionChain>, number: u64) -> VersionChain {
        let record = arena.add_record(b"key", number, b"", InsertMode::Concurrent);
        head.map_or(VersionChain::Single(record), |head| arena.push_version(head, record))
    }

    fn all(arena: &Arena, head: VersionChain) -> Vec<u64> {
        std::iter::successors(Some(head), |&at| arena.older_versions(at))
            .map(|at| arena.newest_trailer(at))
            .collect()
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
            let (newer, older) = arena.split_at(head, |number| number > border);
            let found = (newer.map(|at| arena.newest_trailer(at)), older.map(|at| arena.newest_trailer(at)));
            let expect = (
                expect.iter().rfind(|&&number| number > border).copied(),
                expect.iter().find(|&&number| number <= border).copied(),
            );
            assert_eq!(found, expect, "border {border} of {arrivals:?}");
        }
    }

    #[test]
    fn versions_arriving_in_order() {
        check(&[3]);
        check(&[1, 2]);
        check(&(1..200).collect::<Vec<_>>());
    }

    #[test]
    fn versions_arriving_out_of_order() {
        check(&[2, 1]);
        check(&[3, 1, 2]);
        check(&[3, 2, 1]);
        check(&[1, 2, 9, 7, 8, 3, 30, 5, 4, 6]);
        check(&(1..200u64).map(|i| i ^ 5).collect::<Vec<_>>());
        check(&(1..100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn equal_sequence_twice() {
        let arena = Arena::new(Arc::default(), false);
        let head = add(&arena, None, 5);
        let again = add(&arena, Some(head), 5);
        assert!(again != head, "the later stands first");
        assert_eq!(all(&arena, again), [5, 5]);
    }

    #[test]
    fn long_chain_search_is_logarithmic() {
        let arena = Arena::new(Arc::default(), false);
        let head = (1..100_000).fold(None, |head, number| Some(add(&arena, head, number)));
        let steps = std::cell::Cell::new(0);
        arena.split_at(head.unwrap(), |number| {
            steps.set(steps.get() + 1);
            number > 7
        });
        assert!(steps.get() < 100, "{} steps", steps.get());
    }
}
