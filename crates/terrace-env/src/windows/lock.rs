//! Database lock: the sharing mode of the lock file, and a lock on its bytes.
//!
//! ```text
//!   C++ LevelDB   opens for writing, shares with readers only; locks all bytes
//!   Chromium      opens for writing, shares with all; locks all bytes
//!   Go LevelDB    shares with no program, or with readers only
//! ```
//!
//! Each of them opens the file for writing, which the sharing mode of Terrace refuses. A file that
//! one of them has open for writing refuses Terrace, because Terrace does not share it with
//! writers. The lock on the bytes of LevelDB is for programs that use only this lock.
//!
//! Handles of one process exclude each other, too. A table tells the process that holds a lock.

use std::fs::File;
use std::io;
use std::path::Path;

use terrace_sync::native_locks::Mutex;

use super::file_identity::{identity_of, identity_of_path};
use super::{calls, open, system_errors};
use crate::error::{FileError, LockHolder, Result};
use crate::fs::{FileLock, LockMode};
use crate::lock_table::LockTable;

/// Volume and number of a file.
type VolumeFile = (u64, u64);

/// Locks of this process. The mutex is held while a lock is taken or released, so that the table
/// agrees with the system.
static LOCKED_FILES: Mutex<LockTable<VolumeFile>> = Mutex::new(LockTable::new());

/// Held lock. Its drop releases the lock.
#[derive(Debug)]
pub(super) struct WindowsFileLock {
    id: VolumeFile,
    file: Option<File>,
}

/// Takes the lock or fails at once.
pub(super) fn lock_file(path: &Path, mode: LockMode) -> Result<WindowsFileLock> {
    let fail = |e| FileError::new("lock", path, e);
    let mut table = LOCKED_FILES.lock();
    if let Ok(identity) = identity_of_path(path)
        && !table.can_lock(&(identity.device, identity.inode), mode)
    {
        return Err(fail(LockHolder::ThisProcess.into()));
    }
    let is_exclusive = mode == LockMode::Exclusive;
    let file = open::open_for_lock(path, is_exclusive).map_err(|e| match is_refusal(&e) {
        true => fail(LockHolder::OtherProcess.into()),
        false => FileError::new("open", path, e),
    })?;
    let id = lock_bytes(path, &file, is_exclusive).map_err(fail)?;
    table.insert(id, mode);
    Ok(WindowsFileLock { id, file: Some(file) })
}

fn lock_bytes(path: &Path, file: &File, is_exclusive: bool) -> io::Result<VolumeFile> {
    calls::lock_all_bytes(file, is_exclusive).map_err(|e| match is_refusal(&e) {
        true => LockHolder::OtherProcess.into(),
        false => e,
    })?;
    let identity = identity_of(file)?;
    if identity_of_path(path).is_ok_and(|current| current == identity) {
        return Ok((identity.device, identity.inode));
    }
    // Another opener has destroyed the database and removed the file since it was opened.
    Err(LockHolder::Unknown.into())
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| system_errors::IN_USE.contains(&code))
}

impl Drop for WindowsFileLock {
    fn drop(&mut self) {
        let mut table = LOCKED_FILES.lock();
        if let Some(file) = self.file.take() {
            // The system releases the lock of a closed handle at an unknown time. If the call
            // fails, that time comes.
            let _ = calls::unlock_all_bytes(&file);
            table.remove(&self.id);
        }
    }
}

impl FileLock for WindowsFileLock {}
