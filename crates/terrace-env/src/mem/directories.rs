//! Directories: the live names, and the names that a power cut may leave.
//!
//! Like a file, the directory tree has a live state, a durable state and pending changes. A change
//! belongs to its parent directory, and a sync of a directory makes only its own changes durable. A
//! rename between two directories belongs to both. The first sync of either makes the rename
//! durable, together with the earlier changes of both.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Number of a file or directory. It is never used twice.
pub(super) type Inode = u64;

/// Root directory, which has no name.
pub(super) const ROOT_INODE: Inode = 0;

/// Key of a directory entry: the directory and the name.
pub(super) type DirEntryKey = (Inode, OsString);

/// Inode of every name.
pub(super) type DirTree = BTreeMap<DirEntryKey, Inode>;

/// Change of a directory since its last sync.
#[derive(Debug, Clone)]
pub(super) enum DirChange {
    Link { entry: DirEntryKey, inode: Inode },
    Unlink { entry: DirEntryKey, inode: Inode },
    Rename { from: DirEntryKey, to: DirEntryKey, inode: Inode },
}

impl DirChange {
    /// Applies the change to `tree`, which may lack earlier changes.
    pub(super) fn apply(&self, tree: &mut DirTree) {
        match self {
            DirChange::Link { entry, inode } => drop(tree.insert(entry.clone(), *inode)),
            DirChange::Unlink { entry, .. } => drop(tree.remove(entry)),
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

    /// Returns the parent directory twice, or both parent directories of a rename.
    fn parent_dirs(&self) -> [Inode; 2] {
        match self {
            DirChange::Link { entry, .. } | DirChange::Unlink { entry, .. } => [entry.0, entry.0],
            DirChange::Rename { from, to, .. } => [from.0, to.0],
        }
    }
}

/// Change and the number of its call.
#[derive(Debug, Clone)]
pub(super) struct PendingDirChange {
    pub(super) call: u64,
    pub(super) change: DirChange,
}

/// All directories.
#[derive(Debug, Clone, Default)]
pub(super) struct Directories {
    pub(super) live: DirTree,
    pub(super) durable: DirTree,
    pub(super) pending: Vec<PendingDirChange>,
}

impl Directories {
    /// Creates directories whose names are all durable.
    pub(super) fn all_durable(tree: DirTree) -> Directories {
        Directories { live: tree.clone(), durable: tree, pending: Vec::new() }
    }

    pub(super) fn apply_change(&mut self, call: u64, change: DirChange) {
        change.apply(&mut self.live);
        self.pending.push(PendingDirChange { call, change });
    }

    /// Makes all changes in `dir` durable.
    pub(super) fn sync_dir(&mut self, dir: Inode) {
        // Backward, because a rename from another directory also requires the earlier changes of
        // that directory.
        let mut dirs = BTreeSet::from([dir]);
        let mut synced = Vec::new();
        for i in (0..self.pending.len()).rev() {
            let touched = self.pending[i].change.parent_dirs();
            if touched.iter().any(|dir| dirs.contains(dir)) {
                dirs.extend(touched);
                synced.push(self.pending.remove(i).change);
            }
        }
        for change in synced.iter().rev() {
            change.apply(&mut self.durable);
        }
    }

    /// Returns the names in `dir`.
    pub(super) fn names_in(&self, dir: Inode) -> impl Iterator<Item = &OsString> {
        let first = (dir, OsString::new());
        self.live.range(first..).take_while(move |((parent, _), _)| *parent == dir).map(|((_, name), _)| name)
    }

    /// Returns every inode that has a name, or has one again after some power cut.
    pub(super) fn referenced_inodes(&self) -> impl Iterator<Item = Inode> {
        let trees = self.live.values().chain(self.durable.values()).copied();
        trees.chain(self.pending.iter().map(|pending| pending.change.inode()))
    }
}
