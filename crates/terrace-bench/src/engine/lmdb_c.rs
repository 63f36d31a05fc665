//! LMDB, through its C interface. Every put is a transaction of its own, as with the other engines.
//!
//! Without sync, LMDB runs with `MDB_NOSYNC`: as with the logs of the other engines, a write
//! survives a crash of the process but may be lost in a power cut. A durable write is followed by
//! `mdb_env_sync`. LMDB has no compression, filter, cache or write buffer: its pages are in the
//! system's page cache, and settings for these features are ignored.
//!
//! A get sees the newest state in two ways, each an engine of its own. `lmdb` begins a new read
//! transaction for each get. `lmdb-renewed` resets and renews one read transaction of the thread,
//! as fast programs do.

#![allow(unsafe_code, reason = "calls a C library")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::c_api::{Object, bytes_from_c, c_functions, load_library, loaded_from};
use super::{
    Change, Cursor, Engine, EngineRunner, EntryVisitor, FoundEngine, Result, Store, Txn, TxnBody, TxnError,
};
use crate::report::model::Settings;

/// `MDB_val`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MdbVal {
    len: usize,
    start: *mut c_void,
}

impl MdbVal {
    const NONE: MdbVal = MdbVal { len: 0, start: ptr::null_mut() };

    fn from_slice(bytes: &[u8]) -> MdbVal {
        MdbVal { len: bytes.len(), start: bytes.as_ptr().cast_mut().cast() }
    }
}

c_functions! {
    /// Functions of LMDB that the adapter uses.
    Api {
        fn version(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
        fn strerror(c_int) -> *const c_char;
        fn env_create(*mut Object) -> c_int;
        fn env_set_mapsize(Object, usize) -> c_int;
        fn env_open(Object, *const c_char, c_uint, c_uint) -> c_int;
        fn env_sync(Object, c_int) -> c_int;
        fn env_close(Object);
        fn txn_begin(Object, Object, c_uint, *mut Object) -> c_int;
        fn txn_commit(Object) -> c_int;
        fn txn_abort(Object);
        fn txn_reset(Object);
        fn txn_renew(Object) -> c_int;
        fn dbi_open(Object, *const c_char, c_uint, *mut c_uint) -> c_int;
        fn get(Object, c_uint, *mut MdbVal, *mut MdbVal) -> c_int;
        fn put(Object, c_uint, *mut MdbVal, *mut MdbVal, c_uint) -> c_int;
        fn del(Object, c_uint, *mut MdbVal, *mut MdbVal) -> c_int;
        fn cursor_open(Object, c_uint, *mut Object) -> c_int;
        fn cursor_close(Object);
        fn cursor_get(Object, *mut MdbVal, *mut MdbVal, c_int) -> c_int;
    }
}

const NOT_FOUND: c_int = -30798;
const NOSYNC: c_uint = 0x10000;
const RDONLY: c_uint = 0x20000;
/// Read transactions belong to their object instead of their thread.
const NOTLS: c_uint = 0x200000;

/// Size of the memory map: address space, not storage. It exceeds the size of every benchmark
/// database.
const MAP_SIZE: usize = 1 << 39;

const LIBRARY_NAME: &str = "liblmdb.so.0";

/// Finds the library at `path`, or the system's.
pub(super) fn find(path: Option<&Path>) -> Result<FoundEngine> {
    find_with(path, false, "a new read transaction for each get")
}

/// Finds the library, for gets that renew the read transaction of their thread.
pub(super) fn find_renewed(path: Option<&Path>) -> Result<FoundEngine> {
    find_with(path, true, "gets renew one read transaction of each thread")
}

fn find_with(path: Option<&Path>, renews: bool, gets: &str) -> Result<FoundEngine> {
    let name = path.unwrap_or(Path::new(LIBRARY_NAME));
    let library = load_library(name).map_err(|e| match path {
        Some(_) => e,
        None => format!("{LIBRARY_NAME} not found: apt-get install liblmdb0"),
    })?;
    let api = Api::load(&library, "mdb").map_err(|e| format!("{}: {e}", name.display()))?;
    let mut parts = [0; 3];
    let [major, minor, patch] = &mut parts;
    // SAFETY: the three pointers are valid; the returned text is not used.
    unsafe { (api.version)(major, minor, patch) };
    Ok(FoundEngine {
        version: parts.map(|part| part.to_string()).join("."),
        location: loaded_from(name),
        note: format!(
            "{gets}; no write buffer, cache, filter or compression to set; MDB_NOSYNC unless a write is durable"
        ),
        has_compaction: false,
        has_transactions: true,
        optional_kinds: &[],
        runner: EngineRunner::InProcess(Box::new(Lmdb {
            library: Arc::new(LmdbLibrary { api, _library: library }),
            renews,
        })),
    })
}

struct LmdbLibrary {
    api: Api,
    /// Keeps the library loaded, so that the function pointers stay valid.
    _library: libloading::Library,
}

impl LmdbLibrary {
    #[inline]
    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: accepts any number.
        let text = unsafe { (self.api.strerror)(code) };
        // SAFETY: the text ends in zero, and it is copied below before it could change.
        let text = unsafe { CStr::from_ptr(text) };
        Err(text.to_string_lossy().into_owned())
    }

    /// Returns whether the key or an entry was found.
    #[inline]
    fn check_found(&self, code: c_int) -> Result<bool> {
        if code == NOT_FOUND { Ok(false) } else { self.check(code).map(|()| true) }
    }
}

struct Lmdb {
    library: Arc<LmdbLibrary>,
    /// Whether a get renews the read transaction of its thread.
    renews: bool,
}

impl Engine for Lmdb {
    fn open(&self, dir: &Path, _: &Settings) -> Result<Box<dyn Store>> {
        let path = CString::new(dir.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        let lib = Arc::clone(&self.library);
        let mut env = ptr::null_mut();
        // SAFETY: the pointer for the new object is valid.
        lib.check(unsafe { (lib.api.env_create)(&mut env) })?;
        let flags = if self.renews { NOSYNC | NOTLS } else { NOSYNC };
        let read_txns = self.renews.then(ReadTxns::default);
        let mut store = LmdbStore { lib, env, dbi: 0, read_txns };
        let api = &store.lib.api;
        // SAFETY: the environment is new and not yet open.
        store.lib.check(unsafe { (api.env_set_mapsize)(env, MAP_SIZE) })?;
        // SAFETY: the environment is new, and the path ends in zero.
        store.lib.check(unsafe { (api.env_open)(env, path.as_ptr(), flags, 0o644) })?;
        let mut dbi = 0;
        store.with_write_txn(|txn| {
            // SAFETY: the transaction is live, null selects the only database, and the pointer for
            // its number is valid.
            store.lib.check(unsafe { (api.dbi_open)(txn, ptr::null(), 0, &mut dbi) })
        })?;
        store.dbi = dbi;
        Ok(Box::new(store))
    }
}

/// An open environment with its only database.
struct LmdbStore {
    lib: Arc<LmdbLibrary>,
    env: Object,
    dbi: c_uint,
    /// Read transactions that gets renew; `None` if each get begins its own.
    read_txns: Option<ReadTxns>,
}

/// Read transactions of the threads of an environment, reset between two gets.
struct ReadTxns {
    /// Number of the environment, which no other environment of this process has.
    id: u64,
    all: Mutex<Vec<Object>>,
}

impl Default for ReadTxns {
    fn default() -> ReadTxns {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the number publishes no other data.
        ReadTxns { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), all: Mutex::default() }
    }
}

thread_local! {
    /// Last read transaction of this thread, and the number of its environment.
    static READ_TXN: Cell<(u64, Object)> = const { Cell::new((0, ptr::null_mut())) };
}

// SAFETY: LMDB documents that threads may share an environment; a transaction stays on the thread
// that began it.
unsafe impl Send for LmdbStore {}
// SAFETY: as for `Send`, threads may use a shared environment at the same time.
unsafe impl Sync for LmdbStore {}

impl LmdbStore {
    #[inline]
    fn begin_txn(&self, flags: c_uint) -> Result<Object> {
        let mut txn = ptr::null_mut();
        // SAFETY: the environment is live, and the pointer for the new object is valid.
        self.lib.check(unsafe { (self.lib.api.txn_begin)(self.env, ptr::null_mut(), flags, &mut txn) })?;
        Ok(txn)
    }

    /// Runs `work` in a write transaction.
    #[inline]
    fn with_write_txn(&self, work: impl FnOnce(Object) -> Result<()>) -> Result<()> {
        let txn = self.begin_txn(0)?;
        if let Err(error) = work(txn) {
            // SAFETY: the transaction is live until this call.
            unsafe { (self.lib.api.txn_abort)(txn) };
            return Err(error);
        }
        // SAFETY: the transaction is live until this call.
        self.lib.check(unsafe { (self.lib.api.txn_commit)(txn) })
    }

    fn sync_if(&self, sync: bool) -> Result<()> {
        if !sync {
            return Ok(());
        }
        // SAFETY: the environment is live.
        self.lib.check(unsafe { (self.lib.api.env_sync)(self.env, 1) })
    }

    #[inline]
    fn put_in_txn(&self, txn: Object, key: &[u8], value: &[u8]) -> Result<()> {
        let mut key = MdbVal::from_slice(key);
        let mut value = MdbVal::from_slice(value);
        // SAFETY: the write transaction is live; LMDB copies key and value.
        self.lib.check(unsafe { (self.lib.api.put)(txn, self.dbi, &mut key, &mut value, 0) })
    }

    fn delete_in_txn(&self, txn: Object, key: &[u8]) -> Result<()> {
        // SAFETY: the write transaction is live; null matches any value.
        let code =
            unsafe { (self.lib.api.del)(txn, self.dbi, &mut MdbVal::from_slice(key), ptr::null_mut()) };
        self.lib.check_found(code).map(|_| ())
    }
}

impl LmdbStore {
    /// Returns a read transaction of the newest state: the renewed one of this thread, or a new
    /// one.
    #[inline]
    fn read_txn(&self) -> Result<Object> {
        let Some(read_txns) = &self.read_txns else { return self.begin_txn(RDONLY) };
        let (id, txn) = READ_TXN.get();
        if id == read_txns.id {
            // SAFETY: the environment with this number is live, so its transactions are, and
            // `end_read_txn` has reset this one.
            self.lib.check(unsafe { (self.lib.api.txn_renew)(txn) })?;
            return Ok(txn);
        }
        let txn = self.begin_txn(RDONLY)?;
        read_txns.all.lock().unwrap_or_else(PoisonError::into_inner).push(txn);
        READ_TXN.set((read_txns.id, txn));
        Ok(txn)
    }

    /// Opens a cursor in `txn`, which ends with the cursor if the cursor owns it.
    fn open_cursor(&self, txn: Object, owns_txn: bool) -> Result<LmdbCursor<'_>> {
        let raw = ptr::null_mut();
        let mut cursor =
            LmdbCursor { store: self, txn, owns_txn, raw, key: MdbVal::NONE, value: MdbVal::NONE };
        // SAFETY: the transaction is live, and the pointer for the new object is valid.
        self.lib.check(unsafe { (self.lib.api.cursor_open)(txn, self.dbi, &mut cursor.raw) })?;
        Ok(cursor)
    }

    /// Ends a transaction of [`LmdbStore::read_txn`].
    #[inline]
    fn end_read_txn(&self, txn: Object) {
        let api = &self.lib.api;
        let end = if self.read_txns.is_some() { api.txn_reset } else { api.txn_abort };
        // SAFETY: the transaction is live; a reset keeps it for the next renewal.
        unsafe { end(txn) };
    }
}

impl Drop for LmdbStore {
    fn drop(&mut self) {
        if let Some(read_txns) = self.read_txns.take() {
            for txn in read_txns.all.into_inner().unwrap_or_else(PoisonError::into_inner) {
                // SAFETY: the transaction is reset, no thread uses the store any more, and without
                // thread-local transactions every thread may end it.
                unsafe { (self.lib.api.txn_abort)(txn) };
            }
        }
        // SAFETY: the environment is live until this call; cursors borrow the store, so no
        // transaction is left.
        unsafe { (self.lib.api.env_close)(self.env) };
    }
}

impl Store for LmdbStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.with_write_txn(|txn| self.put_in_txn(txn, key, value))?;
        self.sync_if(sync)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.with_write_txn(|txn| self.delete_in_txn(txn, key))?;
        self.sync_if(sync)
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        self.with_write_txn(|txn| {
            changes.iter().try_for_each(|Change { key, value }| match value {
                Some(value) => self.put_in_txn(txn, key, value),
                None => self.delete_in_txn(txn, key),
            })
        })?;
        self.sync_if(sync)
    }

    #[inline]
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let txn = self.read_txn()?;
        let mut found = MdbVal::NONE;
        // SAFETY: the transaction is live, the key has its length, and the pointer for the value is
        // valid.
        let code = unsafe { (self.lib.api.get)(txn, self.dbi, &mut MdbVal::from_slice(key), &mut found) };
        if code == 0 {
            value.clear();
            // SAFETY: the bytes stay in the map until the transaction ends below.
            value.extend_from_slice(unsafe { bytes_from_c(found.start.cast(), found.len) });
        }
        self.end_read_txn(txn);
        self.lib.check_found(code)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(self.open_cursor(self.begin_txn(RDONLY)?, true)?))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        self.with_write_txn(|txn| Ok(body(&mut LmdbTxn { store: self, txn })?))
    }
}

/// The write transaction of `with_write_txn`. One runs at a time, so there are no conflicts.
struct LmdbTxn<'a> {
    store: &'a LmdbStore,
    txn: Object,
}

impl Txn for LmdbTxn<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError> {
        let LmdbStore { lib, dbi, .. } = self.store;
        let mut found = MdbVal::NONE;
        // SAFETY: the transaction is live, the key has its length, and the pointer for the value is
        // valid.
        let code = unsafe { (lib.api.get)(self.txn, *dbi, &mut MdbVal::from_slice(key), &mut found) };
        if code == 0 {
            value.clear();
            // SAFETY: the bytes stay in the map until the next write of the transaction.
            value.extend_from_slice(unsafe { bytes_from_c(found.start.cast(), found.len) });
        }
        Ok(lib.check_found(code)?)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError> {
        Ok(self.store.put_in_txn(self.txn, key, value)?)
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError> {
        let mut cursor = self.store.open_cursor(self.txn, false)?;
        let mut at_entry = cursor.seek(from)?;
        while at_entry && cursor.entry().0 < to {
            let (key, value) = cursor.entry();
            visit(key, value)?;
            at_entry = cursor.next()?;
        }
        Ok(())
    }
}

struct LmdbCursor<'a> {
    store: &'a LmdbStore,
    txn: Object,
    /// Whether the transaction ends with the cursor.
    owns_txn: bool,
    /// Null until the cursor is open.
    raw: Object,
    key: MdbVal,
    value: MdbVal,
}

/// The used values of `MDB_cursor_op`.
mod op {
    use std::ffi::c_int;

    pub(super) const FIRST: c_int = 0;
    pub(super) const LAST: c_int = 6;
    pub(super) const NEXT: c_int = 8;
    pub(super) const PREV: c_int = 12;
    pub(super) const SET_RANGE: c_int = 17;
}

impl LmdbCursor<'_> {
    #[inline]
    fn cursor_get(&mut self, op: c_int) -> Result<bool> {
        let lib = &self.store.lib;
        // SAFETY: the cursor is live, and the pointers for key and value are valid.
        let code = unsafe { (lib.api.cursor_get)(self.raw, &mut self.key, &mut self.value, op) };
        lib.check_found(code)
    }
}

impl Cursor for LmdbCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        self.cursor_get(op::FIRST)
    }

    fn last(&mut self) -> Result<bool> {
        self.cursor_get(op::LAST)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.key = MdbVal::from_slice(key);
        self.cursor_get(op::SET_RANGE)
    }

    fn next(&mut self) -> Result<bool> {
        self.cursor_get(op::NEXT)
    }

    fn prev(&mut self) -> Result<bool> {
        self.cursor_get(op::PREV)
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        // SAFETY: the cursor is at an entry, as `Cursor` requires; its bytes stay in the map until
        // the transaction ends.
        let key = unsafe { bytes_from_c(self.key.start.cast(), self.key.len) };
        // SAFETY: the value belongs to the same entry as the key above, so its bytes live as long.
        let value = unsafe { bytes_from_c(self.value.start.cast(), self.value.len) };
        (key, value)
    }
}

impl Drop for LmdbCursor<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the cursor is live until this call.
            unsafe { (self.store.lib.api.cursor_close)(self.raw) };
        }
        if self.owns_txn {
            // SAFETY: the transaction is live until this call, and its cursor is closed.
            unsafe { (self.store.lib.api.txn_abort)(self.txn) };
        }
    }
}
