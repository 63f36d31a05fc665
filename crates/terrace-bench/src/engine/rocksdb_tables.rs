//! RocksDB's ingest of table files, and its checkpoints, through its C interface.
//!
//! RocksDB ingests only sorted tables, so a bulk load sorts its input in memory first.

#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::c_api::{CBytes, CStore, ErrorOut, Object, c_functions, ptr_and_len};
use super::entry_source::SortedEntries;
use super::{Change, Cursor, EntrySource, Result, Store};

/// Bytes of keys and values in a table: RocksDB's default for a file of level 1.
const TABLE_BYTES: usize = 64 << 20;

/// Size of the WAL from which a checkpoint flushes the memtable: never, as with Terrace.
const LOG_SIZE_FOR_FLUSH: u64 = u64::MAX;

c_functions! {
    /// Functions for tables and checkpoints.
    TableFunctions {
        fn envoptions_create() -> Object;
        fn envoptions_destroy(Object);
        fn sstfilewriter_create(Object, Object) -> Object;
        fn sstfilewriter_open(Object, *const c_char, ErrorOut);
        fn sstfilewriter_put(Object, CBytes, usize, CBytes, usize, ErrorOut);
        fn sstfilewriter_finish(Object, ErrorOut);
        fn sstfilewriter_destroy(Object);
        fn ingestexternalfileoptions_create() -> Object;
        fn ingestexternalfileoptions_destroy(Object);
        fn ingestexternalfileoptions_set_move_files(Object, u8);
        fn ingest_external_file(Object, *const *const c_char, usize, Object, ErrorOut);
        fn checkpoint_object_create(Object, ErrorOut) -> Object;
        fn checkpoint_create(Object, *const c_char, u64, ErrorOut);
        fn checkpoint_object_destroy(Object);
    }
}

/// Plain database of RocksDB.
pub(super) struct RocksDbStore {
    pub(super) store: CStore,
    pub(super) functions: Arc<TableFunctions>,
    /// Options of the database, which `store` owns.
    pub(super) options: Object,
    pub(super) directory: PathBuf,
}

// SAFETY: RocksDB documents that threads may share a database without locks; the options are only
// read.
unsafe impl Send for RocksDbStore {}
// SAFETY: as for `Send`, all calls through a shared reference are documented as safe from several
// threads, and each load has a writer of its own.
unsafe impl Sync for RocksDbStore {}

/// Object that is destroyed at the end of its block.
struct Owned {
    raw: Object,
    destroy: unsafe extern "C" fn(Object),
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the matching constructor created the object, and only its owner used it.
        unsafe { (self.destroy)(self.raw) };
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())
}

impl RocksDbStore {
    /// Writes all of `entries` to tables in `directory`. Returns their paths.
    fn write_tables(&self, entries: &SortedEntries, directory: &Path) -> Result<Vec<CString>> {
        let api = &*self.functions;
        // SAFETY: has no preconditions and returns a new object.
        let raw = unsafe { (api.envoptions_create)() };
        let env_options = Owned { raw, destroy: api.envoptions_destroy };
        // SAFETY: both options are live; the store owns those of the database.
        let raw = unsafe { (api.sstfilewriter_create)(env_options.raw, self.options) };
        let writer = Owned { raw, destroy: api.sstfilewriter_destroy };
        let mut paths: Vec<CString> = Vec::new();
        let mut bytes = 0;
        for (key, value) in entries.iter() {
            if paths.is_empty() || bytes >= TABLE_BYTES {
                if !paths.is_empty() {
                    self.finish_table(&writer)?;
                }
                let path = c_path(&directory.join(format!("{}.sst", paths.len())))?;
                // SAFETY: the writer is live, the path ends in zero, and the pointer for the error
                // is valid.
                self.store.call_checked(|_, error| unsafe {
                    (api.sstfilewriter_open)(writer.raw, path.as_ptr(), error)
                })?;
                paths.push(path);
                bytes = 0;
            }
            bytes += key.len() + value.len();
            let (k, k_len) = ptr_and_len(key);
            let (v, v_len) = ptr_and_len(value);
            // SAFETY: the writer has an open file; it copies key and value, which are passed with
            // their lengths.
            self.store.call_checked(|_, error| unsafe {
                (api.sstfilewriter_put)(writer.raw, k, k_len, v, v_len, error)
            })?;
        }
        if !paths.is_empty() {
            self.finish_table(&writer)?;
        }
        Ok(paths)
    }

    fn finish_table(&self, writer: &Owned) -> Result<()> {
        // SAFETY: the writer has an open file with an entry, and the pointer for the error is
        // valid.
        self.store
            .call_checked(|_, error| unsafe { (self.functions.sstfilewriter_finish)(writer.raw, error) })
    }

    /// Moves the tables `paths` into the database.
    fn ingest(&self, paths: &[CString]) -> Result<()> {
        let api = &*self.functions;
        // SAFETY: has no preconditions and returns a new object.
        let raw = unsafe { (api.ingestexternalfileoptions_create)() };
        let options = Owned { raw, destroy: api.ingestexternalfileoptions_destroy };
        // SAFETY: the options are live.
        unsafe { (api.ingestexternalfileoptions_set_move_files)(options.raw, 1) };
        let pointers: Vec<*const c_char> = paths.iter().map(|path| path.as_ptr()).collect();
        // SAFETY: database and options are live, and each of the `len` paths ends in zero.
        self.store.call_checked(|_, error| unsafe {
            (api.ingest_external_file)(self.store.raw, pointers.as_ptr(), pointers.len(), options.raw, error)
        })
    }
}

impl Store for RocksDbStore {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.store.put(key, value, sync)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.store.delete(key, sync)
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        self.store.write(changes, sync)
    }

    #[inline]
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.store.get(key, value)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        self.store.cursor()
    }

    fn compact(&self) -> Result<()> {
        self.store.compact()
    }

    fn bulk_load(&self, entries: EntrySource<'_>) -> Result<()> {
        let entries = entries.into_sorted();
        let directory = self.directory.with_extension("load");
        std::fs::create_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let paths = self.write_tables(&entries, &directory)?;
        if !paths.is_empty() {
            self.ingest(&paths)?;
        }
        std::fs::remove_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        let api = &*self.functions;
        let path = c_path(dir)?;
        // SAFETY: the database is open, and the pointer for the error is valid.
        let raw = self
            .store
            .call_checked(|_, error| unsafe { (api.checkpoint_object_create)(self.store.raw, error) })?;
        let checkpoint = Owned { raw, destroy: api.checkpoint_object_destroy };
        // SAFETY: the object is live, the path ends in zero, and the pointer for the error is
        // valid.
        self.store.call_checked(|_, error| unsafe {
            (api.checkpoint_create)(checkpoint.raw, path.as_ptr(), LOG_SIZE_FOR_FLUSH, error)
        })
    }
}
