//! Directory of a database: its files, its lock, and its removal.

use std::io;
use std::path::Path;

use terrace_env::{Env, LockMode};
use terrace_format::filename::FileName;

use super::lost_directory::LostDirectory;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::version::{MAX_FILE_NUMBER, MAX_UNLISTED_FILE_NUMBER, read_comparator_name};

/// Maximum number of files that a database creates after its last version edit. They are logs, and
/// tables of unfinished jobs, so there are never as many.
const MAX_FILES_AFTER_EDIT: u64 = 1 << 32;

/// Lists the files in `directory` that belong to the database. The file numbers are those that a
/// database can have reached whose MANIFEST states `next_file`. All other files are ignored and
/// never removed.
pub(crate) fn list_db_files(env: &Env, directory: &Path, next_file: u64) -> Result<Vec<FileName>> {
    let names = env.fs.list(directory)?;
    // The database would not use a name with leading zeros in its number.
    let files = names.iter().filter_map(|name| {
        let name = name.to_str()?;
        FileName::parse(name).filter(|file| file.to_string() == name)
    });
    // New files get numbers above all listed ones. A foreign file must not raise them above the
    // maximum of the MANIFEST.
    let max_own = MAX_UNLISTED_FILE_NUMBER.max(next_file.saturating_add(MAX_FILES_AFTER_EDIT));
    let own_files = files.filter(|file| file.number().is_none_or(|number| number <= max_own));
    Ok(own_files.collect())
}

/// Locks the database in `directory`.
pub(crate) fn lock_directory(
    env: &Env,
    directory: &Path,
    mode: LockMode,
) -> Result<Box<dyn terrace_env::FileLock>> {
    Ok(env.fs.lock(&directory.join(FileName::Lock.to_string()), mode)?)
}

/// Locks the database for reads. Returns None if there is no lock file, as in a copy: creating it
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

/// Returns the name of the comparator with which the database in directory `path` was created. None
/// if its MANIFEST does not begin with a name.
///
/// Reads CURRENT and the start of the MANIFEST, without a lock.
///
/// # Errors
///
/// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) without a database, and the errors of the
/// two files.
///
/// ```
/// # use terrace::{Db, Env, Options};
/// let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// Db::open("cities", &options)?.close()?;
/// let name = terrace::comparator_name("cities", &options)?;
/// assert_eq!(name.as_deref(), Some(b"leveldb.BytewiseComparator".as_slice()));
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn comparator_name(path: impl AsRef<Path>, options: &Options) -> Result<Option<Vec<u8>>> {
    read_comparator_name(&options.env, path.as_ref())
}

/// Options of [`destroy_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DestroyOptions {
    /// Removes the files of the database in its subdirectory `lost`, too: files that a repair has
    /// replaced, logs that an open has not replayed completely, and tables that a damaged MANIFEST
    /// may have listed. Default: false.
    pub with_lost: bool,
}

impl DestroyOptions {
    /// Sets [`DestroyOptions::with_lost`].
    pub fn with_lost(mut self, with_lost: bool) -> DestroyOptions {
        self.with_lost = with_lost;
        self
    }
}

/// Result of [`destroy_with`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestroyReport {
    /// Number of entries that remain in the subdirectory `lost`. None if it does not exist.
    pub lost_entries: Option<u64>,
}

/// Removes the database in directory `path`, and the directory if it contains no other files.
///
/// Files that do not belong to a database stay, and so does the subdirectory `lost`:
/// [`destroy_with`] removes that. A missing directory, a directory without a database, and a file
/// instead of a directory are not errors, as in LevelDB, and nothing is removed.
///
/// # Errors
///
/// [`ErrorKind::Io`](crate::ErrorKind::Io) if the database is open, with nothing removed, or if a
/// file could not be removed, with all others removed.
///
/// ```
/// # use terrace::{Db, Env, Options, destroy};
/// let env = Env::in_memory();
/// let options = Options::default().create_if_missing(true).env(env);
/// let db = Db::open("cities", &options)?;
/// assert!(destroy("cities", &options).is_err(), "it is open");
/// db.close()?;
/// destroy("cities", &options)?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
    destroy_with(path, options, &DestroyOptions::default()).map(drop)
}

/// Same as [`destroy`], with options, and reports the remaining files of earlier repairs.
///
/// ```
/// # use terrace::{Db, DestroyOptions, Env, Options, destroy_with};
/// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
/// # Db::open("cities", &options)?.close()?;
/// let report = destroy_with("cities", &options, &DestroyOptions::default().with_lost(true))?;
/// assert_eq!(report.lost_entries, None);
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn destroy_with(
    path: impl AsRef<Path>,
    options: &Options,
    destroy_options: &DestroyOptions,
) -> Result<DestroyReport> {
    let directory = path.as_ref();
    let env = &options.env;
    let lost = LostDirectory::new(env, directory);
    let lost_entries = || lost.count_entries().map(|lost_entries| DestroyReport { lost_entries });
    match list_db_files(env, directory, MAX_FILE_NUMBER) {
        // No database is there: the directory is missing, or it or a parent of it is a file.
        Err(Error::Io(error))
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(DestroyReport::default());
        }
        // An earlier call may have left the subdirectory.
        Ok(files) if files.is_empty() => match destroy_options.with_lost && lost.count_entries()?.is_some() {
            true => {}
            false => return lost_entries(),
        },
        listed => drop(listed?),
    };
    let lock = lock_directory(env, directory, LockMode::Exclusive)?;
    // Lists the files again under the lock, which excludes other processes.
    let files = list_db_files(env, directory, MAX_FILE_NUMBER)?;
    let mut outcome = if destroy_options.with_lost { lost.destroy() } else { Ok(()) };
    for file in files.iter().filter(|&&file| file != FileName::Lock) {
        outcome = outcome.and(env.fs.remove(&directory.join(file.to_string())).map_err(Error::from));
    }
    // Removed while it is locked. A process that locks LOCK afterwards creates a new file with this
    // name. The environment of a program may lock without a file.
    let removed = env.fs.remove(&directory.join(FileName::Lock.to_string()));
    if files.contains(&FileName::Lock) {
        outcome = outcome.and(removed.map_err(Error::from));
    }
    drop(lock);
    // Fails if the directory contains other files, as intended.
    let _ = env.fs.remove_dir(directory);
    outcome.and_then(|()| lost_entries())
}
