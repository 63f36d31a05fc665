//! `leveldb_comparator_t`: a comparator of the program.

use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};

use terrace::Comparator;

use super::callback_state::CallbackState;
use crate::ffi::{CallbackName, run_or_default};

type CompareFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
pub(super) type NameFn = unsafe extern "C" fn(*mut c_void) -> *const c_char;

pub(super) struct ComparatorHandle(pub(super) Arc<CallbackComparator>);

pub(super) struct CallbackComparator {
    state: CallbackState,
    compare: CompareFn,
    name: LazyName,
}

/// A name that is read at its first use, as in LevelDB: the state may not be ready earlier.
pub(super) struct LazyName {
    name_fn: NameFn,
    name: OnceLock<CallbackName>,
}

impl LazyName {
    pub(super) fn new(name_fn: NameFn) -> LazyName {
        LazyName { name_fn, name: OnceLock::new() }
    }

    pub(super) fn get(&self, state: &CallbackState) -> &CallbackName {
        terrace_sync::get_or_init_for_fork(&self.name, || {
            // SAFETY: the callback takes `state`, which is alive until the destructor runs.
            let name = unsafe { (self.name_fn)(state.pointer()) };
            if name.is_null() {
                return CallbackName::default();
            }
            // SAFETY: the callback returns a NUL-terminated string that lives through this copy.
            CallbackName::new(unsafe { CStr::from_ptr(name) }.to_bytes())
        })
    }
}

impl Comparator for CallbackComparator {
    fn name(&self) -> &str {
        self.name.get(&self.state).text()
    }

    fn name_bytes(&self) -> &[u8] {
        self.name.get(&self.state).bytes()
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let a_start = a.as_ptr().cast();
        let b_start = b.as_ptr().cast();
        // SAFETY: the callback takes `state` and two byte ranges, which live through the call.
        unsafe { (self.compare)(self.state.pointer(), a_start, a.len(), b_start, b.len()) }.cmp(&0)
    }
}

/// Returns null if a callback is missing; an open with it fails.
#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    compare: Option<CompareFn>,
    name: Option<NameFn>,
) -> Option<Box<ComparatorHandle>> {
    let state = CallbackState::new(state, destructor);
    let callbacks = CallbackComparator { state, compare: compare?, name: LazyName::new(name?) };
    Some(Box::new(ComparatorHandle(Arc::new(callbacks))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_destroy(comparator: Option<Box<ComparatorHandle>>) {
    run_or_default(|| drop(comparator));
}
