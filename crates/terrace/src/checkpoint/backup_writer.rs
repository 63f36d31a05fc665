//! Creation of a backup: a copy of a database whose tables are links to stored tables.
//!
//! ```text
//!   table ──link or copy──> tables/000012-2097152-<hash>.ldb ──link──> 000003/000012.ldb
//! ```

use std::path::{Path, PathBuf};

use terrace_env::Env;
use terrace_format::filename::FileName;
use terrace_sync::mutant;

use super::backup::{Backups, TEMP_SUFFIX, difference, parse_id};
use super::backup_list::{BackupInfo, BackupList, ListedFile, stored_table_name};
use super::database_copy::{DatabaseCopy, SourceTable};
use super::file_copy::{FileDigest, copy_file, digest_file, link_file};
use super::partial_directory::{PartialDirectory, check_outside};
use super::progress::Progress;
use crate::db::{DatabaseCapture, Db};
use crate::error::{Error, Result};
use crate::sync::Arc;

impl Backups {
    /// Adds a backup of the current state of `db`, like [`Db::checkpoint`]. Writers run meanwhile.
    ///
    /// Reads every table once, to compute its hash. Stores only tables that no backup has: as
    /// links, or as copies from another file system. A table that is stored already costs no space.
    ///
    /// The backup is durable when this returns. Before, it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`Db::checkpoint`]. An error leaves the earlier backups unchanged.
    pub fn create(&self, db: &Db) -> Result<BackupInfo> {
        self.create_with_progress(db, |_, _| ())
    }

    /// Same as [`Backups::create`], and reports its progress like
    /// [`Db::checkpoint_with_progress`].
    pub fn create_with_progress(&self, db: &Db, mut progress: impl FnMut(u64, u64)) -> Result<BackupInfo> {
        let _lock = self.lock.lock();
        check_outside(&self.env, &self.directory, db.absolute_path(), "database")?;
        let id = self.next_id()?;
        let target = self.backup_path(id);
        let partial = PartialDirectory::create(&self.env, &target)?;
        let list = db.with_capture(|capture| {
            let mut writer = BackupWriter {
                backups: self,
                db,
                target: partial.database(),
                files: Vec::new(),
                new_bytes: 0,
            };
            let sequence = capture.last_sequence;
            writer.write(capture, &mut Progress::new(&mut progress))?;
            let info = BackupInfo {
                id,
                source: db.absolute_path().to_string_lossy().escape_debug().to_string(),
                sequence,
                created_us: self.env.clock.wall_us(),
                bytes: writer.files.iter().fold(0, |sum, file| sum + file.digest.size),
                new_bytes: writer.new_bytes,
            };
            Ok(BackupList { info, files: writer.files })
        })?;
        let list_path = self.list_path(id);
        let published = self.write_list(&list, &list_path).and_then(|()| partial.publish());
        if published.is_err() && !self.env.fs.is_dir(&target).unwrap_or(true) {
            // The next open removes it, if this fails.
            let _ = self.env.fs.remove(&list_path);
        }
        published?;
        Ok(list.info)
    }

    /// Returns an identifier above those of all backups and leftovers.
    fn next_id(&self) -> Result<u64> {
        let names = self.env.fs.list(&self.directory)?;
        let ids = names.iter().filter_map(|name| parse_id(name.to_str()?.split('.').next()?));
        Ok(ids.max().unwrap_or(0).saturating_add(1))
    }

    /// Writes the list durably. The tables of the list, and their names, are durable before.
    fn write_list(&self, list: &BackupList, path: &Path) -> Result<()> {
        self.env.fs.sync_dir(&self.tables())?;
        let mut file = self.env.fs.create(path)?;
        file.append(&list.encode())?;
        file.sync()?;
        file.close()?;
        // The rename of the directory follows. Both may become durable in any order otherwise.
        Ok(self.env.fs.sync_dir(&self.directory)?)
    }
}

/// Backup that is being created.
struct BackupWriter<'a> {
    backups: &'a Backups,
    db: &'a Db,
    /// Partial directory.
    target: PathBuf,
    files: Vec<ListedFile>,
    new_bytes: u64,
}

impl BackupWriter<'_> {
    fn write(&mut self, capture: DatabaseCapture, progress: &mut Progress<'_>) -> Result<()> {
        let db = self.db;
        let target = self.target.clone();
        let copy = DatabaseCopy {
            source_env: &db.options().env,
            source: db.path(),
            options: db.options(),
            env: &self.backups.env,
            target: &target,
            capture,
        };
        copy.run(progress, &mut |table, progress| self.add_table(table, progress))?;
        let env = &self.backups.env;
        for name in env.fs.list(&target)? {
            let Some(name) = name.to_str().and_then(FileName::parse) else { continue };
            if self.files.iter().any(|file| file.name == name) {
                continue;
            }
            let path = target.join(name.to_string());
            let digest = digest_file(env, &path, &mut Progress::new(&mut |_, _| ()))?;
            self.new_bytes += digest.size;
            self.files.push(ListedFile { name, digest });
            if name.is_table() {
                // The table of a memtable: the next backup of the same logs has the same.
                self.store(env, &path, name, digest)?;
            }
        }
        Ok(())
    }

    /// Stores `table`, unless a backup has stored it, and links it into the new directory.
    fn add_table(&mut self, table: &SourceTable, progress: &mut Progress<'_>) -> Result<()> {
        let source_env = &self.db.options().env;
        let digest = digest_file(source_env, &table.path, progress)?;
        if self.store(source_env, &table.path, table.name, digest)? {
            self.new_bytes += digest.size;
        }
        let env = &self.backups.env;
        let stored = self.stored_path(table.name, digest);
        let link = self.target.join(table.name.to_string());
        if !link_file(env, &stored, &link)? {
            copy_checked(env, &stored, env, &link, digest)?;
        }
        self.files.push(ListedFile { name: table.name, digest });
        Ok(())
    }

    fn stored_path(&self, name: FileName, digest: FileDigest) -> PathBuf {
        let number = name.number().unwrap_or_default();
        let name = match mutant!(BackupTableByNumber) {
            true => stored_table_name(number, FileDigest { hash: 0, ..digest }),
            false => stored_table_name(number, digest),
        };
        self.backups.tables().join(name)
    }

    /// Stores the table at `path`. Returns false if a backup has stored it.
    fn store(&self, from: &Env, path: &Path, name: FileName, digest: FileDigest) -> Result<bool> {
        let env = &self.backups.env;
        let stored = self.stored_path(name, digest);
        if env.fs.exists(&stored)? {
            return Ok(false);
        }
        // Two envs may have different files at the same path.
        if Arc::ptr_eq(&from.fs, &env.fs) && link_file(env, path, &stored)? {
            return Ok(true);
        }
        let mut temp = stored.clone().into_os_string();
        temp.push(TEMP_SUFFIX);
        let temp = PathBuf::from(temp);
        let copied = copy_checked(from, path, env, &temp, digest);
        copied.and_then(|()| Ok(env.fs.rename(&temp, &stored)?)).inspect_err(|_| {
            // The next open removes it, if this fails.
            let _ = env.fs.remove(&temp);
        })?;
        Ok(true)
    }
}

/// Copies the file `from` with the known digest to `to`, durably.
pub(super) fn copy_checked(
    from_env: &Env,
    from: &Path,
    to_env: &Env,
    to: &Path,
    expected: FileDigest,
) -> Result<()> {
    let mut file = from_env.fs.open_sequential(from)?;
    let digest = copy_file(to_env, &mut *file, from, to, u64::MAX, &mut Progress::new(&mut |_, _| ()))?;
    difference(from, digest, expected).map_or(Ok(()), |difference| Err(Error::Corruption(difference)))
}
