//! `terrace_txn_t`: a transaction.
//!
//! ```text
//!   terrace_begin --> open --> terrace_txn_commit, terrace_txn_rollback --> ended
//! ```
//!
//! The handle lives until `terrace_txn_destroy`, so a call after the end gets an error. A call
//! beside one of another thread gets an error too: neither waits, and the transaction continues.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use terrace::{Error, ReadOptions, Savepoint, Transaction, TransactionOptions};
use terrace_sync::{AtomicU64, Mutex, MutexGuard, Ordering};

use super::conditional_write::return_sequence;
use super::database::DatabaseHandle;
use super::get_put_delete::{MultiGetArrays, return_value};
use super::iterator::{EitherIterator, IteratorHandle};
use super::read_write_options::{ReadOptionsHandle, read_options};
use super::txn_options::TxnOptionsHandle;
use crate::ffi::{
    ErrPtr, OutParam, StatusError, bytes_from_c, require_non_null, run_or_default, run_with_errptr,
    write_out_param,
};

pub(super) struct TransactionHandle(Mutex<TransactionState>);

struct TransactionState {
    /// None after the end, and during a call: a panic ends the transaction.
    transaction: Option<Box<Transaction>>,
    /// Savepoints with the identifiers that the caller has.
    savepoints: Vec<(u64, Savepoint)>,
    last_error: Option<LastError>,
}

/// Error of the last failed call.
struct LastError {
    code: TxnErrorCode,
    message: CString,
}

/// Code of an error, as in `include/terrace/terrace.h`.
#[derive(Clone, Copy)]
#[repr(i32)]
enum TxnErrorCode {
    Ok = 0,
    Conflict = 1,
    Deadlock = 2,
    LockTimeout = 3,
    TooLarge = 4,
    Other = 5,
}

impl TxnErrorCode {
    fn of(error: &Error) -> TxnErrorCode {
        match error {
            Error::Conflict { .. } => TxnErrorCode::Conflict,
            Error::Deadlock { .. } => TxnErrorCode::Deadlock,
            Error::LockTimeout { .. } => TxnErrorCode::LockTimeout,
            Error::TransactionTooLarge { .. } => TxnErrorCode::TooLarge,
            _ => TxnErrorCode::Other,
        }
    }
}

impl TransactionState {
    /// Keeps the error of `result` for `terrace_txn_error`.
    fn record<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            // A text without zero bytes: keys are escaped, and a path has none.
            let message = CString::new(StatusError::from(error).to_string()).unwrap_or_default();
            self.last_error = Some(LastError { code: TxnErrorCode::of(error), message });
        }
        result
    }

    /// Ends the transaction.
    fn take(&mut self) -> Result<Box<Transaction>, Error> {
        let taken = self.transaction.take();
        self.record(
            taken.ok_or_else(|| Error::InvalidArgument("the transaction has ended: begin a new one".into())),
        )
    }

    /// Runs `call` for the transaction.
    fn run<T>(&mut self, call: impl FnOnce(&mut Transaction) -> Result<T, Error>) -> Result<T, Error> {
        let mut transaction = self.take()?;
        let result = call(&mut transaction);
        self.transaction = Some(transaction);
        self.record(result)
    }
}

/// Locks `handle`. Returns an error for a null pointer, and while another thread uses the handle.
fn lock(handle: Option<&TransactionHandle>) -> Result<MutexGuard<'_, TransactionState>, StatusError> {
    let locked = require_non_null(handle)?.0.try_lock();
    locked.ok_or_else(|| StatusError::invalid_argument("another thread is using the transaction"))
}

/// Runs `call` for the open transaction of `handle`.
fn with_transaction<T>(
    handle: Option<&TransactionHandle>,
    call: impl FnOnce(&mut Transaction) -> Result<T, Error>,
) -> Result<T, StatusError> {
    Ok(lock(handle)?.run(call)?)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_begin(
    database: Option<&DatabaseHandle>,
    options: Option<&TxnOptionsHandle>,
    errptr: ErrPtr<'_>,
) -> Option<Box<TransactionHandle>> {
    run_with_errptr(errptr, || {
        let database = &require_non_null(database)?.0;
        let transaction = match options {
            Some(options) => database.begin(&options.0),
            None => database.begin(&TransactionOptions::default()),
        };
        let transaction = Some(Box::new(transaction));
        let state = TransactionState { transaction, savepoints: Vec::new(), last_error: None };
        Ok(Box::new(TransactionHandle(Mutex::new(state))))
    })
}

/// Rolls back if the transaction has not ended.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_destroy(handle: Option<Box<TransactionHandle>>) {
    run_or_default(|| drop(handle));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_get(
    handle: Option<&TransactionHandle>,
    key: *const c_char,
    key_len: usize,
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    return_value(value_len, errptr, || with_transaction(handle, |transaction| transaction.get(key)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_get_for_update(
    handle: Option<&TransactionHandle>,
    key: *const c_char,
    key_len: usize,
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    return_value(value_len, errptr, || {
        with_transaction(handle, |transaction| transaction.get_for_update(key))
    })
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_get_untracked(
    handle: Option<&TransactionHandle>,
    key: *const c_char,
    key_len: usize,
    value_len: OutParam<'_, usize>,
    errptr: ErrPtr<'_>,
) -> *mut c_char {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    return_value(value_len, errptr, || with_transaction(handle, |transaction| transaction.get_untracked(key)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_multi_get(
    handle: Option<&TransactionHandle>,
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
        arrays.fill(errptr, |keys| with_transaction(handle, |transaction| transaction.multi_get(keys)));
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_put(
    handle: Option<&TransactionHandle>,
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
    run_with_errptr(errptr, || with_transaction(handle, |transaction| transaction.put(key, value)));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_delete(
    handle: Option<&TransactionHandle>,
    key: *const c_char,
    key_len: usize,
    errptr: ErrPtr<'_>,
) {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    run_with_errptr(errptr, || with_transaction(handle, |transaction| transaction.delete(key)));
}

/// Returns null after an error.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_iterator(
    handle: Option<&TransactionHandle>,
    options: Option<&ReadOptionsHandle>,
    errptr: ErrPtr<'_>,
) -> Option<Box<IteratorHandle>> {
    let options: &ReadOptions = read_options(options);
    run_with_errptr(errptr, || {
        let iterator = with_transaction(handle, |transaction| transaction.raw_iter_with(options))?;
        Ok(IteratorHandle::new(EitherIterator::Transaction(Box::new(iterator))))
    })
}

/// Identifier of the next savepoint of any transaction, so that no two transactions have the same.
static NEXT_SAVEPOINT: AtomicU64 = AtomicU64::new(1);

/// Returns 0 after an error.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_savepoint(handle: Option<&TransactionHandle>, errptr: ErrPtr<'_>) -> u64 {
    let savepoint = run_with_errptr(errptr, || {
        let mut state = lock(handle)?;
        let savepoint = state.run(|transaction| Ok(transaction.savepoint()))?;
        // Relaxed: only the identifiers differ, and no other data depends on them.
        let id = NEXT_SAVEPOINT.fetch_add(1, Ordering::Relaxed);
        state.savepoints.push((id, savepoint));
        Ok(id)
    });
    savepoint.unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_rollback_to(
    handle: Option<&TransactionHandle>,
    savepoint: u64,
    errptr: ErrPtr<'_>,
) {
    run_with_errptr(errptr, || {
        let mut state = lock(handle)?;
        let found = state.savepoints.iter().position(|(id, _)| *id == savepoint);
        let kept = found.map_or(0, |index| index + 1);
        let known = found.map(|index| state.savepoints[index].1);
        state.run(|transaction| {
            let unknown = "savepoint of another transaction, or removed by an earlier rollback";
            transaction.rollback_to(known.ok_or_else(|| Error::InvalidArgument(unknown.into()))?)
        })?;
        state.savepoints.truncate(kept);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_commit(
    handle: Option<&TransactionHandle>,
    sequence: OutParam<'_, u64>,
    errptr: ErrPtr<'_>,
) -> u8 {
    return_sequence(sequence, errptr, || {
        let mut state = lock(handle)?;
        let committed = state.take()?.commit();
        Ok(state.record(committed))
    })
}

/// Does nothing after the end of the transaction.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_rollback(handle: Option<&TransactionHandle>, errptr: ErrPtr<'_>) {
    run_with_errptr(errptr, || {
        let transaction = lock(handle)?.transaction.take();
        drop(transaction);
        Ok(())
    });
}

/// Stores the message of the last failed call, or null, and returns its code.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_error(
    handle: Option<&TransactionHandle>,
    message: OutParam<'_, *const c_char>,
) -> c_int {
    let (code, text) = run_or_default(|| {
        let state = lock(handle).ok()?;
        let last = state.last_error.as_ref()?;
        // The text lives until the next call with the handle, as the header says.
        Some((last.code, last.message.as_ptr()))
    })
    .unwrap_or((TxnErrorCode::Ok, ptr::null()));
    write_out_param(message, text);
    code as c_int
}

/// Returns 1 if the transaction failed because of another one, so that a new one may succeed.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_should_retry(handle: Option<&TransactionHandle>) -> u8 {
    let code = terrace_txn_error(handle, None);
    u8::from((TxnErrorCode::Conflict as c_int..=TxnErrorCode::LockTimeout as c_int).contains(&code))
}
