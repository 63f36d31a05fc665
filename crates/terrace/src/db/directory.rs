//! The directory of a database: what is in it, what of it is still needed, and how to get rid of it.

use std::collections::BTreeSet;
use std::path::Path;

use terrace_env::{Env, LockMode};
use terrace_format::filename::FileName;

use super::DbInner;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::sync::Ordering;
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
/// let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
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

/// Where logs go whose records could not all be replayed.
const SKIPPED_LOGS_DIRECTORY: &str = "lost";

impl DbInner {
    /// Copies logs whose records were left out to where nothing removes them, durably.
    pub(super) fn archive_skipped_logs(&self, logs: &[u64]) -> Result<()> {
        if logs.is_empty() {
            return Ok(());
        }
        let (fs, lost) = (&self.options.env.fs, self.directory.join(SKIPPED_LOGS_DIRECTORY));
        if !fs.is_dir(&lost)? {
            fs.create_dir(&lost)?;
        }
        for &number in logs {
            let name = FileName::Log(number).to_string();
            self.logger.log(format_args!(
                "Keeping {name} in {SKIPPED_LOGS_DIRECTORY}: records in it follow lost ones"
            ));
            let mut from = fs.open_sequential(&self.directory.join(&name))?;
            let mut to = fs.create(&lost.join(&name))?;
            let mut buffer = vec![0; 64 << 10];
            loop {
                match from.read(&mut buffer)? {
                    0 => break,
                    read => to.append(&buffer[..read])?,
                }
            }
            to.sync()?;
            to.close()?;
        }
        fs.sync_dir(&lost)?;
        Ok(fs.sync_dir(&self.directory)?)
    }

    /// Removes the leftovers of earlier runs, if there are any among `files`, which were there before. Called before the
    /// database is in use.
    pub(super) fn remove_leftovers(&self, files: &[FileName]) {
        let mut manifest = self.manifest.lock();
        let number_of_manifest = manifest.number();
        let state = self.state.lock();
        let live: BTreeSet<u64> =
            state.version_set.version.levels.iter().flatten().map(|file| file.number).collect();
        let log_number = state.version_set.log_number;
        drop(state);
        let is_needless = |file: &FileName| !match *file {
            FileName::Log(number) => number >= log_number,
            FileName::Manifest(number) => number == number_of_manifest,
            FileName::Table(number) | FileName::OldTable(number) => live.contains(&number),
            FileName::Temp(_) => false,
            FileName::Current | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => true,
        };
        if !files.iter().any(is_needless) || manifest.confirm_durable().is_err() {
            return;
        }
        // Some are gone by now: the last manifest, logs that were set aside. Unreadable now, it will be swept another time.
        let next_file = self.next_file_number.load(Ordering::Relaxed);
        let Ok(files) = list_db_files(&self.options.env, &self.directory, next_file) else { return };
        for file in files.into_iter().filter(is_needless) {
            self.logger.log(format_args!("Delete {file}"));
            let _ = self.options.env.fs.remove(&self.file_path(file));
        }
    }
}
