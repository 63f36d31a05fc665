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
use terrace_format::order::{common_prefix, head_behind};

use super::arena::{Arena, At, RecordAt};
use super::latch::Latch;
use super::slot::{Named, Slot};
use super::versions::Entry;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Ordering};

/// The most keys of a leaf, or children of an inner node. Few where a model checker tries every schedule.
pub(super) const FANOUT: usize = if cfg!(any(feature = "loom", feature = "shuttle")) { 4 } else { 64 };

/// So many more bytes of a common beginning are worth making all heads anew.
const WORTH: usize = 4;

/// The records of a tree, and their order.
pub(super) struct Ground {
    pub(super) arena: Arena,
    pub(super) user: Arc<dyn Comparator>,
    /// True if the order is that of the bytes, so that heads decide.
    pub(super) bytewise: bool,
}

impl Ground {
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if self.bytewise { a.cmp(b) } else { self.user.compare(a, b) }
    }

    fn head(&self, user_key: &[u8], skip: usize) -> u64 {
        // Nothing is left if a key is shorter than what is skipped: its node was split meanwhile.
        if self.bytewise { head_behind(skip, user_key) } else { 0 }
    }

    pub(super) fn user_key(&self, entry: Entry) -> &[u8] {
        key::user_key(self.arena.newest(entry).key)
    }
}

/// True if both keys have `skip` bytes and begin with the same.
#[inline]
fn begin_alike(skip: usize, a: &[u8], b: &[u8]) -> bool {
    match (a.get(..skip), b.get(..skip)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

#[repr(align(64))]
pub(super) struct Node {
    pub(super) latch: Latch,
    len: AtomicUsize,
    skip: AtomicUsize,
    /// 0 for a leaf.
    pub(super) level: usize,
    /// No key is below; None at the left edge of the tree.
    low: Option<RecordAt>,
    /// All keys are below; nothing at the right edge of the tree.
    high: Slot,
    /// The node behind on the same level.
    next: Slot,
    heads: [AtomicU64; FANOUT],
    slots: [Slot; FANOUT],
}

impl Node {
    pub(super) fn new(level: usize, low: Option<RecordAt>) -> Node {
        Node {
            latch: Latch::default(),
            len: AtomicUsize::new(0),
            skip: AtomicUsize::new(0),
            level,
            low,
            high: Slot::new(Named::Nothing),
            next: Slot::new(Named::Nothing),
            heads: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| Slot::new(Named::Nothing)),
        }
    }

    /// The root above `child`, which is the root so far.
    pub(super) fn above(child: At<Node>, level: usize) -> Node {
        let root = Node::new(level, None);
        root.slots[0].store(Named::Node(child));
        root.len.store(1, Ordering::Release);
        root
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == FANOUT
    }

    pub(super) fn is_rightmost(&self) -> bool {
        self.high.load() == Named::Nothing
    }

    pub(super) fn next(&self) -> Option<At<Node>> {
        self.next.node()
    }

    pub(super) fn entry(&self, at: usize) -> Option<Entry> {
        self.slots.get(at)?.entry()
    }

    pub(super) fn child(&self, at: usize) -> Option<At<Node>> {
        self.slots.get(at)?.node()
    }

    /// The first key that is not below `user_key`, and whether it is the same. An inner node's begin with 1.
    pub(super) fn find(&self, ground: &Ground, user_key: &[u8]) -> (usize, bool) {
        let (first, len) = (self.first(), self.len());
        let skip = self.skip.load(Ordering::Acquire);
        if skip > 0 && self.is_open() {
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
        let mut at = self.partition(first, len, |other| other < head);
        let is_tie = |at: usize| at < len && self.heads[at].load(Ordering::Acquire) == head;
        if !is_tie(at) {
            return (at, false);
        }
        let mut end = if is_tie(at + 1) { self.partition(at, len, |other| other <= head) } else { at + 1 };
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
    pub(super) fn find_from_end(&self, ground: &Ground, user_key: &[u8]) -> (usize, bool) {
        let len = self.len();
        let skip = self.skip.load(Ordering::Acquire);
        if len == 0 || !ground.bytewise {
            return self.find(ground, user_key);
        }
        let begins_like_all =
            skip == 0 || self.key(ground, 0).is_some_and(|witness| begin_alike(skip, user_key, witness));
        let last = self.heads.get(len - 1).map_or(u64::MAX, |head| head.load(Ordering::Acquire));
        let is_behind = begins_like_all && last < ground.head(user_key, skip);
        if is_behind { (len, false) } else { self.find(ground, user_key) }
    }

    /// The first from `first` to `len` whose head is not `below`.
    fn partition(&self, first: usize, len: usize, below: impl Fn(u64) -> bool) -> usize {
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
    fn first(&self) -> usize {
        usize::from(self.level > 0)
    }

    /// True if nothing limits what begins may come.
    fn is_open(&self) -> bool {
        self.low.is_none() || self.is_rightmost()
    }

    fn least<'a>(&self, ground: &'a Ground) -> Option<&'a [u8]> {
        (self.len() > self.first()).then(|| self.key(ground, self.first()))?
    }

    fn key<'a>(&self, ground: &'a Ground, at: usize) -> Option<&'a [u8]> {
        match self.slots.get(at)?.load() {
            Named::Entry(entry) => Some(ground.user_key(entry)),
            Named::Node(child) => Some(key::user_key(ground.arena.read(ground.arena.get(child).low?).key)),
            Named::Nothing => None,
        }
    }
}

/// Changes. Each is made with the latch taken, or before anybody knows of the node.
impl Node {
    pub(super) fn replace(&self, at: usize, entry: Entry) {
        self.slots[at].store(Named::Entry(entry));
    }

    /// Adds a key. There is room.
    pub(super) fn insert(&self, ground: &Ground, at: usize, user_key: &[u8], named: Named) {
        let len = self.len();
        self.admit(ground, user_key);
        for pair in self.heads[at..=len].windows(2).rev() {
            pair[1].store(pair[0].load(Ordering::Relaxed), Ordering::Release);
        }
        for pair in self.slots[at..=len].windows(2).rev() {
            pair[1].copy(&pair[0]);
        }
        let head = ground.head(user_key, self.skip.load(Ordering::Relaxed));
        self.heads[at].store(head, Ordering::Release);
        self.slots[at].store(named);
        self.len.store(len + 1, Ordering::Release);
    }

    /// Skips no more than `user_key` allows.
    fn admit(&self, ground: &Ground, user_key: &[u8]) {
        if !ground.bytewise || !self.is_open() {
            return;
        }
        let skip = self.skip.load(Ordering::Relaxed);
        match self.least(ground) {
            // What differs is mostly at the end. If not, the next key tells.
            None => self.skip.store(user_key.len().saturating_sub(size_of::<u64>()), Ordering::Release),
            Some(other) if skip > 0 && !begin_alike(skip, user_key, other) => {
                let shared = common_prefix(user_key, other);
                if shared < skip {
                    self.set_skip(ground, shared);
                }
            }
            Some(_) => {}
        }
    }

    fn set_skip(&self, ground: &Ground, skip: usize) {
        self.skip.store(skip, Ordering::Release);
        for at in self.first()..self.len() {
            let head = ground.head(self.key(ground, at).unwrap_or_default(), skip);
            self.heads[at].store(head, Ordering::Release);
        }
    }

    /// Skips what all keys begin with, if that is worth it.
    fn settle(&self, ground: &Ground) {
        if !ground.bytewise {
            return;
        }
        let record = |at: RecordAt| key::user_key(ground.arena.read(at).key);
        let ends = match (self.low, self.high.load()) {
            (Some(low), Named::Entry(Entry::Only(high))) => Some((record(low), record(high))),
            _ => self.least(ground).zip(self.key(ground, self.len() - 1)),
        };
        let skip = ends.map_or(0, |(first, last)| common_prefix(first, last));
        let now = self.skip.load(Ordering::Relaxed);
        if skip < now || skip >= now + WORTH {
            self.set_skip(ground, skip);
        }
    }

    /// Gives what is from `at` on to a new node behind this one, and says what the least key there is.
    pub(super) fn split(&self, ground: &Ground, at: usize) -> Option<(At<Node>, RecordAt)> {
        let least = match self.slots[at].load() {
            Named::Entry(entry) => ground.arena.record_at(entry),
            Named::Node(child) => ground.arena.get(child).low?,
            Named::Nothing => return None,
        };
        let right = Node::new(self.level, Some(least));
        let moved = self.len() - at;
        for to in 0..moved {
            right.heads[to].store(self.heads[at + to].load(Ordering::Relaxed), Ordering::Relaxed);
            right.slots[to].copy(&self.slots[at + to]);
        }
        right.len.store(moved, Ordering::Relaxed);
        right.skip.store(self.skip.load(Ordering::Relaxed), Ordering::Relaxed);
        self.len.store(at, Ordering::Release);
        Some((self.link(ground, right, least), least))
    }

    /// Puts a new node with this record alone behind this one.
    pub(super) fn extend(&self, ground: &Ground, record: RecordAt) -> At<Node> {
        let right = Node::new(self.level, Some(record));
        let user_key = key::user_key(ground.arena.read(record).key);
        // What this node's keys begin with, the next ones will mostly begin with too.
        let first = self.key(ground, 0).filter(|_| ground.bytewise);
        let skip = first.map_or(0, |first| common_prefix(first, user_key));
        right.skip.store(skip, Ordering::Relaxed);
        right.heads[0].store(ground.head(user_key, skip), Ordering::Relaxed);
        right.slots[0].store(Named::Entry(Entry::Only(record)));
        right.len.store(1, Ordering::Relaxed);
        self.link(ground, right, record)
    }

    /// Hangs in `right`, whose least key is `least`.
    fn link(&self, ground: &Ground, right: Node, least: RecordAt) -> At<Node> {
        right.high.copy(&self.high);
        right.next.copy(&self.next);
        self.high.store(Named::Entry(Entry::Only(least)));
        right.settle(ground);
        self.settle(ground);
        let right = ground.arena.put(right);
        self.next.store(Named::Node(right));
        right
    }
}
