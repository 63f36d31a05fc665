//! Errors in LevelDB's words.
//!
//! ```text
//!   kind              text
//!   NotFound          NotFound: what
//!   Corruption        Corruption: what
//!   NotSupported      Not implemented: what
//!   InvalidArgument   Invalid argument: what
//!   Io                IO error: what
//! ```
//!
//! Programs compare kinds, and some search the text: for the word in front, and for the two sentences about a database
//! that is locked or missing. Those are LevelDB's; what else stands behind the word says more than LevelDB would.

use std::fmt;

use terrace::env::{FileError, LockHolder};
use terrace::{Error, ErrorKind};

/// An error on its way out: a kind, and the text without the kind's word.
#[derive(Debug, Clone)]
pub struct StatusError {
    /// One to one with LevelDB's status codes.
    pub kind: ErrorKind,
    /// What went wrong.
    pub message: String,
}

impl StatusError {
    /// The caller's mistake.
    pub fn invalid_argument(what: impl Into<String>) -> StatusError {
        StatusError { kind: ErrorKind::InvalidArgument, message: what.into() }
    }

    /// LevelDB's number for the kind.
    pub fn status_code(&self) -> u8 {
        match self.kind {
            ErrorKind::NotFound => 1,
            ErrorKind::Corruption => 2,
            ErrorKind::NotSupported => 3,
            ErrorKind::InvalidArgument => 4,
            ErrorKind::Io => 5,
        }
    }
}

impl From<&Error> for StatusError {
    fn from(error: &Error) -> StatusError {
        let kind = error.kind();
        let what = match error {
            Error::NotFound(what) | Error::NotSupported(what) | Error::InvalidArgument(what) => what.clone(),
            Error::Corruption(corruption) => corruption.to_string(),
            Error::Io(error) => {
                return user_env_status(error)
                    .unwrap_or_else(|| StatusError { kind, message: io_error_message(error) });
            }
            Error::BackgroundError(cause) => StatusError::from(&**cause).message,
            other => other.to_string(),
        };
        StatusError { kind, message: what }
    }
}

impl From<Error> for StatusError {
    fn from(error: Error) -> StatusError {
        StatusError::from(&error)
    }
}

/// What a program's own environment said, in its own words.
fn user_env_status(error: &FileError) -> Option<StatusError> {
    error.source.get_ref()?.downcast_ref::<StatusError>().cloned()
}

/// `dir/000005.ldb: No such file or directory`, and with the call in front where it is a lock.
fn io_error_message(error: &FileError) -> String {
    let FileError { op, path, source } = error;
    let (call, path) = (if *op == "lock" { "lock " } else { "" }, path.display());
    let reason = match error.lock_holder() {
        Some(LockHolder::ThisProcess) => "already held by process".to_owned(),
        Some(LockHolder::OtherProcess) => "Resource temporarily unavailable".to_owned(),
        None => source.to_string(),
    };
    // The number is Rust's addition.
    let reason = reason.split_once(" (os error").map_or(&*reason, |(reason, _)| reason);
    format!("{call}{path}: {reason}")
}

/// So that it can travel through the engine, inside the error of the file that failed.
impl std::error::Error for StatusError {}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            ErrorKind::NotFound => "NotFound",
            ErrorKind::Corruption => "Corruption",
            ErrorKind::NotSupported => "Not implemented",
            ErrorKind::InvalidArgument => "Invalid argument",
            ErrorKind::Io => "IO error",
        };
        write!(f, "{word}: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[track_caller]
    fn check(error: Error, code: u8, text: &str) {
        let failure = StatusError::from(error);
        assert_eq!((failure.status_code(), failure.to_string().as_str()), (code, text));
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

    #[test]
    fn io_errors() {
        let answer = io::Error::from_raw_os_error;
        check(file("open", answer(libc::ENOENT)), 1, "NotFound: db/LOCK: No such file or directory");
        check(file("fsync", answer(libc::ENOSPC)), 5, "IO error: db/LOCK: No space left on device");
        let refused = Error::BackgroundError(std::sync::Arc::new(file("fsync", answer(libc::EIO))));
        check(refused, 5, "IO error: db/LOCK: Input/output error");
    }

    #[test]
    fn other_kinds() {
        check(Error::InvalidArgument("a".into()), 4, "Invalid argument: a");
        check(Error::NotSupported("a".into()), 3, "Not implemented: a");
        check(Error::NotFound("a".into()), 1, "NotFound: a");
    }
}
