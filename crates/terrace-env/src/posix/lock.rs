//! Database lock: one lock file, and three mechanisms of exclusion.
//!
//! ```text
//!   this process      a set of (device, inode)   also for another path or a link
//!   C++ LevelDB       a record lock              Terrace's belongs to the open file description
//!   Go LevelDB        flock
//! ```
//!
//! An ordinary record lock belongs to the process, and the first close of *any* descriptor of the
//! file releases it. A lock of an open file description lasts until its own close, and still
//! conflicts with ordinary locks. Some systems have only ordinary locks. Therefore the set is
//! checked before the file is opened, so that a refused opener closes nothing.
//!
//! A file name that is removed and created again could be locked twice. The thread that removes the
//! lock file with the database therefore holds the lock meanwhile, and a new holder checks that its
//! file still has the name.
//!
//! A child that is forked while the lock is held shares it until it executes another program or
//! exits. A lock is therefore released before its file is closed, which releases it for both.
// This module is one of those that may use the file system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, flock};
use terrace_sync::mutant;
use terrace_sync::native_locks::Mutex;

use super::lock_owner::OwnerProcess;
use crate::error::{FileError, LockHolder, Result};
use crate::fs::{FileLock, LockMode, LockOwner};
use crate::lock_table::LockTable;
use crate::process::ProcessToken;

/// Identity of a file, independent of its path: device and inode.
type FileId = (u64, u64);

/// Locks of this process. The mutex is held while a lock is taken or released, so that the table
/// agrees with the system.
pub(super) static LOCK_TABLE: Mutex<LockTable<FileId>> = Mutex::new(LockTable::new());

/// Held lock.
#[derive(Debug)]
pub(super) struct PosixFileLock {
    file: Arc<LockedFile>,
}

/// Possibly locked file, and the process that locked it. Dropping it releases the locks. A forked
/// child that drops its copy leaves them to its parent.
#[derive(Debug)]
struct LockedFile {
    file: File,
    file_id: FileId,
    process: ProcessToken,
    owner: OwnerProcess,
    /// True after the first release in this process.
    is_released: AtomicBool,
}

impl LockedFile {
    fn new(file: File, file_id: FileId) -> LockedFile {
        LockedFile {
            file,
            file_id,
            process: ProcessToken::current(),
            owner: OwnerProcess::current(),
            is_released: AtomicBool::new(false),
        }
    }

    /// Releases the locks. If that fails, closing the file releases them, unless a forked child
    /// still has it open.
    fn unlock(&self) {
        let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
        let _ = set_record_lock(&self.file, libc::F_UNLCK as libc::c_short);
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.unlock();
        }
    }
}

impl LockOwner for LockedFile {
    fn record_fork(&self) {
        self.owner.record_fork();
    }

    fn has_exited(&self) -> bool {
        self.owner.has_exited()
    }

    fn wait_for_exit(&self) -> bool {
        self.owner.wait_for_exit()
    }

    fn release_inherited_lock(&self) {
        let mut lock_table = LOCK_TABLE.lock();
        if !self.is_released.swap(true, Ordering::Relaxed) {
            self.unlock();
            lock_table.remove(&self.file_id);
        }
    }

    fn is_lock_file(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|metadata| file_id(&metadata) == self.file_id)
    }
}

/// Takes the lock or fails at once.
pub(super) fn lock_file(path: &Path, mode: LockMode) -> Result<PosixFileLock> {
    let fail = |e| FileError::new("lock", path, e);
    let mut lock_table = LOCK_TABLE.lock();
    if let Ok(metadata) = fs::metadata(path)
        && !mutant!(LockReleasedByFailedOpen)
    {
        check_lock_table(&lock_table, file_id(&metadata), mode).map_err(fail)?;
    }
    let file = open_lock_file(path, mode).map_err(fail)?;
    lock_opened_file(&mut lock_table, path, file, mode).map_err(fail)
}

fn lock_opened_file(
    lock_table: &mut LockTable<FileId>,
    path: &Path,
    file: File,
    mode: LockMode,
) -> io::Result<PosixFileLock> {
    let file_id = self::file_id(&file.metadata()?);
    check_lock_table(lock_table, file_id, mode)?;
    let file = LockedFile::new(file, file_id);
    lock_record(&file.file, mode).map_err(map_lock_error)?;
    if !mutant!(LockReleasedByFailedOpen) {
        lock_flock(&file.file, mode).map_err(map_lock_error)?;
    }
    if !fs::metadata(path).is_ok_and(|metadata| self::file_id(&metadata) == file_id) {
        // Another process has destroyed the database and removed the file since it was opened.
        return Err(LockHolder::OtherProcess.into());
    }
    lock_table.insert(file_id, mode);
    Ok(PosixFileLock { file: Arc::new(file) })
}

impl Drop for PosixFileLock {
    fn drop(&mut self) {
        let mut lock_table = LOCK_TABLE.lock();
        if !self.file.is_released.swap(true, Ordering::Relaxed) {
            if self.file.process.is_current() {
                self.file.unlock();
            }
            lock_table.remove(&self.file.file_id);
        }
    }
}

impl FileLock for PosixFileLock {
    fn owner(&self) -> Option<Arc<dyn LockOwner>> {
        Some(Arc::clone(&self.file) as Arc<dyn LockOwner>)
    }
}

fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn check_lock_table(lock_table: &LockTable<FileId>, file_id: FileId, mode: LockMode) -> io::Result<()> {
    if lock_table.can_lock(&file_id, mode) {
        return Ok(());
    }
    Err(LockHolder::ThisProcess.into())
}

fn open_lock_file(path: &Path, mode: LockMode) -> io::Result<File> {
    match mode {
        LockMode::Exclusive => super::create_options().read(true).truncate(false).open(path),
        LockMode::Shared => OpenOptions::new().read(true).open(path),
    }
}

fn lock_flock(file: &File, mode: LockMode) -> io::Result<()> {
    let operation = match mode {
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
    };
    Ok(flock(file, operation)?)
}

/// Maps the two system errors that mean a conflicting lock.
fn map_lock_error(e: io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => LockHolder::OtherProcess.into(),
        _ => e,
    }
}

/// Command of `fcntl` that sets a record lock, if possible of the open file description.
const RECORD_LOCK_COMMAND: libc::c_int = {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        libc::F_OFD_SETLK
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        libc::F_SETLK
    }
};

fn lock_record(file: &File, mode: LockMode) -> io::Result<()> {
    let kind = match mode {
        LockMode::Exclusive => libc::F_WRLCK,
        LockMode::Shared => libc::F_RDLCK,
    };
    set_record_lock(file, kind as libc::c_short)
}

/// Sets or removes a record lock on the whole file.
#[allow(unsafe_code)] // No safe wrapper supports locks of open file descriptions.
fn set_record_lock(file: &File, kind: libc::c_short) -> io::Result<()> {
    // SAFETY: `flock` is a C struct of integers, and zero is a valid value of every integer. Zeros
    // request the range from 0 to the end, and a lock of a file description requires process id 0.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_type = kind;
    let command = if mutant!(LockReleasedByFailedOpen) { libc::F_SETLK } else { RECORD_LOCK_COMMAND };
    // SAFETY: `file` keeps the descriptor open during the call. For these commands, `fcntl` only
    // reads `request`, which lives until the call returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &request) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a program with child processes closed its database and could not open it
    /// again. A forked child that had not yet executed its own program still held the lock.
    #[test]
    fn forked_child_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let lock = lock_file(&path, mode).unwrap();
            // Shares the file description, like a forked child.
            let forked = lock.file.file.try_clone().unwrap();
            drop(lock);
            lock_file(&path, LockMode::Exclusive).unwrap();
            drop(forked);
        }
    }

    /// Regression test: an opener had opened the lock file of a database that was being destroyed.
    /// It got a lock on an unlinked file, while another process locked the next lock file.
    #[test]
    fn unlinked_lock_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for creates_another in [false, true] {
            let unlinked = open_lock_file(&path, LockMode::Exclusive).unwrap();
            fs::remove_file(&path).unwrap();
            let other = creates_another.then(|| lock_file(&path, LockMode::Exclusive).unwrap());
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                let file = unlinked.try_clone().unwrap();
                let result = lock_opened_file(&mut LOCK_TABLE.lock(), &path, file, mode);
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            }
            drop(other);
            drop(lock_file(&path, LockMode::Exclusive).unwrap());
        }
    }

    #[test]
    fn forked_child_leaves_the_lock_to_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = lock_file(&path, LockMode::Exclusive).unwrap();
        let mut child = LockedFile::new(lock.file.file.try_clone().unwrap(), lock.file.file_id);
        child.process = ProcessToken::of_other_process();
        drop(child);
        let probe = File::open(&path).unwrap();
        assert!(lock_record(&probe, LockMode::Shared).is_err());
        assert!(lock_flock(&probe, LockMode::Shared).is_err());
    }
}
