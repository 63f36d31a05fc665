//! An ordered set of arena records: a B+-tree whose nodes live in two vectors.
//!
//! ```text
//!   inner   [ first record of child 1 | .. of child 2 | ... ]   children 0, 1, 2, ...
//!   leaf    [ record | record | ... ]  <-> neighbours on both sides
//! ```
//!
//! Every record travels with the first eight bytes of its user key as a big-endian number, its *head*: under the
//! bytewise order most comparisons end there, in the node, without touching the record. Under another order heads
//! are zero and every comparison goes to the comparator.
//!
//! Records are only added. A full leaf splits in the middle, or at its end if it is the last and the new record goes
//! behind it: an ascending load fills every leaf.
//!
//! This is one writer's tree. Who may read beside the writer is decided above, in the memtable.

use std::cmp::Ordering;

use crate::arena::{Arena, RecordId};

/// Records in a leaf, children of an inner node.
const FANOUT: usize = 64;

/// A record and its head.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    head: u64,
    pub(crate) record: RecordId,
}

#[derive(Default)]
struct Leaf {
    entries: Vec<Entry>,
    next: Option<u32>,
    prev: Option<u32>,
}

struct Inner {
    /// The least entry under each child but the first.
    separators: Vec<Entry>,
    children: Vec<u32>,
}

/// A place in the tree, good until the next insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    leaf: u32,
    index: u32,
}

/// How records are ordered.
pub(crate) struct Order<'a> {
    /// True if heads decide: the user keys are in bytewise order.
    pub(crate) bytewise: bool,
    /// The order of internal keys.
    pub(crate) compare: &'a dyn Fn(&[u8], &[u8]) -> Ordering,
}

/// The tree. Its methods are given the arena that holds the records, and their order.
pub(crate) struct Tree {
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    /// A leaf if `height` is 0, else an inner node.
    root: u32,
    height: usize,
    len: usize,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { leaves: vec![Leaf::default()], inners: Vec::new(), root: 0, height: 0, len: 0 }
    }
}

/// The first eight bytes of a user key as a number; shorter keys are padded with zeros.
fn head_of(internal_key: &[u8]) -> u64 {
    let user_key = terrace_format::key::user_key(internal_key);
    match user_key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..user_key.len()].copy_from_slice(user_key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// What is looked for.
struct Target<'a> {
    head: u64,
    key: &'a [u8],
}

impl<'a> Target<'a> {
    fn new(key: &'a [u8], order: &Order<'_>) -> Target<'a> {
        Target { head: if order.bytewise { head_of(key) } else { 0 }, key }
    }

    fn cmp(&self, entry: &Entry, arena: &Arena, order: &Order<'_>) -> Ordering {
        self.head.cmp(&entry.head).then_with(|| (order.compare)(self.key, arena.key(entry.record)))
    }
}

impl Tree {
    /// How many records.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that its nodes take, about.
    pub(crate) fn bytes(&self) -> usize {
        (self.leaves.len() + self.inners.len()) * FANOUT * size_of::<Entry>()
    }

    /// Adds `record`, whose key is in no other record.
    pub(crate) fn insert(&mut self, record: RecordId, arena: &Arena, order: &Order<'_>) {
        let target = Target::new(arena.key(record), order);
        let entry = Entry { head: target.head, record };
        let mut path = Vec::with_capacity(self.height);
        let leaf = self.descend(&target, arena, order, |inner, child| path.push((inner, child)));
        let entries = &mut self.leaves[leaf as usize].entries;
        let index = entries.partition_point(|e| target.cmp(e, arena, order).is_gt());
        entries.insert(index, entry);
        self.len += 1;
        if self.leaves[leaf as usize].entries.len() > FANOUT {
            let (separator, right) = self.split_leaf(leaf);
            self.grow(path, separator, right);
        }
    }

    /// The leaf where `target` belongs. Tells `visit` each inner node and which child was taken.
    fn descend(
        &self,
        target: &Target<'_>,
        arena: &Arena,
        order: &Order<'_>,
        mut visit: impl FnMut(u32, usize),
    ) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            let child = inner.separators.partition_point(|e| target.cmp(e, arena, order).is_ge());
            visit(node, child);
            node = inner.children[child];
        }
        node
    }

    fn split_leaf(&mut self, left: u32) -> (Entry, u32) {
        let right = self.leaves.len() as u32;
        let leaf = &mut self.leaves[left as usize];
        let at = if leaf.next.is_none() { FANOUT } else { FANOUT / 2 };
        let mut entries = Vec::with_capacity(FANOUT + 1);
        entries.extend_from_slice(&leaf.entries[at..]);
        leaf.entries.truncate(at);
        let separator = entries[0];
        let next = leaf.next.replace(right);
        if let Some(next) = next {
            self.leaves[next as usize].prev = Some(right);
        }
        self.leaves.push(Leaf { entries, next, prev: Some(left) });
        (separator, right)
    }

    /// Hangs `right` into the tree, behind the nodes of `path`.
    fn grow(&mut self, mut path: Vec<(u32, usize)>, mut separator: Entry, mut right: u32) {
        while let Some((node, child)) = path.pop() {
            let inner = &mut self.inners[node as usize];
            inner.separators.insert(child, separator);
            inner.children.insert(child + 1, right);
            if inner.children.len() <= FANOUT {
                return;
            }
            (separator, right) = self.split_inner(node);
        }
        let root = Inner { separators: vec![separator], children: vec![self.root, right] };
        self.root = self.inners.len() as u32;
        self.inners.push(root);
        self.height += 1;
    }

    /// Moves the right half of `node` to a new one. The entry between the halves goes up.
    fn split_inner(&mut self, node: u32) -> (Entry, u32) {
        let inner = &mut self.inners[node as usize];
        let middle = inner.separators.len() / 2;
        let separators = inner.separators.split_off(middle + 1);
        let children = inner.children.split_off(middle + 1);
        let separator = inner.separators[middle];
        inner.separators.truncate(middle);
        self.inners.push(Inner { separators, children });
        (separator, self.inners.len() as u32 - 1)
    }

    /// The record at a place.
    pub(crate) fn record(&self, place: Place) -> RecordId {
        self.leaves[place.leaf as usize].entries[place.index as usize].record
    }

    /// The first record whose key is not below `key`.
    pub(crate) fn lower_bound(&self, key: &[u8], arena: &Arena, order: &Order<'_>) -> Option<Place> {
        let target = Target::new(key, order);
        let leaf = self.descend(&target, arena, order, |_, _| ());
        let entries = &self.leaves[leaf as usize].entries;
        let index = entries.partition_point(|e| target.cmp(e, arena, order).is_gt());
        if index < entries.len() {
            Some(Place { leaf, index: index as u32 })
        } else {
            self.first_of(self.leaves[leaf as usize].next)
        }
    }

    /// The least record.
    pub(crate) fn first(&self) -> Option<Place> {
        // Splits only ever add leaves to the right, so the first stays leaf 0.
        self.first_of(Some(0))
    }

    /// The greatest record.
    pub(crate) fn last(&self) -> Option<Place> {
        let mut node = self.root;
        for _ in 0..self.height {
            let children = &self.inners[node as usize].children;
            node = children[children.len() - 1];
        }
        self.last_of(Some(node))
    }

    /// The place behind.
    pub(crate) fn next(&self, place: Place) -> Option<Place> {
        let leaf = &self.leaves[place.leaf as usize];
        if place.index as usize + 1 < leaf.entries.len() {
            return Some(Place { index: place.index + 1, ..place });
        }
        self.first_of(leaf.next)
    }

    /// The place before.
    pub(crate) fn prev(&self, place: Place) -> Option<Place> {
        if place.index > 0 {
            return Some(Place { index: place.index - 1, ..place });
        }
        self.last_of(self.leaves[place.leaf as usize].prev)
    }

    /// Only the root of an empty tree is an empty leaf.
    fn first_of(&self, leaf: Option<u32>) -> Option<Place> {
        leaf.filter(|&leaf| !self.leaves[leaf as usize].entries.is_empty())
            .map(|leaf| Place { leaf, index: 0 })
    }

    fn last_of(&self, leaf: Option<u32>) -> Option<Place> {
        let leaf = leaf?;
        let len = self.leaves[leaf as usize].entries.len() as u32;
        len.checked_sub(1).map(|index| Place { leaf, index })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Inserts `keys` and compares walks and searches with an ordered set.
    fn check(keys: impl Iterator<Item = u64>, bytewise: bool) {
        let compare = |a: &[u8], b: &[u8]| if bytewise { a.cmp(b) } else { b.cmp(a) };
        let order = Order { bytewise, compare: &compare };
        let (mut arena, mut tree, mut twin) = (Arena::default(), Tree::default(), BTreeSet::new());
        for key in keys {
            if twin.insert(key) {
                let record = arena.push(&key.to_be_bytes(), 0, b"");
                tree.insert(record, &arena, &order);
            }
        }
        let number = |place| u64::from_be_bytes(arena.key(tree.record(place))[..8].try_into().unwrap());
        let walk: Vec<u64> = std::iter::successors(tree.first(), |&p| tree.next(p)).map(number).collect();
        let mut back: Vec<u64> = std::iter::successors(tree.last(), |&p| tree.prev(p)).map(number).collect();
        back.reverse();
        let mut expect: Vec<u64> = twin.iter().copied().collect();
        if !bytewise {
            expect.reverse();
        }
        assert_eq!(tree.len(), expect.len());
        assert_eq!(walk, expect);
        assert_eq!(back, expect);
        for probe in (0..3000).step_by(7) {
            let mut key = u64::to_be_bytes(probe).to_vec();
            key.extend_from_slice(&[0; 8]);
            let found = tree.lower_bound(&key, &arena, &order).map(number);
            let expect = if bytewise { twin.range(probe..).next() } else { twin.range(..=probe).next_back() };
            assert_eq!(found, expect.copied(), "lower bound of {probe}");
        }
    }

    fn scattered(n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3000)
    }

    #[test]
    fn empty() {
        check(std::iter::empty(), true);
    }

    #[test]
    fn one_leaf() {
        check(scattered(40), true);
    }

    #[test]
    fn many_levels_in_random_order() {
        check(scattered(20_000), true);
    }

    #[test]
    fn ascending_and_descending() {
        check(0..10_000, true);
        check((0..10_000).rev(), true);
    }

    #[test]
    fn an_order_that_heads_know_nothing_of() {
        check(scattered(5_000), false);
    }

    #[test]
    fn an_ascending_load_fills_its_leaves() {
        let compare = |a: &[u8], b: &[u8]| a.cmp(b);
        let order = Order { bytewise: true, compare: &compare };
        let (mut arena, mut tree) = (Arena::default(), Tree::default());
        for key in 0..6400u64 {
            let record = arena.push(&key.to_be_bytes(), 0, b"");
            tree.insert(record, &arena, &order);
        }
        assert_eq!(tree.leaves.len(), 100);
    }
}
