//! File system of the operating system.
//!
//! ```text
//!   PosixFs --+-- files               sequential reads, buffered writes
//!             +-- random_access_file  positioned reads: mapped | open | reopened for each read
//!             +-- limits              maximum numbers of mapped and open files
//!             +-- memory_limit        memory of the machine or the control group
//!             +-- mapped_log          preallocated logs, written through a mapping
//!             +-- lock                database lock against every kind of LevelDB
//!             +-- lock_owner          exit of the process that took a lock
//!             +-- fork                locks across a fork, detection of forked children
//! ```
//!
//! Durability is `fdatasync` for files and `fsync` for directories (`F_FULLFSYNC` on Apple systems,
//! through the standard library). Interrupted calls are continued.
//!
//! A removed file does not stay readable through a handle that reopens it for each read.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod files;
mod fork;
mod limits;
mod lock;
mod lock_owner;
mod mapped_log;
mod memory_limit;
mod random_access_file;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FileError, Result};
use crate::fs::{
    AccessMode, FileLock, FileSystem, LockMode, LogFile, RandomAccessFile, SequentialFile, WritableFile,
};
pub(crate) use fork::{fork_count, watch_forks};
use limits::ResourceLimits;

/// File system of the operating system.
#[derive(Debug, Clone)]
pub struct PosixFs {
    limits: Arc<ResourceLimits>,
}

impl PosixFs {
    /// Creates a handle to the file system. All these handles share the limits of the process:
    /// 1,000 mapped files, with half of the memory of the machine or of the process's control group
    /// in total.
    pub fn new() -> PosixFs {
        PosixFs { limits: ResourceLimits::process_wide() }
    }

    /// Creates a handle with its own limits on the number of mapped files, their total bytes, and
    /// the number of open files.
    ///
    /// Random-access files beyond these limits are opened for each read.
    pub fn with_limits(mmaps: usize, mmap_bytes: usize, open_files: usize) -> PosixFs {
        PosixFs { limits: Arc::new(ResourceLimits::new(mmaps, mmap_bytes, open_files)) }
    }
}

impl Default for PosixFs {
    fn default() -> PosixFs {
        PosixFs::new()
    }
}

impl FileSystem for PosixFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = open_regular(path)?;
        Ok(Box::new(files::PosixSequentialFile::new(path, file)))
    }

    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        let file = open_regular(path)?;
        random_access_file::open_with_limits(&self.limits, path, file, access)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = open_with(path, create_options().truncate(true))?;
        Ok(Box::new(files::PosixWritableFile::new(path, file)))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = open_with(path, create_options().append(true))?;
        Ok(Box::new(files::PosixWritableFile::new(path, file)))
    }

    fn create_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let file = open_with(path, create_options().read(true).truncate(true))?;
        mapped_log::create(path, file, capacity)
    }

    fn reopen_log(&self, path: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        let file = open_with(path, OpenOptions::new().read(true).write(true))?;
        mapped_log::reopen(path, file, capacity)
    }

    fn memory_limit(&self) -> Option<u64> {
        Some(limits::memory_limit()).filter(|limit| *limit < u64::MAX)
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|e| FileError::new("stat", path, e))
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(FileError::new("stat", path, e)),
        }
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        fs::metadata(path).map(|metadata| metadata.len()).map_err(|e| FileError::new("stat", path, e))
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        let entries = fs::read_dir(dir).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
        });
        entries.map_err(|e| FileError::new("list", dir, e))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        fs::create_dir(dir).map_err(|e| FileError::new("mkdir", dir, e))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        fs::remove_dir(dir).map_err(|e| FileError::new("rmdir", dir, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| FileError::new("remove", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| FileError::new("rename", from, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let opened = open_with(dir, OpenOptions::new().read(true))?;
        match opened.sync_all() {
            // Some file systems report in this way that they cannot sync directories. Nothing more
            // durable is possible.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other.map_err(|e| FileError::new("fsync", dir, e)),
        }
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock_file(path, mode)?))
    }
}

/// Opens a regular file for reading. Other files are refused without a wait, because a pipe may
/// have no end.
fn open_regular(path: &Path) -> Result<File> {
    let fail = |e| FileError::new("open", path, e);
    let options = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).clone();
    let file = options.open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.is_file() {
        return Ok(file);
    }
    Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")))
}

fn open_with(path: &Path, options: &OpenOptions) -> Result<File> {
    options.open(path).map_err(|e| FileError::new("open", path, e))
}

/// Returns the options to create a file that every user may read, subject to the umask.
fn create_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o644);
    options
}
