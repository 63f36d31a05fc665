//! A filter policy of the program.

use std::ffi::{c_int, c_void};

use terrace::FilterPolicy;

use super::{ByteBuffer, CxxSlice, UserObject};

#[repr(C)]
pub(in super::super) struct FilterCallbacks {
    name: unsafe extern "C" fn(*mut c_void) -> CxxSlice<'static>,
    create: unsafe extern "C" fn(*mut c_void, keys: *const CxxSlice<'_>, count: c_int, into: &mut ByteBuffer),
    may_match: unsafe extern "C" fn(*mut c_void, key: CxxSlice<'_>, filter: CxxSlice<'_>) -> bool,
}

pub(in super::super) struct UserFilterPolicy {
    object: UserObject<FilterCallbacks>,
    name: String,
}

impl UserObject<FilterCallbacks> {
    /// Converts the object to a filter policy of the engine.
    pub(in super::super) fn into_filter_policy(self) -> UserFilterPolicy {
        // SAFETY: the program keeps the policy alive while a database uses it, and its slices are
        // valid for the call.
        let name = unsafe { (self.callbacks.name)(self.object) }.as_slice();
        // Read once, because the name of a policy must not change.
        let name = String::from_utf8_lossy(name).into_owned();
        UserFilterPolicy { object: self, name }
    }
}

impl FilterPolicy for UserFilterPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let UserObject { callbacks, object } = self.object;
        let keys: Vec<CxxSlice<'_>> = keys.iter().map(|key| CxxSlice::from(*key)).collect();
        // A filter covers 2 KiB of file offsets, so the count fits.
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let mut filter = ByteBuffer::new();
        // SAFETY: the program keeps the policy alive while a database uses it, and its slices are
        // valid for the call.
        unsafe { (callbacks.create)(object, keys.as_ptr(), count, &mut filter) };
        dst.append(&mut filter);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let UserObject { callbacks, object } = self.object;
        // SAFETY: the program keeps the policy alive; `key` and `filter` live through the call.
        unsafe { (callbacks.may_match)(object, key.into(), filter.into()) }
    }
}
