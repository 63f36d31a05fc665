//! A program's logger, and the one that its environment makes.

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
        // SAFETY: the program's promise that the object is alive.
        unsafe { (self.callbacks.log)(self.object, line.as_bytes().into()) };
    }
}

/// The file LOG, as the program's environment makes it. Made at the first line, by which time the database's lock is
/// held: a refused opener must not take the log of the running one away.
pub(super) struct EnvLogger {
    env: Arc<UserObject<EnvCallbacks>>,
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    /// None if it can't be made: a database works without.
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

/// A logger that is ours to delete.
struct OwnedLogger(UserObject<LoggerCallbacks>);

impl Drop for OwnedLogger {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { (self.0.callbacks.delete)(self.0.object) };
    }
}
