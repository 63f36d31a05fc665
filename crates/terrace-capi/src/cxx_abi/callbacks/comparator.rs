//! A comparator of the program.

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};

use terrace::Comparator;

use super::{ByteBuffer, CxxSlice, UserObject};
use crate::ffi::CallbackName;

#[repr(C)]
pub(in super::super) struct ComparatorCallbacks {
    name: unsafe extern "C" fn(*mut c_void) -> CxxSlice<'static>,
    compare: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>, CxxSlice<'_>) -> c_int,
    separator:
        unsafe extern "C" fn(*mut c_void, start: CxxSlice<'_>, limit: CxxSlice<'_>, into: &mut ByteBuffer),
    successor: unsafe extern "C" fn(*mut c_void, key: CxxSlice<'_>, into: &mut ByteBuffer),
}

pub(in super::super) struct UserComparator {
    object: UserObject<ComparatorCallbacks>,
    name: CallbackName,
}

impl UserObject<ComparatorCallbacks> {
    /// Converts the object to a comparator of the engine.
    pub(in super::super) fn into_comparator(self) -> UserComparator {
        // SAFETY: the program keeps the comparator alive while a database uses it, and slices are
        // valid for the call.
        let name = unsafe { (self.callbacks.name)(self.object) }.as_slice();
        // Read once, because the name of a comparator must not change.
        UserComparator { object: self, name: CallbackName::new(name) }
    }
}

impl Comparator for UserComparator {
    fn name(&self) -> &str {
        self.name.text()
    }

    fn name_bytes(&self) -> &[u8] {
        self.name.bytes()
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let UserObject { callbacks, object } = self.object;
        // SAFETY: the program keeps the comparator alive while a database uses it, and slices are
        // valid for the call.
        unsafe { (callbacks.compare)(object, a.into(), b.into()) }.cmp(&0)
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let UserObject { callbacks, object } = self.object;
        let mut into = ByteBuffer::new();
        // SAFETY: the program keeps the comparator alive. The keys live through the call, and the
        // result goes to `into`, which does not alias them.
        unsafe { (callbacks.separator)(object, (&**start).into(), limit.into(), &mut into) };
        *start = into;
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        let UserObject { callbacks, object } = self.object;
        let mut into = ByteBuffer::new();
        // SAFETY: the program keeps the comparator alive. The keys live through the call, and the
        // result goes to `into`, which does not alias them.
        unsafe { (callbacks.successor)(object, (&**key).into(), &mut into) };
        *key = into;
    }
}
