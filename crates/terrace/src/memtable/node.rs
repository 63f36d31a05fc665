//! Node of the memtable's B+-tree: keys in order, each with its slot.
//!
//! ```text
//!   leaf    key 0      | key 1      | ...     slots: the versions of each key
//!   inner   (no key)   | key 1      | ...     slots: children; key i is the smallest of child i
//!           head       | head       | ...
//! ```
//!
//! A *head* is eight bytes of a key as a big-endian integer, from the byte at which the keys of the
//! node begin to differ. With the bytewise comparator, nearly every comparison compares two heads,
//! in the node, without an access to a record. With another comparator all heads are zero, and
//! every comparison calls the comparator.
//!
//! The heads skip the *common prefix* of the keys. A node with both fences gets only keys between
//! them: `lower_fence` is its smallest key, `upper_fence` the smallest key of the right sibling.
//! Such keys begin with the common prefix of both fences. A node at the edge of the tree lacks a
//! fence. There, a search compares the prefix of its key with that of another key. An insert of a
//! key with another prefix shortens the common prefix.
//!
//! The fields that readers and writers race on are atomics, and writers change them only under the
//! latch. A reader may see any mixture of old and new values. It discards them unless the latch
//! validates, but every pointer that it loads is safe to follow.
//!
//! Memory safety: a node lies in the arena of its tree, and all its pointers point into that arena.
//! A tree has one [`TreeContext`], and the methods of its nodes get that context.
#![allow(unsafe_code)] // follows pointers into the arena

use std::cmp::Ordering::{Equal, Greater, Less};
use std::hint::select_unpredictable;
use std::ptr::NonNull;

use terrace_format::comparator::Comparator;
use terrace_format::key;
use terrace_format::key_order::{common_prefix_len, head_after};

use super::arena::{Arena, ArenaPtr, RecordPtr};
use super::optimistic_latch::OptimisticLatch;
use super::tagged_ptr::{AtomicTaggedPtr, Tag, TaggedPtr};
use super::version_chain::{VersionChain, VersionChainPtr};
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of keys of a leaf, and of children of an inner node. Smaller for the model
/// checkers, which try every schedule.
pub(super) const NODE_FANOUT: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 4 } else { 64 };

/// Growth of the common prefix, in bytes, that justifies computing all heads of a node again.
const MIN_PREFIX_GAIN: usize = 4;

/// Arena of a tree, and the order of its keys.
pub(super) struct TreeContext {
    pub(super) arena: Arena,
    pub(super) user_comparator: Arc<dyn Comparator>,
    /// True if the comparator orders keys by their bytes, so that heads decide.
    pub(super) is_bytewise: bool,
}

impl TreeContext {
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if self.is_bytewise { a.cmp(b) } else { self.user_comparator.compare(a, b) }
    }

    fn head(&self, user_key: &[u8], prefix_len: usize) -> u64 {
        // A key that is shorter than the prefix has an empty rest: another thread split its node.
        if self.is_bytewise { head_after(prefix_len, user_key) } else { 0 }
    }
}

/// Returns true if both keys have at least `prefix_len` bytes and agree in them.
#[inline]
fn share_prefix(prefix_len: usize, a: &[u8], b: &[u8]) -> bool {
    match (a.get(..prefix_len), b.get(..prefix_len)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[repr(align(64))]
pub(super) struct Node {
    pub(super) latch: OptimisticLatch,
    len: AtomicUsize,
    prefix_len: AtomicUsize,
    /// Distance from the leaves: 0 for a leaf.
    pub(super) level: usize,
    /// Smallest key that the node may hold. None at the left edge of the tree.
    lower_fence: Option<RecordPtr>,
    /// Record that is greater than all keys of the node. Null at the right edge of the tree.
    upper_fence: AtomicTaggedPtr,
    /// Next node on the same level.
    right_sibling: AtomicTaggedPtr,
    heads: [AtomicU64; NODE_FANOUT],
    slots: [AtomicTaggedPtr; NODE_FANOUT],
}

impl Node {
    pub(super) fn new(level: usize, lower_fence: Option<RecordPtr>) -> Node {
        Node {
            latch: OptimisticLatch::default(),
            len: AtomicUsize::new(0),
            prefix_len: AtomicUsize::new(0),
            level,
            lower_fence,
            upper_fence: AtomicTaggedPtr::new(TaggedPtr::NULL),
            right_sibling: AtomicTaggedPtr::new(TaggedPtr::NULL),
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| AtomicTaggedPtr::new(TaggedPtr::NULL)),
        }
    }

    /// Creates the root above `child`, which is the current root.
    pub(super) fn new_root(child: &Node) -> Node {
        let root = Node::new(child.level + 1, None);
        root.slots[0].store(child.to_tagged());
        root.len.store(1, Ordering::Release);
        root
    }

    /// Returns the address of this node. Only the address of a node in an arena may be followed.
    pub(super) fn as_ptr(&self) -> ArenaPtr<Node> {
        ArenaPtr::from_non_null(NonNull::from(self))
    }

    pub(super) fn to_tagged(&self) -> TaggedPtr {
        TaggedPtr::new(self.as_ptr(), Tag::TreeNode)
    }

    /// Returns the node that `link` points to, or None for null.
    ///
    /// # Safety
    ///
    /// `link` is null or points into `arena`.
    #[inline]
    pub(super) unsafe fn follow<'a>(link: &AtomicTaggedPtr, arena: &'a Arena) -> Option<&'a Node> {
        match link.load().target()? {
            // SAFETY: the caller promises a target in `arena`, the tag says that it is a node, and
            // the Acquire load of the link comes after its initialization.
            (Tag::TreeNode, node) => Some(unsafe { arena.get(node.cast()) }),
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == NODE_FANOUT
    }

    pub(super) fn is_rightmost(&self) -> bool {
        self.upper_fence.load() == TaggedPtr::NULL
    }

    pub(super) fn right_sibling<'a>(&self, context: &'a TreeContext) -> Option<&'a Node> {
        // SAFETY: only `link_right_sibling` sets this link, to a node in the arena of the tree.
        unsafe { Node::follow(&self.right_sibling, &context.arena) }
    }

    pub(super) fn versions<'a>(&self, context: &'a TreeContext, index: usize) -> Option<VersionChain<'a>> {
        let versions = VersionChainPtr::from_tagged(self.slots.get(index)?.load())?;
        // SAFETY: slots hold only pointers into the arena of the tree, and `load` is an Acquire
        // load.
        Some(unsafe { VersionChain::new(&context.arena, versions) })
    }

    pub(super) fn child<'a>(&self, context: &'a TreeContext, index: usize) -> Option<&'a Node> {
        // SAFETY: slots hold only pointers into the arena of the tree.
        unsafe { Node::follow(self.slots.get(index)?, &context.arena) }
    }

    /// Returns the index of the first key that is not below `user_key`, and whether the two are
    /// equal. The keys of an inner node begin at index 1.
    pub(super) fn find(&self, context: &TreeContext, user_key: &[u8]) -> (usize, bool) {
        let first = self.first_key_index();
        let len = self.len();
        let prefix_len = self.prefix_len.load(Ordering::Acquire);
        if prefix_len > 0 && self.has_open_fence() {
            let Some(any_key) = self.key(context, first) else { return (first, false) };
            let prefix = any_key.get(..prefix_len).unwrap_or(any_key);
            match user_key[..prefix_len.min(user_key.len())].cmp(prefix) {
                Less => return (first, false),
                Greater => return (len, false),
                Equal => {}
            }
        }
        let head = context.head(user_key, prefix_len);
        let mut index = self.partition_point(first, len, |other| other < head);
        let has_equal_head = |index: usize| index < len && self.heads[index].load(Ordering::Acquire) == head;
        if !has_equal_head(index) {
            return (index, false);
        }
        let mut end = if has_equal_head(index + 1) {
            self.partition_point(index, len, |other| other <= head)
        } else {
            index + 1
        };
        while index < end {
            let middle = index.midpoint(end);
            let Some(key) = self.key(context, middle) else { return (index, false) };
            match context.compare(user_key, key) {
                Less => end = middle,
                Equal => return (middle, true),
                Greater => index = middle + 1,
            }
        }
        (index, false)
    }

    /// Searches a leaf like [`Node::find`], faster for a key that is greater than all others.
    #[inline]
    pub(super) fn find_from_end(&self, context: &TreeContext, user_key: &[u8]) -> (usize, bool) {
        let len = self.len();
        let prefix_len = self.prefix_len.load(Ordering::Acquire);
        if len == 0 || !context.is_bytewise {
            return self.find(context, user_key);
        }
        let has_common_prefix = prefix_len == 0
            || self.key(context, 0).is_some_and(|any_key| share_prefix(prefix_len, user_key, any_key));
        let last = self.heads.get(len - 1).map_or(u64::MAX, |head| head.load(Ordering::Acquire));
        let is_greatest = has_common_prefix && last < context.head(user_key, prefix_len);
        if is_greatest { (len, false) } else { self.find(context, user_key) }
    }

    /// Returns the first index from `first` to `len` whose head is not `below`.
    fn partition_point(&self, first: usize, len: usize, below: impl Fn(u64) -> bool) -> usize {
        let mut index = first;
        let mut size = len.saturating_sub(first);
        let is_below = |index: usize| below(self.heads[index].load(Ordering::Acquire));
        while size > 1 {
            let half = size / 2;
            // Processors mispredict every other branch on a random head. A conditional move avoids
            // the branch, and the number of steps depends only on `size`.
            index = select_unpredictable(is_below(index + half - 1), index + half, index);
            size -= half;
        }
        if size == 1 { index + usize::from(is_below(index)) } else { index }
    }

    /// Returns the index of the first key.
    fn first_key_index(&self) -> usize {
        usize::from(self.level > 0)
    }

    /// Returns true if a fence is missing, so that keys with any prefix may come.
    fn has_open_fence(&self) -> bool {
        self.lower_fence.is_none() || self.is_rightmost()
    }

    fn min_key<'a>(&self, context: &'a TreeContext) -> Option<&'a [u8]> {
        (self.len() > self.first_key_index()).then(|| self.key(context, self.first_key_index()))?
    }

    /// Returns the key at `index`. An inner node has none at index 0.
    pub(super) fn key<'a>(&self, context: &'a TreeContext, index: usize) -> Option<&'a [u8]> {
        if self.level == 0 {
            Some(key::user_key(self.versions(context, index)?.newest_record().key))
        } else {
            self.child(context, index)?.lower_fence_key(context)
        }
    }

    fn lower_fence_key<'a>(&self, context: &'a TreeContext) -> Option<&'a [u8]> {
        // SAFETY: `split` and `append_right_sibling` create nodes with a fence. The fence is a
        // record of the tree, and it never changes.
        self.lower_fence.map(|fence| key::user_key(unsafe { context.arena.read_record(fence) }.key))
    }
}

/// Changes of a node. The caller holds its latch, or no other thread has the node's address yet.
impl Node {
    pub(super) fn replace(&self, index: usize, versions: VersionChain<'_>) {
        self.slots[index].store(versions.as_ptr().to_tagged());
    }

    /// Inserts a key at `index` of a node that is not full.
    ///
    /// # Safety
    ///
    /// `target` points into the arena of this node's tree: to versions for a leaf, to a node
    /// otherwise.
    pub(super) unsafe fn insert(
        &self,
        context: &TreeContext,
        index: usize,
        user_key: &[u8],
        target: TaggedPtr,
    ) {
        let len = self.len();
        self.shrink_prefix_for(context, user_key);
        for pair in self.heads[index..=len].windows(2).rev() {
            pair[1].store(pair[0].load(Ordering::Relaxed), Ordering::Release);
        }
        for pair in self.slots[index..=len].windows(2).rev() {
            pair[1].copy_from(&pair[0]);
        }
        let head = context.head(user_key, self.prefix_len.load(Ordering::Relaxed));
        self.heads[index].store(head, Ordering::Release);
        self.slots[index].store(target);
        self.len.store(len + 1, Ordering::Release);
    }

    /// Shortens the common prefix until `user_key` begins with it.
    fn shrink_prefix_for(&self, context: &TreeContext, user_key: &[u8]) {
        if !context.is_bytewise || !self.has_open_fence() {
            return;
        }
        let prefix_len = self.prefix_len.load(Ordering::Relaxed);
        match self.min_key(context) {
            // Keys mostly differ in their last bytes. Otherwise the next key shortens the prefix.
            None => self.prefix_len.store(user_key.len().saturating_sub(size_of::<u64>()), Ordering::Release),
            Some(other) if prefix_len > 0 && !share_prefix(prefix_len, user_key, other) => {
                let shared = common_prefix_len(user_key, other);
                if shared < prefix_len {
                    self.set_prefix_len(context, shared);
                }
            }
            Some(_) => {}
        }
    }

    fn set_prefix_len(&self, context: &TreeContext, prefix_len: usize) {
        self.prefix_len.store(prefix_len, Ordering::Release);
        for index in self.first_key_index()..self.len() {
            let head = context.head(self.key(context, index).unwrap_or_default(), prefix_len);
            self.heads[index].store(head, Ordering::Release);
        }
    }

    /// Sets the common prefix to its maximum, if that gains enough.
    fn recompute_prefix(&self, context: &TreeContext) {
        if !context.is_bytewise {
            return;
        }
        let bounds = self
            .lower_fence_key(context)
            .zip(self.upper_fence_key(context))
            .or_else(|| self.min_key(context).zip(self.key(context, self.len() - 1)));
        let prefix_len = bounds.map_or(0, |(first, last)| common_prefix_len(first, last));
        let current = self.prefix_len.load(Ordering::Relaxed);
        if prefix_len < current || prefix_len >= current + MIN_PREFIX_GAIN {
            self.set_prefix_len(context, prefix_len);
        }
    }

    fn upper_fence_key<'a>(&self, context: &'a TreeContext) -> Option<&'a [u8]> {
        let fence = VersionChainPtr::from_tagged(self.upper_fence.load())?;
        // SAFETY: only `link_right_sibling` sets the fence, to a record in the arena of the tree.
        let fence = unsafe { VersionChain::new(&context.arena, fence) };
        Some(key::user_key(fence.newest_record().key))
    }

    /// Moves the keys from `index` on to a new right sibling. Returns the sibling and its smallest
    /// key.
    pub(super) fn split<'a>(&self, context: &'a TreeContext, index: usize) -> Option<(&'a Node, &'a [u8])> {
        let smallest = if self.level == 0 {
            self.versions(context, index)?.newest_record_ptr()
        } else {
            self.child(context, index)?.lower_fence?
        };
        let right = Node::new(self.level, Some(smallest));
        let moved = self.len() - index;
        for to in 0..moved {
            right.heads[to].store(self.heads[index + to].load(Ordering::Relaxed), Ordering::Relaxed);
            right.slots[to].copy_from(&self.slots[index + to]);
        }
        right.len.store(moved, Ordering::Relaxed);
        right.prefix_len.store(self.prefix_len.load(Ordering::Relaxed), Ordering::Relaxed);
        self.len.store(index, Ordering::Release);
        let right = self.link_right_sibling(context, right, smallest);
        Some((right, right.lower_fence_key(context)?))
    }

    /// Links a new leaf with a single record as the right sibling of this leaf.
    ///
    /// # Safety
    ///
    /// `record` lies in the arena of this node's tree, and its user key is `user_key`.
    pub(super) unsafe fn append_right_sibling<'a>(
        &self,
        context: &'a TreeContext,
        user_key: &[u8],
        record: RecordPtr,
    ) -> &'a Node {
        let right = Node::new(self.level, Some(record));
        // The keys of an ascending load mostly share the prefix of this node's keys.
        let first = self.key(context, 0).filter(|_| context.is_bytewise);
        let prefix_len = first.map_or(0, |first| common_prefix_len(first, user_key));
        right.prefix_len.store(prefix_len, Ordering::Relaxed);
        right.heads[0].store(context.head(user_key, prefix_len), Ordering::Relaxed);
        right.slots[0].store(VersionChainPtr::Single(record).to_tagged());
        right.len.store(1, Ordering::Relaxed);
        self.link_right_sibling(context, right, record)
    }

    /// Links `right`, whose smallest key is `smallest`, after this node.
    fn link_right_sibling<'a>(&self, context: &'a TreeContext, right: Node, smallest: RecordPtr) -> &'a Node {
        right.upper_fence.copy_from(&self.upper_fence);
        right.right_sibling.copy_from(&self.right_sibling);
        self.upper_fence.store(VersionChainPtr::Single(smallest).to_tagged());
        right.recompute_prefix(context);
        self.recompute_prefix(context);
        let right = context.arena.alloc_value(right);
        self.right_sibling.store(TaggedPtr::new(right, Tag::TreeNode));
        // SAFETY: the line above allocated the node in this arena.
        unsafe { context.arena.get(right) }
    }
}
