//! Records of a memtable in key order: a B+-tree that several threads fill at the same time.
//!
//! ```text
//!   inner        [ | k | k ]
//!                 /   |    \
//!   leaf    [k k k] [k k] [k k k]      each links to its right sibling
//!            |                         slots point to the versions of a key
//!   arena    records, version nodes, tree nodes: never moved, freed with the tree
//! ```
//!
//! *Readers* lock nothing. Each node has a latch whose version changes with every change of the
//! node. A reader reads the version and the fields, loads the child, and then validates the
//! version. If the version changed, it restarts at the root.
//!
//! *Writers* descend like readers and lock the nodes that they change at the version that they
//! read: a leaf, or a full node and its parent for a split. They split full nodes on the way down,
//! so that a parent always has space for another child. No thread waits for a latch or calls the
//! comparator while it holds a latch.
//!
//! The tree only grows. The smallest key of a node never changes, and the records that serve as
//! fences stay in place. An ascending load goes directly to the last leaf, and it fills every leaf.
//!
//! Memory safety: all nodes and records of a tree lie in the arena of its context, and the tree
//! passes that context to the methods of its nodes.
#![allow(unsafe_code)] // follows pointers into the arena

use terrace_format::comparator::{Bytewise, Comparator};
use terrace_format::key::{self, SequenceNumber, ValueType};

use super::arena::{Arena, ArenaPtr, ArenaRecord, ChunkPool, MAX_CHUNK_SIZE, RecordPtr};
use super::bloom::MemtableBloom;
use super::insert_mode::InsertMode;
use super::node::{NODE_FANOUT, Node, TreeContext};
use super::optimistic_latch::LatchVersion;
use super::tagged_ptr::{AtomicTaggedPtr, Tag, TaggedPtr};
use super::version_chain::VersionChainPtr;
use crate::sync::{Arc, AtomicBool, Ordering, spin_or_yield};

/// Records in internal key order.
pub(crate) struct BTree {
    pub(super) context: TreeContext,
    root: AtomicTaggedPtr,
    /// The first leaf, forever: a split moves only the right half of a leaf.
    first_leaf: ArenaPtr<Node>,
    /// The last leaf, or a recent one.
    last_leaf: AtomicTaggedPtr,
    /// Bloom filter of all user keys. None if the comparator may treat keys with different bytes as
    /// equal, or if the creator of the tree asked for no filter.
    bloom: Option<MemtableBloom>,
    /// True if the latest new leaf was appended at the end. Only a hint for the next insert.
    is_ascending: AtomicBool,
}

/// Version of a key that a lookup found in a tree.
pub(crate) struct FoundVersion<'a> {
    /// Value of the version, or None for a tombstone.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) sequence: SequenceNumber,
    tree: &'a Arc<BTree>,
    record: RecordPtr,
}

impl FoundVersion<'_> {
    /// Returns the same version with shared ownership of its tree.
    pub(crate) fn pin(&self) -> PinnedVersion {
        PinnedVersion { tree: Arc::clone(self.tree), record: self.record }
    }
}

/// Version of a key that keeps its tree in memory.
pub(crate) struct PinnedVersion {
    tree: Arc<BTree>,
    record: RecordPtr,
}

impl PinnedVersion {
    pub(crate) fn value(&self) -> &[u8] {
        // SAFETY: only `FoundVersion::pin` creates a `PinnedVersion`, from a tree and a record that
        // `BTree::find` found in that tree.
        unsafe { self.tree.context.arena.read_record(self.record) }.value
    }
}

/// Leaf with the latch version of the search, and the first key that is not below the searched key.
pub(super) struct LeafPosition<'a> {
    pub(super) leaf: &'a Node,
    pub(super) latch_version: LatchVersion,
    pub(super) index: usize,
    /// True if the key at `index` equals the searched key.
    pub(super) is_exact: bool,
}

/// Inner node on the way down with its latch version, and the index of the visited child.
struct ParentNode<'a> {
    node: &'a Node,
    latch_version: LatchVersion,
    child_index: usize,
}

impl BTree {
    /// Creates a tree that takes its chunks from `pool` and returns them on drop.
    ///
    /// The tree will take about `expected_bytes` bytes. At 0 it has no Bloom filter. `fills_soon`
    /// makes the first chunk large.
    pub(crate) fn new(
        user_comparator: Arc<dyn Comparator>,
        pool: Arc<ChunkPool>,
        expected_bytes: usize,
        fills_soon: bool,
    ) -> BTree {
        let is_bytewise = user_comparator.name() == Bytewise.name();
        let arena = Arena::new(pool, fills_soon && expected_bytes >= MAX_CHUNK_SIZE);
        let context = TreeContext { arena, user_comparator, is_bytewise };
        let leaf = context.arena.alloc_value(Node::new(0, None));
        let leaf_link = || AtomicTaggedPtr::new(TaggedPtr::new(leaf, Tag::TreeNode));
        BTree {
            context,
            root: leaf_link(),
            first_leaf: leaf,
            last_leaf: leaf_link(),
            bloom: (is_bytewise && expected_bytes > 0).then(|| MemtableBloom::new(expected_bytes)),
            is_ascending: AtomicBool::new(false),
        }
    }

    /// Returns the approximate size of the nodes and records in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.context.arena.memory_usage()
    }

    /// Returns the size of the memory that the tree holds in bytes, used or not, with its filter.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.context.arena.allocated_bytes() + self.bloom.as_ref().map_or(0, MemtableBloom::memory_usage)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first_leaf().len() == 0
    }

    /// Returns true if the tree uses the bytewise comparator, so that it calls no user code.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.context.is_bytewise
    }

    /// Reserves memory like [`Memtable::try_reserve`](super::Memtable::try_reserve).
    #[inline]
    pub(crate) fn try_reserve(&self, bytes: usize) -> bool {
        self.context.arena.try_reserve(bytes)
    }

    /// Adds a record. `mode` says whether other threads insert at the same time.
    #[inline]
    pub(crate) fn insert(&self, user_key: &[u8], trailer: u64, value: &[u8], mode: InsertMode) {
        let bloom_bits = self.bloom.as_ref().map(|bloom| bloom.prefetch_bits(user_key));
        let record = self.context.arena.add_record(user_key, trailer, value, mode);
        let mut turn = 0;
        while self
            .try_append(user_key, record, mode)
            .or_else(|| self.try_insert(user_key, record, mode))
            .is_none()
        {
            spin_or_yield(&mut turn);
        }
        // No reader looks for this version before the publication of its sequence number. The word
        // has come into the cache meanwhile.
        if let Some(bits) = bloom_bits {
            bits.set(mode);
        }
    }

    /// Returns the newest version of `user_key` that `sequence` sees. The commit publisher has
    /// published `sequence`.
    pub(super) fn find(
        self: &Arc<Self>,
        user_key: &[u8],
        sequence: SequenceNumber,
    ) -> Option<FoundVersion<'_>> {
        if self.bloom.as_ref().is_some_and(|bloom| !bloom.may_contain(user_key)) {
            return None;
        }
        let seek_trailer = key::pack_sequence_and_type(sequence, ValueType::FOR_SEEK);
        let versions = self.read_validated(user_key, |position| {
            Some(if position.is_exact {
                Some(position.leaf.versions(&self.context, position.index)?)
            } else {
                None
            })
        })?;
        let visible = versions.split_at(|trailer| trailer > seek_trailer).1?;
        let ArenaRecord { key, value } = visible.newest_record();
        let trailer = key::trailer(key);
        let is_value = trailer as u8 == ValueType::Value as u8;
        Some(FoundVersion {
            value: is_value.then_some(value),
            sequence: trailer >> 8,
            tree: self,
            record: visible.newest_record_ptr(),
        })
    }

    /// Prefetches the word of the filter that [`BTree::find`] reads first.
    #[inline]
    pub(super) fn prefetch_find(&self, user_key: &[u8]) {
        if let Some(bloom) = &self.bloom {
            bloom.prefetch_bits(user_key);
        }
    }

    /// Returns the result of `read` at the leaf position of `user_key`, once the leaf did not
    /// change meanwhile. `read` returns None to be called again.
    fn read_validated<'a, T>(&'a self, user_key: &[u8], read: impl Fn(&LeafPosition<'a>) -> Option<T>) -> T {
        let mut turn = 0;
        loop {
            let validated = self.find_leaf(user_key).and_then(|position| {
                let result = read(&position)?;
                position.leaf.latch.validate(position.latch_version).then_some(result)
            });
            match validated {
                Some(result) => return result,
                None => spin_or_yield(&mut turn),
            }
        }
    }

    /// Returns the position of `user_key`, or None if a node changed on the way down.
    pub(super) fn find_leaf(&self, user_key: &[u8]) -> Option<LeafPosition<'_>> {
        let (mut node, mut latch_version) = self.read_root()?;
        while node.level > 0 {
            let (index, is_exact) = node.find(&self.context, user_key);
            let child = node.child(&self.context, index - 1 + usize::from(is_exact))?;
            (node, latch_version) = self.descend(node, latch_version, child)?;
        }
        let (index, is_exact) = node.find(&self.context, user_key);
        Some(LeafPosition { leaf: node, latch_version, index, is_exact })
    }

    /// Returns the position of `user_key` like [`BTree::find_leaf`]. If a leaf begins with that
    /// key, returns the end of the leaf before it.
    pub(super) fn find_leaf_before(&self, user_key: &[u8]) -> Option<LeafPosition<'_>> {
        let (mut node, mut latch_version) = self.read_root()?;
        while node.level > 0 {
            let (index, _) = node.find(&self.context, user_key);
            let child = node.child(&self.context, index - 1)?;
            (node, latch_version) = self.descend(node, latch_version, child)?;
        }
        let (index, is_exact) = node.find(&self.context, user_key);
        Some(LeafPosition { leaf: node, latch_version, index, is_exact })
    }

    pub(super) fn read_root(&self) -> Option<(&Node, LatchVersion)> {
        let root = self.follow(&self.root)?;
        let latch_version = root.latch.read_version();
        // A version that was read after a split of the root would belong to one half of the tree.
        std::ptr::eq(self.follow(&self.root)?, root).then_some((root, latch_version))
    }

    /// Descends from `node` to `child`. The validation proves that `child` was still a child of
    /// `node` when its version was read.
    pub(super) fn descend<'a>(
        &self,
        node: &Node,
        latch_version: LatchVersion,
        child: &'a Node,
    ) -> Option<(&'a Node, LatchVersion)> {
        if node.level == 1 {
            // Leaves are rarely cached. Without the prefetch, a search would wait for one cache
            // line of the leaf after another.
            self.context.arena.prefetch(child.as_ptr(), size_of::<Node>());
        }
        let child_version = child.latch.read_version();
        node.latch.validate(latch_version).then_some((child, child_version))
    }

    /// Returns about `count` user keys at even distances, in order, and the number of leaves. No
    /// thread inserts meanwhile. A tree of one leaf returns its keys.
    pub(super) fn sample_keys(&self, count: usize) -> (Vec<&[u8]>, usize) {
        let context = &self.context;
        let mut node = self.read_root().map(|(root, _)| root);
        while let Some(inner) = node.filter(|node| node.level > 1) {
            node = inner.child(context, 0);
        }
        // The keys of these nodes are the first keys of the leaves.
        let parents = || std::iter::successors(node, |node| node.right_sibling(context));
        let keys: usize = parents().map(Node::len).sum();
        let sample = parents().flat_map(|node| (0..node.len()).map(|index| node.key(context, index)));
        let sample = sample.step_by(keys.div_ceil(count).max(1)).flatten().collect();
        (sample, if node.is_some_and(|node| node.level == 1) { keys } else { 1 })
    }

    pub(super) fn first_leaf(&self) -> &Node {
        // SAFETY: `new` allocated the first leaf in this arena.
        unsafe { self.context.arena.get(self.first_leaf) }
    }

    /// Returns the node that `link`, one of this tree's own links, points to.
    fn follow(&self, link: &AtomicTaggedPtr) -> Option<&Node> {
        // SAFETY: `root` and `last_leaf` get only nodes of this tree's arena.
        unsafe { Node::follow(link, &self.context.arena) }
    }

    /// Adds a record to the last leaf, if the load is ascending and the key belongs there.
    #[inline(always)] // one function for the whole insert: calls would spill its many locals
    fn try_append(&self, user_key: &[u8], record: RecordPtr, mode: InsertMode) -> Option<()> {
        if !self.is_ascending.load(Ordering::Relaxed) {
            return None;
        }
        let leaf = self.follow(&self.last_leaf)?;
        let latch_version = leaf.latch.read_version();
        if leaf.is_full() || !leaf.is_rightmost() {
            return None;
        }
        let (index, is_exact) = leaf.find_from_end(&self.context, user_key);
        if index == 0 && !is_exact {
            self.is_ascending.store(false, Ordering::Relaxed);
            return None;
        }
        let position = LeafPosition { leaf, latch_version, index, is_exact };
        self.insert_into_leaf(&position, user_key, record, mode)
    }

    #[inline(always)]
    fn try_insert(&self, user_key: &[u8], record: RecordPtr, mode: InsertMode) -> Option<()> {
        let (mut node, mut latch_version) = self.read_root()?;
        let mut parent = None;
        while node.level > 0 {
            if node.is_full() {
                self.split(parent, node, latch_version);
                return None;
            }
            let (index, is_exact) = node.find(&self.context, user_key);
            let child_index = index - 1 + usize::from(is_exact);
            let child = node.child(&self.context, child_index)?;
            let (child, child_version) = self.descend(node, latch_version, child)?;
            parent = Some(ParentNode { node, latch_version, child_index });
            node = child;
            latch_version = child_version;
        }
        let (index, is_exact) = node.find(&self.context, user_key);
        if is_exact || !node.is_full() {
            let position = LeafPosition { leaf: node, latch_version, index, is_exact };
            return self.insert_into_leaf(&position, user_key, record, mode);
        }
        match parent {
            Some(parent) if index == NODE_FANOUT && node.is_rightmost() => {
                self.append_leaf(&parent, node, latch_version, user_key, record)
            }
            parent => {
                self.split(parent, node, latch_version);
                None
            }
        }
    }

    #[inline(always)]
    fn insert_into_leaf(
        &self,
        position: &LeafPosition<'_>,
        user_key: &[u8],
        record: RecordPtr,
        mode: InsertMode,
    ) -> Option<()> {
        let LeafPosition { leaf, latch_version, index, is_exact } = *position;
        let _guard = match mode {
            InsertMode::Concurrent => leaf.latch.try_lock_at(latch_version)?,
            InsertMode::Exclusive => leaf.latch.try_lock_at_exclusive(latch_version)?,
        };
        if is_exact {
            let versions = leaf.versions(&self.context, index)?;
            // SAFETY: `insert`, the origin of all records here, added the record to this arena.
            leaf.replace(index, unsafe { versions.push(record) });
        } else {
            let target = VersionChainPtr::Single(record).to_tagged();
            // SAFETY: `insert` added the record to this arena, and a record is a chain of one
            // version.
            unsafe { leaf.insert(&self.context, index, user_key, target) };
        }
        Some(())
    }

    /// Splits a full node in the middle. A full root gets a parent instead. The insert restarts in
    /// both cases, and also if another thread changed a node first.
    fn split(&self, parent: Option<ParentNode<'_>>, node: &Node, latch_version: LatchVersion) -> Option<()> {
        let Some(parent) = parent else { return self.grow_root(node, latch_version) };
        let _parent_guard = parent.node.latch.try_lock_at(parent.latch_version)?;
        let _node_guard = node.latch.try_lock_at(latch_version)?;
        let (right, smallest) = node.split(&self.context, NODE_FANOUT / 2)?;
        self.add_child(&parent, right, smallest);
        Some(())
    }

    /// Appends a new last leaf with one record.
    fn append_leaf(
        &self,
        parent: &ParentNode<'_>,
        leaf: &Node,
        latch_version: LatchVersion,
        user_key: &[u8],
        record: RecordPtr,
    ) -> Option<()> {
        let _parent_guard = parent.node.latch.try_lock_at(parent.latch_version)?;
        let _leaf_guard = leaf.latch.try_lock_at(latch_version)?;
        // SAFETY: `insert` added the record with this user key to this arena.
        let right = unsafe { leaf.append_right_sibling(&self.context, user_key, record) };
        self.add_child(parent, right, user_key);
        self.is_ascending.store(true, Ordering::Relaxed);
        Some(())
    }

    /// Adds `right` to the parent, after the child that it was split from. The caller holds the
    /// latches of the parent and of that child.
    fn add_child(&self, parent: &ParentNode<'_>, right: &Node, smallest: &[u8]) {
        if right.level == 0 && right.is_rightmost() {
            self.last_leaf.store(right.to_tagged());
        }
        // SAFETY: `right` is a node of this tree: `Node::split` or `Node::append_right_sibling`
        // allocated it in this arena.
        unsafe { parent.node.insert(&self.context, parent.child_index + 1, smallest, right.to_tagged()) };
    }

    /// Adds a new root above the root.
    fn grow_root(&self, root: &Node, latch_version: LatchVersion) -> Option<()> {
        let _guard = root.latch.try_lock_at(latch_version)?;
        if !std::ptr::eq(self.follow(&self.root)?, root) {
            return None;
        }
        let new_root = self.context.arena.alloc_value(Node::new_root(root));
        self.root.store(TaggedPtr::new(new_root, Tag::TreeNode));
        Some(())
    }
}

#[cfg(test)]
mod tests;
