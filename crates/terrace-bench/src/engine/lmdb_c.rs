//! LMDB, through its C interface. Every put is a transaction of its own, as every put of the others is.
//!
//! Without sync it runs with `MDB_NOSYNC`: like the others' logs, a write then survives the process and may be lost
//! with the power. A durable write is followed by `mdb_env_sync`. Compression, filter, cache and write buffer do not
//! exist here: pages are in the system's cache, and settings for them are passed over.

#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use super::c_api::{Object, bytes_from_c, functions, load_library, loaded_from};
use super::{Change, Cursor, Engine, EngineRunner, FoundEngine, Result, Store};
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

functions! {
    /// What is used of LMDB.
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

/// Room in the address space, not on the device; no benchmark outgrows it.
const MAP_SIZE: usize = 1 << 39;

const LIBRARY_NAME: &str = "liblmdb.so.0";

/// The library at `path`, or the system's.
pub(super) fn find(path: Option<&Path>) -> Result<FoundEngine> {
    let name = path.unwrap_or(Path::new(LIBRARY_NAME));
    let missing =
        |e| if path.is_some() { e } else { format!("{LIBRARY_NAME} not found: apt-get install liblmdb0") };
    let library = load_library(name).map_err(missing)?;
    let api = Api::of(&library, "mdb").map_err(|e| format!("{}: {e}", name.display()))?;
    let mut parts = [0; 3];
    let [major, minor, patch] = &mut parts;
    // SAFETY: room for three numbers; the text that it returns is not used.
    unsafe { (api.version)(major, minor, patch) };
    Ok(FoundEngine {
        version: parts.map(|part| part.to_string()).join("."),
        location: loaded_from(name),
        note: "no write buffer, cache, filter or compression to set; MDB_NOSYNC unless a write is durable"
            .into(),
        runner: EngineRunner::InProcess(Box::new(Lmdb(Arc::new(LmdbLibrary { api, _library: library })))),
    })
}

struct LmdbLibrary {
    api: Api,
    /// Keeps the functions where they are.
    _library: libloading::Library,
}

impl LmdbLibrary {
    #[inline]
    fn check(&self, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes any number.
        let text = unsafe { (self.api.strerror)(code) };
        // SAFETY: a text that ends in zero, and that nobody changes before it is copied below.
        let text = unsafe { CStr::from_ptr(text) };
        Err(text.to_string_lossy().into_owned())
    }

    /// Whether something was found.
    #[inline]
    fn check_found(&self, code: c_int) -> Result<bool> {
        if code == NOT_FOUND { Ok(false) } else { self.check(code).map(|()| true) }
    }
}

struct Lmdb(Arc<LmdbLibrary>);

impl Engine for Lmdb {
    fn open(&self, dir: &Path, _: &Settings) -> Result<Box<dyn Store>> {
        let path = CString::new(dir.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        let (lib, mut env) = (Arc::clone(&self.0), ptr::null_mut());
        // SAFETY: room for the new object.
        lib.check(unsafe { (lib.api.env_create)(&mut env) })?;
        let mut open = LmdbStore { lib, env, dbi: 0 };
        let api = &open.lib.api;
        // SAFETY: the fresh environment.
        open.lib.check(unsafe { (api.env_set_mapsize)(env, MAP_SIZE) })?;
        // SAFETY: the fresh environment; a string that ends in zero.
        open.lib.check(unsafe { (api.env_open)(env, path.as_ptr(), NOSYNC, 0o644) })?;
        let mut dbi = 0;
        open.with_write_txn(|txn| {
            // SAFETY: a live transaction; null names the one database; room for its number.
            open.lib.check(unsafe { (api.dbi_open)(txn, ptr::null(), 0, &mut dbi) })
        })?;
        open.dbi = dbi;
        Ok(Box::new(open))
    }
}

/// An open environment with its one database.
struct LmdbStore {
    lib: Arc<LmdbLibrary>,
    env: Object,
    dbi: c_uint,
}

// SAFETY: an environment may be shared by threads; transactions do not leave the thread that began them.
unsafe impl Send for LmdbStore {}
// SAFETY: the same.
unsafe impl Sync for LmdbStore {}

impl LmdbStore {
    #[inline]
    fn begin_txn(&self, flags: c_uint) -> Result<Object> {
        let mut txn = ptr::null_mut();
        // SAFETY: a live environment; room for the new object.
        self.lib.check(unsafe { (self.lib.api.txn_begin)(self.env, ptr::null_mut(), flags, &mut txn) })?;
        Ok(txn)
    }

    /// Does `work` in a transaction.
    #[inline]
    fn with_write_txn(&self, work: impl FnOnce(Object) -> Result<()>) -> Result<()> {
        let txn = self.begin_txn(0)?;
        if let Err(error) = work(txn) {
            // SAFETY: live until here.
            unsafe { (self.lib.api.txn_abort)(txn) };
            return Err(error);
        }
        // SAFETY: live until here.
        self.lib.check(unsafe { (self.lib.api.txn_commit)(txn) })
    }

    fn sync_if(&self, sync: bool) -> Result<()> {
        if !sync {
            return Ok(());
        }
        // SAFETY: a live environment.
        self.lib.check(unsafe { (self.lib.api.env_sync)(self.env, 1) })
    }

    #[inline]
    fn put_in_txn(&self, txn: Object, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (MdbVal::from_slice(key), MdbVal::from_slice(value));
        // SAFETY: a live transaction that writes; both values are copied.
        self.lib.check(unsafe { (self.lib.api.put)(txn, self.dbi, &mut key, &mut value, 0) })
    }

    fn delete_in_txn(&self, txn: Object, key: &[u8]) -> Result<()> {
        // SAFETY: a live transaction that writes; null stands for whatever the value is.
        let code =
            unsafe { (self.lib.api.del)(txn, self.dbi, &mut MdbVal::from_slice(key), ptr::null_mut()) };
        self.lib.check_found(code).map(|_| ())
    }
}

impl Drop for LmdbStore {
    fn drop(&mut self) {
        // SAFETY: live until here; transactions borrow the store, so none is left.
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
        let (txn, mut found) = (self.begin_txn(RDONLY)?, MdbVal::NONE);
        // SAFETY: a live transaction; a key with its length; room for a value.
        let code = unsafe { (self.lib.api.get)(txn, self.dbi, &mut MdbVal::from_slice(key), &mut found) };
        if code == 0 {
            value.clear();
            // SAFETY: the bytes stay in the map until the transaction ends.
            value.extend_from_slice(unsafe { bytes_from_c(found.start.cast(), found.len) });
        }
        // SAFETY: live until here.
        unsafe { (self.lib.api.txn_abort)(txn) };
        self.lib.check_found(code)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        let txn = self.begin_txn(RDONLY)?;
        let mut walk =
            LmdbCursor { store: self, txn, raw: ptr::null_mut(), key: MdbVal::NONE, value: MdbVal::NONE };
        // SAFETY: a live transaction; room for the new object.
        self.lib.check(unsafe { (self.lib.api.cursor_open)(txn, self.dbi, &mut walk.raw) })?;
        Ok(Box::new(walk))
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }
}

struct LmdbCursor<'a> {
    store: &'a LmdbStore,
    txn: Object,
    /// Null until it is open.
    raw: Object,
    key: MdbVal,
    value: MdbVal,
}

/// `MDB_cursor_op`, as far as used.
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
        // SAFETY: a live cursor; room for key and value.
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
        // SAFETY: at an entry, by `Cursor`; its bytes stay in the map until the transaction ends.
        let key = unsafe { bytes_from_c(self.key.start.cast(), self.key.len) };
        // SAFETY: the same.
        let value = unsafe { bytes_from_c(self.value.start.cast(), self.value.len) };
        (key, value)
    }
}

impl Drop for LmdbCursor<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: live until here.
            unsafe { (self.store.lib.api.cursor_close)(self.raw) };
        }
        // SAFETY: live until here; its cursor is closed.
        unsafe { (self.store.lib.api.txn_abort)(self.txn) };
    }
}
