//! The state of a file system in memory: files, names, and the numbers of the calls that changed them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use super::directories::{DirChange, DirEntryKey, Directories, Inode, ROOT_INODE};
use super::file_content::{FailedSyncEffect, FileChange, FileContent};
use crate::lock_table::LockTable;

/// Everything behind the lock of a [`super::MemFs`].
#[derive(Debug)]
pub(super) struct MemFsState {
    pub(super) directories: Directories,
    pub(super) files: BTreeMap<Inode, FileContent>,
    pub(super) dir_inodes: BTreeSet<Inode>,
    next_inode: Inode,
    /// How many mutating calls took effect; also the number of the next one.
    pub(super) mutation_count: u64,
    /// The first call that must fail.
    pub(super) frozen_at: Option<u64>,
    /// The number of the last sync of any file.
    pub(super) last_file_sync: Option<u64>,
    /// The state before each mutating call, if somebody wants it.
    crash_points: Option<Vec<MemFsState>>,
    /// The file sync that is to fail: how many come before it, and what it leaves.
    injected_sync_failure: Option<(u64, FailedSyncEffect)>,
    /// How many handles each file has.
    open_handles: BTreeMap<Inode, usize>,
    pub(super) locks: LockTable<Inode>,
}

impl MemFsState {
    /// A state after `next_inode` inodes were given out, without handles and locks.
    pub(super) fn new(
        names: Directories,
        files: BTreeMap<Inode, FileContent>,
        dirs: BTreeSet<Inode>,
        next_inode: Inode,
    ) -> MemFsState {
        MemFsState {
            directories: names,
            files,
            dir_inodes: dirs,
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

    /// A root directory and nothing in it.
    pub(super) fn empty() -> MemFsState {
        MemFsState::new(Directories::default(), BTreeMap::new(), BTreeSet::from([ROOT_INODE]), ROOT_INODE + 1)
    }

    /// The same state, what is pending included, without handles and locks.
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

    /// The state after a crash that left these names and contents: all of it durable, nothing open.
    pub(super) fn crash_image(&self, names: Directories, files: BTreeMap<Inode, FileContent>) -> MemFsState {
        let mut image = MemFsState::new(names, files, self.dir_inodes.clone(), self.next_inode);
        image.drop_unreferenced();
        image
    }

    /// Counts a mutating call that is about to take effect, and gives its number. Nothing has changed on an error.
    pub(super) fn begin_mutation(&mut self) -> io::Result<u64> {
        let call = self.mutation_count;
        if self.frozen_at.is_some_and(|at| call >= at) {
            return Err(io::Error::other(format!("the file system is frozen at call {call}")));
        }
        if self.crash_points.is_some() {
            let before = self.fork();
            self.crash_points.get_or_insert_default().push(before);
        }
        self.mutation_count += 1;
        Ok(call)
    }

    /// What `path` stands for.
    pub(super) fn resolve(&self, path: &Path) -> io::Result<Inode> {
        match self.resolve_entry(path)? {
            None => Ok(ROOT_INODE),
            Some(place) => {
                self.directories.live.get(&place).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }

    /// The file that `path` stands for.
    pub(super) fn resolve_file(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.resolve(path)?;
        if self.is_dir(inode) { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(inode) }
    }

    /// The directory that `path` stands for.
    pub(super) fn resolve_dir(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.resolve(path)?;
        if self.is_dir(inode) { Ok(inode) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Where the name of `path` is or would be; `None` for the root. Relative paths begin at the root.
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

    /// An inode for a new name. The caller adds it to the files or the directories.
    pub(super) fn link_new_inode(&mut self, call: u64, at: DirEntryKey) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.directories.apply_change(call, DirChange::Link { entry: at, inode });
        inode
    }

    /// The file of that name, created if there is none.
    pub(super) fn resolve_or_create_file(&mut self, path: &Path) -> io::Result<Inode> {
        match self.resolve_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let at = self.resolve_entry(path)?.ok_or(io::ErrorKind::IsADirectory)?;
        let call = self.begin_mutation()?;
        let inode = self.link_new_inode(call, at);
        self.files.insert(inode, FileContent::default());
        Ok(inode)
    }

    /// Changes the bytes of a file: one mutating call.
    pub(super) fn change_file(&mut self, inode: Inode, change: FileChange) -> io::Result<()> {
        self.begin_mutation()?;
        self.file_content(inode)?.apply_change(change);
        Ok(())
    }

    pub(super) fn file_content(&mut self, inode: Inode) -> io::Result<&mut FileContent> {
        self.files.get_mut(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes the bytes of a file durable: one mutating call, also if it fails.
    pub(super) fn sync_file(&mut self, inode: Inode) -> io::Result<()> {
        let call = self.begin_mutation()?;
        self.last_file_sync = Some(call);
        match &mut self.injected_sync_failure {
            Some((0, cache)) => {
                let cache = *cache;
                self.injected_sync_failure = None;
                self.file_content(inode)?.fail_sync(cache);
                Err(io::Error::other("planned failure of a sync"))
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

    /// Fails a sync of a file, after `before` more of them.
    pub(super) fn inject_sync_failure(&mut self, before: u64, cache: FailedSyncEffect) {
        self.injected_sync_failure = Some((before, cache));
    }

    pub(super) fn has_injected_sync_failure(&self) -> bool {
        self.injected_sync_failure.is_some()
    }

    /// Begins to keep the state before each mutating call, and gives what was kept so far.
    pub(super) fn take_crash_points(&mut self) -> Vec<MemFsState> {
        self.crash_points.replace(Vec::new()).unwrap_or_default()
    }

    /// Notes a handle, which keeps the file alive without a name.
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
        // A file that has a name stays; to see that of the others takes a look at everything.
        if !self.open_handles.contains_key(&inode)
            && !self.directories.live.values().any(|&named| named == inode)
        {
            self.drop_unreferenced();
        }
    }

    /// Forgets files and directories that no name, no handle and no possible crash leads to.
    pub(super) fn drop_unreferenced(&mut self) {
        let mut kept: BTreeSet<Inode> = self.directories.referenced_inodes().collect();
        kept.extend(self.open_handles.keys());
        kept.insert(ROOT_INODE);
        self.files.retain(|inode, _| kept.contains(inode));
        self.dir_inodes.retain(|inode| kept.contains(inode));
    }
}
