//! Lock of a check that writes nothing.

use std::path::Path;

use terrace_env::{Env, FileLock, UnexpectedFile};
use terrace_format::filename::FileName;

use super::Problem;
use crate::db::lock_directory_shared;
use crate::error::{Error, Result};

/// Result of [`lock_for_check`].
pub(crate) struct CheckLock {
    /// Lock of LOCK or of the target of a link in its place. None if there is no file to lock.
    pub(crate) held: Option<Box<dyn FileLock>>,
    /// Problem of a LOCK that is not a regular file.
    pub(crate) problem: Option<Problem>,
}

/// Takes the lock of a read-only open, if LOCK exists. A LOCK that no writer can lock is returned
/// as a problem: a link, a directory, a FIFO or another special file.
///
/// LevelDB follows a link, so the target of the link is locked.
pub(crate) fn lock_for_check(env: &Env, directory: &Path) -> Result<CheckLock> {
    let locked = lock_directory_shared(env, directory);
    let is_link = env.fs.is_symlink(&directory.join(FileName::Lock.to_string()))?;
    let link = UnexpectedFile { found: "a symbolic link", expected: "a regular file" };
    let unexpected = match &locked {
        Err(error) if error.is_locked() => None,
        Err(Error::Io(error)) if !is_link => error.unexpected_file(),
        _ => is_link.then_some(link),
    };
    let Some(unexpected) = unexpected else { return Ok(CheckLock { held: locked?, problem: None }) };
    let problem = Problem { file: FileName::Lock.to_string(), offset: None, message: unexpected.to_string() };
    Ok(CheckLock { held: locked.ok().flatten(), problem: Some(problem) })
}
