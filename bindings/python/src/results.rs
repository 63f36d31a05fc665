//! Keys and values as results: without memory for them, a call raises a `MemoryError`.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;

/// Length in bytes from which [`to_object`] expects that the memory may not suffice. This costs a
/// second write of the object.
const LARGE: usize = 1 << 20;

/// Returns a `bytes` object with a copy of `bytes`.
#[inline]
pub(crate) fn to_object<'py>(py: Python<'py>, bytes: &[u8]) -> Result<Bound<'py, PyBytes>> {
    if bytes.len() < LARGE {
        return Ok(PyBytes::new(py, bytes));
    }
    // `PyBytes::new` panics without memory.
    PyBytes::new_with(py, bytes.len(), |object| {
        object.copy_from_slice(bytes);
        Ok(())
    })
}

/// Returns a copy of `bytes`.
pub(crate) fn to_vec(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| no_memory(bytes.len()))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Returns the exception of an allocation that failed.
#[cold]
pub(crate) fn no_memory(bytes: usize) -> PyErr {
    PyMemoryError::new_err(format!("no memory for {bytes} bytes"))
}
