//! What LevelDB's C interface and RocksDB's have in common, which is all but the options: one set of functions under
//! two prefixes.
//!
//! Every pointer here comes from the library, is given back to it exactly once, and never leaves this room. An
//! adapter makes the options and hands over a database.

#![allow(unsafe_code, reason = "calls C libraries")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use super::{Change, Cursor, Result, Store};

/// An object of the library; each kind of it is only ever a pointer.
pub(super) type Object = *mut c_void;
type CBytes = *const c_char;
type ErrorOut = *mut *mut c_char;

/// Declares a table of functions: their names in the library are the prefix and the name here.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $(fn $name:ident($($arg:ty),*) $(-> $ret:ty)?;)* }) => {
        $(#[$doc])*
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl $table {
            /// Looks every function up. The pointers hold as long as the library is loaded.
            pub(super) fn of(library: &libloading::Library, prefix: &str) -> $crate::engine::Result<$table> {
                Ok($table {
                    $($name: {
                        let symbol = format!("{prefix}_{}", stringify!($name));
                        // SAFETY: the type is the one that the library's header gives the name.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>(symbol.as_bytes())
                        };
                        *found.map_err(|_| format!("it lacks the function {symbol}"))?
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;

functions! {
    /// The functions in common.
    Core {
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
    pub(super) functions: Core,
    pub(super) handle: libloading::Library,
}

impl Library {
    /// The library at `path`, whose functions begin with `prefix`.
    pub(super) fn load(path: &Path, prefix: &str) -> Result<Library> {
        let loaded = load_library(path)?;
        Ok(Library {
            functions: Core::of(&loaded, prefix).map_err(|e| format!("{}: {e}", path.display()))?,
            handle: loaded,
        })
    }
}

/// Loads the library at `path`, or of that name in the system.
pub(super) fn load_library(path: &Path) -> Result<libloading::Library> {
    // SAFETY: storage libraries only construct their own globals when they are loaded.
    unsafe { libloading::Library::new(path) }.map_err(|e| match std::error::Error::source(&e) {
        Some(source) => source.to_string(),
        None => e.to_string(),
    })
}

/// The file that a library of this name or path was loaded from, links followed; `name` itself if nobody tells.
pub(super) fn loaded_from(name: &Path) -> String {
    if let Ok(real) = std::fs::canonicalize(name) {
        return real.display().to_string();
    }
    // The system's links have other ends than the files: `libleveldb.so.1d` leads to `libleveldb.so.1.23.0`.
    let file = name.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.split_once(".so").map_or(&*file, |(stem, _)| stem);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let loaded = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so"))
    };
    paths.find(loaded).map_or_else(|| name.display().to_string(), str::to_owned)
}

/// Objects that were made for a database and go after it, each with the function that lets it go.
pub(super) type OwnedObjects = Vec<(Object, unsafe extern "C" fn(Object))>;

/// An open database.
pub(super) struct CStore {
    library: Arc<Library>,
    raw: Object,
    read_options: Object,
    /// Without and with sync.
    write_options: [Object; 2],
    owned_objects: OwnedObjects,
}

// SAFETY: the interfaces document that a database may be shared by threads without locks; the options are only read.
unsafe impl Send for CStore {}
// SAFETY: the same.
unsafe impl Sync for CStore {}

impl CStore {
    /// Opens the database in `dir`. `options` is among `owned` and alive, and so is all that it refers to.
    pub(super) fn open(
        library: &Arc<Library>,
        dir: &Path,
        options: Object,
        owned: OwnedObjects,
    ) -> Result<CStore> {
        let core = &library.functions;
        let path = CString::new(dir.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: makes a fresh object.
        let reading = unsafe { (core.readoptions_create)() };
        let writing = [0, 1].map(|sync| {
            // SAFETY: makes a fresh object.
            let raw = unsafe { (core.writeoptions_create)() };
            // SAFETY: the fresh object.
            unsafe { (core.writeoptions_set_sync)(raw, sync) };
            raw
        });
        let library = Arc::clone(library);
        let mut database = CStore {
            library,
            raw: ptr::null_mut(),
            read_options: reading,
            write_options: writing,
            owned_objects: owned,
        };
        database.raw = database.call_checked(|core, error| {
            // SAFETY: live options, a string that ends in zero, room for an error.
            unsafe { (core.open)(options, path.as_ptr(), error) }
        })?;
        Ok(database)
    }

    /// Calls a function that may leave an error.
    #[inline]
    fn call_checked<T>(&self, function: impl FnOnce(&Core, ErrorOut) -> T) -> Result<T> {
        let mut error = ptr::null_mut();
        let returned = function(&self.library.functions, &mut error);
        if error.is_null() {
            return Ok(returned);
        }
        // SAFETY: an error is a string that ends in zero.
        let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
        // SAFETY: the library made it, and this is the only time that it is freed.
        unsafe { (self.library.functions.free)(error.cast()) };
        Err(text)
    }

    fn write_options(&self, sync: bool) -> Object {
        self.write_options[usize::from(sync)]
    }
}

impl Drop for CStore {
    fn drop(&mut self) {
        let core = &self.library.functions;
        if !self.raw.is_null() {
            // SAFETY: open until here; cursors borrow the store, so none is left.
            unsafe { (core.close)(self.raw) };
        }
        let own = [
            (self.read_options, core.readoptions_destroy),
            (self.write_options[0], core.writeoptions_destroy),
            (self.write_options[1], core.writeoptions_destroy),
        ];
        for (object, destroy) in own.into_iter().chain(self.owned_objects.drain(..)) {
            // SAFETY: made by the constructor that belongs to `destroy`; the database that used it is closed.
            unsafe { destroy(object) };
        }
    }
}

impl Store for CStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let ((k, k_len), (v, v_len)) = (ptr_and_len(key), ptr_and_len(value));
        // SAFETY: live objects; key and value with their lengths.
        self.call_checked(|core, error| unsafe {
            (core.put)(self.raw, self.write_options(sync), k, k_len, v, v_len, error)
        })
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        let (k, k_len) = ptr_and_len(key);
        // SAFETY: live objects; a key with its length.
        self.call_checked(|core, error| unsafe {
            (core.delete)(self.raw, self.write_options(sync), k, k_len, error)
        })
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        let core = &self.library.functions;
        // SAFETY: makes a fresh object.
        let batch = unsafe { (core.writebatch_create)() };
        for Change { key, value } in changes {
            let (k, k_len) = ptr_and_len(key);
            match value.as_deref().map(ptr_and_len) {
                // SAFETY: the fresh batch; key and value with their lengths, which are copied.
                Some((v, v_len)) => unsafe { (core.writebatch_put)(batch, k, k_len, v, v_len) },
                // SAFETY: the fresh batch; a key with its length, which is copied.
                None => unsafe { (core.writebatch_delete)(batch, k, k_len) },
            }
        }
        // SAFETY: live objects.
        let written = self.call_checked(|core, error| unsafe {
            (core.write)(self.raw, self.write_options(sync), batch, error)
        });
        // SAFETY: made above, and used no more.
        unsafe { (core.writebatch_destroy)(batch) };
        written
    }

    #[inline]
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let ((k, k_len), mut len) = (ptr_and_len(key), 0);
        let found = self.call_checked(|core, error| {
            // SAFETY: live objects; a key with its length; room for a length and an error.
            unsafe { (core.get)(self.raw, self.read_options, k, k_len, &mut len, error) }
        })?;
        if found.is_null() {
            return Ok(false);
        }
        value.clear();
        // SAFETY: the library says how many bytes there are, and nobody else has them.
        value.extend_from_slice(unsafe { bytes_from_c(found, len) });
        // SAFETY: the library made it, and this is the only time that it is freed.
        unsafe { (self.library.functions.free)(found.cast()) };
        Ok(true)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        // SAFETY: live objects; the cursor borrows the store, so it goes first.
        let raw = unsafe { (self.library.functions.create_iterator)(self.raw, self.read_options) };
        Ok(Box::new(CCursor { store: self, raw }))
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: a live database; null stands for no bound.
        unsafe { (self.library.functions.compact_range)(self.raw, ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }
}

struct CCursor<'a> {
    store: &'a CStore,
    raw: Object,
}

impl CCursor<'_> {
    fn functions(&self) -> &Core {
        &self.store.library.functions
    }

    #[inline]
    fn advance(&mut self, step: unsafe extern "C" fn(Object)) -> Result<bool> {
        // SAFETY: a live iterator; a step of it from an entry is the caller's duty by `Cursor`.
        unsafe { step(self.raw) };
        self.is_valid()
    }

    #[inline]
    fn is_valid(&self) -> Result<bool> {
        // SAFETY: a live iterator.
        if unsafe { (self.functions().iter_valid)(self.raw) } != 0 {
            return Ok(true);
        }
        // SAFETY: a live iterator, room for an error.
        self.store
            .call_checked(|core, error| unsafe { (core.iter_get_error)(self.raw, error) })
            .map(|()| false)
    }

    #[inline]
    fn slice(&self, part: unsafe extern "C" fn(Object, *mut usize) -> CBytes) -> &[u8] {
        let mut len = 0;
        // SAFETY: a live iterator at an entry, by `Cursor`; room for a length.
        let start = unsafe { part(self.raw, &mut len) };
        // SAFETY: the bytes stay until the iterator moves, which needs it exclusively.
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
        // SAFETY: a live iterator; a key with its length.
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
        // SAFETY: live until here.
        unsafe { (self.functions().iter_destroy)(self.raw) };
    }
}

fn ptr_and_len(bytes: &[u8]) -> (CBytes, usize) {
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
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}
