//! File system of the operating system.
//!
//! ```text
//!   PosixFs --+-- open                opening and creation in a directory that may be hostile
//!             +-- files               calls for sequential reads and buffered writes
//!             +-- random_access_file  positioned reads: mapped | open | reopened for each read
//!             +-- reopened_file       descriptor that is closed while nothing uses it
//!             +-- file_identity       identity of files
//!             +-- limits              maximum numbers of mapped and open files
//!             +-- spare_descriptor    descriptor for the sync of a directory when no other is left
//!             +-- memory_limit        memory of the machine, the control group or the process
//!             +-- file_size_limit     maximum size of files, checked before each write
//!             +-- log_file            logs, mapped (mapped_log) or appended
//!             +-- log_method          choice between the two (xfs_geometry)
//!             +-- system_errors       errors that the rest of the crate distinguishes
//!             +-- platform            calls that Linux and Apple's systems have in different forms
//!             +-- process             processor times of this process
//!             +-- lock                database lock against every kind of LevelDB
//!             +-- lock_holder         process that holds a conflicting lock
//!             +-- lock_owner          exit of the process that took a lock
//!             +-- fork                locks across a fork, detection of forked children
//! ```
//!
//! Durability is `fdatasync` for files and `fsync` for directories (`F_FULLFSYNC` on Apple's
//! systems). Interrupted calls are continued.
//!
//! A removed file does not stay readable through a handle that reopens it for each read.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod file_identity;
mod file_size_limit;
mod files;
mod fork;
mod limits;
mod lock;
mod lock_holder;
mod lock_owner;
mod log_file;
mod log_method;
mod mapped_log;
mod memory_limit;
mod open;
pub(crate) mod platform;
mod process;
mod random_access_file;
mod reopened_file;
mod spare_descriptor;
pub(crate) mod system_errors;
#[cfg(target_os = "linux")]
mod xfs_geometry;

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{FileError, Result};
use crate::fs::{
    AccessMode, DirectoryStamp, FileIdentity, FileLock, FileSystem, LiveFile, LockMode, LogFile, MappedLogs,
    RandomAccessFile, SequentialFile, WritableFile,
};
use crate::shared_files::{self, open_error};
pub(crate) use fork::{fork_count, watch_forks};
use limits::ResourceLimits;
use log_file::PosixLogFile;
pub(crate) use memory_limit::has_little_address_space;
pub(crate) use process::{process_times, set_own_group};

/// File system of the operating system.
#[derive(Clone)]
pub struct PosixFs {
    limits: Arc<ResourceLimits>,
    /// First refusal of a directory sync by the system.
    refused_directory_sync: Arc<OnceLock<String>>,
}

impl PosixFs {
    /// Creates a handle to the file system. All these handles share the limits of the process:
    /// 1,000 mapped files, with half of the memory limit of the process in total.
    pub fn new() -> PosixFs {
        PosixFs { limits: ResourceLimits::process_wide(), refused_directory_sync: Arc::default() }
    }

    /// Creates a handle with its own limits on the number of mapped files, their total bytes, and
    /// the number of open files.
    ///
    /// Random-access files beyond these limits are opened for each read.
    pub fn with_limits(mmaps: usize, mmap_bytes: usize, open_files: usize) -> PosixFs {
        let limits = Arc::new(ResourceLimits::new(mmaps, mmap_bytes, open_files));
        PosixFs { limits, refused_directory_sync: Arc::default() }
    }
}

/// File system of the system that this build is for.
pub use PosixFs as SystemFs;

impl fmt::Debug for PosixFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PosixFs")
    }
}

impl Default for PosixFs {
    fn default() -> PosixFs {
        PosixFs::new()
    }
}

impl FileSystem for PosixFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = open::open_for_reading(path).map_err(open_error(path))?;
        Ok(Box::new(files::PosixSequentialFile::new(path, file)))
    }

    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        let opened = open::open_for_reading(path);
        let file = if access.is_kept() { opened.map_err(limits::name_limit) } else { opened };
        random_access_file::open_with_limits(&self.limits, path, file.map_err(open_error(path))?, access)
    }

    fn open_live(&self, path: &Path) -> Result<Box<dyn LiveFile>> {
        let file = open::open_for_reading(path).map_err(limits::name_limit).map_err(open_error(path))?;
        Ok(Box::new(files::PosixLiveFile::new(path, file)?))
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        let metadata = fs::metadata(path).map_err(|e| FileError::new("stat", path, e))?;
        Ok(file_identity::identity_of(&metadata))
    }

    fn directory_stamp(&self, dir: &Path) -> Result<DirectoryStamp> {
        let metadata = fs::metadata(dir).map_err(|e| FileError::new("stat", dir, e))?;
        Ok(file_identity::stamp_of(&metadata))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = open::create_file(path, &mut OpenOptions::new()).map_err(open_error(path))?;
        Ok(Box::new(files::PosixWritableFile::new(files::AppendedFile::new(path, file, 0))))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o644);
        let file = open::open_for_more_writes(path, &mut options).map_err(open_error(path))?;
        let len = file.metadata().map_err(|e| FileError::new("stat", path, e))?.len();
        Ok(Box::new(files::PosixWritableFile::new(files::AppendedFile::new(path, file, len))))
    }

    fn create_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let file = open::create_file(path, OpenOptions::new().read(true)).map_err(open_error(path))?;
        let mut log = PosixLogFile::new(path, file, capacity, mapped)?;
        log.allocate_first_block();
        log.limit_descriptors(&self.limits)?;
        self.limits.spare_descriptor.refill();
        Ok(Box::new(log))
    }

    fn reopen_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        let file = open::open_log_for_more_writes(path).map_err(open_error(path))?;
        let mut log = PosixLogFile::new(path, file, capacity, mapped)?;
        log.limit_descriptors(&self.limits)?;
        self.limits.spare_descriptor.refill();
        Ok(Box::new(log))
    }

    fn memory_limit(&self) -> Option<u64> {
        Some(limits::memory_limit()).filter(|limit| *limit < u64::MAX)
    }

    fn resident_mapped_bytes(&self) -> Option<u64> {
        memory_limit::resident_mapped_bytes()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        shared_files::absolute(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        shared_files::exists(path, is_circular_link)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        shared_files::is_dir(path, is_circular_link)
    }

    fn is_symlink(&self, path: &Path) -> Result<bool> {
        shared_files::is_symlink(path)
    }

    fn check_writable(&self, dir: &Path) -> Result<()> {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| FileError::new("create files in", dir, error.into()))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        shared_files::file_size(path)
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        let space = rustix::fs::statvfs(dir).map_err(|e| FileError::new("statvfs", dir, e.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
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
        fs::remove_dir(dir).map_err(|e| FileError::new("rmdir", dir, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| FileError::new("remove", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| FileError::new("rename", from, e))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        shared_files::link(from, to, is_refused_link)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECTORY);
        let synced = self.limits.spare_descriptor.with_file(
            || options.open(dir),
            |opened| {
                let file = opened.map_err(open_error(dir))?;
                file.sync_all().map_err(|e| FileError::new("fsync", dir, e))
            },
        );
        match synced {
            Err(error) if is_refused_directory_sync(&error.source) => {
                terrace_sync::get_or_init_for_fork(&self.refused_directory_sync, || {
                    format!("Directories are not synced: {error}")
                });
                Ok(())
            }
            synced => synced,
        }
    }

    fn refused_directory_sync(&self) -> Option<&str> {
        self.refused_directory_sync.get().map(String::as_str)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock_file(path, mode)?))
    }
}

/// Returns true for the error of links that lead back to themselves: there is no file, as for a
/// dangling link.
fn is_circular_link(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ELOOP)
}

/// Returns true for the errors of a file system, a system or a sandbox that cannot sync
/// directories. Nothing more durable is possible then.
fn is_refused_directory_sync(e: &io::Error) -> bool {
    // ENOTSUP and EOPNOTSUPP are one number on Linux and two on Apple's systems.
    const REFUSALS: [i32; 5] = [libc::EINVAL, libc::ENOSYS, libc::ENOTSUP, libc::EOPNOTSUPP, libc::EPERM];
    e.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno))
}

/// Returns true for the errors of files that cannot be linked, but perhaps copied: they are on two
/// file systems, the file has too many links, the file system or a sandbox has none, or the system
/// protects files of other users from links.
fn is_refused_link(e: &io::Error) -> bool {
    const REFUSALS: [i32; 6] =
        [libc::EXDEV, libc::EMLINK, libc::EPERM, libc::ENOSYS, libc::ENOTSUP, libc::EOPNOTSUPP];
    e.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: in a sandbox that forbids the sync of directories, each write failed.
    #[test]
    fn refused_directory_syncs() {
        let is_refusal = |errno| is_refused_directory_sync(&io::Error::from_raw_os_error(errno));
        assert!([libc::EPERM, libc::EINVAL, libc::ENOSYS].into_iter().all(is_refusal));
        assert!(![libc::EIO, libc::ENOSPC, libc::EACCES].into_iter().any(is_refusal));
    }

    /// A full disk and an existing name are no reasons to copy the file.
    #[test]
    fn refused_links() {
        let is_refusal = |errno| is_refused_link(&io::Error::from_raw_os_error(errno));
        assert!([libc::EXDEV, libc::EMLINK, libc::EPERM].into_iter().all(is_refusal));
        assert!(![libc::EIO, libc::ENOSPC, libc::EEXIST, libc::ENOENT].into_iter().any(is_refusal));
    }
}
