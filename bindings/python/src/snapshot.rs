//! Snapshot of a database or of a `PrefixedDB`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use terrace::Snapshot;
use terrace_sync::{Arc, Mutex};

use crate::arguments::joined;
use crate::db::{get_value, read_options};
use crate::error::{ClosedError, Result};
use crate::handle::{Handle, close_detached};
use crate::iterator::PyIterator;
use crate::raw_iterator::PyRawIterator;

/// State of a database at one moment.
#[pyclass(name = "Snapshot", module = "terrace", frozen, weakref)]
pub(crate) struct PySnapshot {
    handle: Arc<Handle>,
    prefix: Option<Vec<u8>>,
    /// None after the release.
    snapshot: Mutex<Option<Snapshot>>,
}

impl PySnapshot {
    pub(crate) fn new(py: Python<'_>, handle: &Arc<Handle>, prefix: Option<&[u8]>) -> Result<PySnapshot> {
        let snapshot = py.detach(|| handle.db().map(|db| db.snapshot()))?;
        let prefix = prefix.map(<[u8]>::to_vec);
        Ok(PySnapshot { handle: Arc::clone(handle), prefix, snapshot: Mutex::new(Some(snapshot)) })
    }

    fn snapshot(&self) -> Result<Snapshot> {
        // No holder of this lock waits.
        let snapshot = self.snapshot.lock().clone();
        snapshot
            .filter(|_| !self.handle.is_closed())
            .ok_or_else(|| ClosedError::new_err("Database or snapshot is closed"))
    }
}

#[pymethods]
impl PySnapshot {
    /// Returns the value of `key`, or `default`.
    #[pyo3(signature = (key, default=None, *, verify_checksums=None, fill_cache=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        default: Option<Py<PyAny>>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> Result<Option<Py<PyAny>>> {
        let options = read_options(verify_checksums, fill_cache).snapshot(self.snapshot()?);
        match &self.prefix {
            Some(prefix) => {
                get_value(py, &self.handle, &joined(Some(prefix), key.as_bytes()), default, &options)
            }
            None => get_value(py, &self.handle, key.as_bytes(), default, &options),
        }
    }

    fn __iter__(&self, py: Python<'_>) -> Result<PyIterator> {
        self.iterator(py, None)
    }

    /// Returns an iterator over the entries of the snapshot.
    #[pyo3(signature = (**options), text_signature = "($self, *, reverse=False, start=None, stop=None, include_start=True, include_stop=False, prefix=None, include_key=True, include_value=True, verify_checksums=False, fill_cache=True)")]
    fn iterator(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Result<PyIterator> {
        PyIterator::new(py, &self.handle, self.prefix.as_deref(), Some(self.snapshot()?), options)
    }

    /// Returns an iterator with LevelDB's calls over all entries of the snapshot.
    #[pyo3(signature = (*, verify_checksums=None, fill_cache=None))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> Result<PyRawIterator> {
        let options = read_options(verify_checksums, fill_cache).snapshot(self.snapshot()?);
        PyRawIterator::new(py, &self.handle, &options)
    }

    /// Releases the snapshot. Later reads of it fail.
    fn close(&self) {
        close_detached(|| {
            let snapshot = self.snapshot.lock().take();
            drop(snapshot);
        });
    }

    /// Same as `close`.
    fn release(&self) {
        self.close();
    }

    fn __enter__(this: Py<PySnapshot>) -> Py<PySnapshot> {
        this
    }

    #[pyo3(signature = (exc_type, exc_val, exc_tb, /))]
    fn __exit__(
        &self,
        exc_type: &Bound<'_, PyAny>,
        exc_val: &Bound<'_, PyAny>,
        exc_tb: &Bound<'_, PyAny>,
    ) -> bool {
        let _ = (exc_type, exc_val, exc_tb);
        self.close();
        false
    }
}

impl Drop for PySnapshot {
    fn drop(&mut self) {
        self.close();
    }
}
