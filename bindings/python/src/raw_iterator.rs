//! Iterator of LevelDB: it stands at an entry, or is invalid.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use terrace::{DbIterator, ReadOptions};
use terrace_sync::{Arc, Mutex, Weak};

use crate::error::{IteratorInvalidError, Result};
use crate::handle::{Closable, Handle, close_detached, iterator_closed};
use crate::results::{to_object, to_vec};

/// Iterator that the close of its database ends.
struct SharedIter(Mutex<Option<DbIterator>>);

impl Closable for SharedIter {
    fn close(&self) {
        self.0.lock().take();
    }
}

/// Iterator over all entries, with LevelDB's calls.
#[pyclass(name = "RawIterator", module = "terrace", frozen, weakref)]
pub(crate) struct PyRawIterator {
    handle: Arc<Handle>,
    iter: Arc<SharedIter>,
    id: u64,
}

impl PyRawIterator {
    pub(crate) fn new(py: Python<'_>, handle: &Arc<Handle>, options: &ReadOptions) -> Result<PyRawIterator> {
        let iter = py.detach(|| handle.db().map(|db| db.raw_iter_with(options)))?;
        let iter = Arc::new(SharedIter(Mutex::new(Some(iter))));
        let weak: Weak<SharedIter> = Arc::downgrade(&iter);
        let id = handle.register(weak);
        if handle.is_closed() {
            // Another thread closed the database before the iterator was registered.
            py.detach(|| iter.close());
        }
        Ok(PyRawIterator { handle: Arc::clone(handle), iter, id })
    }

    /// Calls `work` without the interpreter lock, and reports an error of the iterator.
    fn with_iter<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut DbIterator) -> Result<T> + Send,
    ) -> Result<T> {
        py.detach(|| {
            let mut guard = self.iter.0.lock();
            let iter = guard.as_mut().ok_or_else(iterator_closed)?;
            let result = work(iter)?;
            iter.status().map_err(|error| self.handle.exception(error))?;
            Ok(result)
        })
    }

    fn seek_by(&self, py: Python<'_>, seek: impl FnOnce(&mut DbIterator) + Send) -> Result<()> {
        self.with_iter(py, |iter| {
            seek(iter);
            Ok(())
        })
    }

    /// Calls `work` if the iterator is valid. An invalid one is an exception.
    fn with_entry<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut DbIterator) -> T + Send,
    ) -> Result<T> {
        self.with_iter(py, |iter| match iter.valid() {
            true => Ok(work(iter)),
            false => Err(IteratorInvalidError::new_err(())),
        })
    }
}

#[pymethods]
impl PyRawIterator {
    /// Returns true if the iterator is at an entry.
    fn valid(&self, py: Python<'_>) -> Result<bool> {
        self.with_iter(py, |iter| Ok(iter.valid()))
    }

    /// Moves to the first entry.
    fn seek_to_first(&self, py: Python<'_>) -> Result<()> {
        self.seek_by(py, DbIterator::seek_to_first)
    }

    /// Moves to the last entry.
    fn seek_to_last(&self, py: Python<'_>) -> Result<()> {
        self.seek_by(py, DbIterator::seek_to_last)
    }

    /// Moves to the first entry whose key is not less than `target`.
    fn seek(&self, py: Python<'_>, target: &Bound<'_, PyBytes>) -> Result<()> {
        let target = target.as_bytes();
        self.seek_by(py, |iter| iter.seek(target))
    }

    /// Moves to the next entry.
    fn next(&self, py: Python<'_>) -> Result<()> {
        self.with_entry(py, DbIterator::next)
    }

    /// Moves to the entry before.
    fn prev(&self, py: Python<'_>) -> Result<()> {
        self.with_entry(py, DbIterator::prev)
    }

    /// Returns the key of the entry.
    fn key<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let key = self.with_entry(py, |iter| to_vec(iter.key()))??;
        to_object(py, &key)
    }

    /// Returns the value of the entry.
    fn value<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let value = self.with_entry(py, |iter| to_vec(iter.value()))??;
        to_object(py, &value)
    }

    /// Returns the key and the value of the entry.
    fn item<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (key, value) = self.with_entry(py, |iter| (to_vec(iter.key()), to_vec(iter.value())))?;
        Ok((to_object(py, &key?)?, to_object(py, &value?)?))
    }

    /// Frees the state of the engine that the iterator shows. Later calls fail.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.iter.close());
    }

    fn __enter__(this: Py<PyRawIterator>) -> Py<PyRawIterator> {
        this
    }

    #[pyo3(signature = (exc_type, exc_val, exc_tb, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc_val: &Bound<'_, PyAny>,
        exc_tb: &Bound<'_, PyAny>,
    ) -> bool {
        let _ = (exc_type, exc_val, exc_tb);
        self.close(py);
        false
    }
}

impl Drop for PyRawIterator {
    fn drop(&mut self) {
        self.handle.unregister(self.id);
        close_detached(|| self.iter.close());
    }
}
