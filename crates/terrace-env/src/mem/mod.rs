//! File system in memory, with crash images.
//!
//! ```text
//!   calls      0    1    2    3   ...            each mutating call has a number
//!              create
//!                   write     sync_dir
//!                        sync
//!                           ^
//!   freeze_at(3) -----------'  calls from 3 on fail; crash_clone(..) then gives a restart's files
//! ```
//!
//! The model: a file is its durable bytes and the changes since its last sync. A directory is its
//! durable names and the changes since its last sync. Only syncs make changes durable: a sync of a
//! file does not save its name, and a rename does not save the bytes of the file.
//! [`MemFs::crash_clone`] decides which pending changes survive.
//!
//! Relative paths start at the root. There are hard links, but no symbolic links and no
//! permissions.

mod crash;
mod directories;
mod file_content;
mod handles;
mod loss_sampler;
mod profiles;
mod state;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use terrace_sync::native_locks::Mutex;
use terrace_sync::{ForkRank, register_fork_participant};

use crate::error::{FileError, LockHolder, Result};
use crate::fs::{
    AccessMode, DirectoryStamp, FileIdentity, FileLock, FileSystem, LOG_FILE_BLOCK_SIZE, LiveFile, LockMode,
    LogFile, MappedLogs, RandomAccessFile, SequentialFile, WritableFile,
};
use directories::DirChange;
use handles::MemFileHandle;
use state::MemFsState;

pub use file_content::FailedSyncEffect;
pub use profiles::{
    Crash, DataLoss, DirEntryLoss, LostSector, POWER_LOSS_PROFILES, PersistedPieces, PowerLoss,
    PowerLossProfile,
};

/// File system in memory.
///
/// It is not `Clone`: [`MemFs::fork`] copies the state, and an [`Arc`] shares it.
pub struct MemFs {
    state: Arc<Mutex<MemFsState>>,
    /// Maximum number of mapped files.
    max_mappings: AtomicUsize,
    /// Counted by each mapped file, and once here.
    mappings: Arc<()>,
}

impl fmt::Debug for MemFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemFs")
    }
}

impl MemFs {
    /// Creates a file system with an empty root directory.
    pub fn new() -> MemFs {
        MemFs::from_state(MemFsState::empty())
    }

    fn from_state(state: MemFsState) -> MemFs {
        let state = Arc::new(Mutex::new(state));
        let weak: Weak<Mutex<MemFsState>> = Arc::downgrade(&state);
        register_fork_participant(ForkRank::Env, weak);
        MemFs { state, max_mappings: AtomicUsize::new(usize::MAX), mappings: Arc::new(()) }
    }

    /// Returns a file system with the same limit on mappings.
    fn with_state(&self, state: MemFsState) -> MemFs {
        let copy = MemFs::from_state(state);
        copy.set_max_mappings(self.max_mappings.load(Ordering::Relaxed));
        copy
    }

    /// Limits the number of files that are mapped at the same time. A file that is opened when the
    /// limit is reached is read by calls, as on a real system. Without a limit, every file can be
    /// mapped.
    pub fn set_max_mappings(&self, max: usize) {
        self.max_mappings.store(max, Ordering::Relaxed);
    }

    /// Returns the count of one more mapping, if the limit permits it.
    fn count_mapping(&self) -> Option<Arc<()>> {
        let is_below_limit = Arc::strong_count(&self.mappings) <= self.max_mappings.load(Ordering::Relaxed);
        is_below_limit.then(|| Arc::clone(&self.mappings))
    }

    /// Returns the number of mutating calls that took effect.
    ///
    /// These are creations, writes that reached the system, syncs, renames and removals. A log
    /// write counts as three calls: the body, the head, and the last four bytes of the head. A
    /// failed call does not count.
    pub fn mutation_count(&self) -> u64 {
        self.state.lock().mutation_count
    }

    /// Fails all mutating calls with numbers from `call` on, so that the state stays as a crash at
    /// that call would find it. Reads still succeed.
    pub fn freeze_at(&self, call: u64) {
        self.state.lock().frozen_at = Some(call);
    }

    /// Returns an independent copy. Pending changes are pending in the copy too, and it has no open
    /// handles, no locks and no freeze. The bytes are shared until one side changes them.
    pub fn fork(&self) -> MemFs {
        self.with_state(self.state.lock().fork())
    }

    /// Returns the files that a restart finds after a crash at this moment. All of them are
    /// durable, and call numbers start at
    /// 0. This file system and its handles do not change.
    pub fn crash_clone(&self, crash: &Crash) -> MemFs {
        self.with_state(crash::crash_image(&self.state.lock(), crash))
    }

    /// Returns the states before each mutating call since the last call of this method, each like
    /// [`MemFs::fork`].
    ///
    /// These are all points at which a crash can happen meanwhile. The first call starts the
    /// recording and returns none.
    pub fn take_crash_points(&self) -> Vec<MemFs> {
        let states = self.state.lock().take_crash_points();
        states.into_iter().map(|state| self.with_state(state)).collect()
    }

    /// Returns the power cuts of `profile` at this moment, as [`PowerLossProfile::crashes`] selects
    /// them.
    pub fn power_losses(&self, profile: &PowerLossProfile, few: usize, seed: u64) -> Vec<Crash> {
        profile.crashes(
            crash::pending_piece_count(&self.state.lock(), profile.data, profile.dir_entries),
            few,
            seed,
        )
    }

    /// Makes one file sync fail after `before` successful ones.
    ///
    /// The failed sync treats the unwritten changes as written: later syncs succeed without these
    /// changes. Operating systems that mark pages clean after a failed write do the same.
    pub fn inject_sync_failure(&self, before: u64, effect: FailedSyncEffect) {
        self.state.lock().inject_sync_failure(before, effect);
    }

    /// Returns true until the sync of [`MemFs::inject_sync_failure`] has failed.
    pub fn has_injected_sync_failure(&self) -> bool {
        self.state.lock().has_injected_sync_failure()
    }

    /// Changes the stored bytes of a file durably, without a mutating call, like bit rot.
    pub fn corrupt(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut state = self.state.lock();
        let inode = state.resolve_file(path).map_err(file_error("corrupt", path))?;
        let content = state.file_content(inode).map_err(file_error("corrupt", path))?;
        let mut bytes = content.live.to_vec();
        change(&mut bytes);
        *content = file_content::FileContent::all_durable(Arc::new(bytes));
        Ok(())
    }

    fn new_writable_file(
        &self,
        state: &mut MemFsState,
        path: &Path,
        inode: directories::Inode,
    ) -> Box<dyn WritableFile> {
        Box::new(handles::MemWritableFile::new(MemFileHandle::new(&self.state, state, inode, path)))
    }

    fn new_log_file(
        &self,
        state: &mut MemFsState,
        path: &Path,
        inode: directories::Inode,
        capacity: u64,
        mapped: MappedLogs,
    ) -> Result<Box<dyn LogFile>> {
        let rounded = rounded_log_capacity(capacity).map_err(file_error("open", path))?;
        let capacity = if mapped == MappedLogs::Never { 0 } else { rounded };
        let handle = MemFileHandle::new(&self.state, state, inode, path);
        Ok(Box::new(handles::MemLogFile::new(handle, capacity)))
    }
}

impl Default for MemFs {
    fn default() -> MemFs {
        MemFs::new()
    }
}

impl FileSystem for MemFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let mut state = self.state.lock();
        let inode = state.resolve_file(path).map_err(file_error("open", path))?;
        let handle = MemFileHandle::new(&self.state, &mut state, inode, path);
        Ok(Box::new(handles::MemSequentialFile::new(handle)))
    }

    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        let mut state = self.state.lock();
        let inode = state.resolve_file(path).map_err(file_error("open", path))?;
        let bytes = Arc::clone(&state.file_content(inode).map_err(file_error("open", path))?.live);
        let mapping = if access.is_mapped() { self.count_mapping() } else { None };
        Ok(Arc::new(handles::MemRandomAccessFile { bytes, mapping }))
    }

    fn open_live(&self, path: &Path) -> Result<Box<dyn LiveFile>> {
        let mut state = self.state.lock();
        let inode = state.resolve_file(path).map_err(file_error("open", path))?;
        let handle = MemFileHandle::new(&self.state, &mut state, inode, path);
        Ok(Box::new(handles::MemLiveFile(handle)))
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        let inode = self.state.lock().resolve(path).map_err(file_error("stat", path))?;
        Ok(handles::identity_of(inode))
    }

    /// The time is the number of mutating calls, also of those in other directories.
    fn directory_stamp(&self, dir: &Path) -> Result<DirectoryStamp> {
        let state = self.state.lock();
        let inode = state.resolve_dir(dir).map_err(file_error("stat", dir))?;
        let changed_at = i128::from(state.mutation_count);
        Ok(DirectoryStamp { identity: handles::identity_of(inode), changed_at })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut state = self.state.lock();
        let inode = create_or_replace(&mut state, path).map_err(file_error("open", path))?;
        Ok(self.new_writable_file(&mut state, path, inode))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut state = self.state.lock();
        let inode = state.resolve_or_create_file(path).map_err(file_error("open", path))?;
        state.check_single_link(inode).map_err(file_error("open", path))?;
        Ok(self.new_writable_file(&mut state, path, inode))
    }

    fn create_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let mut state = self.state.lock();
        let inode = create_or_replace(&mut state, path).map_err(file_error("open", path))?;
        self.new_log_file(&mut state, path, inode, capacity, mapped)
    }

    fn reopen_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let mut state = self.state.lock();
        let inode = state.resolve_file(path).map_err(file_error("open", path))?;
        state.check_single_link(inode).map_err(file_error("open", path))?;
        let old_len = state.file_content(inode).map_err(file_error("open", path))?.live.len();
        self.new_log_file(&mut state, path, inode, capacity.max(old_len as u64), mapped)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.state.lock().resolve(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(file_error("stat", path)(e)),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        let state = self.state.lock();
        match state.resolve(path) {
            Ok(inode) => Ok(state.is_dir(inode)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(file_error("stat", path)(e)),
        }
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let mut state = self.state.lock();
        let inode = state.resolve_file(path).map_err(file_error("stat", path))?;
        let content = state.file_content(inode).map_err(file_error("stat", path))?;
        Ok(content.live.len() as u64)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        let state = self.state.lock();
        let inode = state.resolve_dir(dir).map_err(file_error("list", dir))?;
        Ok(state.directories.names_in(inode).cloned().collect())
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

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        link(&mut self.state.lock(), from, to).map_err(file_error("link", to))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        sync_dir(&mut self.state.lock(), dir).map_err(file_error("fsync", dir))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        let mut state = self.state.lock();
        let resolved = match mode {
            LockMode::Exclusive => state.resolve_or_create_file(path),
            LockMode::Shared => state.resolve_file(path),
        };
        let inode = resolved.map_err(file_error("lock", path))?;
        if !state.locks.can_lock(&inode, mode) {
            return Err(file_error("lock", path)(LockHolder::ThisProcess.into()));
        }
        state.locks.insert(inode, mode);
        Ok(Box::new(handles::MemFileLock(MemFileHandle::new(&self.state, &mut state, inode, path))))
    }
}

fn rounded_log_capacity(capacity: u64) -> io::Result<u64> {
    let rounded = capacity.max(1).checked_next_multiple_of(LOG_FILE_BLOCK_SIZE);
    rounded.filter(|&n| n <= isize::MAX as u64).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

fn file_error(op: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    move |e| FileError::new(op, path, e)
}

/// Creates an empty file, and replaces an existing one by a new inode.
fn create_or_replace(state: &mut MemFsState, path: &Path) -> io::Result<directories::Inode> {
    if state.resolve_file(path).is_ok() {
        remove(state, path)?;
    }
    state.resolve_or_create_file(path)
}

fn create_dir(state: &mut MemFsState, path: &Path) -> io::Result<()> {
    let entry = state.resolve_entry(path)?.ok_or(io::ErrorKind::AlreadyExists)?;
    if state.directories.live.contains_key(&entry) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let call = state.begin_mutation()?;
    let inode = state.link_new_inode(call, entry);
    state.dir_inodes.insert(inode);
    Ok(())
}

fn remove_dir(state: &mut MemFsState, path: &Path) -> io::Result<()> {
    let inode = state.resolve_dir(path)?;
    let entry = state.resolve_entry(path)?.ok_or(io::ErrorKind::ResourceBusy)?;
    if state.directories.names_in(inode).next().is_some() {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    let call = state.begin_mutation()?;
    state.directories.apply_change(call, DirChange::Unlink { entry, inode });
    Ok(())
}

fn remove(state: &mut MemFsState, path: &Path) -> io::Result<()> {
    let inode = state.resolve_file(path)?;
    let entry = state.resolve_entry(path)?.ok_or(io::ErrorKind::IsADirectory)?;
    let call = state.begin_mutation()?;
    state.directories.apply_change(call, DirChange::Unlink { entry, inode });
    Ok(())
}

fn rename(state: &mut MemFsState, from: &Path, to: &Path) -> io::Result<()> {
    let inode = state.resolve(from)?;
    let (Some(from), Some(to)) = (state.resolve_entry(from)?, state.resolve_entry(to)?) else {
        return Err(io::ErrorKind::ResourceBusy.into());
    };
    let replaced = state.directories.live.get(&to).copied();
    if replaced == Some(inode) {
        return Ok(());
    }
    if state.is_dir(inode) && replaced.is_some() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if replaced.is_some_and(|replaced| state.is_dir(replaced)) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let call = state.begin_mutation()?;
    state.directories.apply_change(call, DirChange::Rename { from, to, inode });
    Ok(())
}

fn link(state: &mut MemFsState, from: &Path, to: &Path) -> io::Result<()> {
    let inode = state.resolve_file(from)?;
    let entry = state.resolve_entry(to)?.ok_or(io::ErrorKind::AlreadyExists)?;
    if state.directories.live.contains_key(&entry) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let call = state.begin_mutation()?;
    state.directories.apply_change(call, DirChange::Link { entry, inode });
    Ok(())
}

fn sync_dir(state: &mut MemFsState, path: &Path) -> io::Result<()> {
    let dir = state.resolve_dir(path)?;
    state.begin_mutation()?;
    state.directories.sync_dir(dir);
    state.drop_unreferenced();
    Ok(())
}
