//! File errors: the operation, the file, and the reason of the operating system.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::system::system_errors;

/// Holder of a lock. It is the source of an error with [`io::ErrorKind::WouldBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LockHolder {
    /// This process holds the lock.
    #[error("the database is already open in this process")]
    ThisProcess,
    /// Another process holds the lock.
    #[error("the database is open in another process")]
    OtherProcess,
    /// The system does not tell which process holds the lock.
    #[error("the database is open elsewhere")]
    Unknown,
}

impl From<LockHolder> for io::Error {
    fn from(holder: LockHolder) -> io::Error {
        io::Error::new(io::ErrorKind::WouldBlock, holder)
    }
}

/// Refused kind of file. It is the source of an error of a file system that found, for example, a
/// link in the place of a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct UnexpectedFile {
    /// Kind of the existing file: `a symbolic link`.
    pub found: &'static str,
    /// Kind that the operation accepts: `a regular file`.
    pub expected: &'static str,
}

impl UnexpectedFile {
    /// Returns the refused kind that caused `error`, if one did.
    pub(crate) fn of(error: &io::Error) -> Option<UnexpectedFile> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<UnexpectedFile> for io::Error {
    fn from(reason: UnexpectedFile) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, FileError>;

/// Failed operation on a file.
///
/// The message is a sentence: `fsync 000043.log: No space left on device (os error 28)`.
#[derive(thiserror::Error)]
#[error("{op} {}: {source}", path.display())]
pub struct FileError {
    /// Operation, as an operator knows it: `open`, `read`, `fsync`, `rename`.
    pub op: &'static str,
    /// File of the operation.
    pub path: PathBuf,
    /// Reason of the failure.
    pub source: io::Error,
}

impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileError({self})")
    }
}

impl FileError {
    /// Creates an error of operation `op` on `path`.
    pub fn new(op: &'static str, path: impl AsRef<Path>, source: io::Error) -> FileError {
        FileError { op, path: path.as_ref().to_path_buf(), source }
    }

    /// Returns the kind of the reason.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Returns true if the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == io::ErrorKind::NotFound
    }

    /// Returns the holder of the lock, if the operation failed because of one.
    pub fn lock_holder(&self) -> Option<LockHolder> {
        self.source.get_ref()?.downcast_ref().copied()
    }

    /// Returns the refused kind of file, if the operation failed because of one.
    pub fn unexpected_file(&self) -> Option<UnexpectedFile> {
        UnexpectedFile::of(&self.source)
    }

    /// Returns true if the file, or a part of it, cannot be read at all: the disk returns an error,
    /// or another kind of file or nothing is in its place. Other files may be readable. A missing
    /// permission and exhausted resources are no such errors.
    pub fn is_unreadable(&self) -> bool {
        let is_disk_error = self.has_code_of(system_errors::UNREADABLE);
        // A custom file system may return errors without a number.
        let is_custom = self.source.raw_os_error().is_none() && self.kind() == io::ErrorKind::Other;
        self.unexpected_file().is_some() || self.is_not_found() || is_disk_error || is_custom
    }

    /// Returns true if the process may not access the file.
    pub fn is_permission_denied(&self) -> bool {
        self.kind() == io::ErrorKind::PermissionDenied
    }

    /// Returns true if the file system does not support the operation.
    pub fn is_unsupported(&self) -> bool {
        self.kind() == io::ErrorKind::Unsupported
    }

    /// Returns true if the disk, the quota or the file-size limit is full. The operation may
    /// succeed after space is freed.
    pub fn is_no_space(&self) -> bool {
        matches!(
            self.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// Returns true if the system has run out of space, file descriptors or memory. The operation
    /// had no effect, and it may succeed later.
    pub fn is_resource_exhausted(&self) -> bool {
        let no_descriptors = self.has_code_of(system_errors::NO_DESCRIPTORS);
        no_descriptors || self.is_no_space() || self.kind() == io::ErrorKind::OutOfMemory
    }

    fn has_code_of(&self, codes: &[i32]) -> bool {
        self.source.raw_os_error().is_some_and(|code| codes.contains(&code))
    }
}
