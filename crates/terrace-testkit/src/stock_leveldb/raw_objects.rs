//! Owned C objects that exist for one call.

#![allow(unsafe_code, reason = "calls a C library")]

use super::api::{self, Api};

/// A write batch for one call.
pub(super) struct Batch {
    api: &'static Api,
    pub(super) raw: *mut api::Batch,
}

impl Batch {
    pub(super) fn new(api: &'static Api) -> Batch {
        // SAFETY: the function has no arguments and returns a new object.
        Batch { api, raw: unsafe { (api.writebatch_create)() } }
    }

    pub(super) fn add(&self, key: &[u8], value: Option<&[u8]>) {
        let start = key.as_ptr().cast();
        let len = key.len();
        match value {
            Some(value) => {
                // SAFETY: `raw` is a live batch. The pointers and lengths describe live slices,
                // which LevelDB copies.
                unsafe { (self.api.writebatch_put)(self.raw, start, len, value.as_ptr().cast(), value.len()) }
            }
            // SAFETY: `raw` is a live batch. The pointer and length describe a live slice, which
            // LevelDB copies.
            None => unsafe { (self.api.writebatch_delete)(self.raw, start, len) },
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: `raw` is live, and nothing uses it after this drop.
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
        // SAFETY: the function has no arguments and returns a new object.
        let raw = unsafe { (api.writeoptions_create)() };
        // SAFETY: `raw` is the new object.
        unsafe { (api.writeoptions_set_sync)(raw, u8::from(sync)) };
        WriteOptions { api, raw }
    }
}

impl Drop for WriteOptions {
    fn drop(&mut self) {
        // SAFETY: `raw` is live, and nothing uses it after this drop.
        unsafe { (self.api.writeoptions_destroy)(self.raw) };
    }
}

/// Read options for one call.
pub(super) struct ReadOptions {
    api: &'static Api,
    pub(super) raw: *mut api::ReadOptions,
}

impl ReadOptions {
    /// Creates read options. `snapshot` is null or a live snapshot of the database that is read.
    pub(super) fn new(
        api: &'static Api,
        verify_checksums: bool,
        snapshot: *const api::Snapshot,
    ) -> ReadOptions {
        // SAFETY: the function has no arguments and returns a new object.
        let raw = unsafe { (api.readoptions_create)() };
        // SAFETY: `raw` is the new object.
        unsafe { (api.readoptions_set_verify_checksums)(raw, u8::from(verify_checksums)) };
        // SAFETY: `raw` is the new object. The call only stores the snapshot pointer, and the
        // caller keeps the snapshot alive during reads.
        unsafe { (api.readoptions_set_snapshot)(raw, snapshot) };
        ReadOptions { api, raw }
    }
}

impl Drop for ReadOptions {
    fn drop(&mut self) {
        // SAFETY: `raw` is live, and nothing uses it after this drop.
        unsafe { (self.api.readoptions_destroy)(self.raw) };
    }
}
