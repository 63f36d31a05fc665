//! `leveldb_comparator_t`: an order of keys that a program brings.

use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};

use terrace::Comparator;

use super::state::State;
use crate::border::quietly;

type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
pub(super) type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

pub(super) struct ComparatorHandle(pub(super) Arc<Callbacks>);

pub(super) struct Callbacks {
    state: State,
    compare: Compare,
    name: NameOnce,
}

/// A name that is asked for when it is needed first, as LevelDB would: the state may not be ready before.
pub(super) struct NameOnce {
    ask: Name,
    text: OnceLock<String>,
}

impl NameOnce {
    pub(super) fn new(ask: Name) -> NameOnce {
        NameOnce { ask, text: OnceLock::new() }
    }

    pub(super) fn get(&self, state: &State) -> &str {
        self.text.get_or_init(|| {
            // SAFETY: the contract.
            let name = unsafe { (self.ask)(state.pointer()) };
            if name.is_null() {
                return String::new();
            }
            // SAFETY: the contract: a string that ends in zero.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        })
    }
}

impl Comparator for Callbacks {
    fn name(&self) -> &str {
        self.name.get(&self.state)
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (at, to) = (a.as_ptr().cast(), b.as_ptr().cast());
        // SAFETY: the contract; two keys with their lengths.
        unsafe { (self.compare)(self.state.pointer(), at, a.len(), to, b.len()) }.cmp(&0)
    }
}

/// Null if a callback is missing: an open with it then fails.
#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    compare: Option<Compare>,
    name: Option<Name>,
) -> Option<Box<ComparatorHandle>> {
    let state = State::new(state, destructor);
    let callbacks = Callbacks { state, compare: compare?, name: NameOnce::new(name?) };
    Some(Box::new(ComparatorHandle(Arc::new(callbacks))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_destroy(comparator: Option<Box<ComparatorHandle>>) {
    quietly(|| drop(comparator));
}
