//! What crosses between the flat functions and the C++ classes: bytes, errors, strings to fill, foreign objects.

use std::ffi::{OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terrace::ErrorKind;

use crate::border::{Failure, bytes, guarded, malloced};

/// Bytes of somebody else, with the layout of a C++ `Slice`.
///
/// Invariant: they live and stay as they are for `'a`. C++ promises it for what it passes, as the contract asks, for as
/// long as the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    start: *const c_char,
    len: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Bytes<'a> {
    /// None at all.
    pub(super) const NONE: Bytes<'static> = Bytes { start: c"".as_ptr(), len: 0, bytes: PhantomData };

    #[inline]
    pub(super) fn get(self) -> &'a [u8] {
        // SAFETY: the invariant.
        unsafe { bytes(self.start, self.len) }
    }

    /// Where they are, and how many. For bytes that may lie in memory that is borrowed for writing.
    pub(super) fn raw(self) -> (*const u8, usize) {
        (self.start.cast(), self.len)
    }

    pub(super) fn path(self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.get()))
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { start: bytes.as_ptr().cast(), len: bytes.len(), bytes: PhantomData }
    }
}

impl<'a> From<&'a Path> for Bytes<'a> {
    fn from(path: &'a Path) -> Bytes<'a> {
        Bytes::from(path.as_os_str().as_bytes())
    }
}

/// LevelDB's number for how a call ended; 0 is well.
pub(super) type Code = u8;

/// Where the text of an error goes: malloc'ed bytes, for who asked to free.
#[repr(C)]
pub(super) struct Report {
    text: *mut c_char,
    len: usize,
}

impl Report {
    /// For a call of a foreign object.
    pub(super) fn empty() -> Report {
        Report { text: std::ptr::null_mut(), len: 0 }
    }

    /// What a foreign object answered with `code`, having filled this report if the code is not 0.
    pub(super) fn read(self, code: Code) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the shim's promise: `text` is null or a block of `len` bytes.
        let what = String::from_utf8_lossy(unsafe { bytes(self.text, self.len) }).into_owned();
        // SAFETY: from malloc, by the shim's promise, or null; not used again.
        unsafe { libc::free(self.text.cast()) };
        let kind = match code {
            1 => ErrorKind::NotFound,
            2 => ErrorKind::Corruption,
            3 => ErrorKind::NotSupported,
            4 => ErrorKind::InvalidArgument,
            _ => ErrorKind::Io,
        };
        Err(Failure { kind, what })
    }
}

/// The code of what `call` returns, its text in `report`; panics are errors.
#[inline]
pub(super) fn answer(report: &mut Report, call: impl FnOnce() -> Result<(), Failure>) -> Code {
    guarded(call).map_or_else(|failure| refuse(report, &failure), |()| 0)
}

#[cold]
fn refuse(report: &mut Report, failure: &Failure) -> Code {
    report.text = malloced(failure.what.as_bytes());
    report.len = if report.text.is_null() { 0 } else { failure.what.len() };
    failure.code()
}

/// What `call` returns, or `otherwise` if it fails or panics: for calls that can't say so.
pub(super) fn quietly<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    guarded(|| Ok(call())).unwrap_or(otherwise)
}

/// A C++ string to fill, and how.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Text {
    string: *mut c_void,
    take: unsafe extern "C" fn(*mut c_void, Bytes<'_>),
}

impl Text {
    #[inline]
    pub(super) fn fill(self, bytes: &[u8]) {
        // SAFETY: the shim's promise: `take` knows what to do with its string, which lives through the call.
        unsafe { (self.take)(self.string, bytes.into()) };
    }
}

/// An object of the program's, and the table of calls for its kind. Without calls there is no object.
#[repr(C)]
pub(super) struct Handed<Calls: 'static> {
    pub(super) calls: Option<&'static Calls>,
    pub(super) object: *mut c_void,
}

impl<Calls> Clone for Handed<Calls> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Calls> Copy for Handed<Calls> {}

impl<Calls> Handed<Calls> {
    /// The object with its calls, if there is one.
    pub(super) fn foreign(self) -> Option<Foreign<Calls>> {
        self.calls.map(|calls| Foreign { calls, object: self.object })
    }
}

/// An object of the program's that is there.
pub(super) struct Foreign<Calls: 'static> {
    pub(super) calls: &'static Calls,
    pub(super) object: *mut c_void,
}

// SAFETY: LevelDB asks of every class that a program hands in that it may be called, and of files that they may be
// closed, from any thread; where it asks for one thread at a time, the trait behind which it stands does so too.
unsafe impl<Calls> Send for Foreign<Calls> {}
// SAFETY: as above.
unsafe impl<Calls> Sync for Foreign<Calls> {}
