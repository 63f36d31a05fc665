//! A walk over a tree, also over what is added to it meanwhile.
//!
//! It stands at a record, which stays where it is, and remembers the leaf that leads there. As long as that leaf is as it
//! was, a step is a step within it; else the way is looked for again, by the key.

use terrace_format::key;

use super::arena::{ArenaPtr, ArenaRecord};
use super::btree::{BTree, LeafPosition};
use super::node::Node;
use super::optimistic_latch::LatchVersion;
use super::version_chain::VersionChain;
use crate::sync::Arc;

/// A walk over the records of a tree. Begins nowhere.
pub(crate) struct BTreeCursor {
    tree: Arc<BTree>,
    position: Option<CursorPosition>,
}

#[derive(Clone, Copy)]
struct CursorPosition {
    leaf_ptr: ArenaPtr<Node>,
    latch_version: LatchVersion,
    index: usize,
    /// The version of the key at `at`, with all older ones.
    versions: VersionChain,
}

impl BTreeCursor {
    pub(crate) fn new(tree: Arc<BTree>) -> BTreeCursor {
        BTreeCursor { tree, position: None }
    }

    pub(crate) fn valid(&self) -> bool {
        self.position.is_some()
    }

    /// The internal key and the value here, if there is a here.
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        let ArenaRecord { key, value } = self.tree.context.arena.newest_record(self.position?.versions);
        Some((key, value))
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.position = self.tree.first_in_leaf(self.tree.first_leaf);
    }

    pub(crate) fn seek_to_last(&mut self) {
        let last = self.tree.retry_until_valid(|tree| {
            let (mut leaf_at, mut leaf, mut seen) = tree.read_root()?;
            while leaf.level > 0 {
                (leaf_at, leaf, seen) = tree.descend(leaf, seen, leaf.child(leaf.len() - 1)?)?;
            }
            let len = leaf.len();
            tree.entry_before(&LeafPosition {
                leaf,
                leaf_ptr: leaf_at,
                latch_version: seen,
                index: len,
                is_exact: false,
            })
        });
        self.position = self.tree.oldest_version(last);
    }

    /// To the first record that is not below an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) {
        let tree = &self.tree;
        let (user_key, trailer) = (key::user_key(target), key::trailer(target));
        let (here, same) = tree.retry_until_valid(|tree| {
            let place = tree.find_leaf(user_key)?;
            Some((tree.entry_at_or_after(&place)?, place.is_exact))
        });
        self.position = match here {
            Some(here) if same => {
                let version = tree.context.arena.split_at(here.versions, |other| other > trailer).1;
                version
                    .map(|entry| CursorPosition { versions: entry, ..here })
                    .or_else(|| tree.entry_after(&here))
            }
            here => here,
        };
        if let Some(here) = self.position {
            self.tree.prefetch_record(here.versions);
        }
    }

    pub(crate) fn next(&mut self) {
        let Some(here) = &mut self.position else { return };
        if !self.tree.step_in_leaf(here) {
            self.position = match self.tree.context.arena.older_versions(here.versions) {
                Some(entry) => Some(CursorPosition { versions: entry, ..*here }),
                None => self.tree.entry_after(here),
            };
        }
        if let Some(here) = &self.position {
            self.tree.prefetch_upcoming(here);
        }
    }

    pub(crate) fn prev(&mut self) {
        let Some(here) = self.position else { return };
        let tree = &self.tree;
        let internal = tree.context.arena.newest_record(here.versions).key;
        let (user_key, trailer) = (key::user_key(internal), key::trailer(internal));
        // There may be newer versions by now than when this came here.
        let now = tree.entry_at_or_after(&tree.leaf_position(&here)).unwrap_or_else(|| {
            tree.retry_until_valid(|tree| tree.entry_at_or_after(&tree.find_leaf(user_key)?))
        });
        let newer = now.and_then(|now| {
            let (newer, _) = tree.context.arena.split_at(now.versions, |other| other > trailer);
            newer.map(|entry| CursorPosition { versions: entry, ..now })
        });
        self.position = newer.or_else(|| {
            let before = match tree.entry_before(&tree.leaf_position(&here)) {
                Some(Some(before)) => Some(before),
                // At the beginning of a leaf, or of one that has changed.
                _ => tree.retry_until_valid(|tree| tree.entry_before(&tree.find_leaf_before(user_key)?)),
            };
            tree.oldest_version(before)
        });
    }
}

/// Records that are fetched ahead of a walk. Each is a miss, and so many take hardly longer than one.
const PREFETCH_RECORDS: usize = 8;
/// What is fetched of a record, in bytes: most are no longer.
const PREFETCH_RECORD_BYTES: usize = 192;

impl BTree {
    /// Has the processor fetch what a walk comes to a few steps behind `here`. What is there may have changed: no harm.
    fn prefetch_upcoming(&self, here: &CursorPosition) {
        let leaf = self.node(here.leaf_ptr);
        if let (0, Some(next)) = (here.index, leaf.right_sibling()) {
            // Else each line of it would be waited for, to know which records to fetch.
            self.context.arena.prefetch(next, size_of::<Node>());
        }
        let (ahead, len) = (here.index + PREFETCH_RECORDS, leaf.len());
        let entry = if ahead < len {
            leaf.versions(ahead)
        } else {
            leaf.right_sibling().and_then(|next| self.node(next).versions(ahead - len))
        };
        if let Some(entry) = entry {
            self.prefetch_record(entry);
        }
    }

    fn prefetch_record(&self, entry: VersionChain) {
        match entry {
            VersionChain::Single(record) => self.context.arena.prefetch(record, PREFETCH_RECORD_BYTES),
            VersionChain::Multiple(versions) => self.context.arena.prefetch(versions, PREFETCH_RECORD_BYTES),
        }
    }

    /// One key on, from a key of one version, in a leaf that is as it was. So most steps are; the others change nothing here.
    #[inline]
    fn step_in_leaf(&self, here: &mut CursorPosition) -> bool {
        let (leaf, at) = (self.node(here.leaf_ptr), here.index + 1);
        let next = if at < leaf.len() { leaf.versions(at) } else { None };
        match (here.versions, next) {
            (VersionChain::Single(_), Some(next)) if leaf.latch.validate(here.latch_version) => {
                (here.index, here.versions) = (at, next);
                true
            }
            _ => false,
        }
    }

    /// What `look` sees while nothing changes.
    fn retry_until_valid<T>(&self, look: impl Fn(&BTree) -> Option<T>) -> T {
        let mut turn = 0;
        loop {
            match look(self) {
                Some(seen) => return seen,
                None => crate::sync::spin_or_yield(&mut turn),
            }
        }
    }

    /// The key at a place, or the first one behind it. None of it: once more.
    fn entry_at_or_after(&self, place: &LeafPosition<'_>) -> Option<Option<CursorPosition>> {
        let LeafPosition { leaf, leaf_ptr: leaf_at, latch_version: seen, index: at, .. } = *place;
        let next = leaf.right_sibling();
        let here = if at < leaf.len() {
            Some(CursorPosition {
                leaf_ptr: leaf_at,
                latch_version: seen,
                index: at,
                versions: leaf.versions(at)?,
            })
        } else {
            None
        };
        if !leaf.latch.validate(seen) {
            return None;
        }
        Some(here.or_else(|| self.first_in_leaf(next?)))
    }

    /// The key before a place in the same leaf, if there is one. None of it: once more.
    fn entry_before(&self, place: &LeafPosition<'_>) -> Option<Option<CursorPosition>> {
        let LeafPosition { leaf, leaf_ptr: leaf_at, latch_version: seen, index: at, .. } = *place;
        let here = match at.checked_sub(1) {
            Some(at) => Some(CursorPosition {
                leaf_ptr: leaf_at,
                latch_version: seen,
                index: at,
                versions: leaf.versions(at)?,
            }),
            None => None,
        };
        leaf.latch.validate(seen).then_some(here)
    }

    /// The first key of a leaf. Only the first leaf of an empty tree has none.
    fn first_in_leaf(&self, leaf_at: ArenaPtr<Node>) -> Option<CursorPosition> {
        self.retry_until_valid(|tree| {
            let leaf = tree.node(leaf_at);
            let seen = leaf.latch.read_version();
            tree.entry_at_or_after(&LeafPosition {
                leaf,
                leaf_ptr: leaf_at,
                latch_version: seen,
                index: 0,
                is_exact: false,
            })
        })
    }

    /// The first key behind the one here.
    fn entry_after(&self, here: &CursorPosition) -> Option<CursorPosition> {
        let here_still = self.leaf_position(here);
        if let Some(next) = self.entry_at_or_after(&LeafPosition { index: here.index + 1, ..here_still }) {
            return next;
        }
        self.retry_until_valid(|tree| {
            let mut place = tree.find_leaf(tree.context.user_key(here.versions))?;
            place.index += usize::from(place.is_exact);
            tree.entry_at_or_after(&place)
        })
    }

    fn leaf_position(&self, here: &CursorPosition) -> LeafPosition<'_> {
        let CursorPosition { leaf_ptr: leaf_at, latch_version: seen, index: at, .. } = *here;
        LeafPosition {
            leaf: self.node(leaf_at),
            leaf_ptr: leaf_at,
            latch_version: seen,
            index: at,
            is_exact: true,
        }
    }

    fn oldest_version(&self, here: Option<CursorPosition>) -> Option<CursorPosition> {
        let here = here?;
        let oldest = self.context.arena.split_at(here.versions, |_| true).0;
        oldest.map(|entry| CursorPosition { versions: entry, ..here })
    }
}
