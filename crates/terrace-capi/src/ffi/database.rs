//! Open and destroy with LevelDB's behaviour, where the engine touches fewer files.

use std::path::Path;

use terrace::env::LockMode;
use terrace::{Db, Error, Options};

use super::StatusError;

/// Opens the database in directory `path`.
///
/// LevelDB takes the lock before it checks for a database. A read-only directory without a database
/// therefore gives a lock error, and programs expect it.
pub fn open(path: &Path, options: &Options) -> Result<Db, StatusError> {
    Db::open(path, options).map_err(|error| match error {
        Error::InvalidArgument(_) | Error::DoesNotExist { .. } => {
            lock_error(path, options).unwrap_or_else(|| error.into())
        }
        error => error.into(),
    })
}

/// Returns the error of locking a directory without a database, if the lock fails.
fn lock_error(path: &Path, options: &Options) -> Option<StatusError> {
    let fs = &options.env.fs;
    let lacks_database =
        fs.is_dir(path).unwrap_or(false) && !fs.exists(&path.join("CURRENT")).unwrap_or(true);
    let error = lacks_database.then(|| fs.lock(&path.join("LOCK"), LockMode::Exclusive).err())?;
    error.map(|error| Error::from(error).into())
}

/// Removes the database in directory `path`, if there is one, and then the directory, if it is
/// empty.
pub fn destroy(path: &Path, options: &Options) -> Result<(), StatusError> {
    terrace::destroy(path, options)?;
    // The directory may be missing or not empty.
    let _ = options.env.fs.remove_dir(path);
    Ok(())
}
