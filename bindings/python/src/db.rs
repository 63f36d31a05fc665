//! Class `DB`.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use terrace::{Db, FollowOptions, Options, ReadOptions, WriteOptions};
use terrace_sync::Arc;

use crate::arguments::{ValueBytes, path_of, seconds};
use crate::error::{Result, exception};
use crate::handle::Handle;
use crate::iterator::PyIterator;
use crate::open_options::options_of;
use crate::prefixed_db::PyPrefixedDb;
use crate::raw_iterator::PyRawIterator;
use crate::results::to_object;
use crate::snapshot::PySnapshot;
use crate::stats::stats_of;
use crate::transaction::{PyTransaction, transact};
use crate::write_batch::PyWriteBatch;

/// An open database. Threads may share it.
#[pyclass(name = "DB", module = "terrace", frozen, weakref)]
pub(crate) struct PyDb {
    pub(crate) handle: Arc<Handle>,
    /// The argument of the constructor.
    #[pyo3(get)]
    name: Py<PyAny>,
}

/// Way to open a database.
enum OpenMode {
    Write,
    ReadOnly,
    Follow(FollowOptions),
}

impl OpenMode {
    /// Removes the arguments that select the mode from `arguments`.
    fn take(arguments: &Bound<'_, PyDict>) -> Result<OpenMode> {
        let take = |name: &str| -> Result<Option<Bound<'_, PyAny>>> {
            let value = arguments.get_item(name)?;
            if value.is_some() {
                arguments.del_item(name)?;
            }
            Ok(value.filter(|value| !value.is_none()))
        };
        let read_only = take("read_only")?.map_or(Ok(false), |value| value.extract::<bool>())?;
        let follow = take("follow")?.map_or(Ok(false), |value| value.extract::<bool>())?;
        let every = take("follow_every")?.map(|value| seconds(&value)).transpose()?;
        match (follow, read_only, every) {
            (true, ..) => {
                let options = FollowOptions::default();
                Ok(OpenMode::Follow(every.map_or(options.clone(), |every| options.every(every))))
            }
            (false, _, Some(_)) => Err(PyValueError::new_err("'follow_every' needs 'follow'")),
            (false, true, None) => Ok(OpenMode::ReadOnly),
            (false, false, None) => Ok(OpenMode::Write),
        }
    }

    fn open(&self, path: &std::path::Path, options: &Options) -> std::result::Result<Db, terrace::Error> {
        match self {
            OpenMode::Write => Db::open(path, options),
            OpenMode::ReadOnly => Db::open_read_only(path, options),
            OpenMode::Follow(follow) => Db::follow(path, options, follow),
        }
    }
}

/// Options of a read. None is the default, as in plyvel.
pub(crate) fn read_options(verify_checksums: Option<bool>, fill_cache: Option<bool>) -> ReadOptions {
    ReadOptions::default()
        .verify_checksums(verify_checksums.unwrap_or(false))
        .fill_cache(fill_cache.unwrap_or(true))
}

/// Options of a write. None is the default.
pub(crate) fn write_options(sync: Option<bool>) -> WriteOptions {
    WriteOptions::default().sync(sync.unwrap_or(false))
}

/// Returns the value of `key` as `bytes`, or `default`.
pub(crate) fn get_value(
    py: Python<'_>,
    handle: &Handle,
    key: &[u8],
    default: Option<Py<PyAny>>,
    options: &ReadOptions,
) -> Result<Option<Py<PyAny>>> {
    let db = handle.db()?;
    let value = py.detach(|| db.get_pinned_with(key, options)).map_err(|error| handle.exception(error))?;
    match value {
        Some(value) => Ok(Some(to_object(py, &value)?.into_any().unbind())),
        None => Ok(default),
    }
}

pub(crate) fn put_value(
    py: Python<'_>,
    handle: &Handle,
    key: &[u8],
    value: &Bound<'_, PyAny>,
    sync: Option<bool>,
) -> Result<()> {
    let db = handle.db()?;
    let value = ValueBytes::of(value)?;
    let value = value.as_slice();
    py.detach(|| db.put_with(key, value, &write_options(sync))).map_err(|error| handle.exception(error))
}

pub(crate) fn delete_key(py: Python<'_>, handle: &Handle, key: &[u8], sync: Option<bool>) -> Result<()> {
    let db = handle.db()?;
    py.detach(|| db.delete_with(key, &write_options(sync))).map_err(|error| handle.exception(error))
}

/// Returns the two keys of a tuple, a list or another iterable object. As in plyvel,
/// another number of items is a `ValueError`, and another type of item a `TypeError`.
fn pair_of_keys<'py>(range: &Bound<'py, PyAny>) -> Result<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    // A third item is as wrong as a thousandth one.
    let items = range.try_iter()?.take(3).collect::<Result<Vec<_>>>()?;
    let [start, stop] = &items[..] else {
        return Err(PyValueError::new_err("a range has two keys"));
    };
    match (start.cast::<PyBytes>(), stop.cast::<PyBytes>()) {
        (Ok(start), Ok(stop)) => Ok((start.clone(), stop.clone())),
        _ => Err(PyTypeError::new_err("a range is a pair of byte strings")),
    }
}

impl PyDb {
    /// Calls the engine without the interpreter lock.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Db) -> std::result::Result<T, terrace::Error> + Send,
    ) -> Result<T> {
        let db = self.handle.db()?;
        py.detach(|| work(&db)).map_err(|error| self.handle.exception(error))
    }
}

#[pymethods]
impl PyDb {
    #[new]
    #[pyo3(signature = (name, **options), text_signature = "(name, *, create_if_missing=False, error_if_exists=False, paranoid_checks=None, write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, max_file_size=None, compression='snappy', bloom_filter_bits=0, comparator=None, comparator_name=None, read_only=False, follow=False, follow_every=None, memory_budget=None)")]
    fn new(py: Python<'_>, name: Py<PyAny>, options: Option<Bound<'_, PyDict>>) -> Result<PyDb> {
        let path = path_of(name.bind(py))?;
        let mode = options.as_ref().map_or(Ok(OpenMode::Write), OpenMode::take)?;
        let options = options_of(options.as_ref())?;
        let db = py.detach(|| mode.open(&path, &options)).map_err(exception)?;
        Ok(PyDb { handle: Handle::new(db, options.comparator), name })
    }

    /// Closes the database. Later calls of its objects fail.
    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| self.handle.close()).map_err(exception)
    }

    /// True after the close.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
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
        let key = key.as_bytes();
        if verify_checksums.is_none() && fill_cache.is_none() {
            return get_value(py, &self.handle, key, default, &ReadOptions::DEFAULT);
        }
        get_value(py, &self.handle, key, default, &read_options(verify_checksums, fill_cache))
    }

    /// Returns the values of `keys` at one moment, in their order, with `default` for missing keys.
    #[pyo3(signature = (keys, default=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyList>> {
        let keys: Vec<Bound<'_, PyBytes>> =
            keys.try_iter()?.map(|key| Ok(key?.cast_into::<PyBytes>()?)).collect::<Result<_>>()?;
        let slices: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let values = self.call(py, |db| db.multi_get(&slices))?;
        let default = default.unwrap_or_else(|| py.None());
        let list = PyList::empty(py);
        for value in values {
            match value {
                Some(value) => list.append(to_object(py, &value)?)?,
                None => list.append(&default)?,
            }
        }
        Ok(list)
    }

    /// Sets the value of `key`: any object with a buffer.
    #[pyo3(signature = (key, value, *, sync=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        value: &Bound<'_, PyAny>,
        sync: Option<bool>,
    ) -> Result<()> {
        put_value(py, &self.handle, key.as_bytes(), value, sync)
    }

    /// Deletes `key`, which need not exist.
    #[pyo3(signature = (key, *, sync=None))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyBytes>, sync: Option<bool>) -> Result<()> {
        delete_key(py, &self.handle, key.as_bytes(), sync)
    }

    /// Deletes all keys from `start` (included) to `stop` (not included). None is no bound.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyBytes>>,
        stop: Option<&Bound<'_, PyBytes>>,
    ) -> Result<()> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start = start.map_or(Unbounded, |start| Included(start.as_bytes()));
        let stop = stop.map_or(Unbounded, |stop| Excluded(stop.as_bytes()));
        self.call(py, |db| db.delete_range::<&[u8]>((start, stop)))
    }

    /// Returns an empty batch of writes.
    #[pyo3(signature = (*, transaction=None, sync=None))]
    fn write_batch(&self, transaction: Option<bool>, sync: Option<bool>) -> Result<PyWriteBatch> {
        PyWriteBatch::new(&self.handle, None, transaction, sync)
    }

    fn __iter__(&self, py: Python<'_>) -> Result<PyIterator> {
        self.iterator(py, None)
    }

    /// Returns an iterator over the entries that the arguments select.
    #[pyo3(signature = (**options), text_signature = "($self, *, reverse=False, start=None, stop=None, include_start=True, include_stop=False, prefix=None, include_key=True, include_value=True, verify_checksums=False, fill_cache=True)")]
    fn iterator(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> Result<PyIterator> {
        PyIterator::new(py, &self.handle, None, None, options)
    }

    /// Returns an iterator with LevelDB's calls over all entries.
    #[pyo3(signature = (*, verify_checksums=None, fill_cache=None))]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> Result<PyRawIterator> {
        PyRawIterator::new(py, &self.handle, &read_options(verify_checksums, fill_cache))
    }

    /// Returns a snapshot of the current state.
    fn snapshot(&self, py: Python<'_>) -> Result<PySnapshot> {
        PySnapshot::new(py, &self.handle, None)
    }

    /// Returns a property of the engine, or None.
    fn get_property<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyBytes>,
    ) -> Result<Option<Bound<'py, PyBytes>>> {
        let name = std::str::from_utf8(name.as_bytes()).unwrap_or_default();
        let text = self.call(py, |db| Ok(db.property(name)))?;
        Ok(text.map(|text| PyBytes::new(py, text.as_bytes())))
    }

    /// Compacts the keys from `start` to `stop`, both included. None is no bound.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyBytes>>,
        stop: Option<&Bound<'_, PyBytes>>,
    ) -> Result<()> {
        let start = start.map(|key| key.as_bytes());
        let stop = stop.map(|key| key.as_bytes());
        self.call(py, |db| db.compact_range(start, stop))
    }

    /// Returns about how many bytes of tables the keys from `start` to `stop` take.
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyBytes>,
        stop: &Bound<'_, PyBytes>,
    ) -> Result<u64> {
        let range = (start.as_bytes(), stop.as_bytes());
        self.call(py, |db| Ok(db.approximate_sizes(&[range])?[0]))
    }

    /// Returns the list of the sizes of ranges, each a pair of keys.
    #[pyo3(signature = (*ranges))]
    fn approximate_sizes(&self, py: Python<'_>, ranges: &Bound<'_, PyTuple>) -> Result<Vec<u64>> {
        let ranges = ranges.iter().map(|range| pair_of_keys(&range)).collect::<Result<Vec<_>>>()?;
        let slices: Vec<(&[u8], &[u8])> =
            ranges.iter().map(|(start, stop)| (start.as_bytes(), stop.as_bytes())).collect();
        self.call(py, |db| db.approximate_sizes(&slices))
    }

    /// Returns a view of the keys with `prefix`.
    fn prefixed_db(this: Py<PyDb>, py: Python<'_>, prefix: &Bound<'_, PyBytes>) -> PyPrefixedDb {
        PyPrefixedDb::new(py, this, prefix.as_bytes().to_vec())
    }

    /// Returns a mapping of the database: a `MutableMapping` from `bytes` to `bytes`.
    fn view<'py>(this: Bound<'py, PyDb>) -> Result<Bound<'py, PyAny>> {
        this.py().import("terrace._view")?.getattr("View")?.call1((this,))
    }

    /// Starts a transaction.
    #[pyo3(signature = (*, locking=false, snapshot_isolation=false, lock_timeout=None, sync=false))]
    fn begin(
        &self,
        py: Python<'_>,
        locking: bool,
        snapshot_isolation: bool,
        lock_timeout: Option<&Bound<'_, PyAny>>,
        sync: bool,
    ) -> Result<PyTransaction> {
        PyTransaction::begin(py, &self.handle, locking, snapshot_isolation, lock_timeout, sync)
    }

    /// Calls `function` with a transaction and commits it. Repeats both after a conflict.
    #[pyo3(signature = (function, *, attempts=100, sync=false))]
    fn transact(
        &self,
        py: Python<'_>,
        function: &Bound<'_, PyAny>,
        attempts: u32,
        sync: bool,
    ) -> Result<Py<PyAny>> {
        transact(py, &self.handle, function, attempts, sync)
    }

    /// Makes all earlier writes durable.
    fn sync(&self, py: Python<'_>) -> Result<()> {
        self.call(py, Db::sync)
    }

    /// Writes the memtables to tables.
    fn flush(&self, py: Python<'_>) -> Result<()> {
        self.call(py, Db::flush)
    }

    /// Copies the database of this moment to the new directory `path`. Returns its sequence number.
    fn checkpoint(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> Result<u64> {
        let path = path_of(path)?;
        self.call(py, |db| db.checkpoint(&path))
    }

    /// Reads all that the writer of a followed database has written. Returns the sequence number.
    fn catch_up(&self, py: Python<'_>) -> Result<u64> {
        self.call(py, Db::catch_up)
    }

    /// Returns the metrics of the engine as a dictionary.
    fn stats<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let stats = self.call(py, |db| Ok(db.stats()))?;
        stats_of(py, &stats)
    }

    fn __repr__(this: &Bound<'_, PyDb>) -> Result<String> {
        let db = this.get();
        let state = if db.closed() { " (closed)" } else { "" };
        Ok(format!("<terrace.DB with name {}{state} at {this:p}>", db.name.bind(this.py()).repr()?))
    }

    fn __enter__(this: Py<PyDb>) -> Py<PyDb> {
        this
    }

    #[pyo3(signature = (exc_type, exc_val, exc_tb, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: &Bound<'_, PyAny>,
        exc_val: &Bound<'_, PyAny>,
        exc_tb: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let _ = (exc_type, exc_val, exc_tb);
        self.close(py)
    }
}
