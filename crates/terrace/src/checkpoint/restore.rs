//! Restore of a backup: a new database directory from the files of the backup.

use std::path::Path;

use terrace_format::filename::FileName;

use super::backup::{Backups, compare_file};
use super::backup_writer::copy_checked;
use super::file_copy::link_file;
use super::partial_directory::{PartialDirectory, check_absent, check_outside};
use super::progress::Progress;
use crate::error::{Error, Result};
use crate::version::{CommitError, set_current_file};

impl Backups {
    /// Creates the database directory `path` from backup `id`. Afterwards it is a database like any
    /// other one, independent of the backup.
    ///
    /// Reads every file and compares it with its hash first, so a damaged backup is an error. Links
    /// the tables on the same file system, and copies them otherwise. The directory is complete and
    /// durable when this returns. Before, `path` does not exist: to replace a database, restore to
    /// a new name, and then rename both directories.
    ///
    /// A crash leaves `path.partial`, which no program takes for a database, and which the next
    /// restore to this path removes.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): no such backup.
    /// - [`ErrorKind::Corruption`](crate::ErrorKind::Corruption): a file of the backup is damaged;
    ///   the error names it.
    /// - [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): `path` exists, or is
    ///   inside of the backups.
    /// - [`ErrorKind::Io`](crate::ErrorKind::Io): a full disk, or another failure of a file.
    ///
    /// An error leaves no `path` and does not change the backup, like [`Db::checkpoint`].
    ///
    /// [`Db::checkpoint`]: crate::Db::checkpoint
    pub fn restore(&self, id: u64, path: impl AsRef<Path>) -> Result<()> {
        self.restore_with_progress(id, path, |_, _| ())
    }

    /// Same as [`Backups::restore`], and reports its progress like
    /// [`Db::checkpoint_with_progress`](crate::Db::checkpoint_with_progress).
    pub fn restore_with_progress(
        &self,
        id: u64,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        let path = path.as_ref();
        let env = &self.env;
        let list = self.list_of_backup(id)?;
        check_outside(env, path, &self.directory, "directory of backups")?;
        check_absent(env, path)?;
        let partial = PartialDirectory::create(env, path)?;
        let source = self.backup_path(id);
        let target = partial.database();
        let mut progress = Progress::new(&mut progress);
        progress.add_expected(list.info.bytes);
        let mut manifest = None;
        for file in &list.files {
            let name = file.name.to_string();
            let from = source.join(&name);
            let to = target.join(&name);
            if let (_, Some(damage)) = compare_file(env, &from, file.digest, &mut progress)? {
                return Err(Error::Corruption(damage));
            }
            match file.name {
                FileName::Current => continue,
                FileName::Manifest(number) => manifest = Some(number),
                _ => {}
            }
            // The database appends to its logs and its MANIFEST, so only tables may be links.
            if !file.name.is_table() || !link_file(env, &from, &to)? {
                copy_checked(env, &from, env, &to, file.digest)?;
            }
        }
        let manifest = manifest
            .ok_or_else(|| Error::corruption(&source, None, "the list of its files has no MANIFEST"))?;
        // As for a checkpoint: all names are durable before CURRENT exists.
        env.fs.sync_dir(&target)?;
        set_current_file(env, &target, manifest).map_err(CommitError::into_error)?;
        partial.publish()
    }
}
