//! Calls that never wait, and calls with memory of the caller, for event loops and for bindings of
//! languages in which a call into C is expensive.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use terrace::{Error, SequenceNumber, WriteBatch};

use super::batch::BatchHandle;
use super::database::DatabaseHandle;
use super::read_write_options::{ReadOptionsHandle, WriteOptionsHandle, read_options, write_options};
use crate::ffi::{
    ErrPtr, OutParam, StatusError, bytes_from_c, output_array_from_c, require_non_null, run_or_default,
    run_with_errptr, try_copy, write_out_param,
};

/// Result of a call that never waits: the key is missing, or the call failed.
const NO: u8 = 0;
/// Result of a call that never waits: it succeeded.
const YES: u8 = 1;
/// `TERRACE_WOULD_WAIT` of `include/terrace/terrace.h`.
const WOULD_WAIT: u8 = 2;

/// Key of a get, and memory of the caller for its value.
struct GetRequest<'a> {
    key: &'a [u8],
    buffer: &'a mut [MaybeUninit<c_char>],
}

impl GetRequest<'_> {
    /// Creates the request of a C program.
    ///
    /// # Safety
    ///
    /// `key` is null, or points to `key_len` bytes that live and do not change during `'a`.
    /// `buffer` is null, or points to memory for `capacity` bytes that nothing else accesses during
    /// `'a`.
    unsafe fn from_c<'a>(
        key: *const c_char,
        key_len: usize,
        buffer: *mut c_char,
        capacity: usize,
    ) -> GetRequest<'a> {
        // SAFETY: the caller's promise about `key`.
        let key = unsafe { bytes_from_c(key, key_len) };
        // SAFETY: the caller's promise about `buffer`.
        let buffer = unsafe { output_array_from_c(buffer, capacity) };
        GetRequest { key, buffer }
    }

    /// Executes `get` with the key. Copies a value that fits in the buffer, and stores its length.
    fn run(
        self,
        value_len: OutParam<'_, usize>,
        errptr: ErrPtr<'_>,
        get: impl FnOnce(&[u8], &mut dyn FnMut(&[u8])) -> Result<u8, StatusError>,
    ) -> u8 {
        let GetRequest { key, buffer } = self;
        let mut len = 0;
        let mut copy = |value: &[u8]| {
            len = value.len();
            if len <= buffer.len() {
                for (out, byte) in buffer.iter_mut().zip(value) {
                    out.write(*byte as c_char);
                }
            }
        };
        let result = run_with_errptr(errptr, || get(key, &mut copy));
        write_out_param(value_len, if result == Some(YES) { len } else { 0 });
        result.unwrap_or(NO)
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_get_into(
    database: Option<&DatabaseHandle>,
    options: Option<&ReadOptionsHandle>,
    key: *const c_char,
    key_len: usize,
    buffer: *mut c_char,
    capacity: usize,
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> u8 {
    // SAFETY: the caller passes null, or a key and memory of these lengths. Nothing else uses the
    // memory during the call.
    let request = unsafe { GetRequest::from_c(key, key_len, buffer, capacity) };
    request.run(value_len, errptr, |key, copy| {
        let database = &require_non_null(database)?.0;
        Ok(yes_or_no(database.get_borrowed(key, read_options(options), copy)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_try_get(
    database: Option<&DatabaseHandle>,
    options: Option<&ReadOptionsHandle>,
    key: *const c_char,
    key_len: usize,
    buffer: *mut c_char,
    capacity: usize,
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> u8 {
    // SAFETY: the caller passes null, or a key of `key_len` bytes and memory for `capacity` bytes,
    // which only this call uses until it returns.
    let request = unsafe { GetRequest::from_c(key, key_len, buffer, capacity) };
    request.run(value_len, errptr, |key, copy| {
        let database = &require_non_null(database)?.0;
        let found = unless_would_wait(database.try_get_borrowed(key, read_options(options), copy))?;
        Ok(found.map_or(WOULD_WAIT, yes_or_no))
    })
}

fn yes_or_no(found: Option<()>) -> u8 {
    if found.is_some() { YES } else { NO }
}

/// Returns None instead of the error of a call that would wait.
fn unless_would_wait<T>(result: terrace::Result<T>) -> Result<Option<T>, StatusError> {
    match result {
        Err(Error::WouldWait) => Ok(None),
        result => Ok(result.map(Some)?),
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_try_write(
    database: Option<&DatabaseHandle>,
    options: Option<&WriteOptionsHandle>,
    batch: Option<&BatchHandle>,
    errptr: ErrPtr<'_>,
) -> u8 {
    let written = run_with_errptr(errptr, || {
        let batch = &require_non_null(batch)?.0;
        unless_would_wait(require_non_null(database)?.0.try_write(batch, write_options(options)))
    });
    match written {
        Some(Some(())) => YES,
        Some(None) => WOULD_WAIT,
        None => NO,
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_would_wait(database: Option<&DatabaseHandle>) -> u8 {
    run_or_default(|| u8::from(database.is_some_and(|database| database.0.would_wait())))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_sync(database: Option<&DatabaseHandle>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || Ok(require_non_null(database)?.0.sync()?));
}

/// Writes a batch in the stored form of the log, which is checked completely. The sequence number
/// in its header is ignored.
#[unsafe(no_mangle)]
extern "C" fn terrace_write_bytes(
    database: Option<&DatabaseHandle>,
    options: Option<&WriteOptionsHandle>,
    stored: *const c_char,
    len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the caller passes null, or a pointer `stored` to `len` bytes that live through the
    // call.
    let stored = unsafe { bytes_from_c(stored, len) };
    run_with_errptr(errptr, || {
        let mut copy = try_copy(stored)?;
        // The database assigns the sequence number.
        copy.iter_mut().take(size_of::<SequenceNumber>()).for_each(|byte| *byte = 0);
        let batch = WriteBatch::from_bytes(copy)
            .map_err(|error| StatusError::invalid_argument(format!("batch: {error}")))?;
        Ok(require_non_null(database)?.0.write_with(&batch, write_options(options))?)
    });
}
