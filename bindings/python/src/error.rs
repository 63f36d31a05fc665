//! Errors of the engine as Python's exceptions, which `terrace/_errors.py` defines.

use pyo3::exceptions::PyMemoryError;
use pyo3::{PyErr, Python};
use terrace::{Error, ErrorKind};

mod exceptions {
    pyo3::import_exception!(terrace._errors, ClosedError);
    pyo3::import_exception!(terrace._errors, ConflictError);
    pyo3::import_exception!(terrace._errors, CorruptionError);
    pyo3::import_exception!(terrace._errors, Error);
    pyo3::import_exception!(terrace._errors, IOError);
    pyo3::import_exception!(terrace._errors, InvalidArgumentError);
    pyo3::import_exception!(terrace._errors, IteratorInvalidError);
    pyo3::import_exception!(terrace._errors, LockedError);
    pyo3::import_exception!(terrace._errors, NotSupportedError);
}

pub(crate) use exceptions::{ClosedError, ConflictError, IteratorInvalidError};

/// Imports all classes of exceptions. A finalizer may need one at the exit of the interpreter,
/// which imports nothing any more, and a failed import would abort the process there.
pub(crate) fn import_exceptions(py: Python<'_>) {
    py.get_type::<exceptions::ClosedError>();
    py.get_type::<exceptions::ConflictError>();
    py.get_type::<exceptions::CorruptionError>();
    py.get_type::<exceptions::Error>();
    py.get_type::<exceptions::IOError>();
    py.get_type::<exceptions::InvalidArgumentError>();
    py.get_type::<exceptions::IteratorInvalidError>();
    py.get_type::<exceptions::LockedError>();
    py.get_type::<exceptions::NotSupportedError>();
}

/// Result whose error is an exception.
pub(crate) type Result<T> = std::result::Result<T, PyErr>;

/// Returns the exception for an error of the engine.
#[cold]
pub(crate) fn exception(error: Error) -> PyErr {
    let message = error.to_string();
    match error.kind() {
        _ if error.is_locked() => exceptions::LockedError::new_err(message),
        ErrorKind::Io if is_out_of_memory(&error) => PyMemoryError::new_err(message),
        ErrorKind::Io => exceptions::IOError::new_err(message),
        ErrorKind::Corruption => exceptions::CorruptionError::new_err(message),
        ErrorKind::NotSupported => exceptions::NotSupportedError::new_err(message),
        ErrorKind::InvalidArgument => exceptions::InvalidArgumentError::new_err(message),
        ErrorKind::Busy => exceptions::ConflictError::new_err(message),
        ErrorKind::NotFound => exceptions::Error::new_err(message),
    }
}

fn is_out_of_memory(error: &Error) -> bool {
    matches!(error, Error::Io(file) if file.kind() == std::io::ErrorKind::OutOfMemory)
}

/// Returns the exception of an argument that the engine would refuse.
pub(crate) fn invalid_argument(message: &'static str) -> PyErr {
    exceptions::InvalidArgumentError::new_err(message)
}
