//! Class `PrefixedDB`: the keys of a database that begin with a prefix, without it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::joined;
use crate::db::{PyDb, delete_key, get_value, put_value, read_options};
use crate::error::Result;
use crate::handle::Handle;
use crate::iterator::PyIterator;
use crate::snapshot::PySnapshot;
use crate::write_batch::PyWriteBatch;

/// View of the keys with a prefix.
#[pyclass(name = "PrefixedDB", module = "terrace", frozen, weakref)]
pub(crate) struct PyPrefixedDb {
    db: Py<PyDb>,
    prefix: Vec<u8>,
    /// The prefix as an object.
    #[pyo3(get, name = "prefix")]
    prefix_object: Py<PyBytes>,
}

impl PyPrefixedDb {
    pub(crate) fn new(py: Python<'_>, db: Py<PyDb>, prefix: Vec<u8>) -> PyPrefixedDb {
        let prefix_object = PyBytes::new(py, &prefix).unbind();
        PyPrefixedDb { db, prefix, prefix_object }
    }

    fn handle(&self) -> &terrace_sync::Arc<Handle> {
        &self.db.get().handle
    }

    fn key(&self, key: &Bound<'_, PyBytes>) -> Vec<u8> {
        joined(Some(&self.prefix), key.as_bytes())
    }
}

#[pymethods]
impl PyPrefixedDb {
    /// The database.
    #[getter]
    fn db(&self, py: Python<'_>) -> Py<PyDb> {
        self.db.clone_ref(py)
    }

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
        get_value(py, self.handle(), &self.key(key), default, &read_options(verify_checksums, fill_cache))
    }

    /// Sets the value of `key`.
    #[pyo3(signature = (key, value, *, sync=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> Result<()> {
        put_value(py, self.handle(), &self.key(key), value, sync)
    }

    /// Deletes `key`, which need not exist.
    #[pyo3(signature = (key, *, sync=None))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyBytes>, sync: Option<bool>) -> Result<()> {
        delete_key(py, self.handle(), &self.key(key), sync)
    }

    /// Returns an empty batch of writes.
    #[pyo3(signature = (*, transaction=None, sync=None))]
    fn write_batch(&self, transaction: Option<bool>, sync: Option<bool>) -> Result<PyWriteBatch> {
        PyWriteBatch::new(self.handle(), Some(self.prefix.clone()), transaction, sync)
    }

    fn __iter__(&self, py: Python<'_>) -> Result<PyIterator> {
        self.iterator(py, None)
    }

    /// Returns an iterator over the entries that the arguments select.
    #[pyo3(signature = (**options), text_signature = "($self, *, reverse=False, start=None, stop=None, include_start=True, include_stop=False, prefix=None, include_key=True, include_value=True, verify_checksums=False, fill_cache=True)")]
    fn iterator(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Result<PyIterator> {
        PyIterator::new(py, self.handle(), Some(&self.prefix), None, options)
    }

    /// Returns a snapshot of the current state.
    fn snapshot(&self, py: Python<'_>) -> Result<PySnapshot> {
        PySnapshot::new(py, self.handle(), Some(&self.prefix))
    }

    /// Returns a view of the keys with both prefixes.
    fn prefixed_db(&self, py: Python<'_>, prefix: &Bound<'_, PyBytes>) -> PyPrefixedDb {
        PyPrefixedDb::new(py, self.db.clone_ref(py), self.key(prefix))
    }

    fn __repr__(this: &Bound<'_, PyPrefixedDb>) -> Result<String> {
        let prefix = this.get().prefix_object.bind(this.py()).repr()?;
        Ok(format!("<terrace.PrefixedDB with prefix {prefix} at {this:p}>"))
    }
}
