//! All directories: as a look-up sees them, and as a power cut would leave them.
//!
//! Like a file, the tree has a live and a durable state and the changes between them. A change belongs to the
//! directory it happened in; syncing a directory makes its changes durable and nobody else's. A rename between two
//! directories belongs to both: whichever is synced first makes all of it durable, with what came before it in either.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// The number of a file or directory; never used twice.
pub(super) type Inode = u64;

/// The root directory, which has no name.
pub(super) const ROOT: Inode = 0;

/// A place for a name: the directory, and the name in it.
pub(super) type Place = (Inode, OsString);

/// What every name stands for.
pub(super) type Tree = BTreeMap<Place, Inode>;

/// A change of a directory since its last sync.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Link { at: Place, inode: Inode },
    Unlink { at: Place, inode: Inode },
    Rename { from: Place, to: Place, inode: Inode },
}

impl NameChange {
    /// The change of `tree`; also of one in which the changes before this one never happened.
    pub(super) fn apply(&self, tree: &mut Tree) {
        match self {
            NameChange::Link { at, inode } => drop(tree.insert(at.clone(), *inode)),
            NameChange::Unlink { at, .. } => drop(tree.remove(at)),
            NameChange::Rename { from, to, inode } => {
                tree.remove(from);
                tree.insert(to.clone(), *inode);
            }
        }
    }

    pub(super) fn inode(&self) -> Inode {
        match self {
            NameChange::Link { inode, .. }
            | NameChange::Unlink { inode, .. }
            | NameChange::Rename { inode, .. } => *inode,
        }
    }

    /// The directory it happened in, twice, or the two of a rename.
    fn dirs(&self) -> [Inode; 2] {
        match self {
            NameChange::Link { at, .. } | NameChange::Unlink { at, .. } => [at.0, at.0],
            NameChange::Rename { from, to, .. } => [from.0, to.0],
        }
    }
}

/// A change and the number of the call that made it.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) call: u64,
    pub(super) change: NameChange,
}

/// The directories.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) live: Tree,
    pub(super) durable: Tree,
    pub(super) pending: Vec<Pending>,
}

impl Names {
    /// Directories all of whose names are durable.
    pub(super) fn durable(tree: Tree) -> Names {
        Names { live: tree.clone(), durable: tree, pending: Vec::new() }
    }

    pub(super) fn change(&mut self, call: u64, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(Pending { call, change });
    }

    /// Makes every change in `dir` so far durable.
    pub(super) fn sync(&mut self, dir: Inode) {
        // From the last change to the first: a rename out of another directory brings in what came before it there.
        let mut dirs = BTreeSet::from([dir]);
        let mut synced = Vec::new();
        for i in (0..self.pending.len()).rev() {
            let touched = self.pending[i].change.dirs();
            if touched.iter().any(|dir| dirs.contains(dir)) {
                dirs.extend(touched);
                synced.push(self.pending.remove(i).change);
            }
        }
        synced.iter().rev().for_each(|change| change.apply(&mut self.durable));
    }

    /// The names in `dir`.
    pub(super) fn in_dir(&self, dir: Inode) -> impl Iterator<Item = &OsString> {
        let from = (dir, OsString::new());
        self.live.range(from..).take_while(move |((parent, _), _)| *parent == dir).map(|((_, name), _)| name)
    }

    /// Every inode that has a name, or would have one again after some power cut.
    pub(super) fn referenced(&self) -> impl Iterator<Item = Inode> {
        let trees = self.live.values().chain(self.durable.values()).copied();
        trees.chain(self.pending.iter().map(|pending| pending.change.inode()))
    }
}
