//! Loggers of the program, and loggers that its environment creates.

use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use terrace::Logger;
use terrace::env::FileSystem;

use super::env::EnvCallbacks;
use super::{CxxSlice, UserObject};

#[repr(C)]
pub(in super::super) struct LoggerCallbacks {
    log: unsafe extern "C" fn(*mut c_void, line: CxxSlice<'_>),
    delete: unsafe extern "C" fn(*mut c_void),
}

/// A logger that the program owns.
impl Logger for UserObject<LoggerCallbacks> {
    fn log(&self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        // SAFETY: the program keeps the logger alive while a database uses it; `line` lives through
        // the call.
        unsafe { (self.callbacks.log)(self.object, line.as_bytes().into()) };
    }
}

/// The file `LOG`, created by the program's environment at the first line. The database holds its
/// lock by then, so an open that fails on the lock does not rename the log of the running database.
pub(super) struct EnvLogger {
    env: Arc<UserObject<EnvCallbacks>>,
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    /// None if it can't be created; a database works without it.
    logger: OnceLock<Option<OwnedLogger>>,
}

impl EnvLogger {
    pub(super) fn new(
        env: Arc<UserObject<EnvCallbacks>>,
        fs: Arc<dyn FileSystem>,
        directory: &Path,
    ) -> EnvLogger {
        EnvLogger { env, fs, directory: directory.to_path_buf(), logger: OnceLock::new() }
    }

    fn create_logger(&self) -> Option<OwnedLogger> {
        let path = self.directory.join("LOG");
        let _ = self.fs.rename(&path, &self.directory.join("LOG.old"));
        self.env.new_logger(&path).map(OwnedLogger)
    }
}

impl Logger for EnvLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        if let Some(OwnedLogger(logger)) = self.logger.get_or_init(|| self.create_logger()) {
            logger.log(line);
        }
    }
}

/// A logger that the adapter deletes.
struct OwnedLogger(UserObject<LoggerCallbacks>);

impl Drop for OwnedLogger {
    fn drop(&mut self) {
        // SAFETY: the environment handed the logger over, and it is deleted once, here.
        unsafe { (self.0.callbacks.delete)(self.0.object) };
    }
}
