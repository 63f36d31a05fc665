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
//! renaming a file does not save its bytes. [`MemFs::crash_clone`] decides what becomes of what is pending.
//!
//! Relative paths begin at the root. There are no links and no permissions.

mod crash;
mod directories;
mod file_content;
mod handles;
mod loss_sampler;
mod profiles;
mod state;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{FileError, LockHolder, Result};
use crate::fs::{
    AccessMode, FileLock, FileSystem, LockMode, LogFile, RandomAccessFile, SequentialFile, WritableFile,
};
use directories::DirChange;
use file_content::FileChange;
use handles::MemFileHandle;
use state::MemFsState;

pub use file_content::FailedSyncEffect;
pub use profiles::{
    Crash, DataLoss, DirEntryLoss, LostSector, POWER_LOSS_PROFILES, PersistedPieces, PowerLoss,
    PowerLossProfile,
};

/// Capacities of logs are multiples of the log format's block.
const LOG_CAPACITY_UNIT: u64 = 32 * 1024;

/// A file system in memory.
///
/// Not `Clone`: [`MemFs::fork`] copies the state, an [`Arc`] shares it.
#[derive(Debug)]
pub struct MemFs {
    state: Arc<Mutex<MemFsState>>,
}

impl MemFs {
    /// A file system with an empty root directory.
    pub fn new() -> MemFs {
        MemFs::from_state(MemFsState::empty())
    }

    fn from_state(world: MemFsState) -> MemFs {
        MemFs { state: Arc::new(Mutex::new(world)) }
    }

    /// How many mutating calls took effect: creations, writes that reached the system, stores (three calls each:
    /// body, head, the head's last four bytes), syncs, renames, removals. A call that fails has no number.
    pub fn mutation_count(&self) -> u64 {
        self.state.lock().mutation_count
    }

    /// Lets mutating calls with numbers below `call` take effect, and fails all later ones: the state stays as
    /// a crash at that call would find it. Reads go on.
    pub fn freeze_at(&self, call: u64) {
        self.state.lock().frozen_at = Some(call);
    }

    /// A copy that is independent from now on: what is pending is pending there too, nothing is open, locked or
    /// frozen. Cheap: the bytes are shared until one side changes them.
    pub fn fork(&self) -> MemFs {
        MemFs::from_state(self.state.lock().fork())
    }

    /// What a restart finds after a crash at this moment, all of it durable. Call numbers begin at 0 again.
    /// This file system and its handles are untouched.
    pub fn crash_clone(&self, how: &Crash) -> MemFs {
        MemFs::from_state(crash::crash_image(&self.state.lock(), how))
    }

    /// The state before each mutating call since the last call of this, each as [`MemFs::fork`] makes it: every point
    /// at which a crash can find what ran in between. The first call begins to keep them, and gives none.
    pub fn take_crash_points(&self) -> Vec<MemFs> {
        self.state.lock().take_crash_points().into_iter().map(MemFs::from_state).collect()
    }

    /// Every power cut of `profile` at this moment that [`PowerLossProfile::crashes`] knows.
    pub fn power_losses(&self, profile: &PowerLossProfile, few: usize, seed: u64) -> Vec<Crash> {
        profile.crashes(
            crash::pending_piece_count(&self.state.lock(), profile.data, profile.dir_entries),
            few,
            seed,
        )
    }

    /// Fails one sync of a file, after `before` more have succeeded, and takes what it could not write for written:
    /// later syncs succeed, without those changes. So do systems whose pages are clean after the attempt.
    pub fn inject_sync_failure(&self, before: u64, cache: FailedSyncEffect) {
        self.state.lock().inject_sync_failure(before, cache);
    }

    /// True until the sync that [`MemFs::inject_sync_failure`] is about was asked for.
    pub fn has_injected_sync_failure(&self) -> bool {
        self.state.lock().has_injected_sync_failure()
    }

    /// Changes the bytes of a file at rest, durably and behind everybody's back.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut world = self.state.lock();
        let inode = world.resolve_file(path).map_err(file_error("rot", path))?;
        let content = world.file_content(inode).map_err(file_error("rot", path))?;
        let mut bytes = content.live.to_vec();
        change(&mut bytes);
        *content = file_content::FileContent::all_durable(Arc::new(bytes));
        Ok(())
    }

    fn new_writable_file(
        &self,
        world: &mut MemFsState,
        path: &Path,
        inode: directories::Inode,
    ) -> Box<dyn WritableFile> {
        Box::new(handles::MemWritableFile::new(MemFileHandle::new(&self.state, world, inode, path)))
    }

    fn new_log_file(
        &self,
        world: &mut MemFsState,
        path: &Path,
        inode: directories::Inode,
        len: usize,
    ) -> Result<Box<dyn LogFile>> {
        world.change_file(inode, FileChange::SetLen(len)).map_err(file_error("allocate", path))?;
        let handle = MemFileHandle::new(&self.state, world, inode, path);
        Ok(Box::new(handles::MemLogFile::new(handle, len as u64)))
    }
}

impl Default for MemFs {
    fn default() -> MemFs {
        MemFs::new()
    }
}

impl FileSystem for MemFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let mut world = self.state.lock();
        let inode = world.resolve_file(path).map_err(file_error("open", path))?;
        let handle = MemFileHandle::new(&self.state, &mut world, inode, path);
        Ok(Box::new(handles::MemSequentialFile::new(handle)))
    }

    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        let mut world = self.state.lock();
        let inode = world.resolve_file(path).map_err(file_error("open", path))?;
        let bytes = Arc::clone(&world.file_content(inode).map_err(file_error("open", path))?.live);
        Ok(Arc::new(handles::MemRandomAccessFile { bytes, is_mapped: access == AccessMode::Mmap }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut world = self.state.lock();
        let inode = create_or_truncate(&mut world, path).map_err(file_error("open", path))?;
        Ok(self.new_writable_file(&mut world, path, inode))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut world = self.state.lock();
        let inode = world.resolve_or_create_file(path).map_err(file_error("open", path))?;
        Ok(self.new_writable_file(&mut world, path, inode))
    }

    fn create_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let mut world = self.state.lock();
        let len = rounded_log_capacity(capacity).map_err(file_error("allocate", path))?;
        let inode = create_or_truncate(&mut world, path).map_err(file_error("open", path))?;
        self.new_log_file(&mut world, path, inode, len)
    }

    fn reopen_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let mut world = self.state.lock();
        let inode = world.resolve_file(path).map_err(file_error("open", path))?;
        let held = world.file_content(inode).map_err(file_error("open", path))?.live.len();
        let len = rounded_log_capacity(capacity.max(held as u64)).map_err(file_error("allocate", path))?;
        self.new_log_file(&mut world, path, inode, len)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.state.lock().resolve(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(file_error("stat", path)(e)),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        let world = self.state.lock();
        match world.resolve(path) {
            Ok(inode) => Ok(world.is_dir(inode)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(file_error("stat", path)(e)),
        }
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let mut world = self.state.lock();
        let inode = world.resolve_file(path).map_err(file_error("stat", path))?;
        let content = world.file_content(inode).map_err(file_error("stat", path))?;
        Ok(content.live.len() as u64)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        let world = self.state.lock();
        let inode = world.resolve_dir(dir).map_err(file_error("list", dir))?;
        Ok(world.directories.names_in(inode).cloned().collect())
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        create_dir(&mut self.state.lock(), dir).map_err(file_error("mkdir", dir))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        remove_dir(&mut self.state.lock(), dir).map_err(file_error("rmdir", dir))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        remove(&mut self.state.lock(), path).map_err(file_error("remove", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        rename(&mut self.state.lock(), from, to).map_err(file_error("rename", from))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        sync_dir(&mut self.state.lock(), dir).map_err(file_error("fsync", dir))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        let mut world = self.state.lock();
        let found = match mode {
            LockMode::Exclusive => world.resolve_or_create_file(path),
            LockMode::Shared => world.resolve_file(path),
        };
        let inode = found.map_err(file_error("lock", path))?;
        if !world.locks.can_lock(&inode, mode) {
            return Err(file_error("lock", path)(LockHolder::ThisProcess.into()));
        }
        world.locks.insert(inode, mode);
        Ok(Box::new(handles::MemFileLock(MemFileHandle::new(&self.state, &mut world, inode, path))))
    }
}

fn rounded_log_capacity(capacity: u64) -> io::Result<usize> {
    let rounded = capacity.max(1).checked_next_multiple_of(LOG_CAPACITY_UNIT);
    let len = rounded.and_then(|n| usize::try_from(n).ok().filter(|&n| n <= isize::MAX as usize));
    len.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

fn file_error(op: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    move |e| FileError::new(op, path, e)
}

/// The file of that name without contents.
fn create_or_truncate(world: &mut MemFsState, path: &Path) -> io::Result<directories::Inode> {
    let before = world.mutation_count;
    let inode = world.resolve_or_create_file(path)?;
    if world.mutation_count == before {
        world.change_file(inode, FileChange::SetLen(0))?;
    }
    Ok(inode)
}

fn create_dir(world: &mut MemFsState, path: &Path) -> io::Result<()> {
    let at = world.resolve_entry(path)?.ok_or(io::ErrorKind::AlreadyExists)?;
    if world.directories.live.contains_key(&at) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let call = world.begin_mutation()?;
    let inode = world.link_new_inode(call, at);
    world.dir_inodes.insert(inode);
    Ok(())
}

fn remove_dir(world: &mut MemFsState, path: &Path) -> io::Result<()> {
    let inode = world.resolve_dir(path)?;
    let at = world.resolve_entry(path)?.ok_or(io::ErrorKind::ResourceBusy)?;
    if world.directories.names_in(inode).next().is_some() {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    let call = world.begin_mutation()?;
    world.directories.apply_change(call, DirChange::Unlink { entry: at, inode });
    Ok(())
}

fn remove(world: &mut MemFsState, path: &Path) -> io::Result<()> {
    let inode = world.resolve_file(path)?;
    let at = world.resolve_entry(path)?.ok_or(io::ErrorKind::IsADirectory)?;
    let call = world.begin_mutation()?;
    world.directories.apply_change(call, DirChange::Unlink { entry: at, inode });
    Ok(())
}

fn rename(world: &mut MemFsState, from: &Path, to: &Path) -> io::Result<()> {
    let inode = world.resolve(from)?;
    let (Some(from), Some(to)) = (world.resolve_entry(from)?, world.resolve_entry(to)?) else {
        return Err(io::ErrorKind::ResourceBusy.into());
    };
    let replaced = world.directories.live.get(&to).copied();
    if replaced == Some(inode) {
        return Ok(());
    }
    if world.is_dir(inode) && replaced.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if replaced.is_some_and(|replaced| world.is_dir(replaced)) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let call = world.begin_mutation()?;
    world.directories.apply_change(call, DirChange::Rename { from, to, inode });
    Ok(())
}

fn sync_dir(world: &mut MemFsState, path: &Path) -> io::Result<()> {
    let dir = world.resolve_dir(path)?;
    world.begin_mutation()?;
    world.directories.sync_dir(dir);
    world.drop_unreferenced();
    Ok(())
}
