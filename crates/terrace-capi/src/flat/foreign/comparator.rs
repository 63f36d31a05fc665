//! A program's order of keys.

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};

use terrace::Comparator;

use super::{Bin, Bytes, Foreign};

#[repr(C)]
pub(in super::super) struct ComparatorCalls {
    name: unsafe extern "C" fn(*mut c_void) -> Bytes<'static>,
    compare: unsafe extern "C" fn(*mut c_void, Bytes<'_>, Bytes<'_>) -> c_int,
    separator: unsafe extern "C" fn(*mut c_void, start: Bytes<'_>, limit: Bytes<'_>, into: &mut Bin),
    successor: unsafe extern "C" fn(*mut c_void, key: Bytes<'_>, into: &mut Bin),
}

pub(in super::super) struct ForeignComparator {
    foreign: Foreign<ComparatorCalls>,
    name: String,
}

impl Foreign<ComparatorCalls> {
    /// As what the engine expects.
    pub(in super::super) fn comparator(self) -> ForeignComparator {
        // SAFETY: the program's promise that the object is alive.
        let name = unsafe { (self.calls.name)(self.object) }.get();
        // Taken once: it may not change.
        let name = String::from_utf8_lossy(name).into_owned();
        ForeignComparator { foreign: self, name }
    }
}

impl Comparator for ForeignComparator {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Foreign { calls, object } = self.foreign;
        // SAFETY: the program's promise that the object is alive.
        unsafe { (calls.compare)(object, a.into(), b.into()) }.cmp(&0)
    }

    fn shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let Foreign { calls, object } = self.foreign;
        let mut into = Bin::new();
        // SAFETY: as above.
        unsafe { (calls.separator)(object, (&**start).into(), limit.into(), &mut into) };
        *start = into;
    }

    fn short_successor(&self, key: &mut Vec<u8>) {
        let Foreign { calls, object } = self.foreign;
        let mut into = Bin::new();
        // SAFETY: as above.
        unsafe { (calls.successor)(object, (&**key).into(), &mut into) };
        *key = into;
    }
}
