//! Files of the program's environment.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::path::{Path, PathBuf};

use terrace::env::{FileError, FileLock, RandomAccessFile, Result, SequentialFile, WritableFile};

use super::super::types::{ErrorReport, StatusCode};
use super::env::{EnvCallbacks, file_error};
use super::{CxxSlice, UserObject};
use crate::ffi::StatusError;

#[repr(C)]
pub(in super::super) struct SequentialFileCallbacks {
    read: unsafe extern "C" fn(
        *mut c_void,
        n: usize,
        scratch: *mut c_char,
        &mut CxxSlice<'_>,
        &mut ErrorReport,
    ) -> StatusCode,
    skip: unsafe extern "C" fn(*mut c_void, n: u64, &mut ErrorReport) -> StatusCode,
    delete: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub(in super::super) struct RandomAccessFileCallbacks {
    read: unsafe extern "C" fn(
        *mut c_void,
        offset: u64,
        n: usize,
        scratch: *mut c_char,
        &mut CxxSlice<'_>,
        &mut ErrorReport,
    ) -> StatusCode,
    delete: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub(in super::super) struct WritableFileCallbacks {
    append: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>, &mut ErrorReport) -> StatusCode,
    flush: unsafe extern "C" fn(*mut c_void, &mut ErrorReport) -> StatusCode,
    sync: unsafe extern "C" fn(*mut c_void, &mut ErrorReport) -> StatusCode,
    close: unsafe extern "C" fn(*mut c_void, &mut ErrorReport) -> StatusCode,
    delete: unsafe extern "C" fn(*mut c_void),
}

/// Moves the bytes that a read returned, in `buf` or elsewhere, to the start of `buf`.
///
/// # Safety
///
/// `found` is the result of a read into `buf` from a live file.
unsafe fn copy_to_buffer(buf: &mut [u8], found: CxxSlice<'_>) -> std::result::Result<usize, StatusError> {
    let (from, len) = found.as_raw_parts();
    if len > buf.len() {
        return Err(StatusError {
            kind: terrace::ErrorKind::Io,
            message: "more bytes than asked for".into(),
        });
    }
    // SAFETY: `found` is valid by the contract of this function, and `buf` has room for `len` bytes
    // by the check above. The two may overlap.
    unsafe { std::ptr::copy(from, buf.as_mut_ptr(), len) };
    Ok(len)
}

pub(super) struct UserSequentialFile {
    pub(super) file: UserObject<SequentialFileCallbacks>,
    pub(super) path: PathBuf,
}

impl SequentialFile for UserSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let UserObject { callbacks, object } = self.file;
        let mut found = CxxSlice::EMPTY;
        let mut report = ErrorReport::empty();
        // SAFETY: the adapter owns the file, so it is alive, and `buf` has the given length.
        let code =
            unsafe { (callbacks.read)(object, buf.len(), buf.as_mut_ptr().cast(), &mut found, &mut report) };
        let read = report.into_result(code).and_then(|()| {
            // SAFETY: `found` is the result of the read into `buf` just before.
            unsafe { copy_to_buffer(buf, found) }
        });
        read.map_err(|error| file_error("read", &self.path, error))
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let UserObject { callbacks, object } = self.file;
        let mut report = ErrorReport::empty();
        // SAFETY: the adapter owns the file, so it is alive.
        let code = unsafe { (callbacks.skip)(object, n, &mut report) };
        report.into_result(code).map_err(|error| file_error("skip", &self.path, error))
    }
}

impl Drop for UserSequentialFile {
    fn drop(&mut self) {
        // SAFETY: the adapter owns the file and does not use it again.
        unsafe { (self.file.callbacks.delete)(self.file.object) };
    }
}

pub(in super::super) struct UserRandomAccessFile {
    pub(in super::super) file: UserObject<RandomAccessFileCallbacks>,
    pub(in super::super) path: PathBuf,
    pub(in super::super) len: u64,
    /// Whether the adapter deletes the file. The program keeps and deletes a file that it passed
    /// itself.
    pub(in super::super) is_owned: bool,
}

impl RandomAccessFile for UserRandomAccessFile {
    /// Returns fewer bytes only at the end of the file, as LevelDB's classes do.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // Some classes fail on reads past the end.
        let len =
            usize::try_from(self.len.saturating_sub(offset)).map_or(buf.len(), |rest| rest.min(buf.len()));
        let buf = &mut buf[..len];
        if buf.is_empty() {
            return Ok(0);
        }
        let UserObject { callbacks, object } = self.file;
        let mut found = CxxSlice::EMPTY;
        let mut report = ErrorReport::empty();
        let scratch = buf.as_mut_ptr().cast();
        // SAFETY: the owner keeps the file alive, and `buf` has the given length.
        let code = unsafe { (callbacks.read)(object, offset, buf.len(), scratch, &mut found, &mut report) };
        let read = report.into_result(code).and_then(|()| {
            // SAFETY: `found` is the result of the read into `buf` just before.
            unsafe { copy_to_buffer(buf, found) }
        });
        read.map_err(|error| file_error("read", &self.path, error))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl fmt::Debug for UserRandomAccessFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserRandomAccessFile({})", self.path.display())
    }
}

impl Drop for UserRandomAccessFile {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: the adapter owns the file and does not use it again.
            unsafe { (self.file.callbacks.delete)(self.file.object) };
        }
    }
}

impl UserObject<WritableFileCallbacks> {
    /// Appends `data`.
    pub(in super::super) fn append(&self, data: &[u8]) -> std::result::Result<(), StatusError> {
        let mut report = ErrorReport::empty();
        // SAFETY: the owner keeps the file alive, and `data` lives through the call.
        let code = unsafe { (self.callbacks.append)(self.object, data.into(), &mut report) };
        report.into_result(code)
    }

    /// Passes all data to the operating system.
    pub(in super::super) fn flush(&self) -> std::result::Result<(), StatusError> {
        self.call_with_report(self.callbacks.flush)
    }

    fn call_with_report(
        &self,
        call: unsafe extern "C" fn(*mut c_void, &mut ErrorReport) -> StatusCode,
    ) -> std::result::Result<(), StatusError> {
        let mut report = ErrorReport::empty();
        // SAFETY: the owner keeps the file alive, and `call` comes from its own callback table.
        let code = unsafe { call(self.object, &mut report) };
        report.into_result(code)
    }
}

/// A file that the engine opened.
pub(super) struct UserWritableFile {
    pub(super) file: UserObject<WritableFileCallbacks>,
    pub(super) path: PathBuf,
}

impl UserWritableFile {
    fn to_file_result(&self, op: &'static str, result: std::result::Result<(), StatusError>) -> Result<()> {
        result.map_err(|error| file_error(op, &self.path, error))
    }
}

impl WritableFile for UserWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.to_file_result("write", self.file.append(data))
    }

    fn flush(&mut self) -> Result<()> {
        self.to_file_result("write", self.file.flush())
    }

    fn sync(&mut self) -> Result<()> {
        self.to_file_result("fsync", self.file.call_with_report(self.file.callbacks.sync))
    }

    fn close(&mut self) -> Result<()> {
        self.to_file_result("close", self.file.call_with_report(self.file.callbacks.close))
    }
}

impl Drop for UserWritableFile {
    fn drop(&mut self) {
        // SAFETY: the adapter owns the file and does not use it again.
        unsafe { (self.file.callbacks.delete)(self.file.object) };
    }
}

/// A file lock that the program's environment holds for the engine.
pub(super) struct UserFileLock {
    pub(super) env: std::sync::Arc<UserObject<EnvCallbacks>>,
    pub(super) lock: *mut c_void,
    pub(super) path: PathBuf,
}

// SAFETY: an environment allows unlocking in any thread, and the pointer has no other use.
unsafe impl Send for UserFileLock {}
// SAFETY: a shared reference gives no access to the lock pointer.
unsafe impl Sync for UserFileLock {}

impl fmt::Debug for UserFileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserFileLock({})", self.path.display())
    }
}

impl FileLock for UserFileLock {}

impl Drop for UserFileLock {
    fn drop(&mut self) {
        self.env.unlock(self.lock);
    }
}

/// Creates an error of operation `op` on `path`, with the environment's own error inside.
pub(super) fn file_error_of_kind(
    op: &'static str,
    path: &Path,
    kind: std::io::ErrorKind,
    error: StatusError,
) -> FileError {
    FileError::new(op, path, std::io::Error::new(kind, error))
}
