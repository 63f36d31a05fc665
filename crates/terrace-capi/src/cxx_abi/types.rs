//! Types of the plain functions: bytes, errors, output strings, user objects.

use std::ffi::{OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terrace::ErrorKind;

use crate::ffi::{StatusError, bytes_from_c, catch_panic, malloc_bytes};

/// Borrowed bytes with the layout of a C++ `Slice`.
///
/// Invariant: the bytes live and do not change during `'a`. C++ guarantees this for its arguments,
/// for the duration of the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxSlice<'a> {
    start: *const c_char,
    len: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> CxxSlice<'a> {
    /// An empty slice.
    pub(super) const EMPTY: CxxSlice<'static> = CxxSlice { start: c"".as_ptr(), len: 0, bytes: PhantomData };

    #[inline]
    pub(super) fn as_slice(self) -> &'a [u8] {
        // SAFETY: by the invariant of the type, `start` points to `len` bytes that live and do not
        // change during `'a`.
        unsafe { bytes_from_c(self.start, self.len) }
    }

    /// Returns address and length, for bytes that may lie in memory that is mutably borrowed.
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

/// LevelDB's status code; 0 means success.
pub(super) type StatusCode = u8;

/// Receives the text of an error: `malloc`ed bytes that the C++ side frees.
#[repr(C)]
pub(super) struct ErrorReport {
    text: *mut c_char,
    len: usize,
}

impl ErrorReport {
    /// Returns an empty report, for a callback of a user object.
    pub(super) fn empty() -> ErrorReport {
        ErrorReport { text: std::ptr::null_mut(), len: 0 }
    }

    /// Returns the result of a callback that returned `code` and, if that is not 0, filled this
    /// report.
    pub(super) fn into_result(self, code: StatusCode) -> Result<(), StatusError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the shim sets `text` to null, or to a block of `len` bytes.
        let message = String::from_utf8_lossy(unsafe { bytes_from_c(self.text, self.len) }).into_owned();
        // SAFETY: the shim allocates `text` with `malloc`, or it is null. The report is consumed,
        // so the block is freed once.
        unsafe { libc::free(self.text.cast()) };
        let kind = match code {
            1 => ErrorKind::NotFound,
            2 => ErrorKind::Corruption,
            3 => ErrorKind::NotSupported,
            4 => ErrorKind::InvalidArgument,
            _ => ErrorKind::Io,
        };
        Err(StatusError { kind, message })
    }
}

/// Runs `call` and returns its status code; stores the text of an error or a panic in `report`.
#[inline]
pub(super) fn run_with_report(
    report: &mut ErrorReport,
    call: impl FnOnce() -> Result<(), StatusError>,
) -> StatusCode {
    catch_panic(call).map_or_else(|error| fill_report(report, &error), |()| 0)
}

#[cold]
fn fill_report(report: &mut ErrorReport, error: &StatusError) -> StatusCode {
    report.text = malloc_bytes(error.message.as_bytes());
    report.len = if report.text.is_null() { 0 } else { error.message.len() };
    error.status_code()
}

/// Returns the result of `call`, or `otherwise` if it panics. For functions that cannot report an
/// error.
pub(super) fn run_or<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_panic(|| Ok(call())).unwrap_or(otherwise)
}

/// A C++ output string, and the callback that assigns it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CxxString {
    string: *mut c_void,
    assign_fn: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>) -> bool,
}

impl CxxString {
    /// Returns false, and keeps the string, without memory for `bytes`.
    #[inline]
    pub(super) fn assign(self, bytes: &[u8]) -> bool {
        // SAFETY: the shim passes the callback that matches `string`, which lives through the call.
        unsafe { (self.assign_fn)(self.string, bytes.into()) }
    }
}

/// An object of the program with the callbacks of its kind; without callbacks there is no object.
#[repr(C)]
pub(super) struct NullableUserObject<Callbacks: 'static> {
    pub(super) callbacks: Option<&'static Callbacks>,
    pub(super) object: *mut c_void,
}

impl<Callbacks> Clone for NullableUserObject<Callbacks> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Callbacks> Copy for NullableUserObject<Callbacks> {}

impl<Callbacks> NullableUserObject<Callbacks> {
    /// Returns the object, if there is one.
    pub(super) fn non_null(self) -> Option<UserObject<Callbacks>> {
        self.callbacks.map(|callbacks| UserObject { callbacks, object: self.object })
    }
}

/// An object of the program.
pub(super) struct UserObject<Callbacks: 'static> {
    pub(super) callbacks: &'static Callbacks,
    pub(super) object: *mut c_void,
}

// SAFETY: LevelDB requires that any thread may call the user's classes and close files. Where it
// allows one thread at a time only, the Rust trait takes `&mut self`.
unsafe impl<Callbacks> Send for UserObject<Callbacks> {}
// SAFETY: LevelDB requires that several threads may call the user's classes at once, except the
// methods that the Rust traits declare with `&mut self`.
unsafe impl<Callbacks> Sync for UserObject<Callbacks> {}
