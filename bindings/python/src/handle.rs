//! An open database, and the objects that its close ends.
//!
//! ```text
//!   DB, PrefixedDB, WriteBatch, Snapshot, Iterator, Transaction  --Arc-->  Handle  -->  Db
//!                                         Iterator, Transaction  <--Weak-- Handle
//! ```
//!
//! A forgotten database closes when the last object that uses it is freed. At the exit of the
//! interpreter, [`close_all`] closes the others.

use std::collections::HashMap;

use pyo3::prelude::*;
use terrace::{Comparator, Db, ErrorKind};
use terrace_sync::{Arc, ArcSwapOption, AtomicBool, AtomicU64, Guard, Mutex, Ordering, Weak};

use crate::error::{ClosedError, Result, exception};

/// All handles of the process, by their numbers.
static OPEN: Mutex<Option<HashMap<u64, Weak<Handle>>>> = Mutex::new(None);
/// Number for the next handle or registered object.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// True after a close by an interpreter that can no longer release its lock.
static KEEPS_INTERPRETER_LOCK: AtomicBool = AtomicBool::new(false);

/// An object that the close of its database ends.
pub(crate) trait Closable: Send + Sync {
    /// Frees all that belongs to the engine. Waits for a running call of another thread.
    fn close(&self);
}

/// A database that may be closed.
pub(crate) struct Handle {
    id: u64,
    pub(crate) comparator: Arc<dyn Comparator>,
    db: ArcSwapOption<Db>,
    /// Objects to end, by number. No thread waits for the interpreter while it holds this lock.
    closables: Mutex<HashMap<u64, Weak<dyn Closable>>>,
}

impl Handle {
    pub(crate) fn new(db: Db, comparator: Arc<dyn Comparator>) -> Arc<Handle> {
        let handle = Arc::new(Handle {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            comparator,
            db: ArcSwapOption::from_pointee(db),
            closables: Mutex::new(HashMap::new()),
        });
        OPEN.lock().get_or_insert_default().insert(handle.id, Arc::downgrade(&handle));
        handle
    }

    /// Returns the database, or the exception of a closed one.
    #[inline]
    pub(crate) fn db(&self) -> Result<OpenDb> {
        let db = self.db.load();
        if db.is_some() { Ok(OpenDb(db)) } else { Err(closed()) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.db.load().is_none()
    }

    /// Returns the exception for an error of the engine. A call that another thread's close
    /// overtook has the exception of a closed database.
    #[cold]
    pub(crate) fn exception(&self, error: terrace::Error) -> PyErr {
        let is_refused = error.kind() == ErrorKind::NotSupported;
        if is_refused && self.is_closed() { closed() } else { exception(error) }
    }

    /// Registers an object for the close. Returns its number.
    pub(crate) fn register(&self, closable: Weak<dyn Closable>) -> u64 {
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        self.closables.lock().insert(id, closable);
        id
    }

    pub(crate) fn unregister(&self, id: u64) {
        self.closables.lock().remove(&id);
    }

    /// Ends all objects of the database and closes it. Does nothing on a second call. The caller
    /// has released the interpreter lock.
    ///
    /// Files that were removed before are no error, as in plyvel: programs delete the directory of
    /// an open database.
    pub(crate) fn close(&self) -> std::result::Result<(), terrace::Error> {
        let Some(db) = self.db.swap(None) else { return Ok(()) };
        OPEN.lock().get_or_insert_default().remove(&self.id);
        let closables = std::mem::take(&mut *self.closables.lock());
        for closable in closables.values().filter_map(Weak::upgrade) {
            closable.close();
        }
        db.shutdown().or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }
}

impl Drop for Handle {
    /// Closes a forgotten database. A background thread may call a comparator in Python before it
    /// ends, so the wait for it releases the interpreter lock.
    fn drop(&mut self) {
        if !self.is_closed() {
            // The info log has the error. A destructor has no caller that could get it.
            close_detached(|| drop(self.close()));
        }
    }
}

/// Calls `close` without the interpreter lock, for a destructor: the state of an iterator may wait
/// for a thread of the engine that calls a comparator in Python.
pub(crate) fn close_detached(close: impl Fn() + Send + Sync) {
    if KEEPS_INTERPRETER_LOCK.load(Ordering::Relaxed) {
        return close();
    }
    Python::try_attach(|py| py.detach(&close)).unwrap_or_else(&close);
}

/// Database that stays open for one call.
pub(crate) struct OpenDb(Guard<Option<Arc<Db>>>);

impl std::ops::Deref for OpenDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        // INVARIANT: `Handle::db` creates this type from an open database only.
        self.0.as_ref().expect("an open database")
    }
}

/// Exception of a call on a closed database.
#[cold]
pub(crate) fn closed() -> PyErr {
    ClosedError::new_err("Database is closed")
}

/// Exception of a call on a closed iterator.
#[cold]
pub(crate) fn iterator_closed() -> PyErr {
    ClosedError::new_err("Database or iterator is closed")
}

/// Closes all databases. The interpreter calls it at its exit, while comparators in Python still
/// run.
///
/// `is_finalizing` is true in a subinterpreter that the exit of the main interpreter ends. Python
/// 3.11 then ends each thread that takes the interpreter lock again, and the process would never
/// end.
#[pyfunction]
#[pyo3(name = "_close_all")]
pub(crate) fn close_all(py: Python<'_>, is_finalizing: bool) -> Result<()> {
    if is_finalizing {
        KEEPS_INTERPRETER_LOCK.store(true, Ordering::Relaxed);
        return close_open_handles().map_err(exception);
    }
    py.detach(close_open_handles).map_err(exception)
}

fn close_open_handles() -> std::result::Result<(), terrace::Error> {
    let open: Vec<Weak<Handle>> = OPEN.lock().get_or_insert_default().values().cloned().collect();
    open.iter().filter_map(Weak::upgrade).map(|handle| handle.close()).fold(Ok(()), std::result::Result::and)
}
