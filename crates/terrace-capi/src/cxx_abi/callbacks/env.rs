//! An environment of the program: all files, background work, the info log and the clock.
//!
//! LevelDB's interface cannot sync a directory. An environment must therefore make the name of a
//! file durable with a sync of the file.

use std::ffi::{OsString, c_int, c_void};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace::env::{
    AccessMode, Clock, Env, FileError, FileLock, FileSystem, LockMode, RandomAccessFile, Result,
    SequentialFile, SystemClock, SystemRandom, WritableFile,
};
use terrace::{ErrorKind, Logger};

use super::super::types::{ErrorReport, NullableUserObject, StatusCode};
use super::files::{
    RandomAccessFileCallbacks, SequentialFileCallbacks, UserFileLock, UserRandomAccessFile,
    UserSequentialFile, UserWritableFile, WritableFileCallbacks, file_error_of_kind,
};
use super::logger::{EnvLogger, LoggerCallbacks};
use super::scheduler::UserScheduler;
use super::{ByteBuffer, CxxSlice, UserObject};
use crate::ffi::StatusError;

type PathCallback = unsafe extern "C" fn(*mut c_void, CxxSlice<'_>, &mut ErrorReport) -> StatusCode;
type OpenCallback<Callbacks> = unsafe extern "C" fn(
    *mut c_void,
    CxxSlice<'_>,
    &mut NullableUserObject<Callbacks>,
    &mut ErrorReport,
) -> StatusCode;

#[repr(C)]
pub(in super::super) struct EnvCallbacks {
    open_sequential: OpenCallback<SequentialFileCallbacks>,
    open_random: OpenCallback<RandomAccessFileCallbacks>,
    create: OpenCallback<WritableFileCallbacks>,
    append: OpenCallback<WritableFileCallbacks>,
    exists: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>) -> bool,
    list: unsafe extern "C" fn(
        *mut c_void,
        CxxSlice<'_>,
        into: &mut Vec<ByteBuffer>,
        &mut ErrorReport,
    ) -> StatusCode,
    remove: PathCallback,
    create_dir: PathCallback,
    remove_dir: PathCallback,
    len: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>, &mut u64, &mut ErrorReport) -> StatusCode,
    rename: unsafe extern "C" fn(
        *mut c_void,
        from: CxxSlice<'_>,
        to: CxxSlice<'_>,
        &mut ErrorReport,
    ) -> StatusCode,
    lock: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>, &mut *mut c_void, &mut ErrorReport) -> StatusCode,
    unlock: unsafe extern "C" fn(*mut c_void, *mut c_void),
    pub(super) schedule: unsafe extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void),
    new_logger: unsafe extern "C" fn(*mut c_void, CxxSlice<'_>) -> NullableUserObject<LoggerCallbacks>,
    now_us: unsafe extern "C" fn(*mut c_void) -> u64,
    sleep_us: unsafe extern "C" fn(*mut c_void, c_int),
}

/// An environment of the program.
pub(in super::super) struct UserEnv {
    object: Arc<UserObject<EnvCallbacks>>,
    fs: Arc<dyn FileSystem>,
}

impl UserEnv {
    /// Wraps an environment that the program passed.
    pub(in super::super) fn new(object: UserObject<EnvCallbacks>) -> UserEnv {
        let object = Arc::new(object);
        let fs = Arc::new(UserFileSystem(Arc::clone(&object)));
        UserEnv { object, fs }
    }

    /// Converts the environment to one of the engine.
    pub(in super::super) fn to_env(&self) -> Env {
        Env {
            fs: Arc::clone(&self.fs),
            clock: Arc::new(UserClock(Arc::clone(&self.object))),
            scheduler: Arc::new(UserScheduler(Arc::clone(&self.object))),
            random: Arc::new(SystemRandom::new()),
        }
    }

    /// Returns the info log of the database in `directory`.
    pub(in super::super) fn info_log(&self, directory: &Path) -> Arc<dyn Logger> {
        Arc::new(EnvLogger::new(Arc::clone(&self.object), Arc::clone(&self.fs), directory))
    }
}

/// Returns true if the environment passes on the text of a system that has no space. A status has
/// no number, and `EnvWrapper` passes on those of `Env::Default()`.
fn is_no_space(error: &StatusError) -> bool {
    [libc::ENOSPC, libc::EDQUOT, libc::EFBIG].into_iter().any(|code| {
        let known = io::Error::from_raw_os_error(code).to_string();
        // The number follows in parentheses.
        known.split(" (os error").next().is_some_and(|known| error.message.contains(known))
    })
}

/// Creates an error of operation `op` on `path`, with the kind and the text of the environment's
/// error.
pub(super) fn file_error(op: &'static str, path: &Path, error: StatusError) -> FileError {
    let kind = match error.kind {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::NotSupported => io::ErrorKind::Unsupported,
        _ if is_no_space(&error) => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    file_error_of_kind(op, path, kind, error)
}

impl UserObject<EnvCallbacks> {
    fn call_with_path(&self, op: &'static str, call: PathCallback, path: &Path) -> Result<()> {
        let mut report = ErrorReport::empty();
        // SAFETY: the program keeps the environment alive, and `call` comes from its callback
        // table.
        let code = unsafe { call(self.object, path.into(), &mut report) };
        report.into_result(code).map_err(|error| file_error(op, path, error))
    }

    fn open_file<Callbacks>(
        &self,
        call: OpenCallback<Callbacks>,
        path: &Path,
    ) -> Result<UserObject<Callbacks>> {
        let mut report = ErrorReport::empty();
        let mut file = NullableUserObject { callbacks: None, object: std::ptr::null_mut() };
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        let code = unsafe { call(self.object, path.into(), &mut file, &mut report) };
        let opened = report.into_result(code).and_then(|()| {
            file.non_null().ok_or_else(|| StatusError {
                kind: ErrorKind::Io,
                message: format!("{}: no file", path.display()),
            })
        });
        opened.map_err(|error| file_error("open", path, error))
    }

    pub(super) fn new_logger(&self, path: &Path) -> Option<UserObject<LoggerCallbacks>> {
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        unsafe { (self.callbacks.new_logger)(self.object, path.into()) }.non_null()
    }

    pub(super) fn unlock(&self, lock: *mut c_void) {
        // SAFETY: the program keeps the environment alive. It returned `lock`, which is released
        // once.
        unsafe { (self.callbacks.unlock)(self.object, lock) };
    }
}

struct UserFileSystem(Arc<UserObject<EnvCallbacks>>);

impl fmt::Debug for UserFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserFileSystem")
    }
}

impl FileSystem for UserFileSystem {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self.0.open_file(self.0.callbacks.open_sequential, path)?;
        Ok(Box::new(UserSequentialFile { file, path: path.to_path_buf() }))
    }

    fn open_random_access(&self, path: &Path, _access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.0.open_file(self.0.callbacks.open_random, path)?;
        let mut file = UserRandomAccessFile { file, path: path.to_path_buf(), len: 0, is_owned: true };
        file.len = self.file_size(path)?;
        Ok(Arc::new(file))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.0.open_file(self.0.callbacks.create, path)?;
        Ok(Box::new(UserWritableFile { file, path: path.to_path_buf() }))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.0.open_file(self.0.callbacks.append, path)?;
        Ok(Box::new(UserWritableFile { file, path: path.to_path_buf() }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        // SAFETY: the program keeps the environment alive while a database uses it.
        Ok(unsafe { (self.0.callbacks.exists)(self.0.object, path.into()) })
    }

    /// LevelDB's interface has no such method; a path that can be listed is a directory.
    fn is_dir(&self, path: &Path) -> Result<bool> {
        Ok(self.list(path).is_ok())
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let mut len = 0;
        let mut report = ErrorReport::empty();
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        let code = unsafe { (self.0.callbacks.len)(self.0.object, path.into(), &mut len, &mut report) };
        report.into_result(code).map(|()| len).map_err(|error| file_error("stat", path, error))
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        let mut names = Vec::new();
        let mut report = ErrorReport::empty();
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        let code = unsafe { (self.0.callbacks.list)(self.0.object, dir.into(), &mut names, &mut report) };
        report.into_result(code).map_err(|error| file_error("list", dir, error))?;
        // Some environments list these two names.
        let names = names.into_iter().filter(|name| !matches!(name.as_slice(), b"." | b".."));
        Ok(names.map(OsString::from_vec).collect())
    }

    /// The interface does not report the reason of an error, so an existing path is taken for the
    /// reason.
    fn create_dir(&self, dir: &Path) -> Result<()> {
        let mut report = ErrorReport::empty();
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        let code = unsafe { (self.0.callbacks.create_dir)(self.0.object, dir.into(), &mut report) };
        let created = report.into_result(code);
        created.map_err(|error| {
            if self.exists(dir).unwrap_or(false) {
                file_error_of_kind("mkdir", dir, io::ErrorKind::AlreadyExists, error)
            } else {
                file_error("mkdir", dir, error)
            }
        })
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.0.call_with_path("rmdir", self.0.callbacks.remove_dir, dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.call_with_path("remove", self.0.callbacks.remove, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut report = ErrorReport::empty();
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        let code = unsafe { (self.0.callbacks.rename)(self.0.object, from.into(), to.into(), &mut report) };
        report.into_result(code).map_err(|error| file_error("rename", from, error))
    }

    /// LevelDB's interface has no such method, see the module comment.
    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    /// The interface has only exclusive locks.
    fn lock(&self, path: &Path, _mode: LockMode) -> Result<Box<dyn FileLock>> {
        let mut lock = std::ptr::null_mut();
        let mut report = ErrorReport::empty();
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        let code = unsafe { (self.0.callbacks.lock)(self.0.object, path.into(), &mut lock, &mut report) };
        report.into_result(code).map_err(|error| file_error("lock", path, error))?;
        Ok(Box::new(UserFileLock { env: Arc::clone(&self.0), lock, path: path.to_path_buf() }))
    }
}

/// Wall clock of the program, and monotonic clock of the system. The engine measures with the
/// latter, because it never goes back.
struct UserClock(Arc<UserObject<EnvCallbacks>>);

impl fmt::Debug for UserClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserClock")
    }
}

impl Clock for UserClock {
    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }

    fn wall_us(&self) -> u64 {
        // SAFETY: the program keeps the environment alive while a database uses it.
        unsafe { (self.0.callbacks.now_us)(self.0.object) }
    }

    fn sleep(&self, pause: Duration) {
        let micros = c_int::try_from(pause.as_micros()).unwrap_or(c_int::MAX);
        // SAFETY: the program keeps the environment alive; all other arguments live through the
        // call.
        unsafe { (self.0.callbacks.sleep_us)(self.0.object, micros) };
    }
}
