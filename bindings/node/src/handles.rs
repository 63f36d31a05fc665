//! Numbers that stand for native objects in JavaScript.
//!
//! Each JavaScript environment has its own thread and its own objects. No number is used twice, so
//! that a stale one is an error and never another object.

use std::cell::RefCell;
use std::collections::BTreeMap;

use terrace::{Db, ReadOptions, WriteBatch};
use terrace_sync::{Arc, AtomicBool, Mutex};

use crate::error::{Failure, Result};
use crate::open::Database;
use crate::scan::Scan;

/// Number of a native object. It stays below 2^53, so that a number of JavaScript holds it.
pub(crate) type Handle = u64;

/// Objects of one kind.
struct Table<T> {
    kind: &'static str,
    /// A tree, because a search among few numbers is faster than their hash.
    objects: BTreeMap<Handle, T>,
}

impl<T> Table<T> {
    fn new(kind: &'static str) -> Table<T> {
        Table { kind, objects: BTreeMap::new() }
    }

    fn get(&mut self, handle: Handle) -> Result<&mut T> {
        match self.objects.get_mut(&handle) {
            Some(object) => Ok(object),
            None => {
                let message = format!("no {} has the handle {handle}", self.kind);
                Err(Failure::new("LEVEL_INVALID_HANDLE", message))
            }
        }
    }
}

/// Iterator that a task may use, with the flag that ends its work early.
pub(crate) struct OpenScan {
    pub(crate) scan: Arc<Mutex<Scan>>,
    pub(crate) aborted: Arc<AtomicBool>,
}

/// Native objects of one JavaScript environment.
pub(crate) struct Handles {
    last: Handle,
    databases: Table<Database>,
    snapshots: Table<ReadOptions>,
    scans: Table<OpenScan>,
    batches: Table<WriteBatch>,
    /// Batch of a single put or delete, whose memory the next one uses again.
    scratch: WriteBatch,
}

thread_local! {
    static HANDLES: RefCell<Handles> = RefCell::new(Handles::new());
}

/// Calls `f` with the objects of this environment.
pub(crate) fn with<T>(f: impl FnOnce(&mut Handles) -> T) -> T {
    HANDLES.with_borrow_mut(f)
}

/// Calls `f` with the objects of this environment. Errors of the engine become failures.
pub(crate) fn try_with<T>(f: impl FnOnce(&mut Handles) -> Result<T>) -> Result<T> {
    with(f)
}

/// Drops all objects of this environment. Its databases close.
pub(crate) fn close_all() {
    drop(HANDLES.replace(Handles::new()));
}

impl Handles {
    fn new() -> Handles {
        Handles {
            last: 0,
            databases: Table::new("database"),
            snapshots: Table::new("snapshot"),
            scans: Table::new("iterator"),
            batches: Table::new("batch"),
            scratch: WriteBatch::new(),
        }
    }

    fn next_handle(&mut self) -> Handle {
        self.last += 1;
        self.last
    }

    pub(crate) fn add_database(&mut self, database: Database) -> Handle {
        let handle = self.next_handle();
        self.databases.objects.insert(handle, database);
        handle
    }

    pub(crate) fn add_snapshot(&mut self, options: ReadOptions) -> Handle {
        let handle = self.next_handle();
        self.snapshots.objects.insert(handle, options);
        handle
    }

    pub(crate) fn add_scan(&mut self, scan: Scan) -> Handle {
        let handle = self.next_handle();
        let aborted = scan.aborted();
        self.scans.objects.insert(handle, OpenScan { scan: Arc::new(Mutex::new(scan)), aborted });
        handle
    }

    pub(crate) fn add_batch(&mut self) -> Handle {
        let handle = self.next_handle();
        self.batches.objects.insert(handle, WriteBatch::new());
        handle
    }

    pub(crate) fn db(&mut self, handle: Handle) -> Result<&Db> {
        self.databases.get(handle)?.db()
    }

    /// Returns the database and the batch for a single operation.
    pub(crate) fn db_and_scratch(&mut self, handle: Handle) -> Result<(&Db, &mut WriteBatch)> {
        Ok((self.databases.get(handle)?.db()?, &mut self.scratch))
    }

    pub(crate) fn db_and_batch(&mut self, db: Handle, batch: Handle) -> Result<(&Db, &mut WriteBatch)> {
        Ok((self.databases.get(db)?.db()?, self.batches.get(batch)?))
    }

    /// Returns the database and the options of a read. `snapshot` 0 means the current state.
    pub(crate) fn db_and_options(
        &mut self,
        db: Handle,
        snapshot: Handle,
        fill_cache: bool,
    ) -> Result<(&Db, ReadOptions)> {
        let base = match snapshot {
            0 => ReadOptions::DEFAULT,
            handle => self.snapshots.get(handle)?.clone(),
        };
        Ok((self.databases.get(db)?.db()?, base.fill_cache(fill_cache)))
    }

    pub(crate) fn batch(&mut self, handle: Handle) -> Result<&mut WriteBatch> {
        self.batches.get(handle)
    }

    pub(crate) fn scan(&mut self, handle: Handle) -> Result<&OpenScan> {
        self.scans.get(handle).map(|scan| &*scan)
    }

    /// Removes the database, so that later calls with `handle` fail.
    pub(crate) fn take_database(&mut self, handle: Handle) -> Result<Database> {
        self.databases.get(handle)?;
        let database = self.databases.objects.remove(&handle);
        database.ok_or_else(|| Failure::new("LEVEL_INVALID_HANDLE", "the database is closed"))
    }

    /// Removes the batch, so that a task can own it.
    pub(crate) fn take_batch(&mut self, handle: Handle) -> Result<WriteBatch> {
        self.batches.get(handle).map(std::mem::take)
    }

    pub(crate) fn remove_snapshot(&mut self, handle: Handle) {
        self.snapshots.objects.remove(&handle);
    }

    pub(crate) fn remove_scan(&mut self, handle: Handle) {
        self.scans.objects.remove(&handle);
    }

    pub(crate) fn remove_batch(&mut self, handle: Handle) {
        self.batches.objects.remove(&handle);
    }
}
