//! A pointer that a program gives with its callbacks, and takes back through a destructor.

use std::ffi::c_void;

/// The state behind a caller's comparator, filter policy or logger. Calls the destructor when the last user is gone.
pub(super) struct CallbackState {
    pointer: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: the headers ask for callbacks that any thread may call at any time.
unsafe impl Send for CallbackState {}
// SAFETY: the same.
unsafe impl Sync for CallbackState {}

impl CallbackState {
    pub(super) fn new(
        pointer: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> CallbackState {
        CallbackState { pointer, destructor }
    }

    /// What every callback takes first.
    #[inline]
    pub(super) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for CallbackState {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the contract; this is the only time.
            unsafe { destructor(self.pointer) };
        }
    }
}
