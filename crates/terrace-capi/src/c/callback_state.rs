//! The state pointer of a program's callbacks, with its destructor.

use std::ffi::c_void;

/// State of a program's comparator, filter policy or logger. Calls the destructor when its last
/// user drops it.
pub(super) struct CallbackState {
    pointer: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: the headers require that any thread may call the callbacks, and thus use the state, at
// any time.
unsafe impl Send for CallbackState {}
// SAFETY: the headers require that several threads may call the callbacks with the same state at
// once.
unsafe impl Sync for CallbackState {}

impl CallbackState {
    pub(super) fn new(
        pointer: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> CallbackState {
        CallbackState { pointer, destructor }
    }

    /// First argument of every callback.
    #[inline]
    pub(super) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for CallbackState {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the destructor takes the state pointer, and `drop` runs once, after the last
            // callback.
            unsafe { destructor(self.pointer) };
        }
    }
}
