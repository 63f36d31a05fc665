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
use super::file_copy::{FileDigest, copy_file, digest_file, link_file, read_pieces};
use super::partial_directory::{PartialDirectory, check_outside};
use super::progress::Progress;
use super::table_crc::TableChecksums;
use crate::db::{DatabaseCapture, Db};
use crate::error::{Corruption, Error, Result};
use crate::sync::Arc;

impl Backups {
    /// Adds a backup of the current state of `db`, like [`Db::checkpoint`]. Writers run meanwhile.
    ///
    /// Reads every table once, to compute its hash and to compare the checksums of its blocks.
    /// Stores only tables that no backup has: as links, or as copies from another file system. A
    /// table that is stored already costs no space.
    ///
    /// The backup is durable when this returns. Before, it does not exist. The call first removes
    /// what an interrupted `create` or `prune` has left.
    ///
    /// # Errors
    ///
    /// Those of [`Db::checkpoint`]. [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if a
    /// table is damaged; [`Backups::create_damaged`] stores it. An error leaves the earlier backups
    /// unchanged.
    pub fn create(&self, db: &Db) -> Result<BackupInfo> {
        self.create_with_progress(db, |_, _| ())
    }

    /// Same as [`Backups::create`], and reports its progress like
    /// [`Db::checkpoint_with_progress`].
    pub fn create_with_progress(&self, db: &Db, mut progress: impl FnMut(u64, u64)) -> Result<BackupInfo> {
        self.create_and_report(db, &mut Progress::new(&mut progress), &mut |damage| {
            Err(Error::Corruption(damage))
        })
    }

    /// Same as [`Backups::create_with_progress`], and stores damaged tables as they are. Returns
    /// the damage, at most one problem for each table.
    ///
    /// For the last state of a database that a failing disk has damaged. The backup restores like
    /// any other one, and a read of a damaged block is an error there, too.
    ///
    /// ```
    /// # use terrace::{Backups, Db, Env, Options};
    /// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// # let db = Db::open("cities", &options)?;
    /// let backups = Backups::open("backups", &options)?;
    /// let (info, damage) = backups.create_damaged(&db, |_, _| ())?;
    /// assert!(info.id == 1 && damage.is_empty());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn create_damaged(
        &self,
        db: &Db,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(BackupInfo, Vec<Corruption>)> {
        let mut damaged = Vec::new();
        let info = self.create_and_report(db, &mut Progress::new(&mut progress), &mut |damage| {
            damaged.push(damage);
            Ok(())
        })?;
        Ok((info, damaged))
    }

    /// Creates a backup. An error of `on_damage`, which gets the damage of each table, ends it.
    fn create_and_report(
        &self,
        db: &Db,
        progress: &mut Progress<'_>,
        on_damage: &mut dyn FnMut(Corruption) -> Result<()>,
    ) -> Result<BackupInfo> {
        let _lock = self.lock.lock();
        check_outside(&self.env, &self.directory, db.absolute_path(), "database")?;
        self.remove_leftovers()?;
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
                on_damage,
            };
            let sequence = capture.last_sequence;
            writer.write(capture, progress)?;
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
        let published = self.write_list(&list).and_then(|()| partial.publish());
        if published.is_err() && !self.env.fs.is_dir(&target).unwrap_or(true) && self.remove_list(id).is_err()
        {
            // Both are leftovers for the next call.
            partial.keep();
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
    fn write_list(&self, list: &BackupList) -> Result<()> {
        self.env.fs.sync_dir(&self.tables())?;
        // The partial directory is durable before the list.
        self.env.fs.sync_dir(&self.directory)?;
        let mut file = self.env.fs.create(&self.list_path(list.info.id))?;
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
    on_damage: &'a mut dyn FnMut(Corruption) -> Result<()>,
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
        let db = self.db;
        let link = self.target.join(table.name.to_string());
        let digest = match self.store_table(&db.options().env, &table.path, table, progress) {
            Ok(digest) => digest,
            Err(error) => {
                let backups = self.backups;
                table.copy_held(error, &backups.env, &link, &mut Progress::new(&mut |_, _| ()))?;
                let digest = self.store_table(&backups.env, &link, table, progress)?;
                backups.env.fs.remove(&link)?;
                digest
            }
        };
        let env = &self.backups.env;
        let stored = self.stored_path(table.name, digest);
        if !link_file(env, &stored, &link)? {
            copy_checked(env, &stored, env, &link, digest)?;
        }
        self.files.push(ListedFile { name: table.name, digest });
        Ok(())
    }

    /// Checks the file `path` of `table`, and stores it unless a backup has stored it.
    fn store_table(
        &mut self,
        env: &Env,
        path: &Path,
        table: &SourceTable,
        progress: &mut Progress<'_>,
    ) -> Result<FileDigest> {
        let mut checksums = TableChecksums::new(env, path, table.size)?;
        let mut file = env.fs.open_sequential(path)?;
        let digest = read_pieces(&mut *file, u64::MAX, progress, |piece| {
            checksums.update(piece);
            Ok(())
        })?;
        checksums.finish().map_or(Ok(()), &mut self.on_damage)?;
        if self.store(env, path, table.name, digest)? {
            self.new_bytes += digest.size;
        }
        Ok(digest)
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
            // The next call removes it, if this fails.
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
