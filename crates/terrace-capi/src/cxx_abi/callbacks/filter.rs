//! A program's filter policy.

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
    /// As what the engine expects.
    pub(in super::super) fn into_filter_policy(self) -> UserFilterPolicy {
        // SAFETY: the program's promise that the object is alive.
        let name = unsafe { (self.callbacks.name)(self.object) }.as_slice();
        // Taken once: it may not change.
        let name = String::from_utf8_lossy(name).into_owned();
        UserFilterPolicy { object: self, name }
    }
}

impl FilterPolicy for UserFilterPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let UserObject { callbacks: calls, object } = self.object;
        let keys: Vec<CxxSlice<'_>> = keys.iter().map(|key| CxxSlice::from(*key)).collect();
        // A filter is of 2 KiB of file, so there are never so many keys.
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let mut filter = ByteBuffer::new();
        // SAFETY: the program's promise that the object is alive.
        unsafe { (calls.create)(object, keys.as_ptr(), count, &mut filter) };
        dst.append(&mut filter);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let UserObject { callbacks: calls, object } = self.object;
        // SAFETY: as above.
        unsafe { (calls.may_match)(object, key.into(), filter.into()) }
    }
}
