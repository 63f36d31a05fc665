//! Iterator of plyvel: a gap that moves over entries in both directions.

use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use terrace::{ReadOptions, Snapshot};
use terrace_sync::{Arc, Mutex, Weak};

use crate::arguments::{joined, prefix_end};
use crate::cursor::{Cursor, FetchError, set_bounds};
use crate::error::Result;
use crate::handle::{Closable, Handle, close_detached, iterator_closed};
use crate::results::{no_memory, to_object};

/// Arguments of `iterator` of plyvel's classes.
struct Selection {
    is_reverse: bool,
    start: Option<Vec<u8>>,
    stop: Option<Vec<u8>>,
    include_start: bool,
    include_stop: bool,
    prefix: Option<Vec<u8>>,
    shown: Shown,
    options: ReadOptions,
}

/// Parts of an entry that the iterator returns.
#[derive(Clone, Copy)]
struct Shown {
    key: bool,
    value: bool,
}

impl Selection {
    fn of(arguments: Option<&Bound<'_, PyDict>>) -> Result<Selection> {
        let mut selection = Selection {
            is_reverse: false,
            start: None,
            stop: None,
            include_start: true,
            include_stop: false,
            prefix: None,
            shown: Shown { key: true, value: true },
            options: ReadOptions::default(),
        };
        for (name, value) in arguments.into_iter().flatten() {
            let name: String = name.extract()?;
            let is_true = || value.is_truthy();
            match name.as_str() {
                "reverse" => selection.is_reverse = is_true()?,
                "include_start" => selection.include_start = is_true()?,
                "include_stop" => selection.include_stop = is_true()?,
                "include_key" => selection.shown.key = is_true()?,
                "include_value" => selection.shown.value = is_true()?,
                "verify_checksums" => selection.options.verify_checksums = is_true()?,
                "fill_cache" => selection.options.fill_cache = is_true()?,
                "start" => selection.start = bytes_or_none(&value)?,
                "stop" => selection.stop = bytes_or_none(&value)?,
                "prefix" => selection.prefix = bytes_or_none(&value)?,
                _ => return Err(PyTypeError::new_err(format!("unexpected keyword argument '{name}'"))),
            }
        }
        if selection.prefix.is_some() && (selection.start.is_some() || selection.stop.is_some()) {
            let message = "'prefix' cannot be used together with 'start' or 'stop'";
            return Err(PyTypeError::new_err(message));
        }
        Ok(selection)
    }

    /// Adds the prefix of a `PrefixedDB` to all keys, and turns a prefix into bounds.
    fn add_prefix(&mut self, db_prefix: Option<&[u8]>) {
        if let Some(prefix) = self.prefix.take() {
            let prefix = joined(db_prefix, &prefix);
            self.stop = prefix_end(&prefix);
            self.start = Some(prefix);
            self.include_start = true;
            self.include_stop = false;
        } else if let Some(db_prefix) = db_prefix {
            self.include_start |= self.start.is_none();
            self.include_stop &= self.stop.is_some();
            self.start = Some(joined(Some(db_prefix), self.start.as_deref().unwrap_or_default()));
            self.stop = match &self.stop {
                Some(stop) => Some(joined(Some(db_prefix), stop)),
                None => prefix_end(db_prefix),
            };
        }
    }
}

fn bytes_or_none(value: &Bound<'_, PyAny>) -> Result<Option<Vec<u8>>> {
    if value.is_none() {
        return Ok(None);
    }
    Ok(Some(value.cast::<PyBytes>()?.as_bytes().to_vec()))
}

/// Shown parts of an entry.
struct Entry<'py> {
    key: Option<Bound<'py, PyBytes>>,
    value: Option<Bound<'py, PyBytes>>,
}

impl Entry<'_> {
    /// Returns the pair, the part, or None. The caller has released the lock of the cursor: a new
    /// tuple may start the garbage collector, and a finalizer may use the same iterator.
    fn into_object(self, py: Python<'_>) -> Result<Py<PyAny>> {
        match (self.key, self.value) {
            (Some(key), Some(value)) => Ok((key, value).into_pyobject(py)?.into_any().unbind()),
            (Some(part), None) | (None, Some(part)) => Ok(part.into_any().unbind()),
            (None, None) => Ok(py.None()),
        }
    }
}

/// Cursor that the close of its database ends.
struct SharedCursor(Mutex<Option<Cursor>>);

impl Closable for SharedCursor {
    fn close(&self) {
        self.0.lock().take();
    }
}

/// Direction of a step over entries.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Next,
    Prev,
}

/// Iterator over entries. It stands between two entries.
#[pyclass(name = "Iterator", module = "terrace", frozen, weakref)]
pub(crate) struct PyIterator {
    handle: Arc<Handle>,
    cursor: Arc<SharedCursor>,
    id: u64,
    is_reverse: bool,
    shown: Shown,
    /// Prefix of a `PrefixedDB`, which keys do not show.
    db_prefix: Option<Vec<u8>>,
}

impl PyIterator {
    pub(crate) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        db_prefix: Option<&[u8]>,
        snapshot: Option<Snapshot>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> Result<PyIterator> {
        let mut selection = Selection::of(arguments)?;
        selection.add_prefix(db_prefix);
        let is_reverse = selection.is_reverse;
        let shown = selection.shown;
        selection.options.snapshot = snapshot;
        let cursor = py.detach(|| open_cursor(handle, selection))?;
        let cursor = Arc::new(SharedCursor(Mutex::new(Some(cursor))));
        let weak: Weak<SharedCursor> = Arc::downgrade(&cursor);
        let id = handle.register(weak);
        if handle.is_closed() {
            // Another thread closed the database before the iterator was registered.
            py.detach(|| cursor.close());
        }
        let handle = Arc::clone(handle);
        let db_prefix = db_prefix.map(<[u8]>::to_vec);
        Ok(PyIterator { handle, cursor, id, is_reverse, shown, db_prefix })
    }

    fn direction(&self, is_next: bool) -> Direction {
        if is_next != self.is_reverse { Direction::Next } else { Direction::Prev }
    }

    /// Steps over one entry and returns it. None: no entry is left.
    fn step(&self, py: Python<'_>, direction: Direction) -> Result<Option<Py<PyAny>>> {
        loop {
            if let Some(entry) = self.step_of_chunk(py, direction)? {
                return entry.into_object(py).map(Some);
            }
            let has_entries = py.detach(|| self.fetch(direction))?;
            if !has_entries {
                return Ok(None);
            }
        }
    }

    fn fetch(&self, direction: Direction) -> Result<bool> {
        let mut guard = self.cursor.0.lock();
        let cursor = guard.as_mut().ok_or_else(iterator_closed)?;
        let fetched = match direction {
            Direction::Next => cursor.fetch_next(),
            Direction::Prev => cursor.fetch_prev(),
        };
        fetched.map_err(|error| match error {
            FetchError::Engine(error) => self.handle.exception(error),
            FetchError::NoMemory(bytes) => no_memory(bytes),
        })
    }

    /// Steps over an entry of the chunk. None: the chunk has none, or another thread uses the
    /// iterator. A thread that holds the interpreter lock never waits here: the other thread may
    /// need that lock for a comparator.
    #[inline]
    fn step_of_chunk<'py>(&self, py: Python<'py>, direction: Direction) -> Result<Option<Entry<'py>>> {
        let Some(mut guard) = self.cursor.0.try_lock() else { return Ok(None) };
        let cursor = guard.as_mut().ok_or_else(iterator_closed)?;
        let found = match direction {
            Direction::Next => cursor.next_of_chunk(),
            Direction::Prev => cursor.prev_of_chunk(),
        };
        let Some((key, value)) = found else { return Ok(None) };
        let key = &key[self.db_prefix.as_ref().map_or(0, Vec::len)..];
        Ok(Some(Entry {
            key: self.shown.key.then(|| to_object(py, key)).transpose()?,
            value: self.shown.value.then(|| to_object(py, value)).transpose()?,
        }))
    }

    fn change(&self, py: Python<'_>, change: impl FnOnce(&mut Cursor) + Send) -> Result<()> {
        py.detach(|| self.cursor.0.lock().as_mut().map(change)).ok_or_else(iterator_closed)
    }
}

/// Opens the cursor at the side of the range where the iteration begins.
fn open_cursor(handle: &Handle, selection: Selection) -> Result<Cursor> {
    let db = handle.db()?;
    let Selection { mut options, start, stop, include_start, include_stop, .. } = selection;
    let needs_next_keys = (start.is_some() && !include_start) || (stop.is_some() && include_stop);
    options.lower_bound = start;
    options.upper_bound = stop;
    if needs_next_keys {
        // The bounds and the entries belong to one state.
        options.snapshot.get_or_insert_with(|| db.snapshot());
        set_bounds(&db, &*handle.comparator, &mut options, include_start, include_stop)
            .map_err(|error| handle.exception(error))?;
    }
    let mut cursor = Cursor::new(&db, &options, selection.shown.value);
    if selection.is_reverse {
        cursor.move_to_stop();
    }
    Ok(cursor)
}

#[pymethods]
impl PyIterator {
    fn __iter__(this: Py<PyIterator>) -> Py<PyIterator> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>> {
        self.step(py, self.direction(true))
    }

    /// Steps back over one entry and returns it.
    fn prev(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        self.step(py, self.direction(false))?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Returns a list of the next entries, at most `count`.
    fn take<'py>(&self, py: Python<'py>, count: usize) -> Result<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        while list.len() < count {
            match self.step(py, self.direction(true))? {
                Some(entry) => list.append(entry)?,
                None => break,
            }
        }
        Ok(list)
    }

    /// Moves to the first entry whose key is not less than `target`.
    fn seek(&self, py: Python<'_>, target: &Bound<'_, PyBytes>) -> Result<()> {
        let key = joined(self.db_prefix.as_deref(), target.as_bytes());
        self.change(py, |cursor| cursor.move_to_key(key))
    }

    /// Moves before the first entry of the range.
    fn seek_to_start(&self, py: Python<'_>) -> Result<()> {
        self.change(py, Cursor::move_to_start)
    }

    /// Moves after the last entry of the range.
    fn seek_to_stop(&self, py: Python<'_>) -> Result<()> {
        self.change(py, Cursor::move_to_stop)
    }

    /// Frees the state of the engine that the iterator shows. Later calls fail.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.cursor.close());
    }

    fn __enter__(this: Py<PyIterator>) -> Py<PyIterator> {
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

impl Drop for PyIterator {
    fn drop(&mut self) {
        self.handle.unregister(self.id);
        close_detached(|| self.cursor.close());
    }
}
