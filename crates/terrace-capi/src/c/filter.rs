//! `leveldb_filterpolicy_t`: the built-in filter policy, or one of the program.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use terrace::{BloomFilterPolicy, FilterPolicy};

use super::callback_state::CallbackState;
use super::comparator::{LazyName, NameFn};
use crate::ffi::{bytes_from_c, run_or_default};

type CreateFn =
    unsafe extern "C" fn(*mut c_void, *const *const c_char, *const usize, c_int, *mut usize) -> *mut c_char;
type MayMatchFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8;

pub(super) struct FilterHandle(pub(super) Arc<dyn FilterPolicy>);

struct CallbackFilter {
    state: CallbackState,
    create: CreateFn,
    may_match: MayMatchFn,
    name: LazyName,
}

impl FilterPolicy for CallbackFilter {
    fn name(&self) -> &str {
        self.name.get(&self.state).text()
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        // A filter covers the keys of a few KiB, so the count fits.
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let mut len = 0;
        // SAFETY: `starts` and `lens` have `count` items each, which describe live keys, and `len`
        // is a valid output pointer.
        let filter =
            unsafe { (self.create)(self.state.pointer(), starts.as_ptr(), lens.as_ptr(), count, &mut len) };
        // SAFETY: the callback returns null, or a block of `len` bytes.
        dst.extend_from_slice(unsafe { bytes_from_c(filter, len) });
        // SAFETY: the callback returns null, or a `malloc`ed block that it hands over.
        unsafe { libc::free(filter.cast()) };
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let key_start = key.as_ptr().cast();
        let filter_start = filter.as_ptr().cast();
        // SAFETY: the callback takes `state` and two byte ranges, which live through the call.
        let may_match = unsafe {
            (self.may_match)(self.state.pointer(), key_start, key.len(), filter_start, filter.len())
        };
        may_match != 0
    }
}

/// Returns null, which means no filter, if a callback is missing.
#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    create: Option<CreateFn>,
    may_match: Option<MayMatchFn>,
    name: Option<NameFn>,
) -> Option<Box<FilterHandle>> {
    let state = CallbackState::new(state, destructor);
    let callbacks =
        CallbackFilter { state, create: create?, may_match: may_match?, name: LazyName::new(name?) };
    Some(Box::new(FilterHandle(Arc::new(callbacks))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Box<FilterHandle> {
    Box::new(FilterHandle(Arc::new(BloomFilterPolicy::new(usize::try_from(bits_per_key).unwrap_or(0)))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_destroy(filter: Option<Box<FilterHandle>>) {
    run_or_default(|| drop(filter));
}
