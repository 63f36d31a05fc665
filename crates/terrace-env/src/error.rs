//! File errors: the operation, the file, and the reason of the operating system.

use std::io;
use std::path::{Path, PathBuf};

/// Holder of a lock. It is the source of an error with [`io::ErrorKind::WouldBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LockHolder {
    /// This process holds the lock.
    #[error("the database is already open in this process")]
    ThisProcess,
    /// Another process holds the lock.
    #[error("the database is open in another process")]
    OtherProcess,
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
#[derive(Debug, thiserror::Error)]
#[error("{op} {}: {source}", path.display())]
pub struct FileError {
    /// Operation, as an operator knows it: `open`, `read`, `fsync`, `rename`.
    pub op: &'static str,
    /// File of the operation.
    pub path: PathBuf,
    /// Reason of the failure.
    pub source: io::Error,
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
        #[cfg(unix)]
        let no_descriptors = matches!(self.source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        #[cfg(not(unix))]
        let no_descriptors = false;
        no_descriptors || self.is_no_space() || self.kind() == io::ErrorKind::OutOfMemory
    }
}
