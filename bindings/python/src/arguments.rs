//! Arguments of calls: keys, values and paths.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::error::Result;

/// Bytes of a value: borrowed from a `bytes` object, or a copy from another object with a buffer.
/// The copy has a reason: other threads may change such an object during the call.
pub(crate) enum ValueBytes<'a> {
    Borrowed(&'a [u8]),
    Copied(Bound<'a, PyBytes>),
}

impl<'a> ValueBytes<'a> {
    /// Returns the bytes of `value`. An object without a buffer is a `TypeError`.
    pub(crate) fn of(value: &'a Bound<'_, PyAny>) -> Result<ValueBytes<'a>> {
        match value.cast::<PyBytes>() {
            Ok(bytes) => Ok(ValueBytes::Borrowed(bytes.as_bytes())),
            Err(_) => {
                let copy = PyMemoryView::from(value)?.call_method0("tobytes")?;
                Ok(ValueBytes::Copied(copy.cast_into()?))
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            ValueBytes::Borrowed(bytes) => bytes,
            ValueBytes::Copied(bytes) => bytes.as_bytes(),
        }
    }
}

/// Returns the path of a `str`, `bytes` or `os.PathLike` object.
pub(crate) fn path_of(name: &Bound<'_, PyAny>) -> Result<PathBuf> {
    let path = match name.cast::<PyBytes>() {
        Ok(bytes) => match terrace_env::path_from_bytes(bytes.as_bytes()) {
            Some(path) => path.to_path_buf(),
            None => return Err(PyValueError::new_err("'name' is not UTF-8")),
        },
        Err(_) => name.extract::<PathBuf>()?,
    };
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(PyValueError::new_err("'name' contains a zero byte"));
    }
    Ok(path)
}

/// Returns `prefix` followed by `key`.
pub(crate) fn joined(prefix: Option<&[u8]>, key: &[u8]) -> Vec<u8> {
    [prefix.unwrap_or_default(), key].concat()
}

/// Returns the first key after all keys with `prefix` in bytewise order, or None if there is no
/// such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Returns the duration of a number of seconds.
pub(crate) fn seconds(value: &Bound<'_, PyAny>) -> Result<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err("a number of seconds is 0 or more"))
}
