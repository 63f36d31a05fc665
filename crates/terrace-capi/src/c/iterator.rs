//! `leveldb_iterator_t`: an iterator in key order. Keys and values are borrowed from it without a
//! copy.

use std::ffi::c_char;

use terrace::DbIterator;

use super::database::DatabaseHandle;
use super::read_write_options::{ReadOptionsHandle, read_options};
use crate::ffi::{
    ErrPtr, OutParam, bytes_from_c, output_array_from_c, require_non_null, run_or_default, run_with_errptr,
    write_out_param,
};

pub(super) struct IteratorHandle {
    iterator: DbIterator,
    /// Entries that [`copy_entries`] lends to the caller.
    copied_entries: Vec<u8>,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(
    database: Option<&DatabaseHandle>,
    options: Option<&ReadOptionsHandle>,
) -> Option<Box<IteratorHandle>> {
    run_or_default(|| {
        Some(Box::new(IteratorHandle {
            iterator: database?.0.iter_with(read_options(options)),
            copied_entries: Vec::new(),
        }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(walk: Option<Box<IteratorHandle>>) {
    run_or_default(|| drop(walk));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(walk: Option<&IteratorHandle>) -> u8 {
    u8::from(walk.is_some_and(|walk| walk.iterator.valid()))
}

#[inline]
fn move_iterator(walk: Option<&mut IteratorHandle>, step: impl FnOnce(&mut DbIterator)) {
    if let Some(walk) = walk {
        run_or_default(|| step(&mut walk.iterator));
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(walk: Option<&mut IteratorHandle>) {
    move_iterator(walk, DbIterator::seek_to_first);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(walk: Option<&mut IteratorHandle>) {
    move_iterator(walk, DbIterator::seek_to_last);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek(walk: Option<&mut IteratorHandle>, key: *const c_char, len: usize) {
    // SAFETY: the caller passes null, or a pointer `key` to `len` bytes that live through the call.
    let key = unsafe { bytes_from_c(key, len) };
    move_iterator(walk, |walk| walk.seek(key));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(walk: Option<&mut IteratorHandle>) {
    move_iterator(walk, DbIterator::next);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(walk: Option<&mut IteratorHandle>) {
    move_iterator(walk, DbIterator::prev);
}

/// Returns bytes of the current entry, valid until the iterator moves. `part` reads only the result
/// of the last step and cannot panic, and a scan calls it for each entry, so it runs without
/// `catch_panic`.
#[inline]
fn borrow_part(
    walk: Option<&IteratorHandle>,
    part: fn(&DbIterator) -> &[u8],
    len: OutParam<'_, usize>,
) -> *const c_char {
    let bytes = walk.map_or(&[][..], |walk| part(&walk.iterator));
    write_out_param(len, bytes.len());
    bytes.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_key(walk: Option<&IteratorHandle>, len: OutParam<'_, usize>) -> *const c_char {
    borrow_part(walk, DbIterator::key, len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_value(walk: Option<&IteratorHandle>, len: OutParam<'_, usize>) -> *const c_char {
    borrow_part(walk, DbIterator::value, len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_get_error(walk: Option<&IteratorHandle>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || Ok(require_non_null(walk)?.iterator.status()?));
}

/// Key and value of one entry, with the layout of `include/terrace/terrace.h`.
#[repr(C)]
pub(super) struct EntryPointers {
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
}

#[unsafe(no_mangle)]
extern "C" fn terrace_iter_next_entries(
    walk: Option<&mut IteratorHandle>,
    count: usize,
    entries: *mut EntryPointers,
) -> usize {
    copy_entries(walk, count, entries, DbIterator::next)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_iter_prev_entries(
    walk: Option<&mut IteratorHandle>,
    count: usize,
    entries: *mut EntryPointers,
) -> usize {
    copy_entries(walk, count, entries, DbIterator::prev)
}

/// Copies entries, starting with the current one, into memory of the iterator, and stores pointers
/// to them in `entries`. Returns their number.
fn copy_entries(
    walk: Option<&mut IteratorHandle>,
    count: usize,
    entries: *mut EntryPointers,
    step: fn(&mut DbIterator),
) -> usize {
    let Some(IteratorHandle { iterator: at, copied_entries: taken }) = walk else { return 0 };
    // SAFETY: the caller passes null, or an array `entries` with room for `count` items.
    let entries = unsafe { output_array_from_c(entries, count) };
    let mut lens = Vec::new();
    taken.clear();
    run_or_default(|| {
        while lens.len() < entries.len() && at.valid() {
            taken.extend_from_slice(at.key());
            taken.extend_from_slice(at.value());
            lens.push((at.key().len(), at.value().len()));
            step(at);
        }
    });
    // Pointers are taken only now, because `copied_entries` no longer grows.
    let mut rest = &taken[..];
    for (&(key_len, value_len), entry) in lens.iter().zip(entries) {
        let (key, behind) = rest.split_at(key_len);
        let (value, behind) = behind.split_at(value_len);
        rest = behind;
        let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
        entry.write(EntryPointers { key, key_len, value, value_len });
    }
    lens.len()
}
