//! Files in memory, which know what a crash would leave of them.
//!
//! ```text
//!   calls      0    1    2    3   ...            each mutating call has a number
//!              create
//!                   write     sync_dir
//!                        sync
//!                           ^
//!   freeze_at(3) -----------'  calls from 3 on fail; then crash(..) gives what a restart finds
//! ```
//!
//! The model: a file is its durable bytes and the changes since its last sync; a directory is its durable names and the
//! changes since *its* last sync. Nothing else makes anything durable: syncing a file does not save its name, and
//! renaming a file does not save its bytes. [`MemFs::crash`] decides what becomes of what is pending.
//!
//! Relative paths begin at the root. There are no links and no permissions.

mod choice;
mod content;
mod crash;
mod handles;
mod names;
mod profiles;
mod world;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{FileError, Held, Result};
use crate::fs::{
    Access, FileLock, FileSystem, LockMode, LogFile, RandomAccessFile, SequentialFile, WritableFile,
};
use content::Change;
use handles::Handle;
use names::NameChange;
use world::World;

pub use content::AfterFailedSync;
pub use profiles::{Arrives, Crash, DataLoss, Missing, NameLoss, PROFILES, PowerLoss, Profile};

/// Capacities of logs are multiples of the log format's block.
const LOG_UNIT: u64 = 32 * 1024;

/// A file system in memory.
///
/// Not `Clone`: [`MemFs::fork`] copies the state, an [`Arc`] shares it.
#[derive(Debug)]
pub struct MemFs {
    world: Arc<Mutex<World>>,
}

impl MemFs {
    /// A file system with an empty root directory.
    pub fn new() -> MemFs {
        MemFs::of(World::empty())
    }

    fn of(world: World) -> MemFs {
        MemFs { world: Arc::new(Mutex::new(world)) }
    }

    /// How many mutating calls took effect: creations, writes that reached the system, stores (three calls each:
    /// body, head, the head's last four bytes), syncs, renames, removals. A call that fails has no number.
    pub fn mutations(&self) -> u64 {
        self.world.lock().calls
    }

    /// Lets mutating calls with numbers below `call` take effect, and fails all later ones: the state stays as
    /// a crash at that call would find it. Reads go on.
    pub fn freeze_at(&self, call: u64) {
        self.world.lock().frozen_at = Some(call);
    }

    /// A copy that is independent from now on: what is pending is pending there too, nothing is open, locked or
    /// frozen. Cheap: the bytes are shared until one side changes them.
    pub fn fork(&self) -> MemFs {
        MemFs::of(self.world.lock().fork())
    }

    /// What a restart finds after a crash at this moment, all of it durable. Call numbers begin at 0 again.
    /// This file system and its handles are untouched.
    pub fn crash(&self, how: &Crash) -> MemFs {
        MemFs::of(crash::image(&self.world.lock(), how))
    }

    /// The state before each mutating call since the last call of this, each as [`MemFs::fork`] makes it: every point
    /// at which a crash can find what ran in between. The first call begins to keep them, and gives none.
    pub fn take_points(&self) -> Vec<MemFs> {
        self.world.lock().take_tape().into_iter().map(MemFs::of).collect()
    }

    /// Every power cut of `profile` at this moment that [`Profile::choices`] knows.
    pub fn losses(&self, profile: &Profile, few: usize, seed: u64) -> Vec<Crash> {
        profile.choices(crash::pieces(&self.world.lock(), profile.data, profile.names), few, seed)
    }

    /// Fails one sync of a file, after `before` more have succeeded, and takes what it could not write for written:
    /// later syncs succeed, without those changes. So do systems whose pages are clean after the attempt.
    pub fn fail_sync(&self, before: u64, cache: AfterFailedSync) {
        self.world.lock().fail_sync(before, cache);
    }

    /// True until the sync that [`MemFs::fail_sync`] is about was asked for.
    pub fn sync_will_fail(&self) -> bool {
        self.world.lock().sync_will_fail()
    }

    /// Changes the bytes of a file at rest, durably and behind everybody's back.
    pub fn rot(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut world = self.world.lock();
        let inode = world.find_file(path).map_err(fail("rot", path))?;
        let content = world.content(inode).map_err(fail("rot", path))?;
        let mut bytes = content.live.to_vec();
        change(&mut bytes);
        *content = content::Content::durable(Arc::new(bytes));
        Ok(())
    }

    fn writable(&self, world: &mut World, path: &Path, inode: names::Inode) -> Box<dyn WritableFile> {
        Box::new(handles::Writable::new(Handle::new(&self.world, world, inode, path)))
    }

    fn log(
        &self,
        world: &mut World,
        path: &Path,
        inode: names::Inode,
        len: usize,
    ) -> Result<Box<dyn LogFile>> {
        world.change(inode, Change::SetLen(len)).map_err(fail("allocate", path))?;
        let handle = Handle::new(&self.world, world, inode, path);
        Ok(Box::new(handles::Log::new(handle, len as u64)))
    }
}

impl Default for MemFs {
    fn default() -> MemFs {
        MemFs::new()
    }
}

impl FileSystem for MemFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let mut world = self.world.lock();
        let inode = world.find_file(path).map_err(fail("open", path))?;
        let handle = Handle::new(&self.world, &mut world, inode, path);
        Ok(Box::new(handles::Sequential::new(handle)))
    }

    fn open_random(&self, path: &Path, access: Access) -> Result<Arc<dyn RandomAccessFile>> {
        let mut world = self.world.lock();
        let inode = world.find_file(path).map_err(fail("open", path))?;
        let bytes = Arc::clone(&world.content(inode).map_err(fail("open", path))?.live);
        Ok(Arc::new(handles::Random { bytes, mapped: access == Access::Map }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut world = self.world.lock();
        let inode = create_empty(&mut world, path).map_err(fail("open", path))?;
        Ok(self.writable(&mut world, path, inode))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut world = self.world.lock();
        let inode = world.find_or_create(path).map_err(fail("open", path))?;
        Ok(self.writable(&mut world, path, inode))
    }

    fn create_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let mut world = self.world.lock();
        let len = log_room(capacity).map_err(fail("allocate", path))?;
        let inode = create_empty(&mut world, path).map_err(fail("open", path))?;
        self.log(&mut world, path, inode, len)
    }

    fn reopen_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let mut world = self.world.lock();
        let inode = world.find_file(path).map_err(fail("open", path))?;
        let held = world.content(inode).map_err(fail("open", path))?.live.len();
        let len = log_room(capacity.max(held as u64)).map_err(fail("allocate", path))?;
        self.log(&mut world, path, inode, len)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.world.lock().find(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(fail("stat", path)(e)),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        let world = self.world.lock();
        match world.find(path) {
            Ok(inode) => Ok(world.is_dir(inode)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(fail("stat", path)(e)),
        }
    }

    fn len(&self, path: &Path) -> Result<u64> {
        let mut world = self.world.lock();
        let inode = world.find_file(path).map_err(fail("stat", path))?;
        let content = world.content(inode).map_err(fail("stat", path))?;
        Ok(content.live.len() as u64)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        let world = self.world.lock();
        let inode = world.find_dir(dir).map_err(fail("list", dir))?;
        Ok(world.names.in_dir(inode).cloned().collect())
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        create_dir(&mut self.world.lock(), dir).map_err(fail("mkdir", dir))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        remove_dir(&mut self.world.lock(), dir).map_err(fail("rmdir", dir))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        remove(&mut self.world.lock(), path).map_err(fail("remove", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        rename(&mut self.world.lock(), from, to).map_err(fail("rename", from))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        sync_dir(&mut self.world.lock(), dir).map_err(fail("fsync", dir))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        let mut world = self.world.lock();
        let found = match mode {
            LockMode::Exclusive => world.find_or_create(path),
            LockMode::Shared => world.find_file(path),
        };
        let inode = found.map_err(fail("lock", path))?;
        if !world.locks.admits(&inode, mode) {
            return Err(fail("lock", path)(Held::Here.into()));
        }
        world.locks.add(inode, mode);
        Ok(Box::new(handles::Lock(Handle::new(&self.world, &mut world, inode, path))))
    }
}

fn log_room(capacity: u64) -> io::Result<usize> {
    let rounded = capacity.max(1).checked_next_multiple_of(LOG_UNIT);
    let len = rounded.and_then(|n| usize::try_from(n).ok().filter(|&n| n <= isize::MAX as usize));
    len.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

fn fail(op: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    move |e| FileError::new(op, path, e)
}

/// The file of that name without contents.
fn create_empty(world: &mut World, path: &Path) -> io::Result<names::Inode> {
    let before = world.calls;
    let inode = world.find_or_create(path)?;
    if world.calls == before {
        world.change(inode, Change::SetLen(0))?;
    }
    Ok(inode)
}

fn create_dir(world: &mut World, path: &Path) -> io::Result<()> {
    let at = world.place(path)?.ok_or(io::ErrorKind::AlreadyExists)?;
    if world.names.live.contains_key(&at) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let call = world.begin()?;
    let inode = world.link(call, at);
    world.dirs.insert(inode);
    Ok(())
}

fn remove_dir(world: &mut World, path: &Path) -> io::Result<()> {
    let inode = world.find_dir(path)?;
    let at = world.place(path)?.ok_or(io::ErrorKind::ResourceBusy)?;
    if world.names.in_dir(inode).next().is_some() {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    let call = world.begin()?;
    world.names.change(call, NameChange::Unlink { at, inode });
    Ok(())
}

fn remove(world: &mut World, path: &Path) -> io::Result<()> {
    let inode = world.find_file(path)?;
    let at = world.place(path)?.ok_or(io::ErrorKind::IsADirectory)?;
    let call = world.begin()?;
    world.names.change(call, NameChange::Unlink { at, inode });
    Ok(())
}

fn rename(world: &mut World, from: &Path, to: &Path) -> io::Result<()> {
    let inode = world.find(from)?;
    let (Some(from), Some(to)) = (world.place(from)?, world.place(to)?) else {
        return Err(io::ErrorKind::ResourceBusy.into());
    };
    let replaced = world.names.live.get(&to).copied();
    if replaced == Some(inode) {
        return Ok(());
    }
    if world.is_dir(inode) && replaced.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if replaced.is_some_and(|replaced| world.is_dir(replaced)) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let call = world.begin()?;
    world.names.change(call, NameChange::Rename { from, to, inode });
    Ok(())
}

fn sync_dir(world: &mut World, path: &Path) -> io::Result<()> {
    let dir = world.find_dir(path)?;
    world.begin()?;
    world.names.sync(dir);
    world.drop_unreferenced();
    Ok(())
}
