//! An open stock database, its iterators and snapshots.

#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr;
use std::rc::Rc;

use super::api::{self, Api};
use super::error::StockError;
use super::options::{RawOptions, bytes_from_c, string_from_c};
use super::raw_objects::{Batch, ReadOptions, WriteOptions};
use crate::differential::Entry;
use crate::op::IteratorMove;
use crate::settings::Settings;

/// C database and its options. Iterators and snapshots keep it alive.
struct RawDb {
    api: &'static Api,
    raw: *mut api::Db,
    /// Dropped after the database is closed.
    _options: RawOptions,
    verify_checksums: bool,
}

impl Drop for RawDb {
    fn drop(&mut self) {
        // SAFETY: `raw` is open until here. No iterator or snapshot is left, because each holds an
        // `Rc` of this object.
        unsafe { (self.api.close)(self.raw) };
    }
}

/// An open stock database. It closes when it, its iterators and snapshots are dropped.
pub struct StockDb {
    handle: Rc<RawDb>,
}

/// A snapshot, which is released on drop.
pub struct StockSnapshot {
    handle: Rc<RawDb>,
    raw: *const api::Snapshot,
}

/// An iterator over the state at its creation.
pub struct StockIterator {
    handle: Rc<RawDb>,
    raw: *mut api::Iterator,
}

/// Makes a call that reports errors through a pointer.
fn call_checked<T>(api: &Api, call: impl FnOnce(api::ErrPtr) -> T) -> Result<T, StockError> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = call(&mut error);
    take_c_string(api, error).map_or(Ok(result), |text| Err(StockError::new(text)))
}

/// Copies and frees a text that the library allocated. Returns None for null.
fn take_c_string(api: &Api, raw: *mut c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: LevelDB's texts end in a zero byte.
    let copy = unsafe { string_from_c(raw) };
    // SAFETY: the library allocated the text for its caller, and this is its only release.
    unsafe { (api.free)(raw.cast()) };
    Some(copy)
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("test paths have no zero byte")
}

pub(super) fn repair(api: &'static Api, path: &Path, settings: &Settings) -> Result<(), StockError> {
    let options = RawOptions::new(api, settings);
    let path = c_path(path);
    // SAFETY: the options are live, the path ends in a zero byte, and `error` is a valid address.
    call_checked(api, |error| unsafe { (api.repair_db)(options.as_ptr(), path.as_ptr(), error) })
}

pub(super) fn destroy(api: &'static Api, path: &Path, settings: &Settings) -> Result<(), StockError> {
    let options = RawOptions::new(api, settings);
    let path = c_path(path);
    // SAFETY: the options are live, the path ends in a zero byte, and `error` is a valid address.
    call_checked(api, |error| unsafe { (api.destroy_db)(options.as_ptr(), path.as_ptr(), error) })
}

impl StockDb {
    pub(super) fn open(api: &'static Api, path: &Path, settings: &Settings) -> Result<StockDb, StockError> {
        let options = RawOptions::new(api, settings);
        let path = c_path(path);
        // SAFETY: the path ends in a zero byte, and `error` is a valid address. The options live in
        // the handle until the database is closed.
        let raw = call_checked(api, |error| unsafe { (api.open)(options.as_ptr(), path.as_ptr(), error) })?;
        let verify_checksums = settings.paranoid_checks;
        Ok(StockDb { handle: Rc::new(RawDb { api, raw, _options: options, verify_checksums }) })
    }

    /// Returns read options, which verify checksums if the database was opened with paranoid
    /// checks.
    fn read_options(&self, snapshot: Option<&StockSnapshot>) -> ReadOptions {
        assert!(
            snapshot.is_none_or(|snapshot| Rc::ptr_eq(&snapshot.handle, &self.handle)),
            "the snapshot belongs to another database"
        );
        ReadOptions::new(
            self.api(),
            self.handle.verify_checksums,
            snapshot.map_or(ptr::null(), |snapshot| snapshot.raw),
        )
    }

    fn api(&self) -> &'static Api {
        self.handle.api
    }

    /// Sets the value of a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StockError> {
        self.write(&[(key, Some(value))], false)
    }

    /// Deletes a key.
    pub fn delete(&self, key: &[u8]) -> Result<(), StockError> {
        self.write(&[(key, None)], false)
    }

    /// Writes a batch; None deletes a key.
    pub fn write(&self, writes: &[(&[u8], Option<&[u8]>)], sync: bool) -> Result<(), StockError> {
        let batch = Batch::new(self.api());
        for (key, value) in writes {
            batch.add(key, *value);
        }
        let options = WriteOptions::new(self.api(), sync);
        call_checked(self.api(), |error| {
            // SAFETY: the three objects are live, and `error` is a valid address.
            unsafe { (self.api().write)(self.handle.raw, options.raw, batch.raw, error) }
        })
    }

    /// Returns the value of a key, now or at a snapshot of this database.
    pub fn get(&self, key: &[u8], snapshot: Option<&StockSnapshot>) -> Result<Option<Vec<u8>>, StockError> {
        let options = self.read_options(snapshot);
        let start = key.as_ptr().cast();
        let mut len = 0;
        let value = call_checked(self.api(), |error| {
            // SAFETY: the objects are live, the key has `key.len()` bytes, and `len` and `error`
            // are valid addresses.
            unsafe { (self.api().get)(self.handle.raw, options.raw, start, key.len(), &mut len, error) }
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: a value that is not null has `len` bytes, which live until they are freed below.
        let copy = unsafe { bytes_from_c(value, len) }.to_vec();
        // SAFETY: the library allocated the value for its caller, and this is its only release.
        unsafe { (self.api().free)(value.cast()) };
        Ok(Some(copy))
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> StockSnapshot {
        // SAFETY: the database is open.
        let raw = unsafe { (self.api().create_snapshot)(self.handle.raw) };
        StockSnapshot { handle: Rc::clone(&self.handle), raw }
    }

    /// Creates an invalid iterator over the current state or over a snapshot of this database.
    pub fn iter(&self, snapshot: Option<&StockSnapshot>) -> StockIterator {
        let options = self.read_options(snapshot);
        // SAFETY: the database is open and the options are live. LevelDB reads them only during the
        // call.
        let raw = unsafe { (self.api().create_iterator)(self.handle.raw, options.raw) };
        StockIterator { handle: Rc::clone(&self.handle), raw }
    }

    /// Returns all entries in order.
    pub fn scan(&self) -> Result<Vec<Entry>, StockError> {
        self.collect_entries(&IteratorMove::SeekToFirst, &IteratorMove::Next)
    }

    /// Returns all entries in reverse order.
    pub fn scan_reverse(&self) -> Result<Vec<Entry>, StockError> {
        self.collect_entries(&IteratorMove::SeekToLast, &IteratorMove::Prev)
    }

    fn collect_entries(&self, start: &IteratorMove, step: &IteratorMove) -> Result<Vec<Entry>, StockError> {
        let mut iterator = self.iter(None);
        let mut entries = Vec::new();
        let mut entry = iterator.apply_move(start);
        while let Some(found) = entry {
            entries.push(found);
            entry = iterator.apply_move(step);
        }
        iterator.status().map(|()| entries)
    }

    /// Flushes the memtable and compacts a range. None means no bound.
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) {
        let start = |limit: Option<&[u8]>| limit.map_or(ptr::null(), |key| key.as_ptr().cast());
        let len = |limit: Option<&[u8]>| limit.map_or(0, <[u8]>::len);
        // SAFETY: the database is open, and each bound is null or a key with its length.
        unsafe { (self.api().compact_range)(self.handle.raw, start(begin), len(begin), start(end), len(end)) }
    }

    /// Returns the approximate size of a range in bytes of table files.
    pub fn approximate_size(&self, begin: &[u8], end: &[u8]) -> u64 {
        let begins = [begin.as_ptr().cast()];
        let ends = [end.as_ptr().cast()];
        let begin_lens = [begin.len()];
        let end_lens = [end.len()];
        let mut sizes = [0];
        // SAFETY: the database is open, and each array has one element.
        unsafe {
            (self.api().approximate_sizes)(
                self.handle.raw,
                1,
                begins.as_ptr(),
                begin_lens.as_ptr(),
                ends.as_ptr(),
                end_lens.as_ptr(),
                sizes.as_mut_ptr(),
            );
        }
        sizes[0]
    }

    /// Returns the text of a property, or None if the property does not exist.
    pub fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: the database is open, and the name ends in a zero byte.
        let raw = unsafe { (self.api().property_value)(self.handle.raw, name.as_ptr()) };
        take_c_string(self.api(), raw)
    }

    /// Returns the number of files of each level.
    pub fn files_per_level(&self) -> Vec<usize> {
        (0..7)
            .filter_map(|level| self.property(&format!("leveldb.num-files-at-level{level}"))?.parse().ok())
            .collect()
    }

    /// Closes the database, unless an iterator or snapshot is left.
    pub fn close(self) {}
}

impl StockIterator {
    /// Moves the iterator and returns its entry. `Next` and `Prev` of an invalid iterator do
    /// nothing.
    pub fn apply_move(&mut self, movement: &IteratorMove) -> Option<Entry> {
        let api = self.handle.api;
        let raw = self.raw;
        match movement {
            // SAFETY: the iterator is live.
            IteratorMove::SeekToFirst => unsafe { (api.iter_seek_to_first)(raw) },
            // SAFETY: the iterator is live.
            IteratorMove::SeekToLast => unsafe { (api.iter_seek_to_last)(raw) },
            // SAFETY: the iterator is live, and the key has `key.len()` bytes.
            IteratorMove::Seek(key) => unsafe { (api.iter_seek)(raw, key.as_ptr().cast(), key.len()) },
            IteratorMove::Next | IteratorMove::Prev if !self.valid() => {}
            // SAFETY: the iterator is live and valid.
            IteratorMove::Next => unsafe { (api.iter_next)(raw) },
            // SAFETY: the iterator is live and valid.
            IteratorMove::Prev => unsafe { (api.iter_prev)(raw) },
        }
        self.entry()
    }

    fn valid(&self) -> bool {
        // SAFETY: the iterator is live.
        unsafe { (self.handle.api.iter_valid)(self.raw) != 0 }
    }

    fn entry(&self) -> Option<Entry> {
        if !self.valid() {
            return None;
        }
        let mut key_len = 0;
        let mut value_len = 0;
        // SAFETY: the iterator is live and valid, and `key_len` is a valid address.
        let key = unsafe { (self.handle.api.iter_key)(self.raw, &mut key_len) };
        // SAFETY: the iterator is live and valid, and `value_len` is a valid address.
        let value = unsafe { (self.handle.api.iter_value)(self.raw, &mut value_len) };
        // SAFETY: the key has `key_len` bytes, which live until the iterator moves; they are copied
        // before.
        let key = unsafe { bytes_from_c(key, key_len) }.to_vec();
        // SAFETY: the value has `value_len` bytes, which live until the iterator moves; they are
        // copied before.
        let value = unsafe { bytes_from_c(value, value_len) }.to_vec();
        Some((key, value))
    }

    /// Returns the first error of the iterator.
    pub fn status(&self) -> Result<(), StockError> {
        // SAFETY: the iterator is live, and `error` is a valid address.
        call_checked(self.handle.api, |error| unsafe { (self.handle.api.iter_get_error)(self.raw, error) })
    }
}

impl Drop for StockIterator {
    fn drop(&mut self) {
        // SAFETY: the iterator is live, and its handle keeps the database open.
        unsafe { (self.handle.api.iter_destroy)(self.raw) };
    }
}

impl Drop for StockSnapshot {
    fn drop(&mut self) {
        // SAFETY: the snapshot is live and belongs to this database, which its handle keeps open.
        unsafe { (self.handle.api.release_snapshot)(self.handle.raw, self.raw) };
    }
}
