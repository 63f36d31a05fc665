//! A program's filter policy.

use std::ffi::{c_int, c_void};

use terrace::FilterPolicy;

use super::{Bin, Bytes, Foreign};

#[repr(C)]
pub(in super::super) struct FilterCalls {
    name: unsafe extern "C" fn(*mut c_void) -> Bytes<'static>,
    create: unsafe extern "C" fn(*mut c_void, keys: *const Bytes<'_>, count: c_int, into: &mut Bin),
    may_match: unsafe extern "C" fn(*mut c_void, key: Bytes<'_>, filter: Bytes<'_>) -> bool,
}

pub(in super::super) struct ForeignFilter {
    foreign: Foreign<FilterCalls>,
    name: String,
}

impl Foreign<FilterCalls> {
    /// As what the engine expects.
    pub(in super::super) fn filter(self) -> ForeignFilter {
        // SAFETY: the program's promise that the object is alive.
        let name = unsafe { (self.calls.name)(self.object) }.get();
        // Taken once: it may not change.
        let name = String::from_utf8_lossy(name).into_owned();
        ForeignFilter { foreign: self, name }
    }
}

impl FilterPolicy for ForeignFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, keys: &[&[u8]], dst: &mut Vec<u8>) {
        let Foreign { calls, object } = self.foreign;
        let keys: Vec<Bytes<'_>> = keys.iter().map(|key| Bytes::from(*key)).collect();
        // A filter is of 2 KiB of file, so there are never so many keys.
        let count = c_int::try_from(keys.len()).unwrap_or(c_int::MAX);
        let mut filter = Bin::new();
        // SAFETY: the program's promise that the object is alive.
        unsafe { (calls.create)(object, keys.as_ptr(), count, &mut filter) };
        dst.append(&mut filter);
    }

    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let Foreign { calls, object } = self.foreign;
        // SAFETY: as above.
        unsafe { (calls.may_match)(object, key.into(), filter.into()) }
    }
}
