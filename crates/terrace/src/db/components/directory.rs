//! The directory of a database: what is in it, what of it is still needed, and how to get rid of it.

use std::path::Path;

use terrace_env::{Env, LockMode};
use terrace_format::filename::FileName;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::version::{MAX_FILE_NUMBER, MAX_UNLISTED_FILE_NUMBER};

/// The files in `directory` whose names an engine would write, with numbers that the database can have come to, whose manifest
/// says that `next_file` is the next. Everything else is somebody else's and is left alone.
pub(crate) fn list_db_files(env: &Env, directory: &Path, next_file: u64) -> Result<Vec<FileName>> {
    let names = env.fs.list(directory)?;
    // A number with other zeros in front names a file that nobody would find by it.
    let named = |name: &str| FileName::parse(name).filter(|file| file.to_string() == name);
    let files = names.iter().filter_map(|name| named(name.to_str()?));
    // New files take numbers above those that are there: a stray one must not bring them to what no manifest may say.
    let is_ours = |number| number <= MAX_UNLISTED_FILE_NUMBER || number < next_file;
    Ok(files.filter(|file| file.number().is_none_or(is_ours)).collect())
}

/// Takes the lock of the database in `directory`.
pub(crate) fn lock_directory(
    env: &Env,
    directory: &Path,
    mode: LockMode,
) -> Result<Box<dyn terrace_env::FileLock>> {
    Ok(env.fs.lock(&directory.join(FileName::Lock.to_string()), mode)?)
}

/// Takes the lock for reading. None if there is no lock file, as in a copy: there is nothing to take, and creating it
/// would be a write.
pub(crate) fn lock_directory_shared(
    env: &Env,
    directory: &Path,
) -> Result<Option<Box<dyn terrace_env::FileLock>>> {
    match lock_directory(env, directory, LockMode::Shared) {
        Ok(lock) => Ok(Some(lock)),
        Err(Error::Io(error)) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the database in directory `path` with all that it holds, and the directory if nothing else is in it.
///
/// Files that are not a database's stay. A directory that does not exist, or holds no database, is no error.
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if the database is open somewhere, with nothing removed, or if a file could
/// not be removed, with the others gone.
///
/// ```
/// # use terrace::{Db, Env, Options, destroy};
/// let env = Env::memory();
/// let options = Options { create_if_missing: true, env, ..Options::default() };
/// let db = Db::open("cities", &options)?;
/// assert!(destroy("cities", &options).is_err(), "it is open");
/// db.close()?;
/// destroy("cities", &options)?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
    let (directory, env) = (path.as_ref(), &options.env);
    match list_db_files(env, directory, MAX_FILE_NUMBER) {
        // Nothing that could be a database.
        Err(Error::Io(error)) if error.is_not_found() => return Ok(()),
        Ok(files) if files.is_empty() => return Ok(()),
        listed => listed?,
    };
    let lock = lock_directory(env, directory, LockMode::Exclusive)?;
    let mut outcome = Ok(());
    // Listed again: now nobody else changes anything.
    for file in list_db_files(env, directory, MAX_FILE_NUMBER)? {
        if file != FileName::Lock {
            outcome = outcome.and(env.fs.remove(&directory.join(file.to_string())));
        }
    }
    // While it is held: a lock that somebody takes right behind this is one on a file that keeps its name.
    outcome = outcome.and(env.fs.remove(&directory.join(FileName::Lock.to_string())));
    drop(lock);
    // Fails if other files are there, as it should.
    let _ = env.fs.remove_dir(directory);
    Ok(outcome?)
}
