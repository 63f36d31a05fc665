//! Opening and destroying as LevelDB's users know it, where the engine would touch less.

use std::path::Path;

use terrace::env::LockMode;
use terrace::{Db, Error, Options};

use super::StatusError;

/// Opens the database in directory `path`.
///
/// LevelDB takes the lock before it looks whether there is a database. So a directory without one that may not be
/// written to is refused for that, and programs expect it.
pub fn open(path: &Path, options: &Options) -> Result<Db, StatusError> {
    Db::open(path, options).map_err(|error| match error {
        Error::InvalidArgument(_) => lock_error(path, options).unwrap_or_else(|| error.into()),
        error => error.into(),
    })
}

/// Why the lock of a directory without a database can't be taken, if so.
fn lock_error(path: &Path, options: &Options) -> Option<StatusError> {
    let fs = &options.env.fs;
    let here = fs.is_dir(path).unwrap_or(false) && !fs.exists(&path.join("CURRENT")).unwrap_or(true);
    let refused = here.then(|| fs.lock(&path.join("LOCK"), LockMode::Exclusive).err())?;
    refused.map(|error| Error::from(error).into())
}

/// Removes the database in directory `path`, and the directory if nothing else is in it, be there a database or not.
pub fn destroy(path: &Path, options: &Options) -> Result<(), StatusError> {
    terrace::destroy(path, options)?;
    // Not there, or in use for something else.
    let _ = options.env.fs.remove_dir(path);
    Ok(())
}
