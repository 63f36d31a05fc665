//! Functions that LevelDB's C interface and RocksDB's have in common, under two prefixes. Only the
//! options differ.
//!
//! Every pointer in this module comes from the library, is returned to it exactly once, and never
//! leaves this module. An adapter creates the options and opens a [`CStore`] with them.

#![allow(unsafe_code, reason = "calls C libraries")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use super::{Change, Cursor, Result, Store};

/// Pointer to an object of the library, of any type.
pub(super) type Object = *mut c_void;
pub(super) type CBytes = *const c_char;
pub(super) type ErrorOut = *mut *mut c_char;

/// Declares a table of functions. The name of a function in the library is the prefix and the name
/// in the table.
macro_rules! c_functions {
    ($(#[$doc:meta])* $table:ident { $(fn $name:ident($($arg:ty),*) $(-> $ret:ty)?;)* }) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl $table {
            /// Looks up every function. The pointers are valid while the library is loaded.
            pub(super) fn load(library: &libloading::Library, prefix: &str) -> $crate::engine::Result<$table> {
                Ok($table {
                    $($name: {
                        let symbol = format!("{prefix}_{}", stringify!($name));
                        // SAFETY: the function type is the one in the library's header.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>(symbol.as_bytes())
                        };
                        *found.map_err(|_| format!("the library lacks the function {symbol}"))?
                    },)*
                })
            }
        }
    };
}
pub(super) use c_functions;

c_functions! {
    /// Functions that LevelDB and RocksDB have in common.
    CommonFunctions {
        fn open(Object, *const c_char, ErrorOut) -> Object;
        fn close(Object);
        fn put(Object, Object, CBytes, usize, CBytes, usize, ErrorOut);
        fn delete(Object, Object, CBytes, usize, ErrorOut);
        fn write(Object, Object, Object, ErrorOut);
        fn get(Object, Object, CBytes, usize, *mut usize, ErrorOut) -> *mut c_char;
        fn compact_range(Object, CBytes, usize, CBytes, usize);
        fn create_iterator(Object, Object) -> Object;
        fn iter_destroy(Object);
        fn iter_valid(Object) -> u8;
        fn iter_seek_to_first(Object);
        fn iter_seek_to_last(Object);
        fn iter_seek(Object, CBytes, usize);
        fn iter_next(Object);
        fn iter_prev(Object);
        fn iter_key(Object, *mut usize) -> CBytes;
        fn iter_value(Object, *mut usize) -> CBytes;
        fn iter_get_error(Object, ErrorOut);
        fn writebatch_create() -> Object;
        fn writebatch_destroy(Object);
        fn writebatch_put(Object, CBytes, usize, CBytes, usize);
        fn writebatch_delete(Object, CBytes, usize);
        fn readoptions_create() -> Object;
        fn readoptions_destroy(Object);
        fn writeoptions_create() -> Object;
        fn writeoptions_destroy(Object);
        fn writeoptions_set_sync(Object, u8);
        fn free(*mut c_void);
    }
}

/// A loaded library.
pub(super) struct Library {
    pub(super) functions: CommonFunctions,
    pub(super) handle: libloading::Library,
}

impl Library {
    /// Loads the library at `path`, whose function names begin with `prefix`.
    pub(super) fn load(path: &Path, prefix: &str) -> Result<Library> {
        let loaded = load_library(path)?;
        Ok(Library {
            functions: CommonFunctions::load(&loaded, prefix)
                .map_err(|e| format!("{}: {e}", path.display()))?,
            handle: loaded,
        })
    }
}

/// Loads the library at `path`, or the system's library of that name.
pub(super) fn load_library(path: &Path) -> Result<libloading::Library> {
    // SAFETY: loading a storage library only runs the constructors of its own globals.
    unsafe { libloading::Library::new(path) }.map_err(|e| {
        let reason = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
        let path = path.display().to_string();
        // Not every C library names the file.
        if reason.contains(&path) { reason } else { format!("{path}: {reason}") }
    })
}

/// Path of the file that was loaded for `name`, with links resolved; `name` itself if it is
/// unknown.
pub(super) fn loaded_from(name: &Path) -> String {
    if let Ok(real) = std::fs::canonicalize(name) {
        return real.display().to_string();
    }
    // A system link and its file have different suffixes: `libleveldb.so.1d` points to
    // `libleveldb.so.1.23.0`.
    let file = name.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split_once(".so").map_or(&*file, |(stem, _)| stem);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let loaded = paths.find(|path| is_library_file(path, stem));
    loaded.map_or_else(|| name.display().to_string(), str::to_owned)
}

/// Returns true if the file name of `path` is `stem`, followed by `.so` and any version.
fn is_library_file(path: &str, stem: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so"))
}

/// Objects that must outlive the database, each with its destructor.
pub(super) type OwnedObjects = Vec<(Object, unsafe extern "C" fn(Object))>;

/// An open database.
pub(super) struct CStore {
    pub(super) library: Arc<Library>,
    /// The database; null until it is open.
    pub(super) raw: Object,
    pub(super) read_options: Object,
    /// Write options without sync and with sync.
    pub(super) write_options: [Object; 2],
    pub(super) owned_objects: OwnedObjects,
}

// SAFETY: LevelDB and RocksDB document that threads may share a database without locks; the options
// are only read.
unsafe impl Send for CStore {}
// SAFETY: as for `Send`, all calls through a shared reference are documented as safe from several
// threads.
unsafe impl Sync for CStore {}

impl CStore {
    /// Opens the database in `dir`. `options` is in `owned`, and `owned` holds everything that the
    /// options refer to.
    pub(super) fn open(
        library: &Arc<Library>,
        dir: &Path,
        options: Object,
        owned: OwnedObjects,
    ) -> Result<CStore> {
        let path = CString::new(dir.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        let mut store = CStore::closed(library, owned);
        store.raw = store.call_checked(|api, error| {
            // SAFETY: the options are live, the path ends in zero, and `error` points to a pointer
            // for the error.
            unsafe { (api.open)(options, path.as_ptr(), error) }
        })?;
        Ok(store)
    }

    /// Creates a store whose database the caller opens. Dropping the store destroys `owned` in its
    /// order, after the database.
    pub(super) fn closed(library: &Arc<Library>, owned: OwnedObjects) -> CStore {
        let api = &library.functions;
        // SAFETY: has no preconditions and returns a new object.
        let reading = unsafe { (api.readoptions_create)() };
        let writing = [0, 1].map(|sync| {
            // SAFETY: has no preconditions and returns a new object.
            let raw = unsafe { (api.writeoptions_create)() };
            // SAFETY: `raw` is the new object.
            unsafe { (api.writeoptions_set_sync)(raw, sync) };
            raw
        });
        CStore {
            library: Arc::clone(library),
            raw: ptr::null_mut(),
            read_options: reading,
            write_options: writing,
            owned_objects: owned,
        }
    }

    /// Calls a function that may return an error text.
    #[inline]
    pub(super) fn call_checked<T>(
        &self,
        function: impl FnOnce(&CommonFunctions, ErrorOut) -> T,
    ) -> Result<T> {
        let mut error = ptr::null_mut();
        let returned = function(&self.library.functions, &mut error);
        if error.is_null() {
            return Ok(returned);
        }
        // SAFETY: an error that is not null is a string that ends in zero.
        let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
        // SAFETY: the library allocated the error, and it is freed only here.
        unsafe { (self.library.functions.free)(error.cast()) };
        Err(text)
    }

    /// Returns a cursor that owns the iterator `raw` of this library.
    pub(super) fn cursor_of(&self, raw: Object) -> impl Cursor {
        CCursor { store: self, raw }
    }

    fn write_options(&self, sync: bool) -> Object {
        self.write_options[usize::from(sync)]
    }
}

impl Drop for CStore {
    fn drop(&mut self) {
        let api = &self.library.functions;
        if !self.raw.is_null() {
            // SAFETY: the database is open until this call; cursors borrow the store, so none is
            // left.
            unsafe { (api.close)(self.raw) };
        }
        let own = [
            (self.read_options, api.readoptions_destroy),
            (self.write_options[0], api.writeoptions_destroy),
            (self.write_options[1], api.writeoptions_destroy),
        ];
        for (object, destroy) in own.into_iter().chain(self.owned_objects.drain(..)) {
            // SAFETY: the matching constructor created `object`, and the database that used it is
            // closed.
            unsafe { destroy(object) };
        }
    }
}

impl Store for CStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let (k, k_len) = ptr_and_len(key);
        let (v, v_len) = ptr_and_len(value);
        // SAFETY: the objects are live, and key and value are passed with their lengths.
        self.call_checked(|api, error| unsafe {
            (api.put)(self.raw, self.write_options(sync), k, k_len, v, v_len, error)
        })
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        let (k, k_len) = ptr_and_len(key);
        // SAFETY: the objects are live, and the key is passed with its length.
        self.call_checked(|api, error| unsafe {
            (api.delete)(self.raw, self.write_options(sync), k, k_len, error)
        })
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        let api = &self.library.functions;
        // SAFETY: has no preconditions and returns a new object.
        let batch = unsafe { (api.writebatch_create)() };
        for Change { key, value } in changes {
            let (k, k_len) = ptr_and_len(key);
            match value.as_deref().map(ptr_and_len) {
                // SAFETY: the batch is live; it copies the key and the value, which are passed with
                // their lengths.
                Some((v, v_len)) => unsafe { (api.writebatch_put)(batch, k, k_len, v, v_len) },
                // SAFETY: the batch is live; it copies the key, which is passed with its length.
                None => unsafe { (api.writebatch_delete)(batch, k, k_len) },
            }
        }
        // SAFETY: all objects are live.
        let written = self.call_checked(|api, error| unsafe {
            (api.write)(self.raw, self.write_options(sync), batch, error)
        });
        // SAFETY: the batch was created above and is not used afterwards.
        unsafe { (api.writebatch_destroy)(batch) };
        written
    }

    #[inline]
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let (k, k_len) = ptr_and_len(key);
        let mut len = 0;
        let found = self.call_checked(|api, error| {
            // SAFETY: the objects are live, the key is passed with its length, and the pointers for
            // length and error are valid.
            unsafe { (api.get)(self.raw, self.read_options, k, k_len, &mut len, error) }
        })?;
        if found.is_null() {
            return Ok(false);
        }
        value.clear();
        // SAFETY: the library returned `len` bytes, which belong to this call until they are freed.
        value.extend_from_slice(unsafe { bytes_from_c(found, len) });
        // SAFETY: the library allocated the value, and it is freed only here.
        unsafe { (self.library.functions.free)(found.cast()) };
        Ok(true)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        // SAFETY: the objects are live; the cursor borrows the store, so it is dropped first.
        let raw = unsafe { (self.library.functions.create_iterator)(self.raw, self.read_options) };
        Ok(Box::new(CCursor { store: self, raw }))
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: the database is live; null means no bound.
        unsafe { (self.library.functions.compact_range)(self.raw, ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }
}

struct CCursor<'a> {
    store: &'a CStore,
    raw: Object,
}

impl CCursor<'_> {
    fn functions(&self) -> &CommonFunctions {
        &self.store.library.functions
    }

    #[inline]
    fn advance(&mut self, step: unsafe extern "C" fn(Object)) -> Result<bool> {
        // SAFETY: the iterator is live; `Cursor` requires that the caller steps only from an entry.
        unsafe { step(self.raw) };
        self.is_valid()
    }

    #[inline]
    fn is_valid(&self) -> Result<bool> {
        // SAFETY: the iterator is live.
        if unsafe { (self.functions().iter_valid)(self.raw) } != 0 {
            return Ok(true);
        }
        // SAFETY: the iterator is live, and `error` points to a pointer for the error.
        self.store.call_checked(|api, error| unsafe { (api.iter_get_error)(self.raw, error) }).map(|()| false)
    }

    #[inline]
    fn slice(&self, part: unsafe extern "C" fn(Object, *mut usize) -> CBytes) -> &[u8] {
        let mut len = 0;
        // SAFETY: the iterator is live and, as `Cursor` requires, at an entry; `len` is valid for
        // the length.
        let start = unsafe { part(self.raw, &mut len) };
        // SAFETY: the bytes stay valid until the iterator moves, which needs exclusive access.
        unsafe { bytes_from_c(start, len) }
    }
}

impl Cursor for CCursor<'_> {
    fn first(&mut self) -> Result<bool> {
        self.advance(self.functions().iter_seek_to_first)
    }

    fn last(&mut self) -> Result<bool> {
        self.advance(self.functions().iter_seek_to_last)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let (k, k_len) = ptr_and_len(key);
        // SAFETY: the iterator is live, and the key is passed with its length.
        unsafe { (self.functions().iter_seek)(self.raw, k, k_len) };
        self.is_valid()
    }

    fn next(&mut self) -> Result<bool> {
        self.advance(self.functions().iter_next)
    }

    fn prev(&mut self) -> Result<bool> {
        self.advance(self.functions().iter_prev)
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        (self.slice(self.functions().iter_key), self.slice(self.functions().iter_value))
    }
}

impl Drop for CCursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator is live until this call.
        unsafe { (self.functions().iter_destroy)(self.raw) };
    }
}

pub(super) fn ptr_and_len(bytes: &[u8]) -> (CBytes, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Bytes from C.
///
/// # Safety
/// `start` points to `len` bytes that live and stay unchanged for `'a`, or `len` is 0.
pub(super) unsafe fn bytes_from_c<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: `len` is not 0, so the caller guarantees `len` live and unchanged bytes for `'a`.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}
