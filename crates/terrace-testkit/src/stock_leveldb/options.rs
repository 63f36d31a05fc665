//! Converts [`Settings`] to C options, and owns the objects that must outlive the database.

#![allow(unsafe_code, reason = "calls a C library")]

use std::cmp::Ordering;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use terrace_format::comparator::Comparator;

use super::api::{self, Api, Bytes};
use crate::settings::{ComparatorKind, Settings};

/// C options and the objects that they refer to. The pointers are null or live until the drop.
pub(super) struct RawOptions {
    api: &'static Api,
    raw: *mut api::Options,
    comparator: *mut api::Comparator,
    filter: *mut api::FilterPolicy,
    cache: *mut api::Cache,
}

impl RawOptions {
    pub(super) fn new(api: &'static Api, settings: &Settings) -> RawOptions {
        // SAFETY: the function has no arguments and returns a new object.
        let raw = unsafe { (api.options_create)() };
        let comparator = match settings.comparator {
            ComparatorKind::Bytewise => ptr::null_mut(),
            ComparatorKind::Reverse | ComparatorKind::Shortlex => {
                new_comparator(api, settings.comparator.build())
            }
        };
        let filter = match settings.bloom_bits {
            0 => ptr::null_mut(),
            // SAFETY: the function takes an integer and returns a new object.
            bits => unsafe { (api.filterpolicy_create_bloom)(bits as c_int) },
        };
        let cache = match settings.cache_bytes {
            None => ptr::null_mut(),
            // SAFETY: the function takes an integer and returns a new object.
            Some(bytes) => unsafe { (api.cache_create_lru)(bytes) },
        };
        let options = RawOptions { api, raw, comparator, filter, cache };
        options.apply(settings);
        options
    }

    fn apply(&self, settings: &Settings) {
        macro_rules! set {
            ($($setter:ident = $value:expr;)*) => {
                $(
                    // SAFETY: `raw` is live, and so are the objects that pointer values refer to.
                    unsafe { (self.api.$setter)(self.raw, $value) };
                )*
            };
        }
        set! {
            options_set_create_if_missing = u8::from(settings.create_if_missing);
            options_set_error_if_exists = u8::from(settings.error_if_exists);
            options_set_paranoid_checks = u8::from(settings.paranoid_checks);
            options_set_write_buffer_size = settings.write_buffer_size;
            options_set_max_open_files = settings.max_open_files as c_int;
            options_set_block_size = settings.block_size;
            options_set_block_restart_interval = settings.block_restart_interval as c_int;
            options_set_max_file_size = settings.max_file_size;
            options_set_compression = c_int::from(settings.snappy);
        }
        if !self.comparator.is_null() {
            set! { options_set_comparator = self.comparator; }
        }
        if !self.filter.is_null() {
            set! { options_set_filter_policy = self.filter; }
        }
        if !self.cache.is_null() {
            set! { options_set_cache = self.cache; }
        }
    }

    pub(super) fn as_ptr(&self) -> *const api::Options {
        self.raw
    }
}

impl Drop for RawOptions {
    fn drop(&mut self) {
        macro_rules! destroy {
            ($($destroy:ident($object:expr);)*) => {
                $(
                    if !$object.is_null() {
                        // SAFETY: the matching constructor made the object, this is its only
                        // destruction, and the database that used it is closed.
                        unsafe { (self.api.$destroy)($object) };
                    }
                )*
            };
        }
        destroy! {
            options_destroy(self.raw);
            comparator_destroy(self.comparator);
            filterpolicy_destroy(self.filter);
            cache_destroy(self.cache);
        }
    }
}

/// State of the comparator's callbacks.
struct ComparatorState {
    comparator: Arc<dyn Comparator>,
    name: CString,
}

fn new_comparator(api: &'static Api, comparator: Arc<dyn Comparator>) -> *mut api::Comparator {
    let name = CString::new(comparator.name()).expect("comparator names have no zero byte");
    let state = Box::into_raw(Box::new(ComparatorState { comparator, name })).cast();
    // SAFETY: the callbacks cast `state` back to its type, and `drop_state` runs once, at
    // destruction.
    unsafe { (api.comparator_create)(state, drop_state, compare, name_of) }
}

extern "C" fn drop_state(state: *mut c_void) {
    // SAFETY: `state` is the box from `new_comparator`, and this is its only return.
    drop(unsafe { Box::from_raw(state.cast::<ComparatorState>()) });
}

extern "C" fn name_of(state: *mut c_void) -> *const c_char {
    // SAFETY: `state` lives until `drop_state` and is only read.
    let state = unsafe { &*state.cast::<ComparatorState>() };
    state.name.as_ptr()
}

extern "C" fn compare(state: *mut c_void, a: Bytes, a_len: usize, b: Bytes, b_len: usize) -> c_int {
    // SAFETY: `state` lives until `drop_state` and is only read.
    let state = unsafe { &*state.cast::<ComparatorState>() };
    // SAFETY: LevelDB passes the pointer and length of a key that lives during the call.
    let a = unsafe { bytes_from_c(a, a_len) };
    // SAFETY: LevelDB passes the pointer and length of a second key that lives during the call.
    let b = unsafe { bytes_from_c(b, b_len) };
    match state.comparator.compare(a, b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

/// Returns the bytes at a pointer from C. The pointer may be invalid if `len` is 0.
///
/// # Safety
/// `start` points to `len` bytes that live and stay unchanged for `'a`, or `len` is 0.
pub(super) unsafe fn bytes_from_c<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees `len` live, unchanged bytes at `start`, and `len` is not 0.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// Copies a C string.
///
/// # Safety
/// `text` points to a string that ends in a zero byte.
pub(super) unsafe fn string_from_c(text: *const c_char) -> String {
    // SAFETY: the caller guarantees a string that ends in a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
