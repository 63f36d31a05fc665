//! Class `Transaction`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use terrace::{Isolation, ReadOptions, Transaction, TransactionOptions};
use terrace_sync::{Arc, Mutex, Weak};

use crate::arguments::{ValueBytes, seconds};
use crate::error::{ClosedError, ConflictError, Result};
use crate::handle::{Closable, Handle, close_detached, closed};
use crate::results::{to_object, to_vec};

/// Number of conflicts after which `transact` takes locks.
const CONFLICTS_UNTIL_LOCKING: u32 = 3;

/// Transaction that the close of its database ends.
struct SharedTransaction(Mutex<Option<Transaction>>);

impl Closable for SharedTransaction {
    fn close(&self) {
        self.0.lock().take();
    }
}

/// Reads and writes that take effect together, or not at all.
#[pyclass(name = "Transaction", module = "terrace", frozen, weakref)]
pub(crate) struct PyTransaction {
    handle: Arc<Handle>,
    transaction: Arc<SharedTransaction>,
    id: u64,
}

impl PyTransaction {
    pub(crate) fn begin(
        py: Python<'_>,
        handle: &Arc<Handle>,
        locking: bool,
        snapshot_isolation: bool,
        lock_timeout: Option<&Bound<'_, PyAny>>,
        sync: bool,
    ) -> Result<PyTransaction> {
        let mut options = TransactionOptions::default().locking(locking).sync(sync);
        if snapshot_isolation {
            options.isolation = Isolation::Snapshot;
        }
        if let Some(timeout) = lock_timeout {
            options.lock_timeout = seconds(timeout)?;
        }
        PyTransaction::with_options(py, handle, &options)
    }

    fn with_options(
        py: Python<'_>,
        handle: &Arc<Handle>,
        options: &TransactionOptions,
    ) -> Result<PyTransaction> {
        let transaction = py.detach(|| handle.db().map(|db| db.begin(options)))?;
        let transaction = Arc::new(SharedTransaction(Mutex::new(Some(transaction))));
        let weak: Weak<SharedTransaction> = Arc::downgrade(&transaction);
        let id = handle.register(weak);
        if handle.is_closed() {
            // Another thread closed the database before the transaction was registered.
            py.detach(|| transaction.close());
        }
        Ok(PyTransaction { handle: Arc::clone(handle), transaction, id })
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Transaction) -> std::result::Result<T, terrace::Error> + Send,
    ) -> Result<T> {
        py.detach(|| {
            let mut guard = self.transaction.0.lock();
            let transaction = guard.as_mut().ok_or_else(|| self.ended())?;
            work(transaction).map_err(|error| self.handle.exception(error))
        })
    }

    /// Commits, unless the program has ended the transaction by itself.
    fn finish(&self, py: Python<'_>) -> Result<()> {
        let is_open = py.detach(|| self.transaction.0.lock().is_some());
        if is_open || self.handle.is_closed() {
            self.commit(py)?;
        }
        Ok(())
    }

    fn ended(&self) -> PyErr {
        if self.handle.is_closed() { closed() } else { ClosedError::new_err("Transaction has ended") }
    }
}

fn value_or(py: Python<'_>, value: Option<Vec<u8>>, default: Option<Py<PyAny>>) -> Result<Option<Py<PyAny>>> {
    match value {
        Some(value) => Ok(Some(to_object(py, &value)?.into_any().unbind())),
        None => Ok(default),
    }
}

#[pymethods]
impl PyTransaction {
    /// Returns the value of `key`, or `default`. Sees the writes of the transaction.
    #[pyo3(signature = (key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        default: Option<Py<PyAny>>,
    ) -> Result<Option<Py<PyAny>>> {
        let key = key.as_bytes();
        let value = self.call(py, |transaction| transaction.get(key))?;
        value_or(py, value, default)
    }

    /// Same as `get`, for a key that the transaction will write.
    #[pyo3(signature = (key, default=None))]
    fn get_for_update(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        default: Option<Py<PyAny>>,
    ) -> Result<Option<Py<PyAny>>> {
        let key = key.as_bytes();
        let value = self.call(py, |transaction| transaction.get_for_update(key))?;
        value_or(py, value, default)
    }

    /// Sets the value of `key`.
    fn put(&self, py: Python<'_>, key: &Bound<'_, PyBytes>, value: &Bound<'_, PyAny>) -> Result<()> {
        let key = key.as_bytes();
        let value = ValueBytes::of(value)?;
        let value = value.as_slice();
        self.call(py, |transaction| transaction.put(key, value))
    }

    /// Deletes `key`, which need not exist.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyBytes>) -> Result<()> {
        let key = key.as_bytes();
        self.call(py, |transaction| transaction.delete(key))
    }

    /// Returns the list of the entries from `start` to `stop`, or with `prefix`, at most `limit`.
    #[pyo3(signature = (*, start=None, stop=None, prefix=None, limit=None))]
    fn entries<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyBytes>>,
        stop: Option<&Bound<'py, PyBytes>>,
        prefix: Option<&Bound<'py, PyBytes>>,
        limit: Option<usize>,
    ) -> Result<Bound<'py, PyList>> {
        let bytes = |key: Option<&Bound<'py, PyBytes>>| key.map(|key| key.as_bytes().to_vec());
        let mut options = ReadOptions::default();
        options.lower_bound = bytes(start);
        options.upper_bound = bytes(stop);
        options.prefix = bytes(prefix);
        let limit = limit.unwrap_or(usize::MAX);
        let found = self.call(py, |transaction| {
            let mut iter = transaction.raw_iter_with(&options)?;
            iter.seek_to_first();
            let mut found = Vec::new();
            while iter.valid() && found.len() < limit {
                match (to_vec(iter.key()), to_vec(iter.value())) {
                    (Ok(key), Ok(value)) => found.push((key, value)),
                    (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
                }
                iter.next();
            }
            iter.status().map(|()| Ok(found))
        })??;
        let list = PyList::empty(py);
        for (key, value) in found {
            list.append((to_object(py, &key)?, to_object(py, &value)?))?;
        }
        Ok(list)
    }

    /// Writes the transaction. Returns its sequence number. A conflict is a `ConflictError`.
    fn commit(&self, py: Python<'_>) -> Result<u64> {
        py.detach(|| {
            let transaction = self.transaction.0.lock().take().ok_or_else(|| self.ended())?;
            transaction.commit().map_err(|error| self.handle.exception(error))
        })
    }

    /// Ends the transaction without its writes.
    fn rollback(&self, py: Python<'_>) {
        py.detach(|| self.transaction.close());
    }

    fn __enter__(this: Py<PyTransaction>) -> Py<PyTransaction> {
        this
    }

    /// Commits, or rolls back after an exception. Does nothing if the block has ended the
    /// transaction.
    #[pyo3(signature = (exc_type, exc_val, exc_tb, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc_val: &Bound<'_, PyAny>,
        exc_tb: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let _ = (exc_val, exc_tb);
        if exc_type.is_none() {
            return self.finish(py);
        }
        self.rollback(py);
        Ok(())
    }
}

impl Drop for PyTransaction {
    fn drop(&mut self) {
        self.handle.unregister(self.id);
        close_detached(|| self.transaction.close());
    }
}

/// Calls `function` with a transaction and commits it, up to `attempts` times. Returns its result.
pub(crate) fn transact(
    py: Python<'_>,
    handle: &Arc<Handle>,
    function: &Bound<'_, PyAny>,
    attempts: u32,
    sync: bool,
) -> Result<Py<PyAny>> {
    let mut conflicts = 0;
    loop {
        let options = TransactionOptions::default().locking(conflicts >= CONFLICTS_UNTIL_LOCKING).sync(sync);
        let transaction = Bound::new(py, PyTransaction::with_options(py, handle, &options)?)?;
        let outcome = function.call1((&transaction,)).and_then(|result| {
            transaction.get().finish(py)?;
            Ok(result.unbind())
        });
        match outcome {
            Err(error) if error.is_instance_of::<ConflictError>(py) && conflicts + 1 < attempts => {
                conflicts += 1;
            }
            outcome => {
                transaction.get().rollback(py);
                return outcome;
            }
        }
    }
}
