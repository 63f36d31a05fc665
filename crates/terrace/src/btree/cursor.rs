//! A walk over a tree, also over what is added to it meanwhile.
//!
//! It stands at a record, which stays where it is, and remembers the leaf that leads there. As long as that leaf is as it
//! was, a step is a step within it; else the way is looked for again, by the key.

use terrace_format::key;

use super::arena::{At, Record};
use super::latch::Seen;
use super::node::Node;
use super::versions::Entry;
use super::{Place, Tree};
use crate::sync::Arc;

/// A walk over the records of a tree. Begins nowhere.
pub(crate) struct Cursor {
    tree: Arc<Tree>,
    here: Option<Here>,
}

#[derive(Clone, Copy)]
struct Here {
    leaf: At<Node>,
    seen: Seen,
    at: usize,
    /// The version of the key at `at`, with all older ones.
    entry: Entry,
}

impl Cursor {
    pub(crate) fn new(tree: Arc<Tree>) -> Cursor {
        Cursor { tree, here: None }
    }

    pub(crate) fn valid(&self) -> bool {
        self.here.is_some()
    }

    /// The internal key and the value here, if there is a here.
    pub(crate) fn record(&self) -> Option<(&[u8], &[u8])> {
        let Record { key, value } = self.tree.ground.arena.newest(self.here?.entry);
        Some((key, value))
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.here = self.tree.first_of(self.tree.first);
    }

    pub(crate) fn seek_to_last(&mut self) {
        let last = self.tree.until_seen(|tree| {
            let (mut leaf_at, mut leaf, mut seen) = tree.root()?;
            while leaf.level > 0 {
                (leaf_at, leaf, seen) = tree.step(leaf, seen, leaf.child(leaf.len() - 1)?)?;
            }
            let len = leaf.len();
            tree.before(&Place { leaf, leaf_at, seen, at: len, found: false })
        });
        self.here = self.tree.oldest(last);
    }

    /// To the first record that is not below an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) {
        let tree = &self.tree;
        let (user_key, trailer) = (key::user_key(target), key::trailer(target));
        let (here, same) = tree.until_seen(|tree| {
            let place = tree.place(user_key)?;
            Some((tree.at_or_behind(&place)?, place.found))
        });
        self.here = match here {
            Some(here) if same => {
                let version = tree.ground.arena.border(here.entry, |other| other > trailer).1;
                version.map(|entry| Here { entry, ..here }).or_else(|| tree.behind(&here))
            }
            here => here,
        };
        if let Some(here) = self.here {
            self.tree.fetch(here.entry);
        }
    }

    pub(crate) fn next(&mut self) {
        let Some(here) = &mut self.here else { return };
        if !self.tree.step_within(here) {
            self.here = match self.tree.ground.arena.older(here.entry) {
                Some(entry) => Some(Here { entry, ..*here }),
                None => self.tree.behind(here),
            };
        }
        if let Some(here) = &self.here {
            self.tree.fetch_ahead(here);
        }
    }

    pub(crate) fn prev(&mut self) {
        let Some(here) = self.here else { return };
        let tree = &self.tree;
        let internal = tree.ground.arena.newest(here.entry).key;
        let (user_key, trailer) = (key::user_key(internal), key::trailer(internal));
        // There may be newer versions by now than when this came here.
        let now = tree
            .at_or_behind(&tree.place_of(&here))
            .unwrap_or_else(|| tree.until_seen(|tree| tree.at_or_behind(&tree.place(user_key)?)));
        let newer = now.and_then(|now| {
            let (newer, _) = tree.ground.arena.border(now.entry, |other| other > trailer);
            newer.map(|entry| Here { entry, ..now })
        });
        self.here = newer.or_else(|| {
            let before = match tree.before(&tree.place_of(&here)) {
                Some(Some(before)) => Some(before),
                // At the beginning of a leaf, or of one that has changed.
                _ => tree.until_seen(|tree| tree.before(&tree.place_before(user_key)?)),
            };
            tree.oldest(before)
        });
    }
}

/// Records that are fetched ahead of a walk. Each is a miss, and so many take hardly longer than one.
const AHEAD: usize = 8;
/// What is fetched of a record, in bytes: most are no longer.
const FETCHED: usize = 192;

impl Tree {
    /// Has the processor fetch what a walk comes to a few steps behind `here`. What is there may have changed: no harm.
    fn fetch_ahead(&self, here: &Here) {
        let leaf = self.node(here.leaf);
        if let (0, Some(next)) = (here.at, leaf.next()) {
            // Else each line of it would be waited for, to know which records to fetch.
            self.ground.arena.fetch_ahead(next, size_of::<Node>());
        }
        let (ahead, len) = (here.at + AHEAD, leaf.len());
        let entry = if ahead < len {
            leaf.entry(ahead)
        } else {
            leaf.next().and_then(|next| self.node(next).entry(ahead - len))
        };
        if let Some(entry) = entry {
            self.fetch(entry);
        }
    }

    fn fetch(&self, entry: Entry) {
        match entry {
            Entry::Only(record) => self.ground.arena.fetch_ahead(record, FETCHED),
            Entry::Newest(versions) => self.ground.arena.fetch_ahead(versions, FETCHED),
        }
    }

    /// One key on, from a key of one version, in a leaf that is as it was. So most steps are; the others change nothing here.
    #[inline]
    fn step_within(&self, here: &mut Here) -> bool {
        let (leaf, at) = (self.node(here.leaf), here.at + 1);
        let next = if at < leaf.len() { leaf.entry(at) } else { None };
        match (here.entry, next) {
            (Entry::Only(_), Some(next)) if leaf.latch.is_still(here.seen) => {
                (here.at, here.entry) = (at, next);
                true
            }
            _ => false,
        }
    }

    /// What `look` sees while nothing changes.
    fn until_seen<T>(&self, look: impl Fn(&Tree) -> Option<T>) -> T {
        let mut turn = 0;
        loop {
            match look(self) {
                Some(seen) => return seen,
                None => crate::sync::relax(&mut turn),
            }
        }
    }

    /// The key at a place, or the first one behind it. None of it: once more.
    fn at_or_behind(&self, place: &Place<'_>) -> Option<Option<Here>> {
        let Place { leaf, leaf_at, seen, at, .. } = *place;
        let next = leaf.next();
        let here = if at < leaf.len() {
            Some(Here { leaf: leaf_at, seen, at, entry: leaf.entry(at)? })
        } else {
            None
        };
        if !leaf.latch.is_still(seen) {
            return None;
        }
        Some(here.or_else(|| self.first_of(next?)))
    }

    /// The key before a place in the same leaf, if there is one. None of it: once more.
    fn before(&self, place: &Place<'_>) -> Option<Option<Here>> {
        let Place { leaf, leaf_at, seen, at, .. } = *place;
        let here = match at.checked_sub(1) {
            Some(at) => Some(Here { leaf: leaf_at, seen, at, entry: leaf.entry(at)? }),
            None => None,
        };
        leaf.latch.is_still(seen).then_some(here)
    }

    /// The first key of a leaf. Only the first leaf of an empty tree has none.
    fn first_of(&self, leaf_at: At<Node>) -> Option<Here> {
        self.until_seen(|tree| {
            let leaf = tree.node(leaf_at);
            let seen = leaf.latch.seen();
            tree.at_or_behind(&Place { leaf, leaf_at, seen, at: 0, found: false })
        })
    }

    /// The first key behind the one here.
    fn behind(&self, here: &Here) -> Option<Here> {
        let here_still = self.place_of(here);
        if let Some(next) = self.at_or_behind(&Place { at: here.at + 1, ..here_still }) {
            return next;
        }
        self.until_seen(|tree| {
            let mut place = tree.place(tree.ground.user_key(here.entry))?;
            place.at += usize::from(place.found);
            tree.at_or_behind(&place)
        })
    }

    fn place_of(&self, here: &Here) -> Place<'_> {
        let Here { leaf: leaf_at, seen, at, .. } = *here;
        Place { leaf: self.node(leaf_at), leaf_at, seen, at, found: true }
    }

    fn oldest(&self, here: Option<Here>) -> Option<Here> {
        let here = here?;
        let oldest = self.ground.arena.border(here.entry, |_| true).0;
        oldest.map(|entry| Here { entry, ..here })
    }
}
