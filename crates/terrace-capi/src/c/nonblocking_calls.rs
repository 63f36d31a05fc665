//! Calls that never wait, and calls with memory of the caller, for event loops and for bindings of
//! languages in which a call into C is expensive.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use terrace::{Error, ErrorKind, SequenceNumber, WriteBatch};

use super::batch::BatchHandle;
use super::database::DatabaseHandle;
use super::read_write_options::{ReadOptionsHandle, WriteOptionsHandle, read_options, write_options};
use crate::ffi::{
    ErrPtr, OutParam, StatusError, bytes_from_c, output_array_from_c, require_non_null, run_or_default,
    run_with_errptr, write_out_param,
};

/// Results of the calls that never wait. `TERRACE_WOULD_WAIT` of `include/terrace/terrace.h` is 2.
const NO: u8 = 0;
const YES: u8 = 1;
const WOULD_WAIT: u8 = 2;

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
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    // SAFETY: the caller passes null, or memory `buffer` for `capacity` bytes that nothing else
    // uses during the call.
    let buffer = unsafe { output_array_from_c(buffer, capacity) };
    let value = run_with_errptr(errptr, || {
        Ok(require_non_null(database)?.0.get_pinned_with(key, read_options(options))?)
    });
    copy_value(value.flatten().as_deref(), buffer, value_len)
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
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    // SAFETY: the caller passes null, or memory `buffer` for `capacity` bytes that nothing else
    // uses during the call.
    let buffer = unsafe { output_array_from_c(buffer, capacity) };
    let value = run_with_errptr(errptr, || {
        unless_would_wait(require_non_null(database)?.0.try_get(key, read_options(options)))
    });
    match value.unwrap_or(Some(None)) {
        Some(value) => copy_value(value.as_deref(), buffer, value_len),
        None => {
            write_out_param(value_len, 0);
            WOULD_WAIT
        }
    }
}

/// Copies a value that fits in `buffer`. Returns whether there is a value.
fn copy_value(
    value: Option<&[u8]>,
    buffer: &mut [MaybeUninit<c_char>],
    value_len: OutParam<'_, usize>,
) -> u8 {
    let bytes = value.unwrap_or_default();
    if bytes.len() <= buffer.len() {
        for (out, byte) in buffer.iter_mut().zip(bytes) {
            out.write(*byte as c_char);
        }
    }
    write_out_param(value_len, bytes.len());
    if value.is_some() { YES } else { NO }
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
        let mut copy = Vec::new();
        copy.try_reserve_exact(len).map_err(|_| out_of_memory(len))?;
        copy.extend_from_slice(stored);
        // The database assigns the sequence number.
        copy.iter_mut().take(size_of::<SequenceNumber>()).for_each(|byte| *byte = 0);
        let batch = WriteBatch::from_bytes(copy)
            .map_err(|error| StatusError::invalid_argument(format!("batch: {error}")))?;
        Ok(require_non_null(database)?.0.write_with(&batch, write_options(options))?)
    });
}

fn out_of_memory(bytes: usize) -> StatusError {
    StatusError { kind: ErrorKind::Io, message: format!("no memory for {bytes} bytes") }
}
