//! An open stock database, with its cursors and snapshots.

#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
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

/// The C object and what it was opened with. Lives as long as anything that was made from it.
struct RawDb {
    api: &'static Api,
    raw: *mut api::Db,
    /// Dropped after the database is closed.
    _options: RawOptions,
    verify_checksums: bool,
}

impl Drop for RawDb {
    fn drop(&mut self) {
        // SAFETY: open until here; cursors and snapshots hold the handle, so none is left.
        unsafe { (self.api.close)(self.raw) };
    }
}

/// An open stock database. Closed when it and everything made from it are dropped.
pub struct StockDb {
    handle: Rc<RawDb>,
}

/// A point in time. Released when dropped.
pub struct StockSnapshot {
    handle: Rc<RawDb>,
    raw: *const api::Snapshot,
}

/// A place among the entries. It shows the state of the moment at which it was made.
pub struct StockIterator {
    handle: Rc<RawDb>,
    raw: *mut api::Iterator,
}

/// Makes a call that reports through an error pointer.
fn call_checked<T>(api: &Api, call: impl FnOnce(api::ErrPtr) -> T) -> Result<T, StockError> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = call(&mut error);
    take_c_string(api, error).map_or(Ok(result), |text| Err(StockError::new(text)))
}

/// Copies and frees a text that the library allocated; None if there is none.
fn take_c_string(api: &Api, raw: *mut c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: LevelDB's texts end in a zero byte.
    let copy = unsafe { string_from_c(raw) };
    // SAFETY: allocated by the library for its caller, freed once.
    unsafe { (api.free)(raw.cast()) };
    Some(copy)
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("paths of tests have no zero byte")
}

pub(super) fn repair(api: &'static Api, path: &Path, settings: &Settings) -> Result<(), StockError> {
    let (options, path) = (RawOptions::new(api, settings), c_path(path));
    // SAFETY: live options, a terminated path, a place for the error.
    call_checked(api, |error| unsafe { (api.repair_db)(options.as_ptr(), path.as_ptr(), error) })
}

pub(super) fn destroy(api: &'static Api, path: &Path, settings: &Settings) -> Result<(), StockError> {
    let (options, path) = (RawOptions::new(api, settings), c_path(path));
    // SAFETY: as in `repair`.
    call_checked(api, |error| unsafe { (api.destroy_db)(options.as_ptr(), path.as_ptr(), error) })
}

impl StockDb {
    pub(super) fn open(api: &'static Api, path: &Path, settings: &Settings) -> Result<StockDb, StockError> {
        let (options, path) = (RawOptions::new(api, settings), c_path(path));
        // SAFETY: as in `repair`; the options live in the handle, until the database is closed.
        let raw = call_checked(api, |error| unsafe { (api.open)(options.as_ptr(), path.as_ptr(), error) })?;
        let verify_checksums = settings.paranoid_checks;
        Ok(StockDb { handle: Rc::new(RawDb { api, raw, _options: options, verify_checksums }) })
    }

    /// Checksums are verified in a database that was opened with paranoid checks.
    fn read_options(&self, at: Option<&StockSnapshot>) -> ReadOptions {
        let ours = |snapshot: &StockSnapshot| Rc::ptr_eq(&snapshot.handle, &self.handle);
        assert!(at.is_none_or(ours), "a snapshot of another database");
        ReadOptions::new(
            self.api(),
            self.handle.verify_checksums,
            at.map_or(ptr::null(), |snapshot| snapshot.raw),
        )
    }

    fn api(&self) -> &'static Api {
        self.handle.api
    }

    /// Gives a key a value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StockError> {
        self.write(&[(key, Some(value))], false)
    }

    /// Removes a key.
    pub fn delete(&self, key: &[u8]) -> Result<(), StockError> {
        self.write(&[(key, None)], false)
    }

    /// Gives keys values, or none, all at once.
    pub fn write(&self, writes: &[(&[u8], Option<&[u8]>)], sync: bool) -> Result<(), StockError> {
        let batch = Batch::new(self.api());
        for (key, value) in writes {
            batch.add(key, *value);
        }
        let options = WriteOptions::new(self.api(), sync);
        call_checked(self.api(), |error| {
            // SAFETY: three live objects and a place for the error.
            unsafe { (self.api().write)(self.handle.raw, options.raw, batch.raw, error) }
        })
    }

    /// Looks a key up, now or at a snapshot of this database.
    pub fn get(&self, key: &[u8], at: Option<&StockSnapshot>) -> Result<Option<Vec<u8>>, StockError> {
        let options = self.read_options(at);
        let (start, mut len) = (key.as_ptr().cast(), 0);
        let value = call_checked(self.api(), |error| {
            // SAFETY: live objects, a key with its length, places for the length and the error.
            unsafe { (self.api().get)(self.handle.raw, options.raw, start, key.len(), &mut len, error) }
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: a value that is not null is `len` bytes of ours, until it is freed.
        let copy = unsafe { bytes_from_c(value, len) }.to_vec();
        // SAFETY: allocated by the library for its caller, freed once.
        unsafe { (self.api().free)(value.cast()) };
        Ok(Some(copy))
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> StockSnapshot {
        // SAFETY: a live database.
        let raw = unsafe { (self.api().create_snapshot)(self.handle.raw) };
        StockSnapshot { handle: Rc::clone(&self.handle), raw }
    }

    /// A cursor that stands nowhere yet, on the present or on a snapshot of this database.
    pub fn iter(&self, at: Option<&StockSnapshot>) -> StockIterator {
        let options = self.read_options(at);
        // SAFETY: live objects; the options are only read during the call.
        let raw = unsafe { (self.api().create_iterator)(self.handle.raw, options.raw) };
        StockIterator { handle: Rc::clone(&self.handle), raw }
    }

    /// Every entry, first to last.
    pub fn scan(&self) -> Result<Vec<Entry>, StockError> {
        self.collect_entries(&IteratorMove::SeekToFirst, &IteratorMove::Next)
    }

    /// Every entry, last to first.
    pub fn scan_reverse(&self) -> Result<Vec<Entry>, StockError> {
        self.collect_entries(&IteratorMove::SeekToLast, &IteratorMove::Prev)
    }

    fn collect_entries(&self, start: &IteratorMove, step: &IteratorMove) -> Result<Vec<Entry>, StockError> {
        let (mut cursor, mut entries) = (self.iter(None), Vec::new());
        let mut entry = cursor.apply_move(start);
        while let Some(there) = entry {
            entries.push(there);
            entry = cursor.apply_move(step);
        }
        cursor.status().map(|()| entries)
    }

    /// Empties the memtable, then merges what lies in a range; None is before the first or behind the last key.
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) {
        let start = |limit: Option<&[u8]>| limit.map_or(ptr::null(), |key| key.as_ptr().cast());
        let len = |limit: Option<&[u8]>| limit.map_or(0, <[u8]>::len);
        // SAFETY: a live database and two keys with their lengths, or null.
        unsafe { (self.api().compact_range)(self.handle.raw, start(begin), len(begin), start(end), len(end)) }
    }

    /// The approximate size of a range in bytes of files.
    pub fn approximate_size(&self, begin: &[u8], end: &[u8]) -> u64 {
        let (begins, ends) = ([begin.as_ptr().cast()], [end.as_ptr().cast()]);
        let (begin_lens, end_lens, mut sizes) = ([begin.len()], [end.len()], [0]);
        // SAFETY: a live database and arrays of one element each.
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

    /// A property's text; None if there is no such property.
    pub fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: a live database and a terminated name.
        let raw = unsafe { (self.api().property_value)(self.handle.raw, name.as_ptr()) };
        take_c_string(self.api(), raw)
    }

    /// The number of files at each level.
    pub fn files_per_level(&self) -> Vec<usize> {
        let files = |level| self.property(&format!("leveldb.num-files-at-level{level}"));
        (0..7).filter_map(|level| files(level)?.parse().ok()).collect()
    }

    /// Closes it. A cursor or snapshot that is left keeps it open.
    pub fn close(self) {}
}

impl StockIterator {
    /// Moves, and says where it stands. `Next` and `Prev` need a cursor that stands somewhere.
    pub fn apply_move(&mut self, step: &IteratorMove) -> Option<Entry> {
        let (api, raw) = (self.handle.api, self.raw);
        match step {
            // SAFETY: a live iterator.
            IteratorMove::SeekToFirst => unsafe { (api.iter_seek_to_first)(raw) },
            // SAFETY: a live iterator.
            IteratorMove::SeekToLast => unsafe { (api.iter_seek_to_last)(raw) },
            // SAFETY: a live iterator, and a key with its length.
            IteratorMove::Seek(key) => unsafe { (api.iter_seek)(raw, key.as_ptr().cast(), key.len()) },
            IteratorMove::Next | IteratorMove::Prev if !self.valid() => {}
            // SAFETY: a live iterator that stands on an entry.
            IteratorMove::Next => unsafe { (api.iter_next)(raw) },
            // SAFETY: a live iterator that stands on an entry.
            IteratorMove::Prev => unsafe { (api.iter_prev)(raw) },
        }
        self.entry()
    }

    fn valid(&self) -> bool {
        // SAFETY: a live iterator.
        unsafe { (self.handle.api.iter_valid)(self.raw) != 0 }
    }

    fn entry(&self) -> Option<Entry> {
        if !self.valid() {
            return None;
        }
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: a live iterator that stands on an entry.
        let key = unsafe { (self.handle.api.iter_key)(self.raw, &mut key_len) };
        // SAFETY: the same.
        let value = unsafe { (self.handle.api.iter_value)(self.raw, &mut value_len) };
        // SAFETY: the bytes live until the iterator moves; they are copied before.
        let key = unsafe { bytes_from_c(key, key_len) }.to_vec();
        // SAFETY: the same.
        let value = unsafe { bytes_from_c(value, value_len) }.to_vec();
        Some((key, value))
    }

    /// The first error that the cursor met.
    pub fn status(&self) -> Result<(), StockError> {
        // SAFETY: a live iterator and a place for the error.
        call_checked(self.handle.api, |error| unsafe { (self.handle.api.iter_get_error)(self.raw, error) })
    }
}

impl Drop for StockIterator {
    fn drop(&mut self) {
        // SAFETY: live until here; the database is still open, because of the handle.
        unsafe { (self.handle.api.iter_destroy)(self.raw) };
    }
}

impl Drop for StockSnapshot {
    fn drop(&mut self) {
        // SAFETY: live until here, and taken from this database.
        unsafe { (self.handle.api.release_snapshot)(self.handle.raw, self.raw) };
    }
}
