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
//! The lock file is never removed: a name that comes and goes can be locked twice. A child that is forked while
//! the lock is held shares it, until it executes another program or ends; released here, it is released for both.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // This is the room the lint points to.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use terrace_mutants::mutant;

use crate::claims::Claims;
use crate::error::{FileError, Result};
use crate::fs::{FileLock, LockMode};

/// A file, whatever its path.
type Identity = (u64, u64);

/// The locks of this process. Held while a lock is taken or released, so that the set and the system agree.
static HELD: Mutex<Claims<Identity>> = Mutex::new(Claims::new());

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Lock {
    file: Option<File>, // None only while it is dropped
    identity: Identity,
    /// The process that took it.
    owner: u32,
}

/// Takes the lock, or fails at once.
pub(super) fn take(path: &Path, mode: LockMode) -> Result<Lock> {
    let fail = |e| FileError::new("lock", path, e);
    let mut held = HELD.lock();
    if let Ok(found) = fs::metadata(path)
        && !mutant!(LockFalls)
    {
        admit(&held, identity(&found), mode).map_err(fail)?;
    }
    let file = open(path, mode).map_err(fail)?;
    let identity = identity(&file.metadata().map_err(fail)?);
    admit(&held, identity, mode).map_err(fail)?;
    lock_record(&file, mode).map_err(|e| fail(refused(e)))?;
    if !mutant!(LockFalls) {
        lock_flock(&file, mode).map_err(|e| fail(refused(e)))?;
    }
    held.add(identity, mode);
    Ok(Lock { file: Some(file), identity, owner: std::process::id() })
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closing alone would not do: a child that another thread has forked, and that has yet to execute its program,
        // shares the lock. But a child that drops its copy must not take its parent's.
        if let Some(file) = self.file.take().filter(|_| self.owner == std::process::id()) {
            // What fails here is left to the close.
            let _ = set_record_lock(&file, libc::F_UNLCK);
            let _ = flock(&file, FlockOperation::NonBlockingUnlock);
        }
        held.release(&self.identity);
    }
}

impl FileLock for Lock {}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

fn admit(held: &Claims<Identity>, identity: Identity, mode: LockMode) -> io::Result<()> {
    if held.admits(&identity, mode) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "the database is already open in this process"))
}

fn open(path: &Path, mode: LockMode) -> io::Result<File> {
    match mode {
        LockMode::Exclusive => super::writing().read(true).truncate(false).open(path),
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
fn refused(e: io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => {
            io::Error::new(io::ErrorKind::WouldBlock, "the database is open in another process")
        }
        _ => e,
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const SET_RECORD_LOCK: libc::c_int = libc::F_OFD_SETLK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SET_RECORD_LOCK: libc::c_int = libc::F_SETLK;

/// A record lock over the whole file.
fn lock_record(file: &File, mode: LockMode) -> io::Result<()> {
    set_record_lock(
        file,
        match mode {
            LockMode::Exclusive => libc::F_WRLCK,
            LockMode::Shared => libc::F_RDLCK,
        },
    )
}

#[allow(unsafe_code)] // No safe wrapper knows the locks of open file descriptions.
fn set_record_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: `flock` is a C struct of integers, for which zero is a value. It asks for the range from 0 to the
    // end; the process id must be 0 for the lock of a file description.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_type = kind as libc::c_short;
    let command = if mutant!(LockFalls) { libc::F_SETLK } else { SET_RECORD_LOCK };
    // SAFETY: the descriptor is open as long as `file` lives, and the call only reads `request`.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, &request) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a child that another thread has just forked.
    fn shared(lock: &Lock) -> File {
        lock.file.as_ref().unwrap().try_clone().unwrap()
    }

    #[test]
    fn a_released_lock_is_free_though_a_child_shares_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = take(&path, LockMode::Exclusive).unwrap();
        let child = shared(&lock);
        drop(lock);
        take(&path, LockMode::Exclusive).unwrap();
        drop(child);
    }

    #[test]
    fn a_child_that_drops_its_copy_leaves_the_lock_to_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = take(&path, LockMode::Exclusive).unwrap();
        drop(Lock { file: Some(shared(&lock)), identity: (0, 0), owner: lock.owner + 1 });
        let probe = File::open(&path).unwrap();
        assert!(
            lock_record(&probe, LockMode::Shared).is_err() && lock_flock(&probe, LockMode::Shared).is_err()
        );
    }
}
