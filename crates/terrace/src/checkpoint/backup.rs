//! Backups: copies of databases in one directory, which store each table once.
//!
//! ```text
//!   LOCK                                held while the directory is open
//!   tables/000012-2097152-<hash>.ldb    each table once, for all backups
//!   000003/                             backup 3: a plain LevelDB directory; its tables are links
//!   000003.files                        names, sizes and hashes of its files
//!   000004.partial/                     interrupted create or prune; removed by the next one
//! ```
//!
//! A backup exists exactly if its directory does. `create` makes the tables durable, then the list,
//! then renames the directory. `prune` works backwards: it first renames the directory away. So
//! each backup has a complete list and all of its tables after a crash at any call, and the other
//! files are leftovers that the next `create` or `prune` removes.
//!
//! The partial directory exists before the list and is removed after it, durably. So a list with
//! neither directory is no leftover: the directory of a backup was lost.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use terrace_env::{Env, FileLock, LockMode};
use terrace_format::filename::FileName;

use super::backup_list::{BackupInfo, BackupList, ListedFile};
use super::file_copy::{FileDigest, digest_file};
use super::partial_directory::{PARTIAL_SUFFIX, PartialDirectory, partial_path};
use super::progress::Progress;
use crate::db::{lock_directory, lock_directory_shared};
use crate::error::{Corruption, Error, Result};
use crate::file_io::{FileReader, file_error, parent_directory};
use crate::options::Options;
use crate::sync::Mutex;
use crate::verify::count_noun;

/// Name of the directory of all tables.
const TABLES_DIR: &str = "tables";

/// Suffix of the list of a backup.
const LIST_SUFFIX: &str = ".files";

/// Maximum length of a line of a list, in bytes. The longest one has a path with escapes.
const MAX_LINE: u64 = 1 << 20;

/// Suffix of a table that is being copied.
pub(super) const TEMP_SUFFIX: &str = ".tmp";

/// Open directory of backups.
///
/// Each backup is a plain LevelDB directory: `000003` is the directory of backup 3. Open it for
/// reads only, or [restore](Backups::restore) it: a program that writes to it destroys the backup,
/// but no other one. All backups together store each table once.
///
/// One directory may hold backups of several databases: a table is found by its number, its size
/// and the hash of its content, never by its number alone.
///
/// One process has the directory open at a time, and its threads may share the handle. A second
/// open fails with an error for which [`Error::is_locked`](crate::Error::is_locked) is true.
#[derive(Debug)]
pub struct Backups {
    pub(super) env: Env,
    pub(super) directory: PathBuf,
    /// Held by a call that changes the directory.
    pub(super) lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// Result of [`Backups::verify`]. Prints as one line per problem and a summary line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Number of files.
    pub files: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Missing files, and files that differ from the ones that were backed up.
    pub problems: Vec<Corruption>,
}

impl Backups {
    /// Opens the directory `path` of backups. Creates it if [`Options::create_if_missing`] is set;
    /// its parent must exist.
    ///
    /// Only the env of `options` matters otherwise. If it is that of the database, tables are
    /// linked where that is possible; they are copied between two envs.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): `path` does not exist, or
    /// it is a file, a database or a directory without backups.
    /// [`ErrorKind::Io`](crate::ErrorKind::Io): another handle has it open, or the failure of a
    /// file.
    ///
    /// ```
    /// # use terrace::{Backups, Db, Env, Options};
    /// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// # let db = Db::open("cities", &options)?;
    /// let backups = Backups::open("backups", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let first = backups.create(&db)?;
    /// db.delete(b"CH/Bern")?;
    /// backups.create(&db)?;
    /// assert_eq!(backups.list()?.len(), 2);
    /// backups.restore(first.id, "restored")?;
    /// assert!(Db::open("restored", &options)?.get(b"CH/Bern")?.is_some());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Backups> {
        let directory = path.as_ref();
        let env = &options.env;
        let is_dir = env.fs.is_dir(directory)?;
        if !is_dir && env.fs.exists(directory)? {
            let path = directory.display();
            return Err(Error::InvalidArgument(format!("{path}: is a file, expected backups")));
        }
        if options.create_if_missing {
            create_dir_if_missing(env, directory)?;
        } else if !is_dir {
            return Err(Error::DoesNotExist { path: directory.to_path_buf() });
        }
        if env.fs.exists(&directory.join(FileName::Current.to_string()))? {
            let path = directory.display();
            return Err(Error::InvalidArgument(format!("{path}: is a database, expected backups")));
        }
        // Before the lock, which would create a file in a directory of another kind.
        if !options.create_if_missing && !env.fs.is_dir(&directory.join(TABLES_DIR))? {
            let path = directory.display();
            return Err(Error::InvalidArgument(format!(
                "{path}: no directory of backups (it has no subdirectory {TABLES_DIR})"
            )));
        }
        let (lock, is_writable) = lock_backups(env, directory)?;
        let backups =
            Backups { env: env.clone(), directory: directory.to_path_buf(), lock: Mutex::new(lock) };
        if is_writable && options.create_if_missing {
            create_dir_if_missing(env, &backups.tables())?;
        }
        Ok(backups)
    }

    /// Returns the backups, oldest first.
    ///
    /// # Errors
    ///
    /// A list that cannot be read, or that is damaged, or a backup whose directory is missing. The
    /// error names it. [`Backups::ids`] and [`Backups::info`] find the other backups.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        self.ids()?.into_iter().map(|id| self.info(id)).collect()
    }

    /// Returns the description of backup `id`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) without such a backup.
    /// [`ErrorKind::Corruption`](crate::ErrorKind::Corruption) if its list is damaged, or its
    /// directory is missing.
    pub fn info(&self, id: u64) -> Result<BackupInfo> {
        Ok(self.list_of_backup(id)?.info)
    }

    /// Reads every file of backup `id` and compares it with the size and the hash at the time of
    /// the backup. Writes nothing.
    ///
    /// This finds damage of the backup. A table that [`Backups::create_damaged`] has stored has the
    /// hash of its damaged bytes: [`verify`](fn@crate::verify) of the directory of the backup finds
    /// that damage.
    ///
    /// # Errors
    ///
    /// Those of [`Backups::info`]. A problem with a file is not an error; the report lists it.
    pub fn verify(&self, id: u64) -> Result<BackupReport> {
        self.verify_with_progress(id, |_, _| ())
    }

    /// Same as [`Backups::verify`], and reports its progress like
    /// [`Db::checkpoint_with_progress`](crate::Db::checkpoint_with_progress).
    pub fn verify_with_progress(&self, id: u64, mut progress: impl FnMut(u64, u64)) -> Result<BackupReport> {
        let list = self.list_of_backup(id)?;
        let mut progress = Progress::new(&mut progress);
        progress.add_expected(list.info.bytes);
        let mut report = BackupReport::default();
        for file in &list.files {
            report.files += 1;
            let path = self.backup_path(id).join(file.name.to_string());
            match compare_file(&self.env, &path, file.digest, &mut progress) {
                Ok((bytes, problem)) => {
                    report.bytes += bytes;
                    report.problems.extend(problem);
                }
                Err(error) => {
                    report.problems.push(Corruption { path, offset: None, message: error.to_string() });
                }
            }
        }
        Ok(report)
    }

    /// Removes old backups, so that the newest `keep` backups of each database stay. Returns the
    /// identifiers of the removed ones.
    ///
    /// Databases differ by their paths at the time of the backup. Removes the tables that no other
    /// backup has. A backup whose directory is missing counts as none of the newest ones: its list
    /// is removed if `keep` later backups exist.
    ///
    /// # Errors
    ///
    /// A damaged list, with nothing removed; or the failure of a file, with some old backups
    /// removed. No backup that stays changes.
    pub fn prune(&self, keep: usize) -> Result<Vec<u64>> {
        let _lock = self.lock.lock();
        self.remove_leftovers()?;
        let lists = self.lists()?;
        let mut complete = BTreeSet::new();
        for list in &lists {
            if self.env.fs.is_dir(&self.backup_path(list.info.id))? {
                complete.insert(list.info.id);
            }
        }
        let mut removed = Vec::new();
        for BackupList { info, .. } in &lists {
            let infos = lists.iter().map(|other| &other.info);
            let newer = infos.filter(|other| other.source == info.source && other.id > info.id);
            if newer.filter(|other| complete.contains(&other.id)).count() >= keep {
                removed.push(info.id);
            }
        }
        for &id in &removed {
            self.remove_backup(id)?;
        }
        self.remove_unused_tables()?;
        Ok(removed)
    }

    /// Removes backup `id`, but not its tables. Its list is gone durably before its directory is.
    fn remove_backup(&self, id: u64) -> Result<()> {
        let path = self.backup_path(id);
        if !self.env.fs.is_dir(&path)? {
            return self.remove_list(id);
        }
        let partial = PartialDirectory::withdraw(&self.env, &path)?;
        let removed = self.remove_list(id);
        if removed.is_err() {
            partial.keep();
        }
        removed
    }

    /// Removes the list of backup `id` durably, if it exists.
    pub(super) fn remove_list(&self, id: u64) -> Result<()> {
        let path = self.list_path(id);
        if self.env.fs.exists(&path)? {
            self.env.fs.remove(&path)?;
        }
        Ok(self.env.fs.sync_dir(&self.directory)?)
    }

    pub(super) fn backup_path(&self, id: u64) -> PathBuf {
        self.directory.join(format!("{id:06}"))
    }

    pub(super) fn list_path(&self, id: u64) -> PathBuf {
        self.directory.join(format!("{id:06}{LIST_SUFFIX}"))
    }

    pub(super) fn tables(&self) -> PathBuf {
        self.directory.join(TABLES_DIR)
    }

    fn current_path(&self, id: u64) -> PathBuf {
        self.backup_path(id).join(FileName::Current.to_string())
    }

    /// Returns the identifiers of the backups, in ascending order. Reads no list. A backup whose
    /// list or directory is missing is a damaged one.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn ids(&self) -> Result<Vec<u64>> {
        let mut ids = BTreeSet::new();
        for name in self.env.fs.list(&self.directory)? {
            let Some(name) = name.to_str() else { continue };
            let list_id = name.strip_suffix(LIST_SUFFIX).and_then(parse_id);
            let Some(id) = list_id.or_else(|| parse_id(name)) else { continue };
            let is_backup = match list_id {
                Some(_) => self.env.fs.is_dir(&self.backup_path(id))? || self.is_lost(id)?,
                None => self.env.fs.exists(&self.current_path(id))?,
            };
            if is_backup {
                ids.insert(id);
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Returns true if backup `id` has a list, but its directory is missing.
    ///
    /// Other threads may create or remove the backup meanwhile. A new backup has a partial
    /// directory until it has its name, and an old one until its list is gone. So the partial
    /// directory is missing before and after the check of the directory only if that is lost, or if
    /// the list is gone.
    fn is_lost(&self, id: u64) -> Result<bool> {
        let path = self.backup_path(id);
        let partial = partial_path(&path)?;
        let fs = &self.env.fs;
        let is_pending = fs.exists(&partial)? || fs.is_dir(&path)? || fs.exists(&partial)?;
        Ok(!is_pending && fs.exists(&self.list_path(id))?)
    }

    /// Returns the list of backup `id`, whose directory exists.
    pub(super) fn list_of_backup(&self, id: u64) -> Result<BackupList> {
        if self.env.fs.is_dir(&self.backup_path(id))? {
            return self.read_list(id);
        }
        if !self.is_lost(id)? {
            return Err(self.no_backup(id));
        }
        let message = format!("is missing, but its list {id:06}{LIST_SUFFIX} exists");
        Err(Error::corruption(&self.backup_path(id), None, message))
    }

    fn no_backup(&self, id: u64) -> Error {
        Error::NotFound(format!("{}: no backup {id}", self.directory.display()))
    }

    /// Returns the lists of all backups, also of those whose directory is missing.
    fn lists(&self) -> Result<Vec<BackupList>> {
        self.ids()?.into_iter().map(|id| self.read_list(id)).collect()
    }

    fn read_list(&self, id: u64) -> Result<BackupList> {
        let path = self.list_path(id);
        if !self.env.fs.exists(&path)? && self.env.fs.exists(&self.current_path(id))? {
            // A call writes the list before the backup gets its name, and removes it afterwards.
            return Err(Error::corruption(&path, None, "is missing".to_owned()));
        }
        if !self.env.fs.exists(&path)? {
            return Err(self.no_backup(id));
        }
        let mut file = BufReader::new(FileReader(self.env.fs.open_sequential(&path)?));
        let mut bytes = Vec::new();
        // Line by line, because a file may be a hole of terabytes.
        loop {
            let read = file.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            let read = read.map_err(|error| file_error(&path, error))?;
            if read == 0 || bytes.last() != Some(&b'\n') {
                return BackupList::decode(id, &bytes, &path);
            }
        }
    }

    /// Removes the files of interrupted calls. The caller holds the lock.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        for name in self.env.fs.list(&self.directory)? {
            let partial = name.to_str().and_then(|name| name.strip_suffix(PARTIAL_SUFFIX));
            let Some(id) = partial.and_then(parse_id) else { continue };
            let path = self.backup_path(id);
            if !self.env.fs.is_dir(&path)? {
                self.remove_list(id)?;
            }
            // A leftover with foreign files stays. It is no backup, and its name is not used again.
            let _ = PartialDirectory::remove_leftover(&self.env, &path);
        }
        // Tables stay while a list is damaged: it may need them.
        match self.remove_unused_tables() {
            Err(Error::Corruption(_)) => Ok(()),
            removed => removed,
        }
    }

    /// Removes the tables that are in no list, after the backups that had them are gone durably.
    fn remove_unused_tables(&self) -> Result<()> {
        let lists = self.lists()?;
        let used: BTreeSet<String> =
            lists.iter().flat_map(|list| &list.files).filter_map(ListedFile::stored_name).collect();
        let names = self.env.fs.list(&self.tables())?;
        let unused = names.iter().filter_map(|name| name.to_str()).filter(|name| !used.contains(*name));
        let unused: Vec<_> = unused.filter(|name| is_stored_name(name)).collect();
        if unused.is_empty() {
            return Ok(());
        }
        self.env.fs.sync_dir(&self.directory)?;
        for name in unused {
            self.env.fs.remove(&self.tables().join(name))?;
        }
        Ok(())
    }
}

impl BackupReport {
    /// Returns true if all files are as they were at the time of the backup.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let files = count_noun(self.files, "file", "files");
        write!(f, "{files}, {}: ", count_noun(self.bytes, "byte", "bytes"))?;
        match self.problems.len() as u64 {
            0 => f.write_str("no problem"),
            n => f.write_str(&count_noun(n, "problem", "problems")),
        }
    }
}

/// Compares the file at `path` with its state at the time of the backup. Returns the number of
/// bytes read, and the difference. Reads nothing of a file with another size.
pub(super) fn compare_file(
    env: &Env,
    path: &Path,
    expected: FileDigest,
    progress: &mut Progress<'_>,
) -> Result<(u64, Option<Corruption>)> {
    let size = env.fs.file_size(path)?;
    if size != expected.size {
        return Ok((0, difference(path, FileDigest { size, ..expected }, expected)));
    }
    let found = digest_file(env, path, progress)?;
    Ok((found.size, difference(path, found, expected)))
}

/// Returns the difference of the file at `path` from its state at the time of the backup.
pub(super) fn difference(path: &Path, found: FileDigest, expected: FileDigest) -> Option<Corruption> {
    let message = if found.size != expected.size {
        format!("{} bytes, expected {}", found.size, expected.size)
    } else if found.hash != expected.hash {
        format!("content hash {:016x}, expected {:016x}", found.hash, expected.hash)
    } else {
        return None;
    };
    Some(Corruption { path: path.to_path_buf(), offset: None, message })
}

/// Locks the directory. Returns false with the lock of a reader, if the process may not write
/// there: backups on a disk that is mounted read-only can still be restored.
fn lock_backups(env: &Env, directory: &Path) -> Result<(Option<Box<dyn FileLock>>, bool)> {
    match lock_directory(env, directory, LockMode::Exclusive) {
        Err(Error::Io(error))
            if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) =>
        {
            Ok((lock_directory_shared(env, directory)?, false))
        }
        lock => Ok((Some(lock?), true)),
    }
}

fn create_dir_if_missing(env: &Env, directory: &Path) -> Result<()> {
    match env.fs.create_dir(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => {
            created?;
            Ok(env.fs.sync_dir(parent_directory(directory))?)
        }
    }
}

/// Parses the name of a backup: at least six digits.
pub(super) fn parse_id(name: &str) -> Option<u64> {
    let id: u64 = name.parse().ok()?;
    (format!("{id:06}") == name).then_some(id)
}

/// Returns true for the name of a stored table, and of one that is being copied.
fn is_stored_name(name: &str) -> bool {
    let name = name.strip_suffix(TEMP_SUFFIX).unwrap_or(name);
    let parts = name.strip_suffix(".ldb").map(|name| name.split('-').collect::<Vec<_>>());
    matches!(parts.as_deref(), Some([number, size, hash])
        if number.parse::<u64>().is_ok() && size.parse::<u64>().is_ok() && hash.len() == 16)
}
