//! RocksDB's optimistic and pessimistic transactions, through its C interface.
//!
//! Both kinds get with `get_for_update`: without it, neither finds a conflict of a read. Neither
//! finds a new key in a range that a transaction has read. Plain operations use the same database:
//! an optimistic one has a plain database in it, and a pessimistic one has functions of its own.

#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use super::c_api::{CBytes, CStore, ErrorOut, Library, Object, bytes_from_c, c_functions, ptr_and_len};
use super::rocksdb_c::{self, RocksDb};
use super::{Change, Cursor, Engine, EntryVisitor, FoundEngine, Result, Store, Txn, TxnBody, TxnError};
use crate::report::model::Settings;

c_functions! {
    /// Functions for transactions.
    TransactionFunctions {
        fn optimistictransactiondb_open(Object, *const c_char, ErrorOut) -> Object;
        fn optimistictransactiondb_close(Object);
        fn optimistictransactiondb_get_base_db(Object) -> Object;
        fn optimistictransactiondb_close_base_db(Object);
        fn optimistictransaction_options_create() -> Object;
        fn optimistictransaction_options_destroy(Object);
        fn optimistictransaction_begin(Object, Object, Object, Object) -> Object;
        fn transactiondb_options_create() -> Object;
        fn transactiondb_options_destroy(Object);
        fn transactiondb_open(Object, Object, *const c_char, ErrorOut) -> Object;
        fn transactiondb_close(Object);
        fn transactiondb_put(Object, Object, CBytes, usize, CBytes, usize, ErrorOut);
        fn transactiondb_delete(Object, Object, CBytes, usize, ErrorOut);
        fn transactiondb_write(Object, Object, Object, ErrorOut);
        fn transactiondb_get(Object, Object, CBytes, usize, *mut usize, ErrorOut) -> *mut c_char;
        fn transactiondb_create_iterator(Object, Object) -> Object;
        fn transaction_options_create() -> Object;
        fn transaction_options_destroy(Object);
        fn transaction_begin(Object, Object, Object, Object) -> Object;
        fn transaction_get_for_update(Object, Object, CBytes, usize, *mut usize, u8, ErrorOut) -> *mut c_char;
        fn transaction_put(Object, CBytes, usize, CBytes, usize, ErrorOut);
        fn transaction_create_iterator(Object, Object) -> Object;
        fn transaction_commit(Object, ErrorOut);
        fn transaction_destroy(Object);
    }
}

/// Finds the library at `path`, or the system's, for optimistic transactions.
pub(super) fn find_optimistic(path: Option<&Path>) -> Result<FoundEngine> {
    find_with(path, |rocksdb| new_engine(rocksdb, true))
}

/// Finds the library at `path`, or the system's, for transactions with locks.
pub(super) fn find_pessimistic(path: Option<&Path>) -> Result<FoundEngine> {
    find_with(path, |rocksdb| new_engine(rocksdb, false))
}

fn find_with(path: Option<&Path>, to_engine: fn(RocksDb) -> Result<Box<dyn Engine>>) -> Result<FoundEngine> {
    let mut found = rocksdb_c::find_with(path, to_engine)?;
    found.note += "; its transactions do not notice new keys in a range that they read";
    found.has_transactions = true;
    // The functions for pessimistic transactions lack a compaction.
    found.has_compaction = false;
    Ok(found)
}

fn new_engine(mut rocksdb: RocksDb, is_optimistic: bool) -> Result<Box<dyn Engine>> {
    let functions = TransactionFunctions::load(&rocksdb.library.handle, "rocksdb")?;
    if let Some(library) = Arc::get_mut(&mut rocksdb.library) {
        replace_functions(library, &functions, is_optimistic);
    }
    Ok(Box::new(RocksDbTxnEngine { rocksdb, functions: Arc::new(functions), is_optimistic }))
}

/// Replaces the functions of a plain database.
fn replace_functions(library: &mut Library, functions: &TransactionFunctions, is_optimistic: bool) {
    let plain = &mut library.functions;
    plain.compact_range = no_compaction;
    if is_optimistic {
        plain.close = functions.optimistictransactiondb_close_base_db;
        return;
    }
    plain.close = functions.transactiondb_close;
    plain.put = functions.transactiondb_put;
    plain.delete = functions.transactiondb_delete;
    plain.write = functions.transactiondb_write;
    plain.get = functions.transactiondb_get;
    plain.create_iterator = functions.transactiondb_create_iterator;
}

unsafe extern "C" fn no_compaction(_: Object, _: CBytes, _: usize, _: CBytes, _: usize) {}

struct RocksDbTxnEngine {
    rocksdb: RocksDb,
    functions: Arc<TransactionFunctions>,
    is_optimistic: bool,
}

impl Engine for RocksDbTxnEngine {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let path = CString::new(dir.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        let api = &*self.functions;
        let owned = self.rocksdb.options(settings);
        let options = owned[0].0;
        let mut store = CStore::closed(&self.rocksdb.library, owned);
        let database;
        let txn_options;
        let begin;
        if self.is_optimistic {
            // SAFETY: the options are live, the path ends in zero, and the pointer for the error is
            // valid.
            database = store.call_checked(|_, error| unsafe {
                (api.optimistictransactiondb_open)(options, path.as_ptr(), error)
            })?;
            // Closed after the plain database, and before the options.
            store.owned_objects.insert(0, (database, api.optimistictransactiondb_close));
            // SAFETY: the database is open until its destructor above runs.
            store.raw = unsafe { (api.optimistictransactiondb_get_base_db)(database) };
            // SAFETY: has no preconditions and returns a new object.
            txn_options = unsafe { (api.optimistictransaction_options_create)() };
            store.owned_objects.push((txn_options, api.optimistictransaction_options_destroy));
            begin = api.optimistictransaction_begin;
        } else {
            // SAFETY: has no preconditions and returns a new object.
            let database_options = unsafe { (api.transactiondb_options_create)() };
            store.owned_objects.push((database_options, api.transactiondb_options_destroy));
            // SAFETY: both options are live, the path ends in zero, and the pointer for the error
            // is valid.
            store.raw = store.call_checked(|_, error| unsafe {
                (api.transactiondb_open)(options, database_options, path.as_ptr(), error)
            })?;
            database = store.raw;
            // SAFETY: has no preconditions and returns a new object.
            txn_options = unsafe { (api.transaction_options_create)() };
            store.owned_objects.push((txn_options, api.transaction_options_destroy));
            begin = api.transaction_begin;
        }
        let functions = Arc::clone(&self.functions);
        Ok(Box::new(RocksDbTxnStore { store, functions, database, txn_options, begin }))
    }
}

/// Function that begins a transaction of either kind.
type BeginFunction = unsafe extern "C" fn(Object, Object, Object, Object) -> Object;

struct RocksDbTxnStore {
    /// The plain operations. Its objects include those below.
    store: CStore,
    functions: Arc<TransactionFunctions>,
    database: Object,
    txn_options: Object,
    begin: BeginFunction,
}

// SAFETY: RocksDB documents that threads may share a database without locks; the options are only
// read.
unsafe impl Send for RocksDbTxnStore {}
// SAFETY: as for `Send`, all calls through a shared reference are documented as safe from several
// threads.
unsafe impl Sync for RocksDbTxnStore {}

impl Store for RocksDbTxnStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.store.put(key, value, sync)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.store.delete(key, sync)
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        self.store.write(changes, sync)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.store.get(key, value)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        self.store.cursor()
    }

    fn compact(&self) -> Result<()> {
        self.store.compact()
    }

    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        loop {
            // SAFETY: the objects are live; null begins a new transaction.
            let raw = unsafe {
                (self.begin)(self.database, self.store.write_options[0], self.txn_options, ptr::null_mut())
            };
            let mut txn = RocksDbTxn { store: self, raw };
            match body(&mut txn).and_then(|()| txn.commit()) {
                Err(TxnError::Conflict) => {}
                done => return Ok(done?),
            }
        }
    }
}

/// A transaction. Dropping it rolls back, unless it is committed.
struct RocksDbTxn<'a> {
    store: &'a RocksDbTxnStore,
    raw: Object,
}

/// Beginnings of the messages for a conflict, a deadlock, and a lock timeout.
static CONFLICTS: [&str; 3] = ["Resource busy", "Operation failed. Try again", "Operation timed out"];

impl RocksDbTxn<'_> {
    fn call<T>(
        &self,
        function: impl FnOnce(&TransactionFunctions, ErrorOut) -> T,
    ) -> std::result::Result<T, TxnError> {
        let called = self.store.store.call_checked(|_, error| function(&self.store.functions, error));
        called.map_err(|error| match CONFLICTS.iter().any(|conflict| error.starts_with(conflict)) {
            true => TxnError::Conflict,
            false => TxnError::Failed(error),
        })
    }

    fn commit(&mut self) -> std::result::Result<(), TxnError> {
        // SAFETY: the transaction is live, and the pointer for the error is valid.
        self.call(|api, error| unsafe { (api.transaction_commit)(self.raw, error) })
    }
}

impl Txn for RocksDbTxn<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError> {
        let (k, k_len) = ptr_and_len(key);
        let mut len = 0;
        let options = self.store.store.read_options;
        // SAFETY: the objects are live, the key is passed with its length, and the pointers for
        // length and error are valid.
        let found = self.call(|api, error| unsafe {
            (api.transaction_get_for_update)(self.raw, options, k, k_len, &mut len, 1, error)
        })?;
        if found.is_null() {
            return Ok(false);
        }
        value.clear();
        // SAFETY: the library returned `len` bytes, which belong to this call until they are freed.
        value.extend_from_slice(unsafe { bytes_from_c(found, len) });
        // SAFETY: the library allocated the value, and it is freed only here.
        unsafe { (self.store.store.library.functions.free)(found.cast::<c_void>()) };
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError> {
        let (k, k_len) = ptr_and_len(key);
        let (v, v_len) = ptr_and_len(value);
        // SAFETY: the transaction is live; it copies key and value, which are passed with their
        // lengths.
        self.call(|api, error| unsafe { (api.transaction_put)(self.raw, k, k_len, v, v_len, error) })
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError> {
        let options = self.store.store.read_options;
        // SAFETY: the objects are live; the cursor below is dropped before the transaction.
        let raw = unsafe { (self.store.functions.transaction_create_iterator)(self.raw, options) };
        let mut cursor = self.store.store.cursor_of(raw);
        let mut at_entry = cursor.seek(from)?;
        while at_entry && cursor.entry().0 < to {
            let (key, value) = cursor.entry();
            visit(key, value)?;
            at_entry = cursor.next()?;
        }
        Ok(())
    }
}

impl Drop for RocksDbTxn<'_> {
    fn drop(&mut self) {
        // SAFETY: the transaction is live until this call.
        unsafe { (self.store.functions.transaction_destroy)(self.raw) };
    }
}
