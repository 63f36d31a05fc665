//! Errors in LevelDB's words.
//!
//! ```text
//!   kind              text
//!   NotFound          NotFound: message
//!   Corruption        Corruption: message
//!   NotSupported      Not implemented: message
//!   InvalidArgument   Invalid argument: message
//!   Io                IO error: message
//!   Busy              Busy: message             functions of Terrace only
//! ```
//!
//! Programs compare kinds. Some search the text for the prefix, or for LevelDB's sentences about a
//! locked or missing database, so those are LevelDB's own. The rest of a message is more specific
//! than LevelDB's.

use std::fmt;

use terrace::env::{FileError, LockHolder};
use terrace::{Error, ErrorKind};

/// An error to return: its kind, and its text without the prefix of the kind.
#[derive(Debug, Clone)]
pub struct StatusError {
    /// Kind, which determines LevelDB's status code.
    pub kind: ErrorKind,
    /// Message without the prefix.
    pub message: String,
}

impl StatusError {
    /// Creates an error of kind `InvalidArgument`.
    pub fn invalid_argument(message: impl Into<String>) -> StatusError {
        StatusError { kind: ErrorKind::InvalidArgument, message: message.into() }
    }

    /// Creates an error for a request for `bytes` bytes that the system refused.
    pub fn out_of_memory(bytes: usize) -> StatusError {
        StatusError { kind: ErrorKind::Io, message: format!("no memory for {bytes} bytes") }
    }

    /// Returns LevelDB's status code of the kind. LevelDB has none for `Busy`, and no function of
    /// its interface returns it.
    pub fn status_code(&self) -> u8 {
        match self.kind {
            ErrorKind::NotFound => 1,
            ErrorKind::Corruption => 2,
            ErrorKind::NotSupported => 3,
            ErrorKind::InvalidArgument => 4,
            ErrorKind::Io | ErrorKind::Busy => 5,
        }
    }
}

impl From<&Error> for StatusError {
    fn from(error: &Error) -> StatusError {
        let kind = error.kind();
        let message = match error {
            Error::NotFound(message) | Error::NotSupported(message) | Error::InvalidArgument(message) => {
                message.clone()
            }
            // LevelDB's text, which programs know.
            Error::ComparatorMismatch { stored, expected } => {
                format!("{stored} does not match existing comparator : {expected}")
            }
            Error::Corruption(corruption) => corruption.to_string(),
            Error::Io(error) => {
                return user_env_status(error)
                    .unwrap_or_else(|| StatusError { kind, message: io_error_message(error) });
            }
            Error::BackgroundError(cause) => StatusError::from(&**cause).message,
            // The status begins with the kind.
            other => other.to_string().trim_start_matches("invalid argument: ").to_owned(),
        };
        StatusError { kind, message }
    }
}

impl From<Error> for StatusError {
    fn from(error: Error) -> StatusError {
        StatusError::from(&error)
    }
}

/// Returns the error of a program's own environment, unchanged.
fn user_env_status(error: &FileError) -> Option<StatusError> {
    error.source.get_ref()?.downcast_ref::<StatusError>().cloned()
}

/// Formats an I/O error as LevelDB does: `dir/000005.ldb: No such file or directory`.
///
/// Some programs wait and try again after a message that begins with `lock`. Therefore only a lock
/// that another opener holds has this prefix.
fn io_error_message(error: &FileError) -> String {
    let path = error.path.display();
    match error.lock_holder() {
        Some(LockHolder::ThisProcess) => return format!("lock {path}: already held by process"),
        Some(LockHolder::OtherProcess | LockHolder::Unknown) => {
            return format!("lock {path}: Resource temporarily unavailable");
        }
        None => {}
    }
    let reason = error.source.to_string();
    // Rust appends the error number; LevelDB does not.
    let reason = reason.split_once(" (os error").map_or(&*reason, |(reason, _)| reason);
    let cannot = if error.op == "lock" { "cannot lock: " } else { "" };
    format!("{path}: {cannot}{reason}")
}

/// Allows the engine to carry the error inside the [`FileError`] of the failed file.
impl std::error::Error for StatusError {}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            ErrorKind::NotFound => "NotFound",
            ErrorKind::Corruption => "Corruption",
            ErrorKind::NotSupported => "Not implemented",
            ErrorKind::InvalidArgument => "Invalid argument",
            ErrorKind::Io => "IO error",
            ErrorKind::Busy => "Busy",
        };
        write!(f, "{prefix}: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[track_caller]
    fn check(error: Error, code: u8, text: &str) {
        let error = StatusError::from(error);
        assert_eq!((error.status_code(), error.to_string().as_str()), (code, text));
    }

    fn file(op: &'static str, source: impl Into<io::Error>) -> Error {
        FileError::new(op, "db/LOCK", source.into()).into()
    }

    #[test]
    fn locked() {
        check(file("lock", LockHolder::ThisProcess), 5, "IO error: lock db/LOCK: already held by process");
        check(
            file("lock", LockHolder::OtherProcess),
            5,
            "IO error: lock db/LOCK: Resource temporarily unavailable",
        );
    }

    /// The file was opened but not locked, and no other opener holds the lock.
    #[cfg(unix)]
    #[test]
    fn lock_failures() {
        let os_error = io::Error::from_raw_os_error;
        check(file("lock", os_error(libc::ENOLCK)), 5, "IO error: db/LOCK: cannot lock: No locks available");
        check(file("open", os_error(libc::EACCES)), 5, "IO error: db/LOCK: Permission denied");
    }

    #[cfg(unix)]
    #[test]
    fn io_errors() {
        let os_error = io::Error::from_raw_os_error;
        check(file("open", os_error(libc::ENOENT)), 1, "NotFound: db/LOCK: No such file or directory");
        check(file("fsync", os_error(libc::ENOSPC)), 5, "IO error: db/LOCK: No space left on device");
        let error = Error::BackgroundError(std::sync::Arc::new(file("fsync", os_error(libc::EIO))));
        check(error, 5, "IO error: db/LOCK: Input/output error");
    }

    #[test]
    fn other_kinds() {
        check(Error::InvalidArgument("a".into()), 4, "Invalid argument: a");
        let text = "Invalid argument: a: does not exist (create_if_missing is false)";
        check(Error::DoesNotExist { path: "a".into() }, 4, text);
        check(Error::NotSupported("a".into()), 3, "Not implemented: a");
        check(Error::NotFound("a".into()), 1, "NotFound: a");
        let key = || b"a".to_vec();
        check(Error::Conflict { key: key() }, 5, "Busy: conflict: another writer changed 'a'");
        check(Error::LockTimeout { key: key() }, 5, "Busy: lock timeout: another transaction holds 'a'");
        let text = "Invalid argument: transaction too large: 9 bytes of reads and writes, the limit is 8";
        check(Error::TransactionTooLarge { bytes: 9, limit: 8 }, 4, text);
    }
}
