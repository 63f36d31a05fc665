//! `leveldb_writebatch_t`: writes that take effect together.

use std::ffi::{c_char, c_void};

use terrace::{BatchOp, WriteBatch};

use crate::ffi::{bytes_from_c, run_or_default};

pub(super) struct BatchHandle(pub(super) WriteBatch);

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_create() -> Box<BatchHandle> {
    Box::new(BatchHandle(WriteBatch::new()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_destroy(batch: Option<Box<BatchHandle>>) {
    run_or_default(|| drop(batch));
}

fn update_batch(handle: Option<&mut BatchHandle>, change: impl FnOnce(&mut WriteBatch)) {
    run_or_default(|| {
        if let Some(handle) = handle {
            change(&mut handle.0);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_clear(batch: Option<&mut BatchHandle>) {
    update_batch(batch, WriteBatch::clear);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_put(
    batch: Option<&mut BatchHandle>,
    key: *const c_char,
    key_len: usize,
    value: *const c_char,
    value_len: usize,
) {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    // SAFETY: the caller passes null, or a pointer `value` to `value_len` bytes that live through
    // the call.
    let value = unsafe { bytes_from_c(value, value_len) };
    update_batch(batch, |batch| {
        batch.put(key, value);
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_delete(batch: Option<&mut BatchHandle>, key: *const c_char, key_len: usize) {
    // SAFETY: the caller passes null, or a pointer `key` to `key_len` bytes that live through the
    // call.
    let key = unsafe { bytes_from_c(key, key_len) };
    update_batch(batch, |batch| {
        batch.delete(key);
    });
}

/// Takes raw pointers, because a batch may be appended to itself.
#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_append(to: *mut BatchHandle, from: *const BatchHandle) {
    // SAFETY: `from` is null or a live batch. The reference ends with the copy, before `to` is
    // borrowed.
    let source = unsafe { from.as_ref() }.map(|from| from.0.clone());
    // SAFETY: `to` is null or a live batch that only this thread uses, and no other reference to it
    // exists here.
    let to = unsafe { to.as_mut() };
    update_batch(to, |batch| {
        if let Some(source) = source {
            batch.append(&source);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_iterate(
    batch: Option<&BatchHandle>,
    state: *mut c_void,
    put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
    deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
) {
    run_or_default(|| {
        for operation in batch.into_iter().flat_map(|batch| batch.0.iter()) {
            match (operation, put, deleted) {
                (BatchOp::Put { key, value }, Some(put), _) => {
                    // SAFETY: the callback takes `state` and two byte ranges, which live through
                    // the call.
                    unsafe { put(state, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) };
                }
                (BatchOp::Delete { key }, _, Some(deleted)) => {
                    // SAFETY: the callback takes `state` and one byte range, which lives through
                    // the call.
                    unsafe { deleted(state, key.as_ptr().cast(), key.len()) };
                }
                _ => {}
            }
        }
    });
}
