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

use terrace::env::{FileError, Held};
use terrace::{Error, ErrorKind};

/// An error on its way out: a kind, and the text without the kind's word.
#[derive(Debug, Clone)]
pub struct Failure {
    /// One to one with LevelDB's status codes.
    pub kind: ErrorKind,
    /// What went wrong.
    pub what: String,
}

impl Failure {
    /// The caller's mistake.
    pub fn invalid(what: impl Into<String>) -> Failure {
        Failure { kind: ErrorKind::InvalidArgument, what: what.into() }
    }

    /// LevelDB's number for the kind.
    pub fn code(&self) -> u8 {
        match self.kind {
            ErrorKind::NotFound => 1,
            ErrorKind::Corruption => 2,
            ErrorKind::NotSupported => 3,
            ErrorKind::InvalidArgument => 4,
            ErrorKind::Io => 5,
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let kind = error.kind();
        let what = match error {
            Error::NotFound(what) | Error::NotSupported(what) | Error::InvalidArgument(what) => what.clone(),
            Error::Corruption(corruption) => corruption.to_string(),
            Error::Io(error) => return told(error).unwrap_or_else(|| Failure { kind, what: system(error) }),
            Error::Refused(cause) => Failure::from(&**cause).what,
            other => other.to_string(),
        };
        Failure { kind, what }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::from(&error)
    }
}

/// What a program's own environment said, in its own words.
fn told(error: &FileError) -> Option<Failure> {
    error.source.get_ref()?.downcast_ref::<Failure>().cloned()
}

/// `dir/000005.ldb: No such file or directory`, and with the call in front where it is a lock.
fn system(error: &FileError) -> String {
    let FileError { op, path, source } = error;
    let (call, path) = (if *op == "lock" { "lock " } else { "" }, path.display());
    let reason = match error.held() {
        Some(Held::Here) => "already held by process".to_owned(),
        Some(Held::Elsewhere) => "Resource temporarily unavailable".to_owned(),
        None => source.to_string(),
    };
    // The number is Rust's addition.
    let reason = reason.split_once(" (os error").map_or(&*reason, |(reason, _)| reason);
    format!("{call}{path}: {reason}")
}

/// So that it can travel through the engine, inside the error of the file that failed.
impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            ErrorKind::NotFound => "NotFound",
            ErrorKind::Corruption => "Corruption",
            ErrorKind::NotSupported => "Not implemented",
            ErrorKind::InvalidArgument => "Invalid argument",
            ErrorKind::Io => "IO error",
        };
        write!(f, "{word}: {}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[track_caller]
    fn check(error: Error, code: u8, text: &str) {
        let failure = Failure::from(error);
        assert_eq!((failure.code(), failure.to_string().as_str()), (code, text));
    }

    fn file(op: &'static str, source: impl Into<io::Error>) -> Error {
        FileError::new(op, "db/LOCK", source.into()).into()
    }

    #[test]
    fn locked() {
        check(file("lock", Held::Here), 5, "IO error: lock db/LOCK: already held by process");
        check(file("lock", Held::Elsewhere), 5, "IO error: lock db/LOCK: Resource temporarily unavailable");
    }

    #[test]
    fn of_the_system() {
        let answer = io::Error::from_raw_os_error;
        check(file("open", answer(libc::ENOENT)), 1, "NotFound: db/LOCK: No such file or directory");
        check(file("fsync", answer(libc::ENOSPC)), 5, "IO error: db/LOCK: No space left on device");
        let refused = Error::Refused(std::sync::Arc::new(file("fsync", answer(libc::EIO))));
        check(refused, 5, "IO error: db/LOCK: Input/output error");
    }

    #[test]
    fn of_every_other_kind() {
        check(Error::InvalidArgument("a".into()), 4, "Invalid argument: a");
        check(Error::NotSupported("a".into()), 3, "Not implemented: a");
        check(Error::NotFound("a".into()), 1, "NotFound: a");
    }
}
