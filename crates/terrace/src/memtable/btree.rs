//! The records of a memtable in the order of their keys: a B+-tree that threads fill side by side.
//!
//! ```text
//!   inner        [ | k | k ]
//!                 /   |    \
//!   leaf    [k k k] [k k] [k k k]      each with the next one behind it
//!            |                         slots lead to the versions of a key
//!   arena    records, versions, nodes: never moved, never freed before the tree
//! ```
//!
//! *Readers* take nothing. Each node has a latch with a number that changes with every change of the node; a reader
//! remembers the number, looks, goes on to the child, and only then asks whether the number is still the same. If not,
//! it begins again.
//!
//! *Writers* go down as readers do and latch what they change at the number that they saw: a leaf, or a full node and the
//! one above, to split it. Full nodes are split on the way down, so that there is room above whenever one is split. No
//! thread waits for a latch while it holds one, and the comparator is never asked while one is held.
//!
//! Keys are only added. So the least key of a node stays, and the records that nodes are bounded by are always there.
//! An ascending load goes straight to the last leaf, and fills every leaf.

use terrace_format::comparator::{Bytewise, Comparator};
use terrace_format::key::{self, SequenceNumber, ValueType};

use super::arena::{Arena, ArenaPtr, ChunkPool, MAX_CHUNK_SIZE, RecordPtr};
use super::bloom::MemtableBloom;
use super::insert_mode::InsertMode;
use super::node::{NODE_FANOUT, Node, TreeContext};
use super::optimistic_latch::LatchVersion;
use super::tagged_ptr::{AtomicTaggedPtr, Tagged};
use super::version_chain::VersionChain;
use crate::sync::{Arc, AtomicBool, Ordering, spin_or_yield};

/// Records in the order of their internal keys.
pub(crate) struct BTree {
    pub(super) context: TreeContext,
    root: AtomicTaggedPtr,
    /// The first leaf is so for ever, since only what is behind is split off.
    pub(super) first_leaf: ArenaPtr<Node>,
    /// The last leaf, or one that was it a moment ago.
    last_leaf: AtomicTaggedPtr,
    /// Of all keys. None where equal keys may differ in their bytes, or nobody asked for one.
    bloom: Option<MemtableBloom>,
    /// Whether the latest key went to the end. Only a guess where the next one goes.
    is_ascending: AtomicBool,
}

/// Where a version of a key is, in the tree that gave it, for as long as there is the tree.
#[derive(Clone, Copy)]
pub(crate) struct VersionPtr(VersionChain);

/// A leaf, at the number it was found with, and the first key there that is not below the one looked for.
pub(super) struct LeafPosition<'a> {
    pub(super) leaf: &'a Node,
    pub(super) leaf_ptr: ArenaPtr<Node>,
    pub(super) latch_version: LatchVersion,
    pub(super) index: usize,
    /// Whether it is the very key.
    pub(super) is_exact: bool,
}

/// A node on the way down, at the number it was seen with, and the child that was taken.
struct ParentNode<'a> {
    node: &'a Node,
    latch_version: LatchVersion,
    child_index: usize,
}

impl BTree {
    /// One whose memory comes from trees that went, and goes to those to come. It will take about `expected` bytes, and perhaps
    /// `soon`; at 0 it makes nothing of that.
    pub(crate) fn new(
        user: Arc<dyn Comparator>,
        spare: Arc<ChunkPool>,
        expected: usize,
        soon: bool,
    ) -> BTree {
        let bytewise = user.name() == Bytewise.name();
        let soon = soon && expected >= MAX_CHUNK_SIZE;
        let ground =
            TreeContext { arena: Arena::new(spare, soon), user_comparator: user, is_bytewise: bytewise };
        let first = ground.arena.alloc_value(Node::new(0, None));
        let (root, last) =
            (AtomicTaggedPtr::new(Tagged::Node(first)), AtomicTaggedPtr::new(Tagged::Node(first)));
        let filter = (bytewise && expected > 0).then(|| MemtableBloom::new(expected));
        BTree {
            context: ground,
            root,
            first_leaf: first,
            last_leaf: last,
            bloom: filter,
            is_ascending: AtomicBool::new(false),
        }
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        self.context.arena.memory_usage()
    }

    /// The memory that it has from the system, used or not, with its filter.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.context.arena.allocated_bytes() + self.bloom.as_ref().map_or(0, MemtableBloom::memory_usage)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.node(self.first_leaf).len() == 0
    }

    /// True if the comparator is no code of somebody else's.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.context.is_bytewise
    }

    /// Adds a record, in such company.
    #[inline]
    pub(crate) fn insert(&self, user_key: &[u8], trailer: u64, value: &[u8], company: InsertMode) {
        let record = self.context.arena.add_record(user_key, trailer, value, company);
        if let Some(filter) = &self.bloom {
            filter.add(user_key, company);
        }
        let mut turn = 0;
        while self
            .try_append(user_key, record, company)
            .or_else(|| self.try_insert(user_key, record, company))
            .is_none()
        {
            spin_or_yield(&mut turn);
        }
    }

    /// The newest version of `user_key` with a number up to `sequence`, which is one that was published.
    pub(crate) fn find(&self, user_key: &[u8], sequence: SequenceNumber) -> Option<VersionPtr> {
        if self.bloom.as_ref().is_some_and(|filter| !filter.may_contain(user_key)) {
            return None;
        }
        let seek = key::pack_sequence_and_type(sequence, ValueType::FOR_SEEK);
        let entry = self.read_validated(user_key, |place| {
            Some(if place.is_exact { Some(place.leaf.versions(place.index)?) } else { None })
        })?;
        self.context.arena.split_at(entry, |trailer| trailer > seek).1.map(VersionPtr)
    }

    /// The trailer and the value of a version in this tree.
    pub(crate) fn read_version(&self, version: VersionPtr) -> (u64, &[u8]) {
        let record = self.context.arena.newest_record(version.0);
        (key::trailer(record.key), record.value)
    }

    /// What `read` sees at the place of `user_key` while nothing changes there. None of it means: once more.
    fn read_validated<T>(&self, user_key: &[u8], read: impl Fn(&LeafPosition<'_>) -> Option<T>) -> T {
        let mut turn = 0;
        loop {
            let looked = self.find_leaf(user_key).and_then(|place| {
                let seen = read(&place)?;
                place.leaf.latch.validate(place.latch_version).then_some(seen)
            });
            match looked {
                Some(looked) => return looked,
                None => spin_or_yield(&mut turn),
            }
        }
    }

    /// Where `user_key` belongs; None if a node changed on the way down.
    pub(super) fn find_leaf(&self, user_key: &[u8]) -> Option<LeafPosition<'_>> {
        let (mut node_at, mut node, mut seen) = self.read_root()?;
        while node.level > 0 {
            let (at, found) = node.find(&self.context, user_key);
            let child_at = node.child(at - 1 + usize::from(found))?;
            (node_at, node, seen) = self.descend(node, seen, child_at)?;
        }
        let (at, found) = node.find(&self.context, user_key);
        Some(LeafPosition { leaf: node, leaf_ptr: node_at, latch_version: seen, index: at, is_exact: found })
    }

    /// As `place`, for the leaf that ends right before `user_key` if a leaf begins with it.
    pub(super) fn find_leaf_before(&self, user_key: &[u8]) -> Option<LeafPosition<'_>> {
        let (mut node_at, mut node, mut seen) = self.read_root()?;
        while node.level > 0 {
            let (at, _) = node.find(&self.context, user_key);
            (node_at, node, seen) = self.descend(node, seen, node.child(at - 1)?)?;
        }
        let (at, found) = node.find(&self.context, user_key);
        Some(LeafPosition { leaf: node, leaf_ptr: node_at, latch_version: seen, index: at, is_exact: found })
    }

    pub(super) fn read_root(&self) -> Option<(ArenaPtr<Node>, &Node, LatchVersion)> {
        let root_at = self.root.load_node()?;
        let root = self.node(root_at);
        let seen = root.latch.read_version();
        // Seen after a split of the root, it would be but a half of the tree.
        (self.root.load_node()? == root_at).then_some((root_at, root, seen))
    }

    /// Down to a child. That it still was the child when its number was seen makes it the right one.
    pub(super) fn descend(
        &self,
        node: &Node,
        seen: LatchVersion,
        child_at: ArenaPtr<Node>,
    ) -> Option<(ArenaPtr<Node>, &Node, LatchVersion)> {
        if node.level == 1 {
            // Of leaves there are many: a search in one would wait for one line of it after the other.
            self.context.arena.prefetch(child_at, size_of::<Node>());
        }
        let child = self.node(child_at);
        let child_seen = child.latch.read_version();
        node.latch.validate(seen).then_some((child_at, child, child_seen))
    }

    pub(super) fn node(&self, at: ArenaPtr<Node>) -> &Node {
        self.context.arena.get(at)
    }

    /// Adds a record to the last leaf, if the load ascends and it belongs there.
    fn try_append(&self, user_key: &[u8], record: RecordPtr, company: InsertMode) -> Option<()> {
        if !self.is_ascending.load(Ordering::Relaxed) {
            return None;
        }
        let leaf = self.node(self.last_leaf.load_node()?);
        let seen = leaf.latch.read_version();
        if leaf.is_full() || !leaf.is_rightmost() {
            return None;
        }
        let (at, found) = leaf.find_from_end(&self.context, user_key);
        if at == 0 && !found {
            self.is_ascending.store(false, Ordering::Relaxed);
            return None;
        }
        self.insert_into_leaf(leaf, seen, (at, found), user_key, record, company)
    }

    fn try_insert(&self, user_key: &[u8], record: RecordPtr, company: InsertMode) -> Option<()> {
        let (_, mut node, mut seen) = self.read_root()?;
        let mut above = None;
        while node.level > 0 {
            if node.is_full() {
                self.split(above, node, seen);
                return None;
            }
            let (at, found) = node.find(&self.context, user_key);
            let child = at - 1 + usize::from(found);
            let (_, next, next_seen) = self.descend(node, seen, node.child(child)?)?;
            above = Some(ParentNode { node, latch_version: seen, child_index: child });
            (node, seen) = (next, next_seen);
        }
        let (at, found) = node.find(&self.context, user_key);
        if found || !node.is_full() {
            return self.insert_into_leaf(node, seen, (at, found), user_key, record, company);
        }
        match above {
            Some(above) if at == NODE_FANOUT && node.is_rightmost() => {
                self.append_leaf(&above, node, seen, record)
            }
            above => {
                self.split(above, node, seen);
                None
            }
        }
    }

    fn insert_into_leaf(
        &self,
        leaf: &Node,
        seen: LatchVersion,
        (at, found): (usize, bool),
        user_key: &[u8],
        record: RecordPtr,
        company: InsertMode,
    ) -> Option<()> {
        let _taken = match company {
            InsertMode::Concurrent => leaf.latch.try_lock_at(seen)?,
            InsertMode::Exclusive => leaf.latch.try_lock_at_exclusive(seen)?,
        };
        if found {
            leaf.replace(at, self.context.arena.push_version(leaf.versions(at)?, record));
        } else {
            leaf.insert(&self.context, at, user_key, Tagged::Versions(VersionChain::Single(record)));
        }
        Some(())
    }

    /// Splits a full node in the middle, or sees to it that there is a node above first. Whoever wants to add begins
    /// again, whether or not this came to pass.
    fn split(&self, above: Option<ParentNode<'_>>, node: &Node, seen: LatchVersion) -> Option<()> {
        let Some(above) = above else { return self.grow_root(node, seen) };
        let _above = above.node.latch.try_lock_at(above.latch_version)?;
        let _node = node.latch.try_lock_at(seen)?;
        let (right, least) = node.split(&self.context, NODE_FANOUT / 2)?;
        self.add_child(&above, right, least);
        Some(())
    }

    /// Puts a new leaf behind the last one, with one record.
    fn append_leaf(
        &self,
        above: &ParentNode<'_>,
        leaf: &Node,
        seen: LatchVersion,
        record: RecordPtr,
    ) -> Option<()> {
        let _above = above.node.latch.try_lock_at(above.latch_version)?;
        let _leaf = leaf.latch.try_lock_at(seen)?;
        let right = leaf.append_right_sibling(&self.context, record);
        self.add_child(above, right, record);
        self.is_ascending.store(true, Ordering::Relaxed);
        Some(())
    }

    /// Hangs `right` into the node above, behind the child it was split from. Both are latched.
    fn add_child(&self, above: &ParentNode<'_>, right: ArenaPtr<Node>, least: RecordPtr) {
        let node = self.node(right);
        if node.level == 0 && node.is_rightmost() {
            self.last_leaf.store(Tagged::Node(right));
        }
        let user_key = key::user_key(self.context.arena.read_record(least).key);
        above.node.insert(&self.context, above.child_index + 1, user_key, Tagged::Node(right));
    }

    /// Puts a new root above the root.
    fn grow_root(&self, root: &Node, seen: LatchVersion) -> Option<()> {
        let _root = root.latch.try_lock_at(seen)?;
        let root_at = self.root.load_node()?;
        if !std::ptr::eq(self.node(root_at), root) {
            return None;
        }
        let above = Node::new_root(root_at, root.level + 1);
        self.root.store(Tagged::Node(self.context.arena.alloc_value(above)));
        Some(())
    }
}

#[cfg(test)]
mod tests;
