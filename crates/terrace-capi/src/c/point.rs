//! Reads and writes of single keys, and batches.

use std::ffi::c_char;
use std::ptr;

use terrace::{Db, ReadOptions};

use super::access::{ReadHandle, WriteHandle, reading, writing};
use super::batch::BatchHandle;
use super::database::Database;
use crate::border::{ErrPtr, Failure, Out, answered, bytes, given, items, malloced_value, put_out, room};

#[unsafe(no_mangle)]
extern "C" fn leveldb_put(
    database: Option<&Database>,
    options: Option<&WriteHandle>,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let key = unsafe { bytes(key, key_len) };
    // SAFETY: the contract.
    let value = unsafe { bytes(value, value_len) };
    answered(errptr, || Ok(given(database)?.0.put_with(key, value, writing(options))?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_delete(
    database: Option<&Database>,
    options: Option<&WriteHandle>,
    key: *const c_char,
    key_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let key = unsafe { bytes(key, key_len) };
    answered(errptr, || Ok(given(database)?.0.delete_with(key, writing(options))?));
}

/// A null batch turns what is in memory into a table.
#[unsafe(no_mangle)]
extern "C" fn leveldb_write(
    database: Option<&Database>,
    options: Option<&WriteHandle>,
    batch: Option<&BatchHandle>,
    errptr: ErrPtr<'_>,
) {
    answered(errptr, || {
        let database = &given(database)?.0;
        match batch {
            Some(batch) => database.write_with(&batch.0, writing(options))?,
            None => database.flush()?,
        }
        Ok(())
    });
}

/// Null with length 0 if there is no such key; an empty value is a block of its own, with length 0.
#[unsafe(no_mangle)]
extern "C" fn leveldb_get(
    database: Option<&Database>,
    options: Option<&ReadHandle>,
    key: *const c_char,
    key_len: usize,
    value_len: Out<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the contract.
    let key = unsafe { bytes(key, key_len) };
    let value = answered(errptr, || Ok(handed_out(given(database)?.0.get_with(key, reading(options))?)));
    let (value, len) = value.unwrap_or(NOTHING);
    put_out(value_len, len);
    value
}

/// A value in a block from `malloc`, and its length.
type Found = (*mut c_char, usize);

const NOTHING: Found = (ptr::null_mut(), 0);

#[inline]
fn handed_out(value: Option<Vec<u8>>) -> Found {
    value.map_or(NOTHING, |value| {
        let len = value.len();
        (malloced_value(value), len)
    })
}

/// As many values as keys, all of one moment. After an error every one is null.
#[unsafe(no_mangle)]
extern "C" fn terrace_multi_get(
    database: Option<&Database>,
    options: Option<&ReadHandle>,
    count: usize,
    keys: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the contract.
    let keys = unsafe { items(keys, count) }.iter().zip(unsafe { items(key_lens, count) });
    // SAFETY: the contract: each pointer has the length beside it.
    let keys = keys.map(|(key, len)| unsafe { bytes(*key, *len) });
    let read = answered(errptr, || all_found(&given(database)?.0, keys, reading(options)));
    let read = read.unwrap_or_else(|| vec![NOTHING; count]);
    // SAFETY: the contract.
    let (values, lens) = (unsafe { room(values, count) }, unsafe { room(value_lens, count) });
    for ((value, len), (values, lens)) in read.into_iter().zip(values.iter_mut().zip(lens)) {
        values.write(value);
        lens.write(len);
    }
}

/// The values of `keys`; nothing is handed out before all are read.
fn all_found<'a>(
    database: &Db,
    keys: impl Iterator<Item = &'a [u8]>,
    options: &ReadOptions,
) -> Result<Vec<Found>, Failure> {
    let keys: Vec<_> = keys.collect();
    Ok(database.multi_get_with(&keys, options)?.into_iter().map(handed_out).collect())
}
