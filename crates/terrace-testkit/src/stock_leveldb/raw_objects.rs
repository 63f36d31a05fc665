//! The objects that one call to the library is given.

#![allow(unsafe_code, reason = "calls a C library")]

use super::api::{self, Api};

/// A batch for one call.
pub(super) struct Batch {
    api: &'static Api,
    pub(super) raw: *mut api::Batch,
}

impl Batch {
    pub(super) fn new(api: &'static Api) -> Batch {
        // SAFETY: makes a fresh object.
        Batch { api, raw: unsafe { (api.writebatch_create)() } }
    }

    pub(super) fn add(&self, key: &[u8], value: Option<&[u8]>) {
        let (start, len) = (key.as_ptr().cast(), key.len());
        match value {
            Some(value) => {
                // SAFETY: a live batch; key and value with their lengths, which are copied.
                unsafe { (self.api.writebatch_put)(self.raw, start, len, value.as_ptr().cast(), value.len()) }
            }
            // SAFETY: a live batch; a key with its length, which is copied.
            None => unsafe { (self.api.writebatch_delete)(self.raw, start, len) },
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: live until here.
        unsafe { (self.api.writebatch_destroy)(self.raw) };
    }
}

/// Write options for one call.
pub(super) struct WriteOptions {
    api: &'static Api,
    pub(super) raw: *mut api::WriteOptions,
}

impl WriteOptions {
    pub(super) fn new(api: &'static Api, sync: bool) -> WriteOptions {
        // SAFETY: makes a fresh object.
        let raw = unsafe { (api.writeoptions_create)() };
        // SAFETY: the fresh object.
        unsafe { (api.writeoptions_set_sync)(raw, u8::from(sync)) };
        WriteOptions { api, raw }
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: live until here.
        unsafe { (self.api.writeoptions_destroy)(self.raw) };
    }
}

/// Read options for one call.
pub(super) struct ReadOptions {
    api: &'static Api,
    pub(super) raw: *mut api::ReadOptions,
}

impl ReadOptions {
    /// `at` is null, or a live snapshot of the database that is read.
    pub(super) fn new(api: &'static Api, verify_checksums: bool, at: *const api::Snapshot) -> ReadOptions {
        // SAFETY: makes a fresh object.
        let raw = unsafe { (api.readoptions_create)() };
        // SAFETY: the fresh object.
        unsafe { (api.readoptions_set_verify_checksums)(raw, u8::from(verify_checksums)) };
        // SAFETY: the fresh object; the pointer is only stored, and used by calls that its owner makes.
        unsafe { (api.readoptions_set_snapshot)(raw, at) };
        ReadOptions { api, raw }
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: live until here.
        unsafe { (self.api.readoptions_destroy)(self.raw) };
    }
}
