//! State of a file system in memory: files, names, and the numbers of the mutating calls.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use super::directories::{DirChange, DirEntryKey, Directories, Inode, ROOT_INODE};
use super::file_content::{FailedSyncEffect, FileChange, FileContent};
use crate::lock_table::LockTable;

/// State of a [`super::MemFs`], protected by its mutex.
#[derive(Debug)]
pub(super) struct MemFsState {
    pub(super) directories: Directories,
    pub(super) files: BTreeMap<Inode, FileContent>,
    pub(super) dir_inodes: BTreeSet<Inode>,
    next_inode: Inode,
    /// Number of mutating calls that took effect, which is also the number of the next one.
    pub(super) mutation_count: u64,
    /// Number of the first call that must fail.
    pub(super) frozen_at: Option<u64>,
    /// Number of the last sync of any file.
    pub(super) last_file_sync: Option<u64>,
    /// State before each mutating call, if crash points are recorded.
    crash_points: Option<Vec<MemFsState>>,
    /// Number of successful file syncs before the injected failure, and its effect.
    injected_sync_failure: Option<(u64, FailedSyncEffect)>,
    /// Number of handles of each file.
    open_handles: BTreeMap<Inode, usize>,
    pub(super) locks: LockTable<Inode>,
}

impl MemFsState {
    /// Creates a state without handles and locks.
    pub(super) fn new(
        directories: Directories,
        files: BTreeMap<Inode, FileContent>,
        dir_inodes: BTreeSet<Inode>,
        next_inode: Inode,
    ) -> MemFsState {
        MemFsState {
            directories,
            files,
            dir_inodes,
            next_inode,
            mutation_count: 0,
            frozen_at: None,
            last_file_sync: None,
            crash_points: None,
            injected_sync_failure: None,
            open_handles: BTreeMap::new(),
            locks: LockTable::new(),
        }
    }

    /// Creates a state with an empty root directory.
    pub(super) fn empty() -> MemFsState {
        MemFsState::new(Directories::default(), BTreeMap::new(), BTreeSet::from([ROOT_INODE]), ROOT_INODE + 1)
    }

    /// Returns the same state with its pending changes, without handles and locks.
    pub(super) fn fork(&self) -> MemFsState {
        let mut copy = MemFsState::new(
            self.directories.clone(),
            self.files.clone(),
            self.dir_inodes.clone(),
            self.next_inode,
        );
        copy.mutation_count = self.mutation_count;
        copy.last_file_sync = self.last_file_sync;
        copy.drop_unreferenced();
        copy
    }

    /// Returns the state after a crash that left these names and contents. Everything in it is
    /// durable, and nothing is open.
    pub(super) fn crash_image(
        &self,
        directories: Directories,
        files: BTreeMap<Inode, FileContent>,
    ) -> MemFsState {
        let mut image = MemFsState::new(directories, files, self.dir_inodes.clone(), self.next_inode);
        image.drop_unreferenced();
        image
    }

    /// Counts a mutating call that is about to take effect, and returns its number. An error has no
    /// effect.
    pub(super) fn begin_mutation(&mut self) -> io::Result<u64> {
        let call = self.mutation_count;
        if self.frozen_at.is_some_and(|frozen_at| call >= frozen_at) {
            return Err(io::Error::other(format!("the file system is frozen at call {call}")));
        }
        if self.crash_points.is_some() {
            let before = self.fork();
            self.crash_points.get_or_insert_default().push(before);
        }
        self.mutation_count += 1;
        Ok(call)
    }

    /// Returns the inode of `path`.
    pub(super) fn resolve(&self, path: &Path) -> io::Result<Inode> {
        match self.resolve_entry(path)? {
            None => Ok(ROOT_INODE),
            Some(entry) => {
                self.directories.live.get(&entry).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }

    /// Returns the inode of the file `path`.
    pub(super) fn resolve_file(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.resolve(path)?;
        if self.is_dir(inode) { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(inode) }
    }

    /// Returns the inode of the directory `path`.
    pub(super) fn resolve_dir(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.resolve(path)?;
        if self.is_dir(inode) { Ok(inode) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Returns the directory entry of `path`, which need not exist, or `None` for the root.
    /// Relative paths start at the root.
    pub(super) fn resolve_entry(&self, path: &Path) -> io::Result<Option<DirEntryKey>> {
        let mut names: Vec<OsString> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name.to_os_string()),
                Component::ParentDir => drop(names.pop()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        let Some(last) = names.pop() else { return Ok(None) };
        let mut dir = ROOT_INODE;
        for name in names {
            dir = *self.directories.live.get(&(dir, name)).ok_or(io::ErrorKind::NotFound)?;
            if !self.is_dir(dir) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(Some((dir, last)))
    }

    pub(super) fn is_dir(&self, inode: Inode) -> bool {
        self.dir_inodes.contains(&inode)
    }

    /// Links a new inode at `entry`. The caller adds it to the files or the directories.
    pub(super) fn link_new_inode(&mut self, call: u64, entry: DirEntryKey) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.directories.apply_change(call, DirChange::Link { entry, inode });
        inode
    }

    /// Returns an error of kind [`io::ErrorKind::Unsupported`] if the file has several hard links:
    /// a writer of one name would change the other ones, too.
    pub(super) fn check_single_link(&self, inode: Inode) -> io::Result<()> {
        let links = self.directories.live.values().filter(|&&named| named == inode).count();
        if links > 1 { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }

    /// Returns the file `path`, and creates it if it does not exist.
    pub(super) fn resolve_or_create_file(&mut self, path: &Path) -> io::Result<Inode> {
        match self.resolve_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let entry = self.resolve_entry(path)?.ok_or(io::ErrorKind::IsADirectory)?;
        let call = self.begin_mutation()?;
        let inode = self.link_new_inode(call, entry);
        self.files.insert(inode, FileContent::default());
        Ok(inode)
    }

    /// Changes the bytes of a file with one mutating call.
    pub(super) fn change_file(&mut self, inode: Inode, change: FileChange) -> io::Result<()> {
        self.begin_mutation()?;
        self.file_content(inode)?.apply_change(change);
        Ok(())
    }

    pub(super) fn file_content(&mut self, inode: Inode) -> io::Result<&mut FileContent> {
        self.files.get_mut(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes the bytes of a file durable with one mutating call. A failed sync counts too.
    pub(super) fn sync_file(&mut self, inode: Inode) -> io::Result<()> {
        let call = self.begin_mutation()?;
        self.last_file_sync = Some(call);
        match &mut self.injected_sync_failure {
            Some((0, effect)) => {
                let effect = *effect;
                self.injected_sync_failure = None;
                self.file_content(inode)?.fail_sync(effect);
                Err(io::Error::other("injected sync failure"))
            }
            Some((before, _)) => {
                *before -= 1;
                self.file_content(inode)?.sync();
                Ok(())
            }
            None => {
                self.file_content(inode)?.sync();
                Ok(())
            }
        }
    }

    /// Makes one file sync fail after `before` more.
    pub(super) fn inject_sync_failure(&mut self, before: u64, effect: FailedSyncEffect) {
        self.injected_sync_failure = Some((before, effect));
    }

    pub(super) fn has_injected_sync_failure(&self) -> bool {
        self.injected_sync_failure.is_some()
    }

    /// Starts the recording of crash points, and returns the recorded ones.
    pub(super) fn take_crash_points(&mut self) -> Vec<MemFsState> {
        self.crash_points.replace(Vec::new()).unwrap_or_default()
    }

    /// Counts a handle, which keeps the file alive without a name.
    pub(super) fn add_handle(&mut self, inode: Inode) {
        *self.open_handles.entry(inode).or_default() += 1;
    }

    pub(super) fn drop_handle(&mut self, inode: Inode) {
        if let Some(content) = self.files.get_mut(&inode) {
            content.share_durable_bytes();
        }
        if let Some(count) = self.open_handles.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.open_handles.remove(&inode);
            }
        }
        // A linked file stays. Only for an unlinked one is a search of all directories necessary.
        if !self.open_handles.contains_key(&inode)
            && !self.directories.live.values().any(|&named| named == inode)
        {
            self.drop_unreferenced();
        }
    }

    /// Drops files and directories that no name, no handle and no possible crash image refers to.
    pub(super) fn drop_unreferenced(&mut self) {
        let mut referenced: BTreeSet<Inode> = self.directories.referenced_inodes().collect();
        referenced.extend(self.open_handles.keys());
        referenced.insert(ROOT_INODE);
        self.files.retain(|inode, _| referenced.contains(inode));
        self.dir_inodes.retain(|inode| referenced.contains(inode));
    }
}
