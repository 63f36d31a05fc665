//! `leveldb_filterpolicy_t`: the built-in filter, or one that a program brings.

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
        self.name.get(&self.state)
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        // A filter is for the keys of some KiB.
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let mut len = 0;
        // SAFETY: the contract; as many keys as said, each with its length, and room for a length.
        let filter =
            unsafe { (self.create)(self.state.pointer(), starts.as_ptr(), lens.as_ptr(), count, &mut len) };
        // SAFETY: the contract: null, or that many bytes.
        dst.extend_from_slice(unsafe { bytes_from_c(filter, len) });
        // SAFETY: the contract: null, or from malloc and now ours.
        unsafe { libc::free(filter.cast()) };
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let (key_at, filter_at) = (key.as_ptr().cast(), filter.as_ptr().cast());
        // SAFETY: the contract; a key and a filter with their lengths.
        let answer =
            unsafe { (self.may_match)(self.state.pointer(), key_at, key.len(), filter_at, filter.len()) };
        answer != 0
    }
}

/// Null if a callback is missing, which stands for no filter.
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
