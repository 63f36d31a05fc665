//! File system of Windows.
//!
//! ```text
//!   WindowsFs --+-- open                opening and creation in a directory that may be hostile
//!               +-- files               calls for sequential reads and buffered writes
//!               +-- random_access_file  positioned reads
//!               +-- file_identity       identity of files
//!               +-- log_file            appended logs
//!               +-- names               removal and replacement of names, also of open files
//!               +-- lock                database lock against every kind of LevelDB
//!               +-- calls               calls of the system that the standard library lacks
//!               +-- platform            functions of `posix/platform/`, as far as Windows has them
//!               +-- system_errors       errors that the rest of the crate distinguishes
//! ```
//!
//! Durability is `FlushFileBuffers` for files. NTFS writes changes of names to its journal, and has
//! no call that waits for this journal, so a sync of a directory only checks that it exists.
//!
//! Every file is opened with all kinds of sharing. Another handle may then read, rename or remove
//! it, as on other systems.
//!
//! No file is mapped. Windows refuses to remove or to truncate a file with a mapped view, and a
//! compaction removes tables that iterators read. A log could not end at the end of its mapping.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod calls;
mod file_identity;
mod files;
mod lock;
mod log_file;
mod names;
mod open;
pub(crate) mod platform;
mod random_access_file;
pub(crate) mod system_errors;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FileError, Result};
use crate::fs::{
    AccessMode, DirectoryStamp, FileIdentity, FileLock, FileSystem, LiveFile, LockMode, LogFile, MappedLogs,
    RandomAccessFile, SequentialFile, WritableFile,
};
use crate::shared_files::{self, open_error};
pub(crate) use calls::process_times;
pub(crate) use platform::set_own_group;
pub(crate) use platform::{fork_count, has_little_address_space, watch_forks};

/// File system of Windows.
#[derive(Debug, Clone, Default)]
pub struct WindowsFs(());

/// File system of the system that this build is for.
pub use WindowsFs as SystemFs;

impl WindowsFs {
    /// Creates a handle to the file system.
    pub fn new() -> WindowsFs {
        WindowsFs(())
    }
}

impl FileSystem for WindowsFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = open::open_for_reading(path).map_err(open_error(path))?;
        Ok(Box::new(files::WindowsSequentialFile::new(path, file)))
    }

    fn open_random_access(&self, path: &Path, _access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        let file = open::open_for_reading(path).map_err(open_error(path))?;
        Ok(Arc::new(random_access_file::WindowsRandomAccessFile::new(path, file)?))
    }

    fn open_live(&self, path: &Path) -> Result<Box<dyn LiveFile>> {
        let file = open::open_for_reading(path).map_err(open_error(path))?;
        Ok(Box::new(files::WindowsLiveFile::new(path, file)?))
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        file_identity::identity_of_path(path).map_err(|e| FileError::new("stat", path, e))
    }

    fn directory_stamp(&self, dir: &Path) -> Result<DirectoryStamp> {
        file_identity::stamp_of(dir).map_err(|e| FileError::new("stat", dir, e))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = open::create_file(path).map_err(open_error(path))?;
        Ok(Box::new(files::WindowsWritableFile::new(files::WriteTarget::new(path, file, 0))))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = open::open_for_more_writes(path, true).map_err(open_error(path))?;
        let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
        Ok(Box::new(files::WindowsWritableFile::new(files::WriteTarget::new(path, file, len))))
    }

    fn create_log(&self, path: &Path, _capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let file = open::create_file(path).map_err(open_error(path))?;
        Ok(Box::new(log_file::WindowsLogFile::new(path, file, 0, mapped)))
    }

    fn reopen_log(&self, path: &Path, _capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let file = open::open_for_more_writes(path, false).map_err(open_error(path))?;
        let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
        Ok(Box::new(log_file::WindowsLogFile::new(path, file, len, mapped)))
    }

    fn memory_limit(&self) -> Option<u64> {
        calls::memory_limit()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        shared_files::absolute(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        shared_files::exists(path, names_no_file)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        shared_files::is_dir(path, names_no_file)
    }

    fn is_symlink(&self, path: &Path) -> Result<bool> {
        shared_files::is_symlink(path)
    }

    fn check_writable(&self, dir: &Path) -> Result<()> {
        open::open_for_new_files(dir).map(drop).map_err(|error| FileError::new("create files in", dir, error))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        shared_files::file_size(path)
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        calls::free_space(dir).map_err(|e| FileError::new("query the free space of", dir, e))
    }

    fn modified_us(&self, path: &Path) -> Result<u64> {
        shared_files::modified_us(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        shared_files::list(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        shared_files::create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        names::remove_dir(dir).map_err(|e| FileError::new("rmdir", dir, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        names::remove(path).map_err(|e| FileError::new("remove", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        names::rename(from, to).map_err(|e| FileError::new("rename", from, e))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        shared_files::link(from, to, is_refused_link)
    }

    /// Checks that the directory exists: see the documentation of the module.
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        match shared_files::is_dir(dir, names_no_file) {
            Ok(false) => Err(FileError::new("fsync", dir, io::ErrorKind::NotFound.into())),
            is_dir => is_dir.map(drop),
        }
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock_file(path, mode)?))
    }
}

/// Returns true for errors of names that lead to no file, beside the error for a missing one.
fn names_no_file(e: &io::Error) -> bool {
    e.raw_os_error().is_some_and(|code| system_errors::NO_FILE.contains(&code))
}

/// Returns true for the errors of files that cannot be linked, but perhaps copied.
fn is_refused_link(e: &io::Error) -> bool {
    e.raw_os_error().is_some_and(|code| system_errors::REFUSED_LINK.contains(&code))
}
