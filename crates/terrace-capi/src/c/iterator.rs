//! `leveldb_iterator_t`: an iterator of a database or of a transaction, in key order. Keys and
//! values are borrowed from it without a copy.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use terrace::{DbIterator, TransactionIterator};

use super::database::DatabaseHandle;
use super::read_write_options::{ReadOptionsHandle, read_options};
use crate::ffi::{
    ErrPtr, OutParam, StatusError, bytes_from_c, output_array_from_c, require_non_null, run_or_default,
    run_with_errptr, write_out_param,
};

pub(super) struct IteratorHandle {
    iterator: EitherIterator,
    /// Entries that [`copy_entries`] lends to the caller, or the first key of
    /// [`terrace_iter_take`].
    copied_entries: Vec<u8>,
    /// Error of the last call of one of these two, which had no memory for the first entry.
    copy_error: Option<StatusError>,
}

impl IteratorHandle {
    pub(super) fn new(iterator: EitherIterator) -> Box<IteratorHandle> {
        Box::new(IteratorHandle { iterator, copied_entries: Vec::new(), copy_error: None })
    }
}

/// Iterator of a database or of a transaction.
#[allow(clippy::large_enum_variant, reason = "the handle is boxed, and a second box would cost each step")]
pub(super) enum EitherIterator {
    Database(DbIterator),
    Transaction(Box<TransactionIterator>),
}

/// Evaluates the same expression for both kinds of iterators.
macro_rules! for_either {
    ($self:ident, $iterator:ident => $call:expr) => {
        match $self {
            EitherIterator::Database($iterator) => $call,
            EitherIterator::Transaction($iterator) => $call,
        }
    };
}

impl EitherIterator {
    #[inline]
    fn valid(&self) -> bool {
        for_either!(self, iterator => iterator.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        for_either!(self, iterator => iterator.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        for_either!(self, iterator => iterator.value())
    }

    fn status(&self) -> terrace::Result<()> {
        for_either!(self, iterator => iterator.status())
    }

    fn seek_to_first(&mut self) {
        for_either!(self, iterator => iterator.seek_to_first());
    }

    fn seek_to_last(&mut self) {
        for_either!(self, iterator => iterator.seek_to_last());
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) {
        for_either!(self, iterator => iterator.seek(key));
    }

    fn entries_before_error(&mut self, first: &[u8], forward: bool, count: usize) -> usize {
        for_either!(self, iterator => iterator.entries_before_error(first, forward, count))
    }

    #[inline]
    fn next(&mut self) {
        for_either!(self, iterator => iterator.next());
    }

    #[inline]
    fn prev(&mut self) {
        for_either!(self, iterator => iterator.prev());
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(
    database: Option<&DatabaseHandle>,
    options: Option<&ReadOptionsHandle>,
) -> Option<Box<IteratorHandle>> {
    run_or_default(|| {
        let iterator = database?.0.raw_iter_with(read_options(options));
        Some(IteratorHandle::new(EitherIterator::Database(iterator)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(iterator: Option<Box<IteratorHandle>>) {
    run_or_default(|| drop(iterator));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(iterator: Option<&IteratorHandle>) -> u8 {
    u8::from(iterator.is_some_and(|iterator| iterator.iterator.valid()))
}

#[inline]
fn move_iterator(iterator: Option<&mut IteratorHandle>, step: impl FnOnce(&mut EitherIterator)) {
    if let Some(iterator) = iterator {
        run_or_default(|| step(&mut iterator.iterator));
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(iterator: Option<&mut IteratorHandle>) {
    move_iterator(iterator, EitherIterator::seek_to_first);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(iterator: Option<&mut IteratorHandle>) {
    move_iterator(iterator, EitherIterator::seek_to_last);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek(iterator: Option<&mut IteratorHandle>, key: *const c_char, len: usize) {
    // SAFETY: the caller passes null, or a pointer `key` to `len` bytes that live through the call.
    let key = unsafe { bytes_from_c(key, len) };
    move_iterator(iterator, |iterator| iterator.seek(key));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(iterator: Option<&mut IteratorHandle>) {
    move_iterator(iterator, EitherIterator::next);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(iterator: Option<&mut IteratorHandle>) {
    move_iterator(iterator, EitherIterator::prev);
}

/// Returns bytes of the current entry, valid until the iterator moves. `part` reads only the result
/// of the last step and cannot panic, and a scan calls it for each entry, so it runs without
/// `catch_panic`.
#[inline]
fn borrow_part(
    iterator: Option<&IteratorHandle>,
    part: fn(&EitherIterator) -> &[u8],
    len: OutParam<'_, usize>,
) -> *const c_char {
    let bytes = iterator.map_or(&[][..], |iterator| part(&iterator.iterator));
    write_out_param(len, bytes.len());
    bytes.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_key(iterator: Option<&IteratorHandle>, len: OutParam<'_, usize>) -> *const c_char {
    borrow_part(iterator, EitherIterator::key, len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_value(
    iterator: Option<&IteratorHandle>,
    len: OutParam<'_, usize>,
) -> *const c_char {
    borrow_part(iterator, EitherIterator::value, len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_get_error(iterator: Option<&IteratorHandle>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || {
        let IteratorHandle { iterator, copy_error, .. } = require_non_null(iterator)?;
        iterator.status()?;
        copy_error.clone().map_or(Ok(()), Err)
    });
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
    iterator: Option<&mut IteratorHandle>,
    count: usize,
    entries: *mut EntryPointers,
) -> usize {
    copy_entries(iterator, count, entries, EitherIterator::next)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_iter_prev_entries(
    iterator: Option<&mut IteratorHandle>,
    count: usize,
    entries: *mut EntryPointers,
) -> usize {
    copy_entries(iterator, count, entries, EitherIterator::prev)
}

/// Copies entries, starting with the current one, into memory of the iterator, and stores pointers
/// to them in `entries`. Returns their number. Stops at an entry for which there is no memory. If
/// it is the first one, that is the error of the iterator until the next call.
fn copy_entries(
    iterator: Option<&mut IteratorHandle>,
    count: usize,
    entries: *mut EntryPointers,
    step: fn(&mut EitherIterator),
) -> usize {
    let Some(IteratorHandle { iterator, copied_entries, copy_error }) = iterator else { return 0 };
    // SAFETY: the caller passes null, or an array `entries` with room for `count` items.
    let entries = unsafe { output_array_from_c(entries, count) };
    let mut lens = Vec::new();
    copied_entries.clear();
    *copy_error = None;
    run_or_default(|| {
        while lens.len() < entries.len() && iterator.valid() {
            let len = iterator.key().len() + iterator.value().len();
            // Many entries need amortized growth. Without memory for that, the exact size may fit.
            let reserved = copied_entries.try_reserve(len);
            if reserved.or_else(|_| copied_entries.try_reserve_exact(len)).is_err() {
                *copy_error = lens.is_empty().then(|| StatusError::out_of_memory(len));
                break;
            }
            copied_entries.extend_from_slice(iterator.key());
            copied_entries.extend_from_slice(iterator.value());
            lens.push((iterator.key().len(), iterator.value().len()));
            step(iterator);
        }
    });
    // Pointers are taken only now, because `copied_entries` no longer grows.
    let mut rest = &copied_entries[..];
    for (&(key_len, value_len), entry) in lens.iter().zip(entries) {
        let (key, after_key) = rest.split_at(key_len);
        let (value, after_value) = after_key.split_at(value_len);
        rest = after_value;
        let key = key.as_ptr().cast();
        let value = value.as_ptr().cast();
        entry.write(EntryPointers { key, key_len, value, value_len });
    }
    lens.len()
}

/// Copies entries, starting with the current one, into `buffer`, and moves beyond them. Each entry
/// is the lengths of key and value as little-endian numbers of 32 bits, the key, and the value.
/// Returns the number of bytes. Copies no entry after an error, which the next call finds again.
#[unsafe(no_mangle)]
extern "C" fn terrace_iter_take(
    iterator: Option<&mut IteratorHandle>,
    forward: u8,
    count: usize,
    buffer: *mut c_char,
    capacity: usize,
    entries: OutParam<'_, usize>,
) -> usize {
    // SAFETY: the caller passes null, or memory `buffer` for `capacity` bytes that nothing else
    // uses during the call.
    let buffer: &mut [MaybeUninit<u8>] = unsafe { output_array_from_c(buffer.cast(), capacity) };
    let forward = forward != 0;
    let mut taken = Taken::default();
    if let Some(IteratorHandle { iterator, copied_entries: first, copy_error }) = iterator {
        run_or_default(|| {
            first.clear();
            *copy_error = None;
            if iterator.status().is_err() {
                return;
            }
            // An error after a single entry is that of the next call, so a seek for one entry costs
            // one check and no copy.
            if count > 1 {
                if first.try_reserve(iterator.key().len()).is_err() {
                    *copy_error = Some(StatusError::out_of_memory(iterator.key().len()));
                    return;
                }
                first.extend_from_slice(iterator.key());
            }
            taken = take_entries(iterator, forward, count, buffer);
            if taken.entries > 1 && iterator.status().is_err() {
                // A check at each step would slow down every scan, so only an error costs a
                // second pass, and a third one for the number of bytes.
                let entries = iterator.entries_before_error(first, forward, taken.entries);
                iterator.seek(first);
                taken = take_entries(iterator, forward, entries, buffer);
            }
        });
    }
    write_out_param(entries, taken.entries);
    taken.bytes
}

/// Numbers of entries and bytes in a buffer.
#[derive(Default)]
struct Taken {
    entries: usize,
    bytes: usize,
}

/// Copies up to `count` entries, as far as `buffer` has space, and moves beyond them.
fn take_entries(
    iterator: &mut EitherIterator,
    forward: bool,
    count: usize,
    buffer: &mut [MaybeUninit<u8>],
) -> Taken {
    let step = if forward { EitherIterator::next } else { EitherIterator::prev };
    let mut taken = Taken::default();
    while taken.entries < count && iterator.valid() {
        let Some(end) = copy_entry(iterator.key(), iterator.value(), buffer, taken.bytes) else { break };
        taken = Taken { entries: taken.entries + 1, bytes: end };
        step(iterator);
    }
    taken
}

/// Copies an entry to `buffer` at `start`. Returns its end, or None if it does not fit.
fn copy_entry(key: &[u8], value: &[u8], buffer: &mut [MaybeUninit<u8>], start: usize) -> Option<usize> {
    let key_len = u32::try_from(key.len()).ok()?.to_le_bytes();
    let value_len = u32::try_from(value.len()).ok()?.to_le_bytes();
    let mut rest = buffer.get_mut(start..)?;
    let mut end = start;
    let len = key_len.len() + value_len.len() + key.len() + value.len();
    if rest.len() < len {
        return None;
    }
    for part in [&key_len[..], &value_len, key, value] {
        let (place, after) = rest.split_at_mut(part.len());
        place.iter_mut().zip(part).for_each(|(out, byte)| _ = out.write(*byte));
        (rest, end) = (after, end + part.len());
    }
    Some(end)
}
