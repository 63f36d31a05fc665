//! A program's environment: all files go through it, and background work, the info log and the clock too.
//!
//! LevelDB's interface can't sync a directory: there, syncing a file is all there is, and it is the environment's
//! business that the name is durable with it.

use std::ffi::{OsString, c_int, c_void};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace::env::{
    Access, Clock, Env, FileError, FileLock, FileSystem, LockMode, RandomAccessFile, Result, SequentialFile,
    SystemClock, SystemRandom, WritableFile,
};
use terrace::{ErrorKind, Logger};

use super::super::abi::{Code, Handed, Report};
use super::files::{
    ForeignLock, ForeignRandom, ForeignSequential, ForeignWritable, RandomCalls, SequentialCalls,
    WritableCalls, error,
};
use super::logger::{EnvLogger, LoggerCalls};
use super::scheduler::Queue;
use super::{Bin, Bytes, Foreign};
use crate::border::Failure;

type Simple = unsafe extern "C" fn(*mut c_void, Bytes<'_>, &mut Report) -> Code;
type Open<Calls> = unsafe extern "C" fn(*mut c_void, Bytes<'_>, &mut Handed<Calls>, &mut Report) -> Code;

#[repr(C)]
pub(in super::super) struct EnvCalls {
    open_sequential: Open<SequentialCalls>,
    open_random: Open<RandomCalls>,
    create: Open<WritableCalls>,
    append: Open<WritableCalls>,
    exists: unsafe extern "C" fn(*mut c_void, Bytes<'_>) -> bool,
    list: unsafe extern "C" fn(*mut c_void, Bytes<'_>, into: &mut Vec<Bin>, &mut Report) -> Code,
    remove: Simple,
    create_dir: Simple,
    remove_dir: Simple,
    len: unsafe extern "C" fn(*mut c_void, Bytes<'_>, &mut u64, &mut Report) -> Code,
    rename: unsafe extern "C" fn(*mut c_void, from: Bytes<'_>, to: Bytes<'_>, &mut Report) -> Code,
    lock: unsafe extern "C" fn(*mut c_void, Bytes<'_>, &mut *mut c_void, &mut Report) -> Code,
    unlock: unsafe extern "C" fn(*mut c_void, *mut c_void),
    pub(super) schedule: unsafe extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void),
    new_logger: unsafe extern "C" fn(*mut c_void, Bytes<'_>) -> Handed<LoggerCalls>,
    now_us: unsafe extern "C" fn(*mut c_void) -> u64,
    sleep_us: unsafe extern "C" fn(*mut c_void, c_int),
}

/// An environment on its way into options.
pub(in super::super) struct World {
    foreign: Arc<Foreign<EnvCalls>>,
    fs: Arc<dyn FileSystem>,
}

impl World {
    /// Of the environment that a program handed in.
    pub(in super::super) fn new(foreign: Foreign<EnvCalls>) -> World {
        let foreign = Arc::new(foreign);
        let fs = Arc::new(ForeignFs(Arc::clone(&foreign)));
        World { foreign, fs }
    }

    /// As what the engine expects.
    pub(in super::super) fn env(&self) -> Env {
        Env {
            fs: Arc::clone(&self.fs),
            clock: Arc::new(ForeignClock(Arc::clone(&self.foreign))),
            scheduler: Arc::new(Queue(Arc::clone(&self.foreign))),
            random: Arc::new(SystemRandom::new()),
        }
    }

    /// The info log of the database in `directory`.
    pub(in super::super) fn logger(&self, directory: &Path) -> Arc<dyn Logger> {
        Arc::new(EnvLogger::new(Arc::clone(&self.foreign), Arc::clone(&self.fs), directory))
    }
}

/// An error of call `op` on `path`, which keeps the kind and the words of the environment.
pub(super) fn file_error(op: &'static str, path: &Path, failure: Failure) -> FileError {
    let kind = match failure.kind {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::NotSupported => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    error(op, path, kind, failure)
}

impl Foreign<EnvCalls> {
    fn simple(&self, op: &'static str, call: Simple, path: &Path) -> Result<()> {
        let mut report = Report::empty();
        // SAFETY: the program's promise that the object is alive; the call is one of its table.
        let code = unsafe { call(self.object, path.into(), &mut report) };
        report.read(code).map_err(|failure| file_error(op, path, failure))
    }

    fn open<Calls>(&self, call: Open<Calls>, path: &Path) -> Result<Foreign<Calls>> {
        let mut report = Report::empty();
        let mut file = Handed { calls: None, object: std::ptr::null_mut() };
        // SAFETY: as above.
        let code = unsafe { call(self.object, path.into(), &mut file, &mut report) };
        let opened = report.read(code).and_then(|()| {
            file.foreign()
                .ok_or_else(|| Failure { kind: ErrorKind::Io, what: format!("{}: no file", path.display()) })
        });
        opened.map_err(|failure| file_error("open", path, failure))
    }

    pub(super) fn new_logger(&self, path: &Path) -> Option<Foreign<LoggerCalls>> {
        // SAFETY: as above.
        unsafe { (self.calls.new_logger)(self.object, path.into()) }.foreign()
    }

    pub(super) fn unlock(&self, lock: *mut c_void) {
        // SAFETY: as above; the lock came from this environment and is given back once.
        unsafe { (self.calls.unlock)(self.object, lock) };
    }
}

struct ForeignFs(Arc<Foreign<EnvCalls>>);

impl fmt::Debug for ForeignFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeignFs")
    }
}

impl FileSystem for ForeignFs {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self.0.open(self.0.calls.open_sequential, path)?;
        Ok(Box::new(ForeignSequential { file, path: path.to_path_buf() }))
    }

    fn open_random(&self, path: &Path, _access: Access) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.0.open(self.0.calls.open_random, path)?;
        let mut file = ForeignRandom { file, path: path.to_path_buf(), len: 0, owned: true };
        file.len = self.len(path)?;
        Ok(Arc::new(file))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.0.open(self.0.calls.create, path)?;
        Ok(Box::new(ForeignWritable { file, path: path.to_path_buf() }))
    }

    fn append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.0.open(self.0.calls.append, path)?;
        Ok(Box::new(ForeignWritable { file, path: path.to_path_buf() }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        // SAFETY: the program's promise that the object is alive.
        Ok(unsafe { (self.0.calls.exists)(self.0.object, path.into()) })
    }

    /// A directory is what has children, or could.
    fn is_dir(&self, path: &Path) -> Result<bool> {
        Ok(self.list(path).is_ok())
    }

    fn len(&self, path: &Path) -> Result<u64> {
        let (mut len, mut report) = (0, Report::empty());
        // SAFETY: as above.
        let code = unsafe { (self.0.calls.len)(self.0.object, path.into(), &mut len, &mut report) };
        report.read(code).map(|()| len).map_err(|failure| file_error("stat", path, failure))
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        let (mut names, mut report) = (Vec::new(), Report::empty());
        // SAFETY: as above.
        let code = unsafe { (self.0.calls.list)(self.0.object, dir.into(), &mut names, &mut report) };
        report.read(code).map_err(|failure| file_error("list", dir, failure))?;
        // Some environments list these two.
        let names = names.into_iter().filter(|name| !matches!(name.as_slice(), b"." | b".."));
        Ok(names.map(OsString::from_vec).collect())
    }

    /// The interface does not say why it failed, so whoever finds something there takes that for the reason.
    fn create_dir(&self, dir: &Path) -> Result<()> {
        let mut report = Report::empty();
        // SAFETY: as above.
        let code = unsafe { (self.0.calls.create_dir)(self.0.object, dir.into(), &mut report) };
        let created = report.read(code);
        created.map_err(|failure| {
            if self.exists(dir).unwrap_or(false) {
                error("mkdir", dir, io::ErrorKind::AlreadyExists, failure)
            } else {
                file_error("mkdir", dir, failure)
            }
        })
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.0.simple("rmdir", self.0.calls.remove_dir, dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.simple("remove", self.0.calls.remove, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut report = Report::empty();
        // SAFETY: as above.
        let code = unsafe { (self.0.calls.rename)(self.0.object, from.into(), to.into(), &mut report) };
        report.read(code).map_err(|failure| file_error("rename", from, failure))
    }

    /// Not in the interface; see above.
    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    /// The interface has one kind of lock, which excludes everybody.
    fn lock(&self, path: &Path, _mode: LockMode) -> Result<Box<dyn FileLock>> {
        let (mut lock, mut report) = (std::ptr::null_mut(), Report::empty());
        // SAFETY: as above.
        let code = unsafe { (self.0.calls.lock)(self.0.object, path.into(), &mut lock, &mut report) };
        report.read(code).map_err(|failure| file_error("lock", path, failure))?;
        Ok(Box::new(ForeignLock { env: Arc::clone(&self.0), lock, path: path.to_path_buf() }))
    }
}

/// The program's clock where people see it; the machine's where the engine measures, since that one never goes back.
struct ForeignClock(Arc<Foreign<EnvCalls>>);

impl fmt::Debug for ForeignClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeignClock")
    }
}

impl Clock for ForeignClock {
    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }

    fn wall_us(&self) -> u64 {
        // SAFETY: the program's promise that the object is alive.
        unsafe { (self.0.calls.now_us)(self.0.object) }
    }

    fn sleep(&self, pause: Duration) {
        let micros = c_int::try_from(pause.as_micros()).unwrap_or(c_int::MAX);
        // SAFETY: as above.
        unsafe { (self.0.calls.sleep_us)(self.0.object, micros) };
    }
}
