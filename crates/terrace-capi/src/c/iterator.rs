//! `leveldb_iterator_t`: a walk in key order. Keys and values are lent out of the walk; nothing is copied.

use std::ffi::c_char;

use terrace::DbIterator;

use super::access::{ReadHandle, reading};
use super::database::Database;
use crate::border::{ErrPtr, Out, answered, bytes, given, put_out, quietly, room};

pub(super) struct Walk {
    at: DbIterator,
    /// What [`entries`] lends out.
    taken: Vec<u8>,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(
    database: Option<&Database>,
    options: Option<&ReadHandle>,
) -> Option<Box<Walk>> {
    quietly(|| Some(Box::new(Walk { at: database?.0.iter_with(reading(options)), taken: Vec::new() })))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(walk: Option<Box<Walk>>) {
    quietly(|| drop(walk));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(walk: Option<&Walk>) -> u8 {
    u8::from(walk.is_some_and(|walk| walk.at.valid()))
}

#[inline]
fn step(walk: Option<&mut Walk>, step: impl FnOnce(&mut DbIterator)) {
    if let Some(walk) = walk {
        quietly(|| step(&mut walk.at));
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(walk: Option<&mut Walk>) {
    step(walk, DbIterator::seek_to_first);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(walk: Option<&mut Walk>) {
    step(walk, DbIterator::seek_to_last);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek(walk: Option<&mut Walk>, key: *const c_char, len: usize) {
    // SAFETY: the contract.
    let key = unsafe { bytes(key, len) };
    step(walk, |walk| walk.seek(key));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(walk: Option<&mut Walk>) {
    step(walk, DbIterator::next);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(walk: Option<&mut Walk>) {
    step(walk, DbIterator::prev);
}

/// Lends bytes; they stay until the walk moves. What lends them only looks at what the last step found, and is called
/// once for each entry of a scan: it goes without the guard.
#[inline]
fn lend(walk: Option<&Walk>, part: fn(&DbIterator) -> &[u8], len: Out<'_, usize>) -> *const c_char {
    let bytes = walk.map_or(&[][..], |walk| part(&walk.at));
    put_out(len, bytes.len());
    bytes.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_key(walk: Option<&Walk>, len: Out<'_, usize>) -> *const c_char {
    lend(walk, DbIterator::key, len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_value(walk: Option<&Walk>, len: Out<'_, usize>) -> *const c_char {
    lend(walk, DbIterator::value, len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_get_error(walk: Option<&Walk>, errptr: ErrPtr<'_>) {
    answered(errptr, || Ok(given(walk)?.at.status()?));
}

/// A key and its value, as `include/terrace/terrace.h` lays it out.
#[repr(C)]
pub(super) struct Entry {
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
}

#[unsafe(no_mangle)]
extern "C" fn terrace_iter_next_entries(walk: Option<&mut Walk>, count: usize, entries: *mut Entry) -> usize {
    take(walk, count, entries, DbIterator::next)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_iter_prev_entries(walk: Option<&mut Walk>, count: usize, entries: *mut Entry) -> usize {
    take(walk, count, entries, DbIterator::prev)
}

/// Copies entries from where the walk stands on into memory of the walk's, and lends them out together.
fn take(walk: Option<&mut Walk>, count: usize, entries: *mut Entry, step: fn(&mut DbIterator)) -> usize {
    let Some(Walk { at, taken }) = walk else { return 0 };
    // SAFETY: the contract.
    let entries = unsafe { room(entries, count) };
    let mut lens = Vec::new();
    taken.clear();
    quietly(|| {
        while lens.len() < entries.len() && at.valid() {
            taken.extend_from_slice(at.key());
            taken.extend_from_slice(at.value());
            lens.push((at.key().len(), at.value().len()));
            step(at);
        }
    });
    // Only now do they stay where they are.
    let mut rest = &taken[..];
    for (&(key_len, value_len), entry) in lens.iter().zip(entries) {
        let (key, behind) = rest.split_at(key_len);
        let (value, behind) = behind.split_at(value_len);
        rest = behind;
        let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
        entry.write(Entry { key, key_len, value, value_len });
    }
    lens.len()
}
