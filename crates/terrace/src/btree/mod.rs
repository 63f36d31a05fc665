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

mod arena;
mod cursor;
mod filter;
mod latch;
mod node;
mod slot;
mod versions;

use terrace_format::comparator::{Bytewise, Comparator};
use terrace_format::key::{self, Kind, Sequence};

pub(crate) use arena::Spare;
pub(crate) use cursor::Cursor;

use crate::sync::{Arc, AtomicBool, Ordering, relax};
use arena::{Arena, At, GREATEST_CHUNK, RecordAt};
use filter::Filter;
use latch::Seen;
use node::{FANOUT, Ground, Node};
use slot::{Named, Slot};
use versions::Entry;

/// Records in the order of their internal keys.
pub(crate) struct Tree {
    ground: Ground,
    root: Slot,
    /// The first leaf is so for ever, since only what is behind is split off.
    first: At<Node>,
    /// The last leaf, or one that was it a moment ago.
    last: Slot,
    /// Of all keys. None where equal keys may differ in their bytes, or nobody asked for one.
    filter: Option<Filter>,
    /// Whether the latest key went to the end. Only a guess where the next one goes.
    ascends: AtomicBool,
}

/// Whether others add to the tree at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// Any number of them.
    Others,
    /// Nobody: what all others added happened before, and what they will add comes after. Saves the instructions that are
    /// there to meet them.
    Alone,
}

/// Where a version of a key is, in the tree that gave it, for as long as there is the tree.
#[derive(Clone, Copy)]
pub(crate) struct VersionAt(Entry);

/// A leaf, at the number it was found with, and the first key there that is not below the one looked for.
struct Place<'a> {
    leaf: &'a Node,
    leaf_at: At<Node>,
    seen: Seen,
    at: usize,
    /// Whether it is the very key.
    found: bool,
}

/// A node on the way down, at the number it was seen with, and the child that was taken.
struct Step<'a> {
    node: &'a Node,
    seen: Seen,
    child: usize,
}

impl Tree {
    /// One whose memory comes from trees that went, and goes to those to come. It will take about `expected` bytes, and perhaps
    /// `soon`; at 0 it makes nothing of that.
    pub(crate) fn new(user: Arc<dyn Comparator>, spare: Arc<Spare>, expected: usize, soon: bool) -> Tree {
        let bytewise = user.name() == Bytewise.name();
        let soon = soon && expected >= GREATEST_CHUNK;
        let ground = Ground { arena: Arena::new(spare, soon), user, bytewise };
        let first = ground.arena.put(Node::new(0, None));
        let (root, last) = (Slot::new(Named::Node(first)), Slot::new(Named::Node(first)));
        let filter = (bytewise && expected > 0).then(|| Filter::new(expected));
        Tree { ground, root, first, last, filter, ascends: AtomicBool::new(false) }
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.ground.arena.bytes()
    }

    /// The memory that it has from the system, used or not, with its filter.
    pub(crate) fn held(&self) -> usize {
        self.ground.arena.held() + self.filter.as_ref().map_or(0, Filter::bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.node(self.first).len() == 0
    }

    /// True if the comparator is no code of somebody else's.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.ground.bytewise
    }

    /// Adds a record, in such company.
    #[inline]
    pub(crate) fn insert(&self, user_key: &[u8], trailer: u64, value: &[u8], company: Company) {
        let record = self.ground.arena.record(user_key, trailer, value, company);
        if let Some(filter) = &self.filter {
            filter.add(user_key, company);
        }
        let mut turn = 0;
        while self
            .try_append(user_key, record, company)
            .or_else(|| self.try_insert(user_key, record, company))
            .is_none()
        {
            relax(&mut turn);
        }
    }

    /// The newest version of `user_key` with a number up to `sequence`, which is one that was published.
    pub(crate) fn find(&self, user_key: &[u8], sequence: Sequence) -> Option<VersionAt> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_have(user_key)) {
            return None;
        }
        let seek = key::pack(sequence, Kind::SEEK);
        let entry = self.look(user_key, |place| {
            Some(if place.found { Some(place.leaf.entry(place.at)?) } else { None })
        })?;
        self.ground.arena.border(entry, |trailer| trailer > seek).1.map(VersionAt)
    }

    /// The trailer and the value of a version in this tree.
    pub(crate) fn read(&self, version: VersionAt) -> (u64, &[u8]) {
        let record = self.ground.arena.newest(version.0);
        (key::trailer(record.key), record.value)
    }

    /// What `read` sees at the place of `user_key` while nothing changes there. None of it means: once more.
    fn look<T>(&self, user_key: &[u8], read: impl Fn(&Place<'_>) -> Option<T>) -> T {
        let mut turn = 0;
        loop {
            let looked = self.place(user_key).and_then(|place| {
                let seen = read(&place)?;
                place.leaf.latch.is_still(place.seen).then_some(seen)
            });
            match looked {
                Some(looked) => return looked,
                None => relax(&mut turn),
            }
        }
    }

    /// Where `user_key` belongs; None if a node changed on the way down.
    fn place(&self, user_key: &[u8]) -> Option<Place<'_>> {
        let (mut node_at, mut node, mut seen) = self.root()?;
        while node.level > 0 {
            let (at, found) = node.find(&self.ground, user_key);
            let child_at = node.child(at - 1 + usize::from(found))?;
            (node_at, node, seen) = self.step(node, seen, child_at)?;
        }
        let (at, found) = node.find(&self.ground, user_key);
        Some(Place { leaf: node, leaf_at: node_at, seen, at, found })
    }

    /// As `place`, for the leaf that ends right before `user_key` if a leaf begins with it.
    fn place_before(&self, user_key: &[u8]) -> Option<Place<'_>> {
        let (mut node_at, mut node, mut seen) = self.root()?;
        while node.level > 0 {
            let (at, _) = node.find(&self.ground, user_key);
            (node_at, node, seen) = self.step(node, seen, node.child(at - 1)?)?;
        }
        let (at, found) = node.find(&self.ground, user_key);
        Some(Place { leaf: node, leaf_at: node_at, seen, at, found })
    }

    fn root(&self) -> Option<(At<Node>, &Node, Seen)> {
        let root_at = self.root.node()?;
        let root = self.node(root_at);
        let seen = root.latch.seen();
        // Seen after a split of the root, it would be but a half of the tree.
        (self.root.node()? == root_at).then_some((root_at, root, seen))
    }

    /// Down to a child. That it still was the child when its number was seen makes it the right one.
    fn step(&self, node: &Node, seen: Seen, child_at: At<Node>) -> Option<(At<Node>, &Node, Seen)> {
        if node.level == 1 {
            // Of leaves there are many: a search in one would wait for one line of it after the other.
            self.ground.arena.fetch_ahead(child_at, size_of::<Node>());
        }
        let child = self.node(child_at);
        let child_seen = child.latch.seen();
        node.latch.is_still(seen).then_some((child_at, child, child_seen))
    }

    fn node(&self, at: At<Node>) -> &Node {
        self.ground.arena.get(at)
    }

    /// Adds a record to the last leaf, if the load ascends and it belongs there.
    fn try_append(&self, user_key: &[u8], record: RecordAt, company: Company) -> Option<()> {
        if !self.ascends.load(Ordering::Relaxed) {
            return None;
        }
        let leaf = self.node(self.last.node()?);
        let seen = leaf.latch.seen();
        if leaf.is_full() || !leaf.is_rightmost() {
            return None;
        }
        let (at, found) = leaf.find_from_end(&self.ground, user_key);
        if at == 0 && !found {
            self.ascends.store(false, Ordering::Relaxed);
            return None;
        }
        self.add(leaf, seen, (at, found), user_key, record, company)
    }

    fn try_insert(&self, user_key: &[u8], record: RecordAt, company: Company) -> Option<()> {
        let (_, mut node, mut seen) = self.root()?;
        let mut above = None;
        while node.level > 0 {
            if node.is_full() {
                self.split(above, node, seen);
                return None;
            }
            let (at, found) = node.find(&self.ground, user_key);
            let child = at - 1 + usize::from(found);
            let (_, next, next_seen) = self.step(node, seen, node.child(child)?)?;
            above = Some(Step { node, seen, child });
            (node, seen) = (next, next_seen);
        }
        let (at, found) = node.find(&self.ground, user_key);
        if found || !node.is_full() {
            return self.add(node, seen, (at, found), user_key, record, company);
        }
        match above {
            Some(above) if at == FANOUT && node.is_rightmost() => self.extend(&above, node, seen, record),
            above => {
                self.split(above, node, seen);
                None
            }
        }
    }

    fn add(
        &self,
        leaf: &Node,
        seen: Seen,
        (at, found): (usize, bool),
        user_key: &[u8],
        record: RecordAt,
        company: Company,
    ) -> Option<()> {
        let _taken = match company {
            Company::Others => leaf.latch.take(seen)?,
            Company::Alone => leaf.latch.take_alone(seen)?,
        };
        if found {
            leaf.replace(at, self.ground.arena.with(leaf.entry(at)?, record));
        } else {
            leaf.insert(&self.ground, at, user_key, Named::Entry(Entry::Only(record)));
        }
        Some(())
    }

    /// Splits a full node in the middle, or sees to it that there is a node above first. Whoever wants to add begins
    /// again, whether or not this came to pass.
    fn split(&self, above: Option<Step<'_>>, node: &Node, seen: Seen) -> Option<()> {
        let Some(above) = above else { return self.grow(node, seen) };
        let _above = above.node.latch.take(above.seen)?;
        let _node = node.latch.take(seen)?;
        let (right, least) = node.split(&self.ground, FANOUT / 2)?;
        self.hang(&above, right, least);
        Some(())
    }

    /// Puts a new leaf behind the last one, with one record.
    fn extend(&self, above: &Step<'_>, leaf: &Node, seen: Seen, record: RecordAt) -> Option<()> {
        let _above = above.node.latch.take(above.seen)?;
        let _leaf = leaf.latch.take(seen)?;
        let right = leaf.extend(&self.ground, record);
        self.hang(above, right, record);
        self.ascends.store(true, Ordering::Relaxed);
        Some(())
    }

    /// Hangs `right` into the node above, behind the child it was split from. Both are latched.
    fn hang(&self, above: &Step<'_>, right: At<Node>, least: RecordAt) {
        let node = self.node(right);
        if node.level == 0 && node.is_rightmost() {
            self.last.store(Named::Node(right));
        }
        let user_key = key::user_key(self.ground.arena.read(least).key);
        above.node.insert(&self.ground, above.child + 1, user_key, Named::Node(right));
    }

    /// Puts a new root above the root.
    fn grow(&self, root: &Node, seen: Seen) -> Option<()> {
        let _root = root.latch.take(seen)?;
        let root_at = self.root.node()?;
        if !std::ptr::eq(self.node(root_at), root) {
            return None;
        }
        let above = Node::above(root_at, root.level + 1);
        self.root.store(Named::Node(self.ground.arena.put(above)));
        Some(())
    }
}

#[cfg(test)]
mod tests;
