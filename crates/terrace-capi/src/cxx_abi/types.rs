//! What crosses between the flat functions and the C++ classes: bytes, errors, strings to fill, foreign objects.

use std::ffi::{OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terrace::ErrorKind;

use crate::ffi::{StatusError, bytes_from_c, catch_panic, malloc_bytes};

/// Bytes of somebody else, with the layout of a C++ `Subcompaction`.
///
/// Invariant: they live and stay as they are for `'a`. C++ promises it for what it passes, as the contract asks, for as
/// long as the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxSlice<'a> {
    start: *const c_char,
    len: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> CxxSlice<'a> {
    /// None at all.
    pub(super) const EMPTY: CxxSlice<'static> = CxxSlice { start: c"".as_ptr(), len: 0, bytes: PhantomData };

    #[inline]
    pub(super) fn as_slice(self) -> &'a [u8] {
        // SAFETY: the invariant.
        unsafe { bytes_from_c(self.start, self.len) }
    }

    /// Where they are, and how many. For bytes that may lie in memory that is borrowed for writing.
    pub(super) fn as_raw_parts(self) -> (*const u8, usize) {
        (self.start.cast(), self.len)
    }

    pub(super) fn as_path(self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.as_slice()))
    }
}

impl<'a> From<&'a [u8]> for CxxSlice<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> CxxSlice<'a> {
        CxxSlice { start: bytes.as_ptr().cast(), len: bytes.len(), bytes: PhantomData }
    }
}

impl<'a> From<&'a Path> for CxxSlice<'a> {
    fn from(path: &'a Path) -> CxxSlice<'a> {
        CxxSlice::from(path.as_os_str().as_bytes())
    }
}

/// LevelDB's number for how a call ended; 0 is well.
pub(super) type StatusCode = u8;

/// Where the text of an error goes: malloc'ed bytes, for who asked to free.
#[repr(C)]
pub(super) struct ErrorReport {
    text: *mut c_char,
    len: usize,
}

impl ErrorReport {
    /// For a call of a foreign object.
    pub(super) fn empty() -> ErrorReport {
        ErrorReport { text: std::ptr::null_mut(), len: 0 }
    }

    /// What a foreign object answered with `code`, having filled this report if the code is not 0.
    pub(super) fn into_result(self, code: StatusCode) -> Result<(), StatusError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the shim's promise: `text` is null or a block of `len` bytes.
        let what = String::from_utf8_lossy(unsafe { bytes_from_c(self.text, self.len) }).into_owned();
        // SAFETY: from malloc, by the shim's promise, or null; not used again.
        unsafe { libc::free(self.text.cast()) };
        let kind = match code {
            1 => ErrorKind::NotFound,
            2 => ErrorKind::Corruption,
            3 => ErrorKind::NotSupported,
            4 => ErrorKind::InvalidArgument,
            _ => ErrorKind::Io,
        };
        Err(StatusError { kind, message: what })
    }
}

/// The code of what `call` returns, its text in `report`; panics are errors.
#[inline]
pub(super) fn run_with_report(
    report: &mut ErrorReport,
    call: impl FnOnce() -> Result<(), StatusError>,
) -> StatusCode {
    catch_panic(call).map_or_else(|failure| fill_report(report, &failure), |()| 0)
}

#[cold]
fn fill_report(report: &mut ErrorReport, failure: &StatusError) -> StatusCode {
    report.text = malloc_bytes(failure.message.as_bytes());
    report.len = if report.text.is_null() { 0 } else { failure.message.len() };
    failure.status_code()
}

/// What `call` returns, or `otherwise` if it fails or panics: for calls that can't say so.
pub(super) fn run_or<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_panic(|| Ok(call())).unwrap_or(otherwise)
}

/// A C++ string to fill, and how.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxString {
    string: *mut c_void,
    assign_fn: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>),
}

impl CxxString {
    #[inline]
    pub(super) fn assign(self, bytes: &[u8]) {
        // SAFETY: the shim's promise: `take` knows what to do with its string, which lives through the call.
        unsafe { (self.assign_fn)(self.string, bytes.into()) };
    }
}

/// An object of the program's, and the table of calls for its kind. Without calls there is no object.
#[repr(C)]
pub(super) struct NullableUserObject<Calls: 'static> {
    pub(super) callbacks: Option<&'static Calls>,
    pub(super) object: *mut c_void,
}

impl<Calls> Clone for NullableUserObject<Calls> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Calls> Copy for NullableUserObject<Calls> {}

impl<Calls> NullableUserObject<Calls> {
    /// The object with its calls, if there is one.
    pub(super) fn non_null(self) -> Option<UserObject<Calls>> {
        self.callbacks.map(|calls| UserObject { callbacks: calls, object: self.object })
    }
}

/// An object of the program's that is there.
pub(super) struct UserObject<Calls: 'static> {
    pub(super) callbacks: &'static Calls,
    pub(super) object: *mut c_void,
}

// SAFETY: LevelDB asks of every class that a program hands in that it may be called, and of files that they may be
// closed, from any thread; where it asks for one thread at a time, the trait behind which it stands does so too.
unsafe impl<Calls> Send for UserObject<Calls> {}
// SAFETY: as above.
unsafe impl<Calls> Sync for UserObject<Calls> {}
