//! Reads and writes of single keys, and batches.

use std::ffi::c_char;
use std::ptr;

use super::batch::BatchHandle;
use super::database::DatabaseHandle;
use super::read_write_options::{ReadOptionsHandle, WriteOptionsHandle, read_options, write_options};
use crate::ffi::{
    ErrPtr, OutParam, StatusError, array_from_c, bytes_from_c, malloc_value, output_array_from_c,
    require_non_null, run_with_errptr, write_out_param,
};

#[unsafe(no_mangle)]
extern "C" fn leveldb_put(
    database: Option<&DatabaseHandle>,
    options: Option<&WriteOptionsHandle>,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    // SAFETY: the caller passes null, or a pointer `value` to `value_len` bytes that live through
    // the call.
    let value = unsafe { bytes_from_c(value, value_len) };
    run_with_errptr(errptr, || {
        Ok(require_non_null(database)?.0.put_with(key, value, write_options(options))?)
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_delete(
    database: Option<&DatabaseHandle>,
    options: Option<&WriteOptionsHandle>,
    key: *const c_char,
    key_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.delete_with(key, write_options(options))?));
}

/// A null batch flushes the memtable.
#[unsafe(no_mangle)]
extern "C" fn leveldb_write(
    database: Option<&DatabaseHandle>,
    options: Option<&WriteOptionsHandle>,
    batch: Option<&BatchHandle>,
    errptr: ErrPtr<'_>,
) {
    run_with_errptr(errptr, || {
        let database = &require_non_null(database)?.0;
        match batch {
            Some(batch) => database.write_with(&batch.0, write_options(options))?,
            None => database.flush()?,
        }
        Ok(())
    });
}

/// Returns null, with length 0, if there is no such key. An empty value is a block of its own, with
/// length 0.
#[unsafe(no_mangle)]
extern "C" fn leveldb_get(
    database: Option<&DatabaseHandle>,
    options: Option<&ReadOptionsHandle>,
    key: *const c_char,
    key_len: usize,
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    return_value(value_len, errptr, || {
        Ok(require_non_null(database)?.0.get_with(key, read_options(options))?)
    })
}

/// Returns the value that `read` finds, and stores its length. Returns null, with length 0, if
/// there is none, or after an error.
#[inline]
pub(super) fn return_value(
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
    read: impl FnOnce() -> Result<Option<Vec<u8>>, StatusError>,
) -> *mut c_char {
    let value = run_with_errptr(errptr, || Ok(into_malloced_value(read()?)));
    let (value, len) = value.unwrap_or(NO_VALUE);
    write_out_param(value_len, len);
    value
}

/// A value in a `malloc`ed block, and its length.
type MallocedValue = (*mut c_char, usize);

const NO_VALUE: MallocedValue = (ptr::null_mut(), 0);

#[inline]
fn into_malloced_value(value: Option<Vec<u8>>) -> MallocedValue {
    value.map_or(NO_VALUE, |value| {
        let len = value.len();
        (malloc_value(value), len)
    })
}

/// Stores one value for each key, all read from one state of the database. After an error every
/// value is null.
#[unsafe(no_mangle)]
extern "C" fn terrace_multi_get(
    database: Option<&DatabaseHandle>,
    options: Option<&ReadOptionsHandle>,
    count: usize,
    keys: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    errptr: ErrPtr<'_>,
) {
    let arrays = MultiGetArrays { count, keys, key_lens, values, value_lens };
    // SAFETY: the caller passes null, or arrays of `count` items each that live through the call,
    // and whose keys have the bytes of the length at the same index.
    unsafe {
        arrays.fill(errptr, |keys| {
            Ok(require_non_null(database)?.0.multi_get_with(keys, read_options(options))?)
        });
    }
}

/// Arrays of a caller for several keys, their lengths, and the results.
pub(super) struct MultiGetArrays {
    pub(super) count: usize,
    pub(super) keys: *const *const c_char,
    pub(super) key_lens: *const usize,
    pub(super) values: *mut *mut c_char,
    pub(super) value_lens: *mut usize,
}

impl MultiGetArrays {
    /// Stores the values that `read` returns for the keys, or null for each key after an error. The
    /// results become pointers only after all reads succeeded, so an error leaks no value.
    ///
    /// # Safety
    ///
    /// Each array is null, or has `count` items that nothing else changes during the call. Each key
    /// is null, or has as many bytes as the length at the same index.
    pub(super) unsafe fn fill(
        self,
        errptr: ErrPtr<'_>,
        read: impl FnOnce(&[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, StatusError>,
    ) {
        // SAFETY: by the contract of this function, the array is null or has `count` items.
        let keys = unsafe { array_from_c(self.keys, self.count) };
        // SAFETY: by the contract of this function, the array is null or has `count` items.
        let key_lens = unsafe { array_from_c(self.key_lens, self.count) };
        // SAFETY: by the contract of this function, each key is null or has as many bytes as its
        // length says.
        let keys = keys.iter().zip(key_lens).map(|(key, len)| unsafe { bytes_from_c(*key, *len) });
        let results = run_with_errptr(errptr, || {
            Ok(read(&keys.collect::<Vec<_>>())?.into_iter().map(into_malloced_value).collect())
        });
        let results: Vec<MallocedValue> = results.unwrap_or_else(|| vec![NO_VALUE; self.count]);
        // SAFETY: by the contract of this function, the array is null or has `count` items.
        let values = unsafe { output_array_from_c(self.values, self.count) };
        // SAFETY: by the contract of this function, the array is null or has `count` items.
        let value_lens = unsafe { output_array_from_c(self.value_lens, self.count) };
        for ((value, len), (value_out, len_out)) in results.into_iter().zip(values.iter_mut().zip(value_lens))
        {
            value_out.write(value);
            len_out.write(len);
        }
    }
}
