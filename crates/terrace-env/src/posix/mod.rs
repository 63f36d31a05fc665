//! The machine's own files.
//!
//! ```text
//!   PosixFs --+-- files        sequential reads, buffered writes
//!             +-- random       positioned reads: mapped | descriptor | opened per read
//!             +-- budget       how many of the first two kinds the process may have
//!             +-- mapped_log   preallocated logs filled by stores
//!             +-- lock         the database lock, against every kind of LevelDB
//!             +-- fork         whether this is a child of the process that opened something
//! ```
//!
//! Durability is `fdatasync` for files and `fsync` for directories (`F_FULLFSYNC` on Apple systems, through the
//! standard library). Interrupted calls are continued inside.
//!
//! Not promised: that a removed file stays readable through a handle that opens it per read, when the budget is used up.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // This is the room the lint points to.

mod files;
mod fork;
mod limits;
mod lock;
mod mapped_log;
mod memory_limit;
mod random_access_file;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{FileError, Result};
use crate::fs::{
    AccessMode, FileLock, FileSystem, LockMode, LogFile, RandomAccessFile, SequentialFile, WritableFile,
};
pub(crate) use fork::{fork_count, start_counting_forks};
use limits::ResourceLimits;

/// The machine's file system.
#[derive(Debug, Clone)]
pub struct PosixFs {
    limits: Arc<ResourceLimits>,
}

impl PosixFs {
    /// The file system; all values made by this function share the process's budget of mappings and descriptors: 1,000 mapped
    /// files, of half of the machine's memory in all, or of that of the process's control group.
    pub fn new() -> PosixFs {
        PosixFs { limits: ResourceLimits::process_wide() }
    }

    /// The file system with a budget of its own: at most so many mapped files, of so many bytes in all, and so many open
    /// descriptors for random access. Files beyond both are opened for each read.
    pub fn with_limits(maps: usize, mapped_bytes: usize, descriptors: usize) -> PosixFs {
        PosixFs { limits: Arc::new(ResourceLimits::new(maps, mapped_bytes, descriptors)) }
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

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|e| FileError::new("stat", path, e))
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        match fs::metadata(path) {
            Ok(found) => Ok(found.is_dir()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(FileError::new("stat", path, e)),
        }
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        fs::metadata(path).map(|found| found.len()).map_err(|e| FileError::new("stat", path, e))
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
            // How a file system says that its directories can't be synced: they are as durable as they get.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other.map_err(|e| FileError::new("fsync", dir, e)),
        }
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock_file(path, mode)?))
    }
}

/// Opens a file for reading. Anything but a regular file is refused, and not waited for: a pipe has no end.
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

/// Options to create a file, readable by everybody unless the process's mask says otherwise.
fn create_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o644);
    options
}
