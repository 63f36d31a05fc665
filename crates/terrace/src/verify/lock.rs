//! Lock of a check that writes nothing.

use std::path::Path;

use terrace_env::{Env, FileLock, UnexpectedFile};
use terrace_format::filename::FileName;

use super::Problem;
use crate::db::lock_directory_shared;
use crate::error::{Error, Result};

/// Lock of a database; None if it has no lock file.
type OptionalLock = Option<Box<dyn FileLock>>;

/// Takes the lock of a read-only open, if LOCK exists. A LOCK that no writer can lock is returned
/// as a problem: a link, a directory, a FIFO or another special file.
///
/// LevelDB follows a link, so the target of the link is locked.
pub(crate) fn lock_for_check(env: &Env, directory: &Path) -> Result<(OptionalLock, Option<Problem>)> {
    let locked = lock_directory_shared(env, directory);
    let is_link = env.fs.is_symlink(&directory.join(FileName::Lock.to_string()))?;
    let link = UnexpectedFile { found: "a symbolic link", expected: "a regular file" };
    let unexpected = match &locked {
        Err(error) if error.is_locked() => None,
        Err(Error::Io(error)) if !is_link => error.unexpected_file(),
        _ => is_link.then_some(link),
    };
    let Some(unexpected) = unexpected else { return Ok((locked?, None)) };
    let problem = Problem { file: FileName::Lock.to_string(), offset: None, message: unexpected.to_string() };
    Ok((locked.ok().flatten(), Some(problem)))
}
