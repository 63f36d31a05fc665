//! The state of a file system in memory: files, names, and the numbers of the calls that changed them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use super::content::{AfterFailedSync, Change, Content};
use super::names::{Inode, NameChange, Names, Place, ROOT};
use crate::claims::Claims;

/// Everything behind the lock of a [`super::MemFs`].
#[derive(Debug)]
pub(super) struct World {
    pub(super) names: Names,
    pub(super) files: BTreeMap<Inode, Content>,
    pub(super) dirs: BTreeSet<Inode>,
    next_inode: Inode,
    /// How many mutating calls took effect; also the number of the next one.
    pub(super) calls: u64,
    /// The first call that must fail.
    pub(super) frozen_at: Option<u64>,
    /// The number of the last sync of any file.
    pub(super) last_file_sync: Option<u64>,
    /// The state before each mutating call, if somebody wants it.
    tape: Option<Vec<World>>,
    /// The file sync that is to fail: how many come before it, and what it leaves.
    failing_sync: Option<(u64, AfterFailedSync)>,
    /// How many handles each file has.
    handles: BTreeMap<Inode, usize>,
    pub(super) locks: Claims<Inode>,
}

impl World {
    /// A state after `next_inode` inodes were given out, without handles and locks.
    pub(super) fn new(
        names: Names,
        files: BTreeMap<Inode, Content>,
        dirs: BTreeSet<Inode>,
        next_inode: Inode,
    ) -> World {
        World {
            names,
            files,
            dirs,
            next_inode,
            calls: 0,
            frozen_at: None,
            last_file_sync: None,
            tape: None,
            failing_sync: None,
            handles: BTreeMap::new(),
            locks: Claims::new(),
        }
    }

    /// A root directory and nothing in it.
    pub(super) fn empty() -> World {
        World::new(Names::default(), BTreeMap::new(), BTreeSet::from([ROOT]), ROOT + 1)
    }

    /// The same state, what is pending included, without handles and locks.
    pub(super) fn fork(&self) -> World {
        let mut copy = World::new(self.names.clone(), self.files.clone(), self.dirs.clone(), self.next_inode);
        copy.calls = self.calls;
        copy.last_file_sync = self.last_file_sync;
        copy.drop_unreferenced();
        copy
    }

    /// The state after a crash that left these names and contents: all of it durable, nothing open.
    pub(super) fn image(&self, names: Names, files: BTreeMap<Inode, Content>) -> World {
        let mut image = World::new(names, files, self.dirs.clone(), self.next_inode);
        image.drop_unreferenced();
        image
    }

    /// Counts a mutating call that is about to take effect, and gives its number. Nothing has changed on an error.
    pub(super) fn begin(&mut self) -> io::Result<u64> {
        let call = self.calls;
        if self.frozen_at.is_some_and(|at| call >= at) {
            return Err(io::Error::other(format!("the file system is frozen at call {call}")));
        }
        if self.tape.is_some() {
            let before = self.fork();
            self.tape.get_or_insert_default().push(before);
        }
        self.calls += 1;
        Ok(call)
    }

    /// What `path` stands for.
    pub(super) fn find(&self, path: &Path) -> io::Result<Inode> {
        match self.place(path)? {
            None => Ok(ROOT),
            Some(place) => self.names.live.get(&place).copied().ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// The file that `path` stands for.
    pub(super) fn find_file(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.find(path)?;
        if self.is_dir(inode) { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(inode) }
    }

    /// The directory that `path` stands for.
    pub(super) fn find_dir(&self, path: &Path) -> io::Result<Inode> {
        let inode = self.find(path)?;
        if self.is_dir(inode) { Ok(inode) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Where the name of `path` is or would be; `None` for the root. Relative paths begin at the root.
    pub(super) fn place(&self, path: &Path) -> io::Result<Option<Place>> {
        let mut names: Vec<OsString> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name.to_os_string()),
                Component::ParentDir => drop(names.pop()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        let Some(last) = names.pop() else { return Ok(None) };
        let mut dir = ROOT;
        for name in names {
            dir = *self.names.live.get(&(dir, name)).ok_or(io::ErrorKind::NotFound)?;
            if !self.is_dir(dir) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(Some((dir, last)))
    }

    pub(super) fn is_dir(&self, inode: Inode) -> bool {
        self.dirs.contains(&inode)
    }

    /// An inode for a new name. The caller adds it to the files or the directories.
    pub(super) fn link(&mut self, call: u64, at: Place) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.names.change(call, NameChange::Link { at, inode });
        inode
    }

    /// The file of that name, created if there is none.
    pub(super) fn find_or_create(&mut self, path: &Path) -> io::Result<Inode> {
        match self.find_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let at = self.place(path)?.ok_or(io::ErrorKind::IsADirectory)?;
        let call = self.begin()?;
        let inode = self.link(call, at);
        self.files.insert(inode, Content::default());
        Ok(inode)
    }

    /// Changes the bytes of a file: one mutating call.
    pub(super) fn change(&mut self, inode: Inode, change: Change) -> io::Result<()> {
        self.begin()?;
        self.content(inode)?.change(change);
        Ok(())
    }

    pub(super) fn content(&mut self, inode: Inode) -> io::Result<&mut Content> {
        self.files.get_mut(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes the bytes of a file durable: one mutating call, also if it fails.
    pub(super) fn sync(&mut self, inode: Inode) -> io::Result<()> {
        let call = self.begin()?;
        self.last_file_sync = Some(call);
        match &mut self.failing_sync {
            Some((0, cache)) => {
                let cache = *cache;
                self.failing_sync = None;
                self.content(inode)?.forget(cache);
                Err(io::Error::other("planned failure of a sync"))
            }
            Some((before, _)) => {
                *before -= 1;
                self.content(inode)?.sync();
                Ok(())
            }
            None => {
                self.content(inode)?.sync();
                Ok(())
            }
        }
    }

    /// Fails a sync of a file, after `before` more of them.
    pub(super) fn fail_sync(&mut self, before: u64, cache: AfterFailedSync) {
        self.failing_sync = Some((before, cache));
    }

    pub(super) fn sync_will_fail(&self) -> bool {
        self.failing_sync.is_some()
    }

    /// Begins to keep the state before each mutating call, and gives what was kept so far.
    pub(super) fn take_tape(&mut self) -> Vec<World> {
        self.tape.replace(Vec::new()).unwrap_or_default()
    }

    /// Notes a handle, which keeps the file alive without a name.
    pub(super) fn open(&mut self, inode: Inode) {
        *self.handles.entry(inode).or_default() += 1;
    }

    pub(super) fn close(&mut self, inode: Inode) {
        if let Some(content) = self.files.get_mut(&inode) {
            content.settle();
        }
        if let Some(count) = self.handles.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.handles.remove(&inode);
            }
        }
        // A file that has a name stays; to see that of the others takes a look at everything.
        if !self.handles.contains_key(&inode) && !self.names.live.values().any(|&named| named == inode) {
            self.drop_unreferenced();
        }
    }

    /// Forgets files and directories that no name, no handle and no possible crash leads to.
    pub(super) fn drop_unreferenced(&mut self) {
        let mut kept: BTreeSet<Inode> = self.names.referenced().collect();
        kept.extend(self.handles.keys());
        kept.insert(ROOT);
        self.files.retain(|inode, _| kept.contains(inode));
        self.dirs.retain(|inode| kept.contains(inode));
    }
}
