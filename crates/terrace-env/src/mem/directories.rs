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
pub(super) const ROOT_INODE: Inode = 0;

/// A place for a name: the directory, and the name in it.
pub(super) type DirEntryKey = (Inode, OsString);

/// What every name stands for.
pub(super) type DirTree = BTreeMap<DirEntryKey, Inode>;

/// A change of a directory since its last sync.
#[derive(Debug, Clone)]
pub(super) enum DirChange {
    Link { entry: DirEntryKey, inode: Inode },
    Unlink { entry: DirEntryKey, inode: Inode },
    Rename { from: DirEntryKey, to: DirEntryKey, inode: Inode },
}

impl DirChange {
    /// The change of `tree`; also of one in which the changes before this one never happened.
    pub(super) fn apply(&self, tree: &mut DirTree) {
        match self {
            DirChange::Link { entry: at, inode } => drop(tree.insert(at.clone(), *inode)),
            DirChange::Unlink { entry: at, .. } => drop(tree.remove(at)),
            DirChange::Rename { from, to, inode } => {
                tree.remove(from);
                tree.insert(to.clone(), *inode);
            }
        }
    }

    pub(super) fn inode(&self) -> Inode {
        match self {
            DirChange::Link { inode, .. }
            | DirChange::Unlink { inode, .. }
            | DirChange::Rename { inode, .. } => *inode,
        }
    }

    /// The directory it happened in, twice, or the two of a rename.
    fn parent_dirs(&self) -> [Inode; 2] {
        match self {
            DirChange::Link { entry: at, .. } | DirChange::Unlink { entry: at, .. } => [at.0, at.0],
            DirChange::Rename { from, to, .. } => [from.0, to.0],
        }
    }
}

/// A change and the number of the call that made it.
#[derive(Debug, Clone)]
pub(super) struct PendingDirChange {
    pub(super) call: u64,
    pub(super) change: DirChange,
}

/// The directories.
#[derive(Debug, Clone, Default)]
pub(super) struct Directories {
    pub(super) live: DirTree,
    pub(super) durable: DirTree,
    pub(super) pending: Vec<PendingDirChange>,
}

impl Directories {
    /// Directories all of whose names are durable.
    pub(super) fn all_durable(tree: DirTree) -> Directories {
        Directories { live: tree.clone(), durable: tree, pending: Vec::new() }
    }

    pub(super) fn apply_change(&mut self, call: u64, change: DirChange) {
        change.apply(&mut self.live);
        self.pending.push(PendingDirChange { call, change });
    }

    /// Makes every change in `dir` so far durable.
    pub(super) fn sync_dir(&mut self, dir: Inode) {
        // From the last change to the first: a rename out of another directory brings in what came before it there.
        let mut dirs = BTreeSet::from([dir]);
        let mut synced = Vec::new();
        for i in (0..self.pending.len()).rev() {
            let touched = self.pending[i].change.parent_dirs();
            if touched.iter().any(|dir| dirs.contains(dir)) {
                dirs.extend(touched);
                synced.push(self.pending.remove(i).change);
            }
        }
        synced.iter().rev().for_each(|change| change.apply(&mut self.durable));
    }

    /// The names in `dir`.
    pub(super) fn names_in(&self, dir: Inode) -> impl Iterator<Item = &OsString> {
        let from = (dir, OsString::new());
        self.live.range(from..).take_while(move |((parent, _), _)| *parent == dir).map(|((_, name), _)| name)
    }

    /// Every inode that has a name, or would have one again after some power cut.
    pub(super) fn referenced_inodes(&self) -> impl Iterator<Item = Inode> {
        let trees = self.live.values().chain(self.durable.values()).copied();
        trees.chain(self.pending.iter().map(|pending| pending.change.inode()))
    }
}
