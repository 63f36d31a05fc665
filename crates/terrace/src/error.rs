//! Errors of this crate, in the five kinds of LevelDB and one more.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::FileError;
use terrace_format::batch::MAX_KEY_OR_VALUE_LEN;
use terrace_format::{DecodeError, DecodeErrorKind};
use terrace_sync::mutant;

/// Result with an [`Error`] of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Kind of an error. The kinds except for [`ErrorKind::Busy`] correspond one to one to LevelDB's
/// status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The requested item does not exist.
    NotFound,
    /// Stored bytes are damaged or contradict each other.
    Corruption,
    /// The files, the options or the handle do not allow this operation.
    NotSupported,
    /// An argument or an option is wrong.
    InvalidArgument,
    /// The operating system returned an error.
    Io,
    /// Another writer or transaction interfered, or a call that never waits would have to wait.
    /// LevelDB has no such status, and its interfaces never return this kind.
    Busy,
}

/// Reason of the error of a call after the close.
pub(crate) const DATABASE_IS_CLOSED: &str = "database is closed";

/// Error of this crate. It is cheap to clone, because one failure may be reported to many callers.
///
/// ```text
/// corruption: 000042.ldb at 81920: checksum 0x0000000e, expected 0x0000000f as stored
/// io: fsync 000043.log: No space left on device (os error 28)
/// invalid argument: cities: does not exist (create_if_missing is false)
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is missing.
    #[error("not found: {0}")]
    NotFound(String),
    /// A file is damaged.
    #[error("corruption: {0}")]
    Corruption(Corruption),
    /// The files, the options or the handle do not allow this operation.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// An argument or an option is wrong.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// There is no database, or no directory of backups, and the call may not create one.
    #[error("invalid argument: {}: does not exist (create_if_missing is false)", path.display())]
    DoesNotExist {
        /// Directory of the database or of the backups.
        path: PathBuf,
    },
    /// The database was created with another comparator.
    #[error("invalid argument: the database has the comparator {stored}, not {expected}")]
    ComparatorMismatch {
        /// Name of the comparator with which the database was created.
        stored: String,
        /// Name of the comparator in the options.
        expected: String,
    },
    /// The operating system returned an error for a file.
    #[error("io: {0}")]
    Io(Arc<FileError>),
    /// An earlier error left the content of the disk unknown. The database refuses writes until it
    /// is opened again. Reads continue.
    #[error("background error, writes are disabled: {0}")]
    BackgroundError(Arc<Error>),
    /// The database of a follower was repaired, restored, destroyed or replaced, so its history
    /// does not continue the one that the follower has shown. Every read fails until the follower
    /// is opened again.
    #[error("replaced: {}: {reason}; open the follower again", path.display())]
    Replaced {
        /// Directory of the database.
        path: PathBuf,
        /// Found state and expected state.
        reason: String,
    },
    /// Another writer wrote a key on which a conditional write or a transaction depends. Nothing
    /// was written. The caller reads again and tries again.
    #[error("conflict: another writer changed '{}'", key.escape_ascii())]
    Conflict {
        /// The changed key, or a key in a range that the caller read.
        key: Vec<u8>,
    },
    /// Two or more transactions wait for each other's locks. This transaction has released its
    /// locks, and the others continue. The caller tries again.
    #[error("deadlock: another transaction waits for this one and holds '{}'", key.escape_ascii())]
    Deadlock {
        /// Key whose lock would close the cycle.
        key: Vec<u8>,
    },
    /// Another transaction held the lock of a key for too long. This transaction has released its
    /// locks. The caller tries again.
    #[error("lock timeout: another transaction holds '{}'", key.escape_ascii())]
    LockTimeout {
        /// Key whose lock was not released.
        key: Vec<u8>,
    },
    /// The call would wait for a file, a sync, another writer or background work. It had no effect.
    /// Only the calls that never wait return this error: [`Db::try_get`](crate::Db::try_get) and
    /// [`Db::try_write`](crate::Db::try_write). The caller uses the call that waits, on a thread
    /// that may wait.
    #[error("would wait for a file, a sync, another writer or background work")]
    WouldWait,
    /// The keys of a table that is being written are not in ascending order. Nothing was added.
    #[error("invalid argument: {}: key '{}' after '{}', expected ascending keys",
        path.display(), key.escape_ascii(), previous.escape_ascii())]
    UnsortedKey {
        /// Table file.
        path: PathBuf,
        /// Key that is not after all keys before it.
        key: Vec<u8>,
        /// Last key of the table.
        previous: Vec<u8>,
    },
    /// The keys of a table to ingest overlap the database or another of the tables. Nothing was
    /// ingested.
    #[error("invalid argument: {}, keys '{}' to '{}', overlaps {other}",
        path.display(), smallest.escape_ascii(), largest.escape_ascii())]
    Overlap {
        /// Table file.
        path: PathBuf,
        /// First key of the table.
        smallest: Vec<u8>,
        /// Last key of the table.
        largest: Vec<u8>,
        /// Key of the database, or other table.
        other: String,
    },
    /// Snapshots or transactions are open, which must not see the tables to ingest. Nothing was
    /// ingested. The caller tries again.
    #[error("busy: the database has open snapshots or transactions")]
    SnapshotsOpen,
    /// The reads and writes of a transaction take more memory than its limit.
    #[error("transaction too large: {bytes} bytes of reads and writes, the limit is {limit}")]
    TransactionTooLarge {
        /// Bytes that the transaction would take.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
}

/// Place and description of the damage in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// Path of the file, or of the directory if a file is missing.
    pub path: PathBuf,
    /// Offset in bytes, if it is known.
    pub offset: Option<u64>,
    /// Found value and expected value.
    pub message: String,
}

impl std::fmt::Debug for Error {
    /// Formats the variant and its message, because a failed `unwrap` prints this text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NotFound(message) => write!(f, "NotFound({message})"),
            Error::Corruption(corruption) => write!(f, "Corruption({corruption})"),
            Error::NotSupported(message) => write!(f, "NotSupported({message})"),
            Error::InvalidArgument(message) => write!(f, "InvalidArgument({message})"),
            Error::Io(error) => write!(f, "Io({error})"),
            Error::BackgroundError(cause) => write!(f, "BackgroundError({cause:?})"),
            Error::DoesNotExist { .. } => write!(f, "DoesNotExist({self})"),
            Error::ComparatorMismatch { .. } => write!(f, "ComparatorMismatch({self})"),
            Error::Replaced { .. } => write!(f, "Replaced({self})"),
            Error::Conflict { .. } => write!(f, "Conflict({self})"),
            Error::Deadlock { .. } => write!(f, "Deadlock({self})"),
            Error::LockTimeout { .. } => write!(f, "LockTimeout({self})"),
            Error::WouldWait => f.write_str("WouldWait"),
            Error::TransactionTooLarge { .. } => write!(f, "TransactionTooLarge({self})"),
            Error::UnsortedKey { .. } => write!(f, "UnsortedKey({self})"),
            Error::Overlap { .. } => write!(f, "Overlap({self})"),
            Error::SnapshotsOpen => write!(f, "SnapshotsOpen({self})"),
        }
    }
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        write!(f, "{}", name.to_string_lossy())?;
        if let Some(offset) = self.offset {
            write!(f, " at {offset}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Error {
    /// Returns the error for a decode error in the file at `path`. A block of a codec that this
    /// build lacks is not damaged, but not supported.
    pub(crate) fn from_decode_error(path: &Path, error: &DecodeError) -> Error {
        let corruption =
            Corruption { path: path.to_path_buf(), offset: Some(error.offset), message: error.to_string() };
        match error.kind {
            DecodeErrorKind::MissingCodec => Error::NotSupported(corruption.to_string()),
            DecodeErrorKind::OutOfMemory => Error::from_io(path, IoErrorKind::OutOfMemory, error.to_string()),
            _ => Error::Corruption(corruption),
        }
    }

    fn from_io(path: &Path, kind: IoErrorKind, message: String) -> Error {
        FileError::new("allocate memory for", path, std::io::Error::new(kind, message)).into()
    }

    /// Returns the error of a request for `bytes` bytes that the system refused, on behalf of the
    /// file or directory at `path`. It is retryable.
    #[cold]
    pub(crate) fn out_of_memory(path: &Path, bytes: usize) -> Error {
        Error::from_io(path, IoErrorKind::OutOfMemory, format!("no memory for {bytes} bytes"))
    }

    /// Returns the error of a key or value above its maximum length.
    #[cold]
    pub(crate) fn oversized_entry() -> Error {
        Error::InvalidArgument(format!("key or value is longer than {MAX_KEY_OR_VALUE_LEN} bytes"))
    }

    /// Returns a corruption error for the file at `path`.
    pub(crate) fn corruption(path: &Path, offset: Option<u64>, message: impl Into<String>) -> Error {
        Error::Corruption(Corruption { path: path.to_path_buf(), offset, message: message.into() })
    }

    /// Returns the kind of the error.
    ///
    /// ```
    /// use terrace::{Db, Env, ErrorKind, Options};
    /// let options = Options::default().env(Env::in_memory());
    /// let error = Db::open("missing", &options).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    /// println!("{error}");
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotFound(_) => ErrorKind::NotFound,
            Error::Corruption(_) => ErrorKind::Corruption,
            Error::NotSupported(_) | Error::Replaced { .. } => ErrorKind::NotSupported,
            Error::Io(error) if error.is_not_found() => ErrorKind::NotFound,
            Error::Io(_) => ErrorKind::Io,
            Error::BackgroundError(cause) => cause.kind(),
            Error::Conflict { .. }
            | Error::Deadlock { .. }
            | Error::LockTimeout { .. }
            | Error::SnapshotsOpen
            | Error::WouldWait => ErrorKind::Busy,
            Error::InvalidArgument(_)
            | Error::DoesNotExist { .. }
            | Error::ComparatorMismatch { .. }
            | Error::TransactionTooLarge { .. }
            | Error::UnsortedKey { .. }
            | Error::Overlap { .. } => ErrorKind::InvalidArgument,
        }
    }

    /// Returns true if a file, or a part of it, cannot be read at all. Other files may be readable.
    pub(crate) fn is_unreadable_file(&self) -> bool {
        matches!(self, Error::Io(error) if error.is_unreadable())
    }

    /// Returns true if another process or handle has the database open.
    ///
    /// ```
    /// # use terrace::{Env, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let second = terrace::Db::open("cities", &options);
    /// assert!(second.is_err_and(|error| error.is_locked()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_locked(&self) -> bool {
        matches!(self, Error::Io(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Returns true if the database was closed before the call, or beside it.
    ///
    /// ```
    /// # use terrace::{Env, Options};
    /// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// let db = terrace::Db::open("cities", &options)?;
    /// db.shutdown()?;
    /// assert!(db.put("CH/Bern", "46.95,7.45").is_err_and(|error| error.is_closed()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        matches!(self, Error::NotSupported(reason) if reason == DATABASE_IS_CLOSED)
    }

    /// Returns true if the failed call had no effect and may succeed later: after a conflict, after
    /// the release of snapshots, or after the system has more disk space, memory or file
    /// descriptors.
    ///
    /// ```
    /// /// Returns false if the caller should free disk space and try again.
    /// fn put(db: &terrace::Db, key: &[u8], value: &[u8]) -> terrace::Result<bool> {
    ///     match db.put(key, value) {
    ///         Ok(()) => Ok(true),
    ///         Err(error) if error.is_retryable() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Io(error) => error.is_resource_exhausted() && !mutant!(NoSpaceNeverRecovers),
            Error::WouldWait | Error::SnapshotsOpen => true,
            _ => self.is_conflict(),
        }
    }

    /// Returns true if a call that never waits would have to wait. Nothing happened.
    ///
    /// ```
    /// use terrace::{Db, Env, Options, WriteBatch, WriteOptions};
    /// let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// let db = Db::open("cities", &options)?;
    /// let durable = WriteOptions::default().sync(true);
    /// let error = db.try_write(&WriteBatch::new(), &durable).unwrap_err();
    /// assert!(error.is_would_wait(), "a sync waits for the storage");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_would_wait(&self) -> bool {
        matches!(self, Error::WouldWait)
    }

    /// Returns true if another writer or transaction interfered.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. } | Error::Deadlock { .. } | Error::LockTimeout { .. })
    }
}

impl From<Error> for std::io::Error {
    /// Converts to the kind that fits best. The error of Terrace is the source.
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind as IoKind;
        let kind = match error.kind() {
            ErrorKind::Corruption => IoKind::InvalidData,
            ErrorKind::InvalidArgument => IoKind::InvalidInput,
            ErrorKind::NotSupported => IoKind::Unsupported,
            _ => IoKind::Other,
        };
        std::io::Error::new(kind, error)
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
    fn missing_memory_is_retryable() {
        let error = DecodeError::new(DecodeErrorKind::OutOfMemory, 7, "no memory for 9 bytes", "");
        let error = Error::from_decode_error("db/000042.ldb".as_ref(), &error);
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Io, true));
        assert_eq!(error.to_string(), "io: allocate memory for db/000042.ldb: no memory for 9 bytes");
    }

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
