//! What went wrong with a file: the call, the file, and the system's reason.

use std::io;
use std::path::{Path, PathBuf};

/// Why a lock is refused: the source of an error with [`io::ErrorKind::WouldBlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LockHolder {
    /// This process has it.
    #[error("the database is already open in this process")]
    ThisProcess,
    /// Another process has it.
    #[error("the database is open in another process")]
    OtherProcess,
}

impl From<LockHolder> for io::Error {
    fn from(held: LockHolder) -> io::Error {
        io::Error::new(io::ErrorKind::WouldBlock, held)
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, FileError>;

/// A call on a file that failed.
///
/// Reads as a sentence: `fsync 000043.log: No space left on device (os error 28)`.
#[derive(Debug, thiserror::Error)]
#[error("{op} {}: {source}", path.display())]
pub struct FileError {
    /// The call, as an operator knows it: `open`, `read`, `fsync`, `rename`.
    pub op: &'static str,
    /// The file that the call named.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

impl FileError {
    /// An error of call `op` on `path`.
    pub fn new(op: &'static str, path: impl AsRef<Path>, source: io::Error) -> FileError {
        FileError { op, path: path.as_ref().to_path_buf(), source }
    }

    /// The kind of the reason.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// True if the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind() == io::ErrorKind::NotFound
    }

    /// Who holds the lock that was refused, if that is what happened.
    pub fn lock_holder(&self) -> Option<LockHolder> {
        self.source.get_ref()?.downcast_ref().copied()
    }

    /// True if the file system can't do such a thing at all.
    pub fn is_unsupported(&self) -> bool {
        self.kind() == io::ErrorKind::Unsupported
    }

    /// True if the medium, the quota or the file-size limit is full: the call may succeed once space is back.
    pub fn is_no_space(&self) -> bool {
        matches!(
            self.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// True if the system is out of something: space, descriptors or memory. The call had no effect, and may succeed
    /// once there is some again.
    pub fn is_resource_exhausted(&self) -> bool {
        #[cfg(unix)]
        let descriptors = matches!(self.source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        #[cfg(not(unix))]
        let descriptors = false;
        descriptors || self.is_no_space() || self.kind() == io::ErrorKind::OutOfMemory
    }
}
