//! Partial directory: the place where a new database directory grows until it is complete.
//!
//! ```text
//!   copy.partial/LOCK              excludes another process with the same target
//!   copy.partial/database/..       the growing database
//!   copy                           <-- renamed from copy.partial/database, when that is durable
//! ```
//!
//! The rename is atomic, so the target is absent or complete at each moment. A crash leaves only
//! `copy.partial`. It is no database itself: a database is never in a directory with exactly these
//! entries, so the next attempt can tell a leftover from a database of this name, and removes only
//! the former.

use std::path::{Path, PathBuf};

use terrace_env::{Env, FileLock, LockMode, normalized_path};
use terrace_format::filename::FileName;

use crate::db::lock_directory;
use crate::error::{Error, Result};
use crate::file_io::parent_directory;

/// Suffix of the name.
pub(super) const PARTIAL_SUFFIX: &str = ".partial";

/// Subdirectory of the growing database.
const DATABASE_DIR: &str = "database";

/// Partial directory of one target. Its drop removes it, so that an attempt without success leaves
/// nothing. After a crash, the next attempt removes it.
pub(super) struct PartialDirectory<'a> {
    env: &'a Env,
    target: &'a Path,
    path: PathBuf,
    /// None after the removal, and if the directory is kept.
    lock: Option<Box<dyn FileLock>>,
}

impl PartialDirectory<'_> {
    /// Creates the partial directory for the new database directory `target`, and removes the
    /// leftover of an earlier attempt.
    ///
    /// # Errors
    ///
    /// `target` exists or has no name, its parent does not exist, another thread or process creates
    /// it ([`Error::is_locked`]), or the partial directory contains other files. None of these
    /// changes a file.
    pub(super) fn create<'a>(env: &'a Env, target: &'a Path) -> Result<PartialDirectory<'a>> {
        let partial = PartialDirectory::lock(env, target)?;
        // Another attempt may have completed before this one got the lock.
        check_absent(env, target)?;
        env.fs.create_dir(&partial.database())?;
        Ok(partial)
    }

    /// Moves the complete directory `target` into a partial directory, durably. The drop removes
    /// it.
    ///
    /// The first sync makes the partial directory durable before the rename. Otherwise a power cut
    /// could leave neither of the two.
    pub(super) fn withdraw<'a>(env: &'a Env, target: &'a Path) -> Result<PartialDirectory<'a>> {
        let partial = PartialDirectory::lock(env, target)?;
        env.fs.sync_dir(parent_directory(target))?;
        env.fs.rename(target, &partial.database())?;
        if let Err(error) = env.fs.sync_dir(parent_directory(target)) {
            partial.keep();
            return Err(error.into());
        }
        Ok(partial)
    }

    /// Releases the lock and leaves the directory for a later attempt.
    pub(super) fn keep(mut self) {
        self.lock = None;
    }

    /// Removes the partial directory of `target` that a crash has left.
    pub(super) fn remove_leftover(env: &Env, target: &Path) -> Result<()> {
        PartialDirectory::lock(env, target).map(drop)
    }

    /// Creates and locks the directory, without its subdirectory.
    fn lock<'a>(env: &'a Env, target: &'a Path) -> Result<PartialDirectory<'a>> {
        let path = partial_path(target)?;
        match env.fs.create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => check_leftover(env, &path)?,
            created => created?,
        }
        let lock = lock_directory(env, &path, LockMode::Exclusive)?;
        let partial = PartialDirectory { env, target, path, lock: Some(lock) };
        partial.remove_database()?;
        Ok(partial)
    }

    /// Directory of the growing database.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE_DIR)
    }

    /// Gives the database its final name. All of its files and names are durable.
    ///
    /// The first sync makes the old name durable before the rename. Otherwise a power cut could
    /// keep the rename and the creation of the old name in the opposite order, so that the database
    /// has two names, and the removal of the leftover would remove its files.
    ///
    /// The sync of the parent makes the new name durable: a caller that removes older data
    /// afterwards relies on it. After an error of this sync, the target is complete, and a power
    /// cut may remove it again.
    pub(super) fn publish(&self) -> Result<()> {
        self.env.fs.sync_dir(&self.path)?;
        self.env.fs.rename(&self.database(), self.target)?;
        Ok(self.env.fs.sync_dir(parent_directory(self.target))?)
    }

    fn remove_database(&self) -> Result<()> {
        let database = self.database();
        if self.env.fs.is_symlink(&database)? {
            return Err(not_a_leftover(&self.path, DATABASE_DIR));
        }
        if !self.env.fs.is_dir(&database)? {
            return Ok(());
        }
        for name in self.env.fs.list(&database)? {
            self.env.fs.remove(&database.join(name))?;
        }
        Ok(self.env.fs.remove_dir(&database)?)
    }
}

impl Drop for PartialDirectory<'_> {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        // The next attempt removes files that cannot be removed now.
        let _ = self.remove_database();
        let _ = self.env.fs.remove(&self.path.join(FileName::Lock.to_string()));
        self.lock = None;
        let _ = self.env.fs.remove_dir(&self.path);
    }
}

/// Returns the path of the partial directory of `target`.
pub(super) fn partial_path(target: &Path) -> Result<PathBuf> {
    let Some(name) = target.file_name() else {
        return Err(Error::InvalidArgument(format!("{}: is no name of a new directory", target.display())));
    };
    let mut name = name.to_os_string();
    name.push(PARTIAL_SUFFIX);
    Ok(target.with_file_name(name))
}

/// Returns an error if `target` exists, also as a dangling link.
pub(super) fn check_absent(env: &Env, target: &Path) -> Result<()> {
    if env.fs.is_symlink(target)? || env.fs.exists(target)? {
        let message = format!("{}: exists, expected the name of a new directory", target.display());
        return Err(Error::InvalidArgument(message));
    }
    Ok(())
}

/// Returns an error if `path` is inside of `directory`. A way through a symbolic link is not seen,
/// and does no harm: a database ignores directories in its directory.
pub(super) fn check_outside(env: &Env, path: &Path, directory: &Path, kind: &str) -> Result<()> {
    if normalized_path(&*env.fs, path).starts_with(normalized_path(&*env.fs, directory)) {
        let path = path.display();
        let directory = directory.display();
        return Err(Error::InvalidArgument(format!("{path}: is inside of the {kind} {directory}")));
    }
    Ok(())
}

/// Returns an error if the existing `path` contains other files than a partial directory.
fn check_leftover(env: &Env, path: &Path) -> Result<()> {
    if env.fs.is_symlink(path)? || !env.fs.is_dir(path)? {
        return Err(not_a_leftover(path, "a file or a link of this name"));
    }
    let lock = FileName::Lock.to_string();
    let names = env.fs.list(path)?;
    match names.iter().find(|&name| name != lock.as_str() && name != DATABASE_DIR) {
        Some(other) => Err(not_a_leftover(path, &other.to_string_lossy())),
        None => Ok(()),
    }
}

fn not_a_leftover(path: &Path, found: &str) -> Error {
    let path = path.display();
    Error::InvalidArgument(format!("{path}: is no leftover of an interrupted copy, found {found}"))
}
