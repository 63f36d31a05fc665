//! Errors of the engine as codes of JavaScript errors.

use terrace::{Error, ErrorKind};

/// Error of a call: its code in JavaScript and its message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Result of a call from JavaScript.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Separates code and message in an error of napi-rs, whose own codes are fixed.
const SEPARATOR: char = '\u{0}';

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// Returns the error of an argument that has the wrong type.
    pub(crate) fn wrong_type(message: impl Into<String>) -> Failure {
        Failure::new("ERR_INVALID_ARG_TYPE", message)
    }

    /// Returns the error of a request for `bytes` bytes that the system refused.
    pub(crate) fn out_of_memory(bytes: usize) -> Failure {
        Failure::new("LEVEL_OUT_OF_MEMORY", format!("no memory for {bytes} bytes"))
    }

    /// Returns the error of a panic, which must not cross the boundary of the language.
    pub(crate) fn panicked() -> Failure {
        Failure::new("LEVEL_INTERNAL", "the engine panicked; please report this error")
    }
}

/// Returns the code of `error` in JavaScript.
fn code_of(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.is_locked() => "LEVEL_LOCKED",
        ErrorKind::Corruption => "LEVEL_CORRUPTION",
        ErrorKind::Io | ErrorKind::NotFound => "LEVEL_IO_ERROR",
        ErrorKind::NotSupported => "LEVEL_NOT_SUPPORTED",
        ErrorKind::InvalidArgument => "LEVEL_INVALID_ARGUMENT",
        ErrorKind::Busy => "LEVEL_BUSY",
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(code_of(&error), error.to_string())
    }
}

impl From<Failure> for napi::Error {
    /// Stores the code in the message. `failure` of `lib/failure.js` separates them again.
    fn from(failure: Failure) -> napi::Error {
        napi::Error::from_reason(format!("{}{SEPARATOR}{}", failure.code, failure.message))
    }
}
