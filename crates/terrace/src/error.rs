//! What can go wrong, in the five kinds that LevelDB's users know.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::FileError;
use terrace_format::{DecodeError, DecodeErrorKind};
use terrace_sync::mutant;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kinds, one to one with LevelDB's status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was asked for does not exist.
    NotFound,
    /// Stored bytes are damaged, or contradict each other.
    Corruption,
    /// Not possible with these files, options or handle.
    NotSupported,
    /// The call or an option is wrong.
    InvalidArgument,
    /// The system refused.
    Io,
}

/// An error. Cheap to clone: one failure may be reported to many callers.
///
/// ```text
/// corruption: 000042.ldb at 81920: checksum 0x0000000e, expected 0x0000000f as stored
/// io: fsync 000043.log: No space left on device (os error 28)
/// invalid argument: cities: does not exist (create_if_missing is false)
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that should exist does not.
    #[error("not found: {0}")]
    NotFound(String),
    /// A damaged file.
    #[error("corruption: {0}")]
    Corruption(Corruption),
    /// Not possible here.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// The caller's mistake.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The system's answer to a call on a file.
    #[error("io: {0}")]
    Io(Arc<FileError>),
    /// An earlier failure after which what is on disk is not known for sure. Writes are refused until the database
    /// is opened again; reads go on.
    #[error("writes are refused since an earlier error: {0}")]
    BackgroundError(Arc<Error>),
}

/// Where a file is damaged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// The file, or the directory if the damage is that a file is missing.
    pub path: PathBuf,
    /// The offset in bytes, if there is one.
    pub offset: Option<u64>,
    /// What was found and what was expected.
    pub message: String,
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        write!(f, "{}", name.to_string_lossy())?;
        if let Some(at) = self.offset {
            write!(f, " at {at}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Error {
    /// Damage in the file at `path`, as a decoder found it. A block of a codec that is not compiled in is no damage.
    pub(crate) fn from_decode_error(path: &Path, flaw: &DecodeError) -> Error {
        let error =
            Corruption { path: path.to_path_buf(), offset: Some(flaw.offset), message: flaw.to_string() };
        match flaw.kind {
            DecodeErrorKind::MissingCodec => Error::NotSupported(error.to_string()),
            _ => Error::Corruption(error),
        }
    }

    /// Damage in the file at `path`.
    pub(crate) fn corruption(path: &Path, at: Option<u64>, what: impl Into<String>) -> Error {
        Error::Corruption(Corruption { path: path.to_path_buf(), offset: at, message: what.into() })
    }

    /// The kind.
    ///
    /// ```
    /// use terrace::{Db, Env, ErrorKind, Options};
    /// let error = Db::open("nothing here", &Options { env: Env::memory(), ..Options::default() }).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    /// println!("{error}");
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotFound(_) => ErrorKind::NotFound,
            Error::Corruption(_) => ErrorKind::Corruption,
            Error::NotSupported(_) => ErrorKind::NotSupported,
            Error::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Error::Io(error) if error.is_not_found() => ErrorKind::NotFound,
            Error::Io(_) => ErrorKind::Io,
            Error::BackgroundError(cause) => cause.kind(),
        }
    }

    /// True if another opener holds the database.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let second = terrace::Db::open("cities", &options);
    /// assert!(second.is_err_and(|error| error.is_locked()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_locked(&self) -> bool {
        matches!(self, Error::Io(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// True if nothing became unclear and the same call may succeed once there is space, memory or a free
    /// descriptor.
    ///
    /// ```
    /// /// Whether it is worth while to make room and to try again.
    /// fn put(db: &terrace::Db, key: &[u8], value: &[u8]) -> terrace::Result<bool> {
    ///     match db.put(key, value) {
    ///         Ok(()) => Ok(true),
    ///         Err(error) if error.is_resumable() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Io(error) if error.is_resource_exhausted()) && !mutant!(NoSpaceNeverRecovers)
    }
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Error {
        Error::Io(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_codec_is_not_corruption() {
        let error = DecodeError::new(
            DecodeErrorKind::MissingCodec,
            7,
            "zstd block",
            "a build with the cargo feature `zstd`",
        );
        let error = Error::from_decode_error("db/000042.ldb".as_ref(), &error);
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let expect =
            "not supported: 000042.ldb at 7: zstd block, expected a build with the cargo feature `zstd`";
        assert_eq!(error.to_string(), expect);
    }
}
