//! The lock of a database: one file, three ways to be excluded.
//!
//! ```text
//!   this process      a set of (device, inode)   also under another path or through a link
//!   C++ LevelDB       a record lock              ours belongs to the open file description
//!   Go LevelDB        flock
//! ```
//!
//! An ordinary record lock belongs to the process and falls with the first close of *any* descriptor of the file;
//! one of an open file description falls with ours alone, and still excludes the ordinary kind. Where the system
//! has only the ordinary kind, the set is asked before the file is opened, so that a refused opener closes nothing.
//!
//! A name that comes and goes could be locked twice. So who removes the lock file, with the database, holds the lock
//! meanwhile, and who has locked a file looks whether it still has the name. A child that is forked while
//! the lock is held shares it, until it executes another program or ends; so a lock is taken off before its file is
//! closed, and falls for both.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // This is the room the lint points to.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use terrace_sync::mutant;

use crate::error::{FileError, LockHolder, Result};
use crate::fs::{FileLock, LockMode};
use crate::lock_table::LockTable;

/// A file, whatever its path.
type FileId = (u64, u64);

/// The locks of this process. Held while a lock is taken or released, so that the set and the system agree.
static LOCK_TABLE: Mutex<LockTable<FileId>> = Mutex::new(LockTable::new());

/// A lock that is held.
#[derive(Debug)]
pub(super) struct PosixFileLock {
    file: Option<LockedFile>, // None only while it is dropped
    file_id: FileId,
}

/// A file that may be locked, in either way, and the process that did it. Dropping it takes the locks off; a forked child
/// that drops its copy leaves them to its parent.
#[derive(Debug)]
struct LockedFile(File, u32);

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.1 != std::process::id() {
            return;
        }
        // Should this fail, closing the file does the same, unless a child that was forked still has it open.
        let _ = flock(&self.0, FlockOperation::NonBlockingUnlock);
        let _ = set_record_lock(&self.0, libc::F_UNLCK as libc::c_short);
    }
}

/// Takes the lock, or fails at once.
pub(super) fn lock_file(path: &Path, mode: LockMode) -> Result<PosixFileLock> {
    let fail = |e| FileError::new("lock", path, e);
    let mut held = LOCK_TABLE.lock();
    if let Ok(found) = fs::metadata(path)
        && !mutant!(LockReleasedByFailedOpen)
    {
        check_lock_table(&held, file_id(&found), mode).map_err(fail)?;
    }
    let file = open_lock_file(path, mode).map_err(fail)?;
    lock_opened_file(&mut held, path, file, mode).map_err(fail)
}

fn lock_opened_file(
    held: &mut LockTable<FileId>,
    path: &Path,
    file: File,
    mode: LockMode,
) -> io::Result<PosixFileLock> {
    let identity = file_id(&file.metadata()?);
    check_lock_table(held, identity, mode)?;
    let file = LockedFile(file, std::process::id());
    lock_record(&file.0, mode).map_err(map_lock_error)?;
    if !mutant!(LockReleasedByFailedOpen) {
        lock_flock(&file.0, mode).map_err(map_lock_error)?;
    }
    if !fs::metadata(path).is_ok_and(|named| self::file_id(&named) == identity) {
        // It was removed since it was opened, with a database that somebody destroyed.
        return Err(LockHolder::OtherProcess.into());
    }
    held.insert(identity, mode);
    Ok(PosixFileLock { file: Some(file), file_id: identity })
}

impl Drop for PosixFileLock {
    fn drop(&mut self) {
        let mut held = LOCK_TABLE.lock();
        self.file = None;
        held.remove(&self.file_id);
    }
}

impl FileLock for PosixFileLock {}

fn file_id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

fn check_lock_table(held: &LockTable<FileId>, identity: FileId, mode: LockMode) -> io::Result<()> {
    if held.can_lock(&identity, mode) {
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

/// Two answers of the system mean "somebody else has it".
fn map_lock_error(e: io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => LockHolder::OtherProcess.into(),
        _ => e,
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const RECORD_LOCK_COMMAND: libc::c_int = libc::F_OFD_SETLK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SET_RECORD_LOCK: libc::c_int = libc::F_SETLK;

fn lock_record(file: &File, mode: LockMode) -> io::Result<()> {
    let kind = match mode {
        LockMode::Exclusive => libc::F_WRLCK,
        LockMode::Shared => libc::F_RDLCK,
    };
    set_record_lock(file, kind as libc::c_short)
}

/// A record lock over the whole file, or none any more.
#[allow(unsafe_code)] // No safe wrapper knows the locks of open file descriptions.
fn set_record_lock(file: &File, kind: libc::c_short) -> io::Result<()> {
    // SAFETY: `flock` is a C struct of integers, for which zero is a value. It asks for the range from 0 to the
    // end; the process id must be 0 for the lock of a file description.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_type = kind;
    let command = if mutant!(LockReleasedByFailedOpen) { libc::F_SETLK } else { RECORD_LOCK_COMMAND };
    // SAFETY: the descriptor is open as long as `file` lives, and the call only reads `request`.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, &request) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that starts others closed its database and could not open it again: for a moment a child that had been
    /// forked, and had not executed its own program yet, still held the lock.
    #[test]
    fn forked_child_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let lock = lock_file(&path, mode).unwrap();
            // The same file description, as a child has it.
            let forked = lock.file.as_ref().unwrap().0.try_clone().unwrap();
            drop(lock);
            lock_file(&path, LockMode::Exclusive).unwrap();
            drop(forked);
        }
    }

    /// Who had opened the lock file of a database that was being destroyed got a lock on a file without a name, beside who made the
    /// next one.
    #[test]
    fn unlinked_lock_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for makes_another in [false, true] {
            let late = open_lock_file(&path, LockMode::Exclusive).unwrap();
            fs::remove_file(&path).unwrap();
            let other = makes_another.then(|| lock_file(&path, LockMode::Exclusive).unwrap());
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                let taken = lock_opened_file(&mut LOCK_TABLE.lock(), &path, late.try_clone().unwrap(), mode);
                assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::WouldBlock);
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
        let LockedFile(file, owner) = lock.file.as_ref().unwrap();
        drop(LockedFile(file.try_clone().unwrap(), owner + 1));
        let probe = File::open(&path).unwrap();
        assert!(lock_record(&probe, LockMode::Shared).is_err());
        assert!(lock_flock(&probe, LockMode::Shared).is_err());
    }
}
