//! Versions of one key, newest first.
//!
//! ```text
//!   slot ──> [ 9 | depth 3 ] ──older──> [ 7 | 2 ] ──older──> [ 4 | 1 ] ──older──> [ 2 | 0 ]
//!                 └───────────jump─────────────────────────────────────────────────^
//! ```
//!
//! A key with a single version is its record alone. Each of several versions has a node with a link
//! to the next older version and a jump link. One version in eight is a *landmark*. The others jump
//! to the landmark before them, and landmarks jump to much older landmarks (a skew-binary jump
//! list, after Myers). A search for an old version of a key with many versions takes a logarithmic
//! number of steps. An overwrite reads only the newest version: few older ones are in the cache of
//! the processor.
//!
//! The order is by sequence number, not by arrival: writers that take consecutive sequence numbers
//! may arrive in the opposite order. One thread at a time adds versions, under the latch of the
//! leaf. Any number of threads read.
//!
//! Memory safety: all pointers of a chain point into the arena of the chain.
#![allow(unsafe_code)] // follows pointers into the arena

use terrace_format::key;

use super::arena::{Arena, ArenaPtr, ArenaRecord, RecordPtr};
use super::tagged_ptr::{AtomicTaggedPtr, Tag, TaggedPtr};

/// Size of a short record with its header, in bytes. Longer ones begin in other cache lines.
const TYPICAL_RECORD_SIZE: usize = 96;

/// Distance between landmarks, in versions.
const LANDMARK_PERIOD: usize = 8;

/// Pointer to the versions of one key, as slots and nodes store it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum VersionChainPtr {
    /// The only version.
    Single(RecordPtr),
    Multiple(ArenaPtr<VersionNode>),
}

impl VersionChainPtr {
    #[inline]
    pub(super) fn to_tagged(self) -> TaggedPtr {
        match self {
            VersionChainPtr::Single(record) => TaggedPtr::new(record, Tag::Record),
            VersionChainPtr::Multiple(node) => TaggedPtr::new(node, Tag::VersionNode),
        }
    }

    /// Returns the chain that `ptr` points to, or None for null and for a tree node.
    #[inline]
    pub(super) fn from_tagged(ptr: TaggedPtr) -> Option<VersionChainPtr> {
        match ptr.target()? {
            (Tag::Record, record) => Some(VersionChainPtr::Single(record)),
            (Tag::VersionNode, node) => Some(VersionChainPtr::Multiple(node.cast())),
            (Tag::TreeNode, _) => None,
        }
    }
}

/// One of several versions of a key.
pub(super) struct VersionNode {
    record: RecordPtr,
    /// Next older version. Changes only when a version arrives late.
    older: AtomicTaggedPtr,
    /// A version that is not newer than `older`. Never changes.
    jump: AtomicTaggedPtr,
    /// Number of older versions when this node was created. A late version makes it too small,
    /// which affects only the length of jumps.
    depth: usize,
}

/// A version of a key with all older ones, and the arena that holds them.
#[derive(Clone, Copy)]
pub(super) struct VersionChain<'a> {
    arena: &'a Arena,
    head: VersionChainPtr,
}

impl<'a> VersionChain<'a> {
    /// Returns the chain that begins at `head`.
    ///
    /// # Safety
    ///
    /// `head` points into `arena`, and the caller got it from an allocation or by an Acquire load
    /// that pairs with a Release store after the allocation.
    #[inline]
    pub(super) unsafe fn new(arena: &'a Arena, head: VersionChainPtr) -> VersionChain<'a> {
        VersionChain { arena, head }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> VersionChainPtr {
        self.head
    }

    /// Returns the newest version.
    #[inline]
    pub(super) fn newest_record(self) -> ArenaRecord<'a> {
        // SAFETY: the record belongs to this chain, so it lies in the chain's arena.
        unsafe { self.arena.read_record(self.newest_record_ptr()) }
    }

    pub(super) fn newest_record_ptr(self) -> RecordPtr {
        match self.head {
            VersionChainPtr::Single(record) => record,
            VersionChainPtr::Multiple(node) => {
                // An insert allocates the node after its record, so both come into the cache at the
                // same time.
                self.arena.prefetch_before(node, TYPICAL_RECORD_SIZE);
                self.node(node).record
            }
        }
    }

    /// Returns the chain without its newest version.
    pub(super) fn older(self) -> Option<VersionChain<'a>> {
        match self.head {
            VersionChainPtr::Single(_) => None,
            VersionChainPtr::Multiple(node) => self.follow(&self.node(node).older),
        }
    }

    /// Splits the chain by trailer. The first part begins at the oldest version whose trailer
    /// `is_above` accepts, the second part is the rest. Accepted versions come before all others.
    pub(super) fn split_at(
        self,
        is_above: impl Fn(u64) -> bool,
    ) -> (Option<VersionChain<'a>>, Option<VersionChain<'a>>) {
        let is_above = |chain: &VersionChain<'_>| is_above(chain.newest_trailer());
        if !is_above(&self) {
            return (None, Some(self));
        }
        let mut oldest = self;
        while let VersionChainPtr::Multiple(node) = oldest.head {
            let node = self.node(node);
            let jump = self.follow(&node.jump);
            let older = self.follow(&node.older);
            match jump.filter(is_above).or(older.filter(is_above)) {
                Some(next) => oldest = next,
                None => return (Some(oldest), older),
            }
        }
        (Some(oldest), None)
    }

    /// Adds a version and returns the new chain.
    ///
    /// # Safety
    ///
    /// `record` lies in the arena of this chain, and the caller added it.
    pub(super) unsafe fn push(self, record: RecordPtr) -> VersionChain<'a> {
        let chain = match self.head {
            VersionChainPtr::Single(first) => self.add_node(first, None),
            VersionChainPtr::Multiple(_) => self,
        };
        // SAFETY: the caller promises that the record lies in this arena.
        let trailer = key::trailer(unsafe { self.arena.read_record(record) }.key);
        let (newer, older) = chain.split_at(|other| other > trailer);
        let added = self.add_node(record, older);
        match newer.map(VersionChain::as_ptr) {
            Some(VersionChainPtr::Multiple(newer)) => {
                self.node(newer).older.store(added.head.to_tagged());
                chain
            }
            _ => added,
        }
    }

    /// Returns a chain of `record` and the versions of `older`, all in this arena.
    #[inline(always)]
    fn add_node(self, record: RecordPtr, older: Option<VersionChain<'a>>) -> VersionChain<'a> {
        let link = |chain: Option<VersionChain<'_>>| {
            AtomicTaggedPtr::new(chain.map_or(TaggedPtr::NULL, |chain| chain.head.to_tagged()))
        };
        let node = self.arena.alloc_value(VersionNode {
            record,
            older: link(older),
            jump: link(older.map(VersionChain::jump_for_newer)),
            depth: older.map_or(0, |older| older.depth() + 1),
        });
        VersionChain { head: VersionChainPtr::Multiple(node), ..self }
    }

    /// Returns the jump target of a new version before this chain. For a landmark, two jumps of
    /// equal length are joined to one.
    fn jump_for_newer(self) -> VersionChain<'a> {
        let depth = self.depth();
        let landmark = if depth.is_multiple_of(LANDMARK_PERIOD) { self } else { self.jump_target() };
        if !(depth + 1).is_multiple_of(LANDMARK_PERIOD) {
            return landmark;
        }
        let far = landmark.jump_target();
        let farther = far.jump_target();
        let near_distance = landmark.depth() - far.depth();
        let far_distance = far.depth() - farther.depth();
        if near_distance == far_distance { farther } else { landmark }
    }

    fn newest_trailer(self) -> u64 {
        key::trailer(self.newest_record().key)
    }

    fn jump_target(self) -> VersionChain<'a> {
        match self.head {
            VersionChainPtr::Single(_) => self,
            VersionChainPtr::Multiple(node) => self.follow(&self.node(node).jump).unwrap_or(self),
        }
    }

    fn depth(self) -> usize {
        match self.head {
            VersionChainPtr::Single(_) => 0,
            VersionChainPtr::Multiple(node) => self.node(node).depth,
        }
    }

    /// Returns the chain that a link of one of this chain's nodes points to.
    #[inline]
    fn follow(self, link: &AtomicTaggedPtr) -> Option<VersionChain<'a>> {
        VersionChainPtr::from_tagged(link.load()).map(|head| VersionChain { head, ..self })
    }

    #[inline]
    fn node(self, node: ArenaPtr<VersionNode>) -> &'a VersionNode {
        // SAFETY: this private method gets only nodes of this chain. `push` stores no pointer to
        // another arena in them, and each link is loaded with Acquire.
        unsafe { self.arena.get(node) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::insert_mode::InsertMode;
    use super::*;
    use crate::sync::Arc;

    fn add<'a>(arena: &'a Arena, chain: Option<VersionChain<'a>>, sequence: u64) -> VersionChain<'a> {
        let record = arena.add_record(b"key", sequence, b"", InsertMode::Concurrent);
        match chain {
            // SAFETY: the line above added the record to the arena of the chain.
            Some(chain) => unsafe { chain.push(record) },
            // SAFETY: the line above added the record to `arena`.
            None => unsafe { VersionChain::new(arena, VersionChainPtr::Single(record)) },
        }
    }

    fn trailers(chain: VersionChain<'_>) -> Vec<u64> {
        std::iter::successors(Some(chain), |chain| chain.older()).map(VersionChain::newest_trailer).collect()
    }

    /// Adds versions in the order of `arrivals`. The chain holds them in the order of their
    /// sequence numbers, and a search finds each.
    #[track_caller]
    fn check(arrivals: &[u64]) {
        let arena = Arena::new(Arc::default(), false);
        let chain =
            arrivals.iter().fold(None, |chain, &sequence| Some(add(&arena, chain, sequence))).unwrap();
        let mut sorted = arrivals.to_vec();
        sorted.sort_by(|a, b| b.cmp(a));
        assert_eq!(trailers(chain), sorted, "{arrivals:?}");
        for bound in 0..=sorted[0] + 1 {
            let (newer, older) = chain.split_at(|sequence| sequence > bound);
            let found = (newer.map(VersionChain::newest_trailer), older.map(VersionChain::newest_trailer));
            let expected = (
                sorted.iter().rfind(|&&sequence| sequence > bound).copied(),
                sorted.iter().find(|&&sequence| sequence <= bound).copied(),
            );
            assert_eq!(found, expected, "bound {bound} of {arrivals:?}");
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
        let first = add(&arena, None, 5);
        let second = add(&arena, Some(first), 5);
        assert!(second.as_ptr() != first.as_ptr(), "the later version comes first");
        assert_eq!(trailers(second), [5, 5]);
    }

    #[test]
    fn long_chain_search_is_logarithmic() {
        let arena = Arena::new(Arc::default(), false);
        let chain = (1..100_000).fold(None, |chain, sequence| Some(add(&arena, chain, sequence)));
        let steps = std::cell::Cell::new(0);
        chain.unwrap().split_at(|sequence| {
            steps.set(steps.get() + 1);
            sequence > 7
        });
        assert!(steps.get() < 100, "{} steps", steps.get());
    }
}
