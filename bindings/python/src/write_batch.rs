//! Class `WriteBatch`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use terrace::WriteBatch;
use terrace_sync::{Arc, Mutex};

use crate::arguments::{ValueBytes, joined};
use crate::db::write_options;
use crate::error::{Result, invalid_argument};
use crate::handle::{Handle, closed};

/// Writes that take effect together.
#[pyclass(name = "WriteBatch", module = "terrace", frozen, weakref)]
pub(crate) struct PyWriteBatch {
    handle: Arc<Handle>,
    prefix: Option<Vec<u8>>,
    /// Whether an exception within a `with` block drops the writes.
    is_transaction: bool,
    sync: Option<bool>,
    /// A holder of this lock never waits for the interpreter lock: a write takes the batch out.
    batch: Mutex<WriteBatch>,
}

impl PyWriteBatch {
    pub(crate) fn new(
        handle: &Arc<Handle>,
        prefix: Option<Vec<u8>>,
        transaction: Option<bool>,
        sync: Option<bool>,
    ) -> Result<PyWriteBatch> {
        let batch = PyWriteBatch {
            handle: Arc::clone(handle),
            prefix,
            is_transaction: transaction.unwrap_or(false),
            sync,
            batch: Mutex::new(WriteBatch::new()),
        };
        batch.check_open().map(|()| batch)
    }

    fn check_open(&self) -> Result<()> {
        if self.handle.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Adds writes. If one of them is too large, the batch stays as it is.
    fn add(&self, add: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        self.check_open()?;
        match self.batch.lock().try_add(add) {
            true => Ok(()),
            false => Err(invalid_argument("the batch is too large")),
        }
    }

    fn with_key(&self, key: &Bound<'_, PyBytes>, work: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        match &self.prefix {
            Some(prefix) => work(&joined(Some(prefix), key.as_bytes())),
            None => work(key.as_bytes()),
        }
    }
}

#[pymethods]
impl PyWriteBatch {
    /// Adds a put.
    fn put(&self, key: &Bound<'_, PyBytes>, value: &Bound<'_, PyAny>) -> Result<()> {
        let value = ValueBytes::of(value)?;
        self.with_key(key, |key| self.add(|batch| _ = batch.put(key, value.as_slice())))
    }

    /// Adds a tombstone.
    fn delete(&self, key: &Bound<'_, PyBytes>) -> Result<()> {
        self.with_key(key, |key| self.add(|batch| _ = batch.delete(key)))
    }

    /// Removes all writes.
    fn clear(&self) -> Result<()> {
        self.check_open()?;
        self.batch.lock().clear();
        Ok(())
    }

    /// Adds the writes of another batch.
    fn append(&self, source: &Bound<'_, PyWriteBatch>) -> Result<()> {
        let source = source.get().batch.lock().clone();
        self.add(|batch| batch.append(&source))
    }

    /// Writes the batch to the database. The batch keeps its writes.
    fn write(&self, py: Python<'_>) -> Result<()> {
        let db = self.handle.db()?;
        let written = std::mem::take(&mut *self.batch.lock());
        let outcome = py.detach(|| db.write_with(&written, &write_options(self.sync)));
        let mut batch = self.batch.lock();
        // Another thread may have added writes meanwhile.
        let added = std::mem::replace(&mut *batch, written);
        if !added.is_empty() {
            batch.append(&added);
        }
        outcome.map_err(|error| self.handle.exception(error))
    }

    /// Returns about how many bytes the batch has.
    fn approximate_size(&self) -> Result<usize> {
        self.check_open()?;
        Ok(self.batch.lock().approximate_size())
    }

    fn __len__(&self) -> usize {
        self.batch.lock().len()
    }

    /// A batch is true, even an empty one: plyvel's has no length.
    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(this: Bound<'_, PyWriteBatch>) -> Result<Bound<'_, PyWriteBatch>> {
        this.get().check_open()?;
        Ok(this)
    }

    #[pyo3(signature = (exc_type, exc_val, exc_tb, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc_val: &Bound<'_, PyAny>,
        exc_tb: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let _ = (exc_val, exc_tb);
        if !self.is_transaction || exc_type.is_none() {
            self.write(py)?;
        }
        self.clear()
    }
}
