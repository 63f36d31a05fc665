//! `terrace_txn_options_t`: options of transactions. Null means the defaults.

use std::ffi::c_int;
use std::time::Duration;

use terrace::{Isolation, TransactionOptions};

use crate::ffi::run_or_default;

pub(super) struct TxnOptionsHandle(pub(super) TransactionOptions);

/// Isolation levels by the values of `include/terrace/terrace.h`.
static ISOLATIONS: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_create() -> Box<TxnOptionsHandle> {
    Box::new(TxnOptionsHandle(TransactionOptions::default()))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_destroy(options: Option<Box<TxnOptionsHandle>>) {
    run_or_default(|| drop(options));
}

fn update_options(handle: Option<&mut TxnOptionsHandle>, change: impl FnOnce(&mut TransactionOptions)) {
    if let Some(handle) = handle {
        change(&mut handle.0);
    }
}

/// Returns 0 and changes nothing if there is no such level.
#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_set_isolation(
    options: Option<&mut TxnOptionsHandle>,
    isolation: c_int,
) -> u8 {
    let isolation = usize::try_from(isolation).ok().and_then(|level| ISOLATIONS.get(level));
    if let Some(isolation) = isolation {
        update_options(options, |options| options.isolation = *isolation);
    }
    u8::from(isolation.is_some())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_set_locking(options: Option<&mut TxnOptionsHandle>, yes: u8) {
    update_options(options, |options| options.locking = yes != 0);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_set_lock_timeout_ms(
    options: Option<&mut TxnOptionsHandle>,
    milliseconds: u64,
) {
    update_options(options, |options| options.lock_timeout = Duration::from_millis(milliseconds));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_set_memory(options: Option<&mut TxnOptionsHandle>, bytes: usize) {
    update_options(options, |options| options.memory = bytes);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_txn_options_set_sync(options: Option<&mut TxnOptionsHandle>, yes: u8) {
    update_options(options, |options| options.sync = yes != 0);
}
