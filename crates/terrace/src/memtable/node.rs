//! A node: keys in order, and for each what it leads to.
//!
//! ```text
//!   leaf    key 0        | key 1        | ...                   slots: the versions of each key
//!   inner   (all below)  | key 1        | ...                   slots: children; key i is the least of child i
//!           head         | head         | ...
//! ```
//!
//! A *head* is eight bytes of a key as a big-endian number, from where the keys of the node begin to differ: under the
//! bytewise order nearly every comparison ends there, in the node, without touching a record. Under another order heads
//! are zero, and every comparison asks the comparator.
//!
//! What all keys of a node begin with is *skipped*. A node with a key at either side (`low` is its least, `high` the
//! least behind it) only ever gets keys between those, which begin with what both begin with. A node at the edge of the
//! tree has no such limit: there each key is compared with the beginning of another, and if it begins differently less is
//! skipped from then on.
//!
//! Everything that readers race on is an atomic, changed under the latch only. What they see is true only if the latch
//! says so afterwards; until then it may be any mixture, but everything named is there.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::hint::select_unpredictable;

use terrace_format::comparator::Comparator;
use terrace_format::key;
use terrace_format::key_order::{common_prefix_len, head_after};

use super::arena::{Arena, ArenaPtr, RecordPtr};
use super::optimistic_latch::OptimisticLatch;
use super::tagged_ptr::{AtomicTaggedPtr, Tagged};
use super::version_chain::VersionChain;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering};

/// The most keys of a leaf, or children of an inner node. Few where a model checker tries every schedule.
pub(super) const NODE_FANOUT: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 4 } else { 64 };

/// So many more bytes of a common beginning are worth making all heads anew.
const MIN_PREFIX_GAIN: usize = 4;

/// The records of a tree, and their order.
pub(super) struct TreeContext {
    pub(super) arena: Arena,
    pub(super) user_comparator: Arc<dyn Comparator>,
    /// True if the order is that of the bytes, so that heads decide.
    pub(super) is_bytewise: bool,
}

impl TreeContext {
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if self.is_bytewise { a.cmp(b) } else { self.user_comparator.compare(a, b) }
    }

    fn head(&self, user_key: &[u8], skip: usize) -> u64 {
        // Nothing is left if a key is shorter than what is skipped: its node was split meanwhile.
        if self.is_bytewise { head_after(skip, user_key) } else { 0 }
    }

    pub(super) fn user_key(&self, entry: VersionChain) -> &[u8] {
        key::user_key(self.arena.newest_record(entry).key)
    }
}

/// True if both keys have `skip` bytes and begin with the same.
#[inline]
fn share_prefix(skip: usize, a: &[u8], b: &[u8]) -> bool {
    match (a.get(..skip), b.get(..skip)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[repr(align(64))]
pub(super) struct Node {
    pub(super) latch: OptimisticLatch,
    len: AtomicUsize,
    prefix_len: AtomicUsize,
    /// 0 for a leaf.
    pub(super) level: usize,
    /// No key is below; None at the left edge of the tree.
    lower_fence: Option<RecordPtr>,
    /// All keys are below; nothing at the right edge of the tree.
    upper_fence: AtomicTaggedPtr,
    /// The node behind on the same level.
    right_sibling: AtomicTaggedPtr,
    heads: [AtomicU64; NODE_FANOUT],
    slots: [AtomicTaggedPtr; NODE_FANOUT],
}

impl Node {
    pub(super) fn new(level: usize, low: Option<RecordPtr>) -> Node {
        Node {
            latch: OptimisticLatch::default(),
            len: AtomicUsize::new(0),
            prefix_len: AtomicUsize::new(0),
            level,
            lower_fence: low,
            upper_fence: AtomicTaggedPtr::new(Tagged::Null),
            right_sibling: AtomicTaggedPtr::new(Tagged::Null),
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| AtomicTaggedPtr::new(Tagged::Null)),
        }
    }

    /// The root above `child`, which is the root so far.
    pub(super) fn new_root(child: ArenaPtr<Node>, level: usize) -> Node {
        let root = Node::new(level, None);
        root.slots[0].store(Tagged::Node(child));
        root.len.store(1, Ordering::Release);
        root
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == NODE_FANOUT
    }

    pub(super) fn is_rightmost(&self) -> bool {
        self.upper_fence.load() == Tagged::Null
    }

    pub(super) fn right_sibling(&self) -> Option<ArenaPtr<Node>> {
        self.right_sibling.load_node()
    }

    pub(super) fn versions(&self, at: usize) -> Option<VersionChain> {
        self.slots.get(at)?.load_versions()
    }

    pub(super) fn child(&self, at: usize) -> Option<ArenaPtr<Node>> {
        self.slots.get(at)?.load_node()
    }

    /// The first key that is not below `user_key`, and whether it is the same. An inner node's begin with 1.
    pub(super) fn find(&self, ground: &TreeContext, user_key: &[u8]) -> (usize, bool) {
        let (first, len) = (self.first_key_index(), self.len());
        let skip = self.prefix_len.load(Ordering::Acquire);
        if skip > 0 && self.has_open_fence() {
            let Some(witness) = self.key(ground, first) else { return (first, false) };
            let (start, skipped) =
                (&user_key[..skip.min(user_key.len())], witness.get(..skip).unwrap_or(witness));
            match start.cmp(skipped) {
                Less => return (first, false),
                Greater => return (len, false),
                Equal => {}
            }
        }
        let head = ground.head(user_key, skip);
        let mut at = self.partition_point(first, len, |other| other < head);
        let is_tie = |at: usize| at < len && self.heads[at].load(Ordering::Acquire) == head;
        if !is_tie(at) {
            return (at, false);
        }
        let mut end =
            if is_tie(at + 1) { self.partition_point(at, len, |other| other <= head) } else { at + 1 };
        while at < end {
            let middle = at.midpoint(end);
            let Some(key) = self.key(ground, middle) else { return (at, false) };
            match ground.compare(user_key, key) {
                Less => end = middle,
                Equal => return (middle, true),
                Greater => at = middle + 1,
            }
        }
        (at, false)
    }

    /// As [`Node::find`] in a leaf, for a key that is likely behind all others.
    #[inline]
    pub(super) fn find_from_end(&self, ground: &TreeContext, user_key: &[u8]) -> (usize, bool) {
        let len = self.len();
        let skip = self.prefix_len.load(Ordering::Acquire);
        if len == 0 || !ground.is_bytewise {
            return self.find(ground, user_key);
        }
        let begins_like_all =
            skip == 0 || self.key(ground, 0).is_some_and(|witness| share_prefix(skip, user_key, witness));
        let last = self.heads.get(len - 1).map_or(u64::MAX, |head| head.load(Ordering::Acquire));
        let is_behind = begins_like_all && last < ground.head(user_key, skip);
        if is_behind { (len, false) } else { self.find(ground, user_key) }
    }

    /// The first from `first` to `len` whose head is not `below`.
    fn partition_point(&self, first: usize, len: usize, below: impl Fn(u64) -> bool) -> usize {
        let (mut at, mut size) = (first, len.saturating_sub(first));
        let is_below = |at: usize| below(self.heads[at].load(Ordering::Acquire));
        while size > 1 {
            let half = size / 2;
            // As good as random: a branch would be taken wrong every other time. The number of steps is always the same.
            at = select_unpredictable(is_below(at + half - 1), at + half, at);
            size -= half;
        }
        if size == 1 { at + usize::from(is_below(at)) } else { at }
    }

    /// Where the keys begin.
    fn first_key_index(&self) -> usize {
        usize::from(self.level > 0)
    }

    /// True if nothing limits what begins may come.
    fn has_open_fence(&self) -> bool {
        self.lower_fence.is_none() || self.is_rightmost()
    }

    fn min_key<'a>(&self, ground: &'a TreeContext) -> Option<&'a [u8]> {
        (self.len() > self.first_key_index()).then(|| self.key(ground, self.first_key_index()))?
    }

    fn key<'a>(&self, ground: &'a TreeContext, at: usize) -> Option<&'a [u8]> {
        match self.slots.get(at)?.load() {
            Tagged::Versions(entry) => Some(ground.user_key(entry)),
            Tagged::Node(child) => {
                Some(key::user_key(ground.arena.read_record(ground.arena.get(child).lower_fence?).key))
            }
            Tagged::Null => None,
        }
    }
}

/// Changes. Each is made with the latch taken, or before anybody knows of the node.
impl Node {
    pub(super) fn replace(&self, at: usize, entry: VersionChain) {
        self.slots[at].store(Tagged::Versions(entry));
    }

    /// Adds a key. There is room.
    pub(super) fn insert(&self, ground: &TreeContext, at: usize, user_key: &[u8], named: Tagged) {
        let len = self.len();
        self.shrink_prefix_for(ground, user_key);
        for pair in self.heads[at..=len].windows(2).rev() {
            pair[1].store(pair[0].load(Ordering::Relaxed), Ordering::Release);
        }
        for pair in self.slots[at..=len].windows(2).rev() {
            pair[1].copy_from(&pair[0]);
        }
        let head = ground.head(user_key, self.prefix_len.load(Ordering::Relaxed));
        self.heads[at].store(head, Ordering::Release);
        self.slots[at].store(named);
        self.len.store(len + 1, Ordering::Release);
    }

    /// Skips no more than `user_key` allows.
    fn shrink_prefix_for(&self, ground: &TreeContext, user_key: &[u8]) {
        if !ground.is_bytewise || !self.has_open_fence() {
            return;
        }
        let skip = self.prefix_len.load(Ordering::Relaxed);
        match self.min_key(ground) {
            // What differs is mostly at the end. If not, the next key tells.
            None => self.prefix_len.store(user_key.len().saturating_sub(size_of::<u64>()), Ordering::Release),
            Some(other) if skip > 0 && !share_prefix(skip, user_key, other) => {
                let shared = common_prefix_len(user_key, other);
                if shared < skip {
                    self.set_prefix_len(ground, shared);
                }
            }
            Some(_) => {}
        }
    }

    fn set_prefix_len(&self, ground: &TreeContext, skip: usize) {
        self.prefix_len.store(skip, Ordering::Release);
        for at in self.first_key_index()..self.len() {
            let head = ground.head(self.key(ground, at).unwrap_or_default(), skip);
            self.heads[at].store(head, Ordering::Release);
        }
    }

    /// Skips what all keys begin with, if that is worth it.
    fn recompute_prefix(&self, ground: &TreeContext) {
        if !ground.is_bytewise {
            return;
        }
        let record = |at: RecordPtr| key::user_key(ground.arena.read_record(at).key);
        let ends = match (self.lower_fence, self.upper_fence.load()) {
            (Some(low), Tagged::Versions(VersionChain::Single(high))) => Some((record(low), record(high))),
            _ => self.min_key(ground).zip(self.key(ground, self.len() - 1)),
        };
        let skip = ends.map_or(0, |(first, last)| common_prefix_len(first, last));
        let now = self.prefix_len.load(Ordering::Relaxed);
        if skip < now || skip >= now + MIN_PREFIX_GAIN {
            self.set_prefix_len(ground, skip);
        }
    }

    /// Gives what is from `at` on to a new node behind this one, and says what the least key there is.
    pub(super) fn split(&self, ground: &TreeContext, at: usize) -> Option<(ArenaPtr<Node>, RecordPtr)> {
        let least = match self.slots[at].load() {
            Tagged::Versions(entry) => ground.arena.newest_record_ptr(entry),
            Tagged::Node(child) => ground.arena.get(child).lower_fence?,
            Tagged::Null => return None,
        };
        let right = Node::new(self.level, Some(least));
        let moved = self.len() - at;
        for to in 0..moved {
            right.heads[to].store(self.heads[at + to].load(Ordering::Relaxed), Ordering::Relaxed);
            right.slots[to].copy_from(&self.slots[at + to]);
        }
        right.len.store(moved, Ordering::Relaxed);
        right.prefix_len.store(self.prefix_len.load(Ordering::Relaxed), Ordering::Relaxed);
        self.len.store(at, Ordering::Release);
        Some((self.link_right_sibling(ground, right, least), least))
    }

    /// Puts a new node with this record alone behind this one.
    pub(super) fn append_right_sibling(&self, ground: &TreeContext, record: RecordPtr) -> ArenaPtr<Node> {
        let right = Node::new(self.level, Some(record));
        let user_key = key::user_key(ground.arena.read_record(record).key);
        // What this node's keys begin with, the next ones will mostly begin with too.
        let first = self.key(ground, 0).filter(|_| ground.is_bytewise);
        let skip = first.map_or(0, |first| common_prefix_len(first, user_key));
        right.prefix_len.store(skip, Ordering::Relaxed);
        right.heads[0].store(ground.head(user_key, skip), Ordering::Relaxed);
        right.slots[0].store(Tagged::Versions(VersionChain::Single(record)));
        right.len.store(1, Ordering::Relaxed);
        self.link_right_sibling(ground, right, record)
    }

    /// Hangs in `right`, whose least key is `least`.
    fn link_right_sibling(&self, ground: &TreeContext, right: Node, least: RecordPtr) -> ArenaPtr<Node> {
        right.upper_fence.copy_from(&self.upper_fence);
        right.right_sibling.copy_from(&self.right_sibling);
        self.upper_fence.store(Tagged::Versions(VersionChain::Single(least)));
        right.recompute_prefix(ground);
        self.recompute_prefix(ground);
        let right = ground.arena.alloc_value(right);
        self.right_sibling.store(Tagged::Node(right));
        right
    }
}
