//! Files of a program's environment.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::path::{Path, PathBuf};

use terrace::env::{FileError, FileLock, RandomAccessFile, Result, SequentialFile, WritableFile};

use super::super::abi::{Code, Report};
use super::env::{EnvCalls, file_error};
use super::{Bytes, Foreign};
use crate::border::Failure;

#[repr(C)]
pub(in super::super) struct SequentialCalls {
    read: unsafe extern "C" fn(
        *mut c_void,
        n: usize,
        scratch: *mut c_char,
        &mut Bytes<'_>,
        &mut Report,
    ) -> Code,
    skip: unsafe extern "C" fn(*mut c_void, n: u64, &mut Report) -> Code,
    delete: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub(in super::super) struct RandomCalls {
    read: unsafe extern "C" fn(
        *mut c_void,
        offset: u64,
        n: usize,
        scratch: *mut c_char,
        &mut Bytes<'_>,
        &mut Report,
    ) -> Code,
    delete: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub(in super::super) struct WritableCalls {
    append: unsafe extern "C" fn(*mut c_void, Bytes<'_>, &mut Report) -> Code,
    flush: unsafe extern "C" fn(*mut c_void, &mut Report) -> Code,
    sync: unsafe extern "C" fn(*mut c_void, &mut Report) -> Code,
    close: unsafe extern "C" fn(*mut c_void, &mut Report) -> Code,
    delete: unsafe extern "C" fn(*mut c_void),
}

/// Moves what a foreign read left, in `buf` or elsewhere, to the start of `buf`.
///
/// # Safety
///
/// `found` is what the read of a live file into `buf` answered.
unsafe fn settle(buf: &mut [u8], found: Bytes<'_>) -> std::result::Result<usize, Failure> {
    let (from, len) = found.raw();
    if len > buf.len() {
        return Err(Failure { kind: terrace::ErrorKind::Io, what: "more bytes than asked for".into() });
    }
    // SAFETY: the caller's promise; `buf` has room for `len` bytes, by the check above. The two may be the same.
    unsafe { std::ptr::copy(from, buf.as_mut_ptr(), len) };
    Ok(len)
}

pub(super) struct ForeignSequential {
    pub(super) file: Foreign<SequentialCalls>,
    pub(super) path: PathBuf,
}

impl SequentialFile for ForeignSequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let Foreign { calls, object } = self.file;
        let (mut found, mut report) = (Bytes::NONE, Report::empty());
        // SAFETY: the file is ours and alive, and `buf` as long as we say.
        let code =
            unsafe { (calls.read)(object, buf.len(), buf.as_mut_ptr().cast(), &mut found, &mut report) };
        let read = report.read(code).and_then(|()| {
            // SAFETY: the answer to that read.
            unsafe { settle(buf, found) }
        });
        read.map_err(|failure| file_error("read", &self.path, failure))
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        let Foreign { calls, object } = self.file;
        let mut report = Report::empty();
        // SAFETY: the file is ours and alive.
        let code = unsafe { (calls.skip)(object, n, &mut report) };
        report.read(code).map_err(|failure| file_error("skip", &self.path, failure))
    }
}

impl Drop for ForeignSequential {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { (self.file.calls.delete)(self.file.object) };
    }
}

pub(in super::super) struct ForeignRandom {
    pub(in super::super) file: Foreign<RandomCalls>,
    pub(in super::super) path: PathBuf,
    pub(in super::super) len: u64,
    /// The program keeps, and deletes, a file that it handed in; one that we opened is ours.
    pub(in super::super) owned: bool,
}

impl RandomAccessFile for ForeignRandom {
    /// A short answer is the end of the file for LevelDB's classes, as it is here.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        // What lies behind the end is an error for some of them.
        let len =
            usize::try_from(self.len.saturating_sub(offset)).map_or(buf.len(), |rest| rest.min(buf.len()));
        let buf = &mut buf[..len];
        if buf.is_empty() {
            return Ok(0);
        }
        let Foreign { calls, object } = self.file;
        let (mut found, mut report) = (Bytes::NONE, Report::empty());
        let scratch = buf.as_mut_ptr().cast();
        // SAFETY: the file is alive, and `buf` as long as we say.
        let code = unsafe { (calls.read)(object, offset, buf.len(), scratch, &mut found, &mut report) };
        let read = report.read(code).and_then(|()| {
            // SAFETY: the answer to that read.
            unsafe { settle(buf, found) }
        });
        read.map_err(|failure| file_error("read", &self.path, failure))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl fmt::Debug for ForeignRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignRandom({})", self.path.display())
    }
}

impl Drop for ForeignRandom {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: ours, and not used again.
            unsafe { (self.file.calls.delete)(self.file.object) };
        }
    }
}

impl Foreign<WritableCalls> {
    /// Adds `data` at the end.
    pub(in super::super) fn append(&self, data: &[u8]) -> std::result::Result<(), Failure> {
        let mut report = Report::empty();
        // SAFETY: the file is alive.
        let code = unsafe { (self.calls.append)(self.object, data.into(), &mut report) };
        report.read(code)
    }

    /// Hands everything to the system.
    pub(in super::super) fn flush(&self) -> std::result::Result<(), Failure> {
        self.call(self.calls.flush)
    }

    fn call(
        &self,
        call: unsafe extern "C" fn(*mut c_void, &mut Report) -> Code,
    ) -> std::result::Result<(), Failure> {
        let mut report = Report::empty();
        // SAFETY: the file is alive, and the call one of its own table.
        let code = unsafe { call(self.object, &mut report) };
        report.read(code)
    }
}

/// A file that we opened.
pub(super) struct ForeignWritable {
    pub(super) file: Foreign<WritableCalls>,
    pub(super) path: PathBuf,
}

impl ForeignWritable {
    fn told(&self, op: &'static str, outcome: std::result::Result<(), Failure>) -> Result<()> {
        outcome.map_err(|failure| file_error(op, &self.path, failure))
    }
}

impl WritableFile for ForeignWritable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.told("write", self.file.append(data))
    }

    fn flush(&mut self) -> Result<()> {
        self.told("write", self.file.flush())
    }

    fn sync(&mut self) -> Result<()> {
        self.told("fsync", self.file.call(self.file.calls.sync))
    }

    fn close(&mut self) -> Result<()> {
        self.told("close", self.file.call(self.file.calls.close))
    }
}

impl Drop for ForeignWritable {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { (self.file.calls.delete)(self.file.object) };
    }
}

/// A lock that the program's environment holds for us.
pub(super) struct ForeignLock {
    pub(super) env: std::sync::Arc<Foreign<EnvCalls>>,
    pub(super) lock: *mut c_void,
    pub(super) path: PathBuf,
}

// SAFETY: an environment unlocks in any thread; nothing else is done with the lock.
unsafe impl Send for ForeignLock {}
// SAFETY: as above.
unsafe impl Sync for ForeignLock {}

impl fmt::Debug for ForeignLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignLock({})", self.path.display())
    }
}

impl FileLock for ForeignLock {}

impl Drop for ForeignLock {
    fn drop(&mut self) {
        self.env.unlock(self.lock);
    }
}

/// An error of call `op` on `path`, the foreign words inside.
pub(super) fn error(op: &'static str, path: &Path, kind: std::io::ErrorKind, failure: Failure) -> FileError {
    FileError::new(op, path, std::io::Error::new(kind, failure))
}
