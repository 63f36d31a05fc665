//! Subdirectory `lost`: files that are no longer part of the database. Only
//! [`destroy_with`](crate::destroy_with) removes them, on request.
//!
//! The directory may come from an attacker, for example in an archive. Therefore `lost` must be a
//! directory and not a link to one, and no entry in it is ever replaced.

use std::io::Read;
use std::path::{Path, PathBuf};

use terrace_env::{Env, FileError, UnexpectedFile, WritableFile};
use terrace_format::filename::FileName;
use terrace_format::log::{LOG_BLOCK_SIZE, LogSource, MIN_UNUSED_BEFORE_HOLES};
use terrace_sync::mutant;

use crate::error::Result;
use crate::file_io::{FileReader, file_error};

/// Name of the subdirectory.
const LOST_DIR: &str = "lost";

/// Subdirectory `lost` of the database in `directory`. It need not exist.
pub(crate) struct LostDirectory<'a> {
    env: &'a Env,
    directory: &'a Path,
}

impl LostDirectory<'_> {
    pub(crate) fn new<'a>(env: &'a Env, directory: &'a Path) -> LostDirectory<'a> {
        LostDirectory { env, directory }
    }

    /// Creates the subdirectory if it does not exist. A link or a file with its name is an error.
    pub(crate) fn create(&self) -> Result<()> {
        if !self.check()? {
            self.env.fs.create_dir(&self.path())?;
            self.env.fs.sync_dir(self.directory)?;
        }
        Ok(())
    }

    /// Returns a path for `file`, relative to the directory of the database, that no entry has:
    /// `lost/000002.log`, then `lost/000002.log.1`.
    pub(crate) fn unused_path(&self, file: &str) -> Result<String> {
        self.check()?;
        let mut path = format!("{LOST_DIR}/{file}");
        for copy in 1u64.. {
            if mutant!(LostFileOverwritten) || !self.has_entry(&self.directory.join(&path))? {
                break;
            }
            path = format!("{LOST_DIR}/{file}.{copy}");
        }
        Ok(path)
    }

    /// Copies the log `file` into the subdirectory, which exists. Returns the path of the copy,
    /// relative to the directory of the database. After an error, there is no copy.
    pub(crate) fn copy_log(&self, file: &str) -> Result<String> {
        let copy = self.unused_path(file)?;
        let path = self.directory.join(&copy);
        let mut to = self.env.fs.create(&path)?;
        let copied = self.copy_log_blocks(&self.directory.join(file), &mut *to);
        copied.inspect_err(|_| self.remove(std::slice::from_ref(&copy)))?;
        Ok(copy)
    }

    /// Moves `file` into the subdirectory, which exists. Returns its new path, relative to the
    /// directory of the database.
    pub(crate) fn move_file(&self, file: &str) -> Result<String> {
        let path = self.unused_path(file)?;
        self.env.fs.rename(&self.directory.join(file), &self.directory.join(&path))?;
        Ok(path)
    }

    /// Removes copies that this process has made, because they are not needed.
    pub(crate) fn remove(&self, copies: &[String]) {
        for copy in copies {
            // Extra copies are harmless.
            let _ = self.env.fs.remove(&self.directory.join(copy));
        }
    }

    /// Returns the number of entries in the subdirectory, or None if it does not exist.
    pub(crate) fn count_entries(&self) -> Result<Option<u64>> {
        let is_directory = !self.env.fs.is_symlink(&self.path())? && self.env.fs.is_dir(&self.path())?;
        if !is_directory {
            return Ok(None);
        }
        match self.env.fs.list(&self.path()) {
            Ok(entries) => Ok(Some(entries.len() as u64)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the files of the database in the subdirectory, and the subdirectory if it is empty
    /// then. Other files stay, and so do the targets of links.
    pub(crate) fn destroy(&self) -> Result<()> {
        if !self.check()? {
            return Ok(());
        }
        let mut outcome = Ok(());
        for name in self.env.fs.list(&self.path())? {
            let path = self.path().join(&name);
            if !name.to_str().is_some_and(is_lost_file) {
                continue;
            }
            let is_directory = !self.env.fs.is_symlink(&path)? && self.env.fs.is_dir(&path)?;
            let removed =
                if is_directory { self.env.fs.remove_dir(&path) } else { self.env.fs.remove(&path) };
            outcome = outcome.and(removed);
        }
        // Fails if other files stay.
        let _ = self.env.fs.remove_dir(&self.path());
        Ok(outcome?)
    }

    /// Makes the names in the subdirectory durable.
    pub(crate) fn sync(&self) -> Result<()> {
        Ok(self.env.fs.sync_dir(&self.path())?)
    }

    /// Copies a log block by block. A hole, which may be larger than the disk, becomes one unused
    /// block at most, so the copy has the same records.
    fn copy_log_blocks(&self, path: &Path, to: &mut dyn WritableFile) -> Result<()> {
        let mut from = FileReader(self.env.fs.open_sequential(path)?);
        let mut block = Vec::with_capacity(LOG_BLOCK_SIZE);
        let mut unused_bytes = 0;
        loop {
            block.clear();
            let read = from.by_ref().take(LOG_BLOCK_SIZE as u64).read_to_end(&mut block);
            read.map_err(|error| file_error(path, error))?;
            if block.is_empty() {
                break;
            }
            to.append(&block)?;
            if block.iter().all(|&byte| byte == 0) {
                unused_bytes += block.len() as u64;
                if unused_bytes >= MIN_UNUSED_BEFORE_HOLES {
                    from.skip_hole(LOG_BLOCK_SIZE as u64).map_err(|error| file_error(path, error))?;
                }
            }
        }
        to.sync()?;
        Ok(to.close()?)
    }

    /// Returns whether the subdirectory exists.
    fn check(&self) -> Result<bool> {
        let path = self.path();
        if self.env.fs.is_symlink(&path)? && !mutant!(LostLinkFollowed) {
            return Err(self.unexpected("a symbolic link"));
        }
        if self.env.fs.is_dir(&path)? {
            return Ok(true);
        }
        if self.env.fs.exists(&path)? { Err(self.unexpected("a file")) } else { Ok(false) }
    }

    fn unexpected(&self, found: &'static str) -> crate::error::Error {
        let reason = UnexpectedFile { found, expected: "a directory" };
        FileError::new("open", self.path(), reason.into()).into()
    }

    /// Returns true if `path` exists or is a dangling link.
    fn has_entry(&self, path: &Path) -> Result<bool> {
        Ok(self.env.fs.is_symlink(path)? || self.env.fs.exists(path)?)
    }

    fn path(&self) -> PathBuf {
        self.directory.join(LOST_DIR)
    }
}

/// Returns true for names that [`LostDirectory::unused_path`] gives to files of a database.
fn is_lost_file(name: &str) -> bool {
    let original = match name.rsplit_once('.') {
        Some((original, copy)) if copy.parse::<u64>().is_ok() => original,
        _ => name,
    };
    FileName::parse(original).is_some()
}
