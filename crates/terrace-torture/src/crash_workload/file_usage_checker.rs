//! A file system layer that checks how a database uses its files.
//!
//! - No needed file is removed or renamed away, whether the current MANIFEST needs it or the one
//!   that a power cut would bring back.
//! - No file number is used twice, including numbers that the MANIFEST marks as used before a
//!   crash.
//! - After a close, no file is left over.
//!
//! The checker records a violation and lets the call through, so that its consequences show too.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_env::mem::{Crash, DataLoss, DirEntryLoss, MemFs, PersistedPieces, PowerLoss};
use terrace_env::{
    AccessMode, AppendingLog, FileError, FileLock, FileSystem, LockMode, LogFile, MappedLogs,
    RandomAccessFile, Result, SequentialFile, WritableFile,
};
use terrace_format::filename::FileName;
use terrace_testkit::rng::Rng;

use super::manifest::{LiveFiles, read_live_files};
use super::terrace::DB_DIR;

/// Kind of the logs of a database under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Preallocated and mapped logs.
    Mapped,
    /// Logs that grow by appends, and that a later open can continue. After a power cut, later
    /// writes may be there without earlier ones, as in LevelDB.
    Appended,
    /// Logs of a custom file system. They grow by appends, and no later open continues them.
    Custom,
}

impl LogKind {
    /// Draws a kind, mostly `Mapped`.
    pub fn draw(rng: &mut Rng) -> LogKind {
        match rng.below(7) {
            0..4 => LogKind::Mapped,
            4 | 5 => LogKind::Appended,
            _ => LogKind::Custom,
        }
    }

    /// Draws a kind of which a power cut leaves a prefix of the writes.
    pub fn draw_without_gaps(rng: &mut Rng) -> LogKind {
        if rng.one_in(4) { LogKind::Custom } else { LogKind::Mapped }
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogKind::Mapped => "mapped logs",
            LogKind::Appended => "appended logs",
            LogKind::Custom => "custom logs",
        })
    }
}

/// Checker of one [`MemFs`].
#[derive(Debug)]
pub struct FileUsageChecker {
    fs: Arc<MemFs>,
    logs: LogKind,
    usage: Mutex<FileUsage>,
}

#[derive(Debug, Default)]
struct FileUsage {
    /// File numbers in use, without those of files that were removed before any version needed
    /// them.
    used_numbers: BTreeSet<u64>,
    /// Minimum number of a new file.
    min_new_number: u64,
    violations: Vec<String>,
}

impl FileUsageChecker {
    /// Wraps `fs`, on which the database has `logs`.
    pub fn new(fs: Arc<MemFs>, logs: LogKind) -> Arc<FileUsageChecker> {
        Arc::new(FileUsageChecker { fs, logs, usage: Mutex::default() })
    }

    /// Returns an error if the database violated a rule.
    pub fn check_violations(&self) -> std::result::Result<(), String> {
        let violations = &self.usage.lock().violations;
        if violations.is_empty() { Ok(()) } else { Err(violations.join("\n")) }
    }

    /// Returns an error if a closed database left files that it does not need.
    pub fn check_no_leftovers(&self) -> std::result::Result<(), String> {
        let directory = Path::new(DB_DIR);
        let Some(live) = read_live_files(&*self.fs, directory) else { return Ok(()) };
        let names = self.fs.list(directory).map_err(|error| error.to_string())?;
        let files = names.iter().filter_map(|name| FileName::parse(name.to_str()?));
        let leftovers: Vec<String> = files
            .filter(|file| {
                matches!(file, FileName::Temp(_)) || file.number().is_some() && !live.is_needed(*file)
            })
            .map(|file| file.to_string())
            .collect();
        if leftovers.is_empty() {
            Ok(())
        } else {
            Err(format!("leftover files after a close: {}", leftovers.join(" ")))
        }
    }

    fn on_create(&self, path: &Path) {
        let Some((file, number)) = parse_numbered_file(path) else { return };
        let mut usage = self.usage.lock();
        if self.fs.exists(path).is_ok_and(|exists| exists) {
            usage.violations.push(format!("{file} is created although it exists"));
        } else if number < usage.min_new_number || !usage.used_numbers.insert(number) {
            usage.violations.push(format!("{file} is created with a used number"));
        }
    }

    fn on_remove(&self, path: &Path) {
        let Some(file) = parse_db_file(path) else { return };
        if !self.fs.exists(path).is_ok_and(|exists| exists) {
            return;
        }
        let directory = Path::new(DB_DIR);
        let loss = PowerLoss {
            data: DataLoss::Everything,
            dir_entries: DirEntryLoss::Everything,
            persisted: PersistedPieces::None,
            seed: 0,
        };
        let now = read_live_files(&*self.fs, directory);
        let after_power_cut = read_live_files(&self.fs.crash_clone(&Crash::PowerLoss(loss)), directory);
        let needed = |live: &Option<LiveFiles>| live.as_ref().is_some_and(|live| live.is_needed(file));
        let is_blank_log = matches!(file, FileName::Log(_)) && is_all_zeros(&self.fs, path);
        let mut usage = self.usage.lock();
        if !is_blank_log && needed(&now) {
            usage.violations.push(format!("{file} is removed although the MANIFEST needs it"));
        } else if !is_blank_log && needed(&after_power_cut) {
            usage
                .violations
                .push(format!("{file} is removed although the MANIFEST after a power cut needs it"));
        }
        let was_never_live = match file {
            FileName::Table(number) | FileName::OldTable(number) => {
                now.is_some_and(|live| !live.ever_added.contains(&number))
            }
            FileName::Manifest(number) => now.is_none_or(|live| number > live.manifest),
            _ => is_blank_log,
        };
        if let Some(number) = file.number().filter(|_| was_never_live) {
            usage.used_numbers.remove(&number);
        }
    }
}

/// Parses the name of a file in the database directory. Returns None for files in its
/// subdirectories.
fn parse_db_file(path: &Path) -> Option<FileName> {
    let inside = path.parent().is_some_and(|parent| parent == Path::new(DB_DIR));
    FileName::parse(path.file_name()?.to_str()?).filter(|_| inside)
}

/// Parses a file name with its own number; temporary files share their numbers.
fn parse_numbered_file(path: &Path) -> Option<(FileName, u64)> {
    let file = parse_db_file(path).filter(|file| !matches!(file, FileName::Temp(_)))?;
    Some((file, file.number()?))
}

fn is_all_zeros(fs: &MemFs, path: &Path) -> bool {
    let (Ok(file), mut buffer) = (fs.open_random_access(path, AccessMode::Mmap), Vec::new()) else {
        return false;
    };
    buffer.resize(file.len() as usize, 0);
    file.read_at(0, &mut buffer).is_ok() && buffer.iter().all(|&byte| byte == 0)
}

impl FileSystem for FileUsageChecker {
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.fs.open_sequential(path)
    }

    fn open_random_access(&self, path: &Path, access: AccessMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.fs.open_random_access(path, access)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.on_create(path);
        self.fs.create(path)
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.fs.open_append(path)
    }

    fn create_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        self.on_create(path);
        match self.logs {
            LogKind::Mapped => self.fs.create_log(path, capacity, mapped),
            LogKind::Appended => self.fs.create_log(path, capacity, MappedLogs::Never),
            LogKind::Custom => Ok(Box::new(AppendingLog::new(path, self.fs.create(path)?))),
        }
    }

    fn reopen_log(&self, path: &Path, capacity: u64, mapped: MappedLogs) -> Result<Box<dyn LogFile>> {
        match self.logs {
            LogKind::Mapped => self.fs.reopen_log(path, capacity, mapped),
            LogKind::Appended => self.fs.reopen_log(path, capacity, MappedLogs::Never),
            LogKind::Custom => Err(FileError::new("open", path, io::ErrorKind::Unsupported.into())),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.fs.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.fs.is_dir(path)
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        self.fs.file_size(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<OsString>> {
        self.fs.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.fs.create_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.fs.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.on_remove(path);
        self.fs.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.on_remove(from);
        self.fs.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.fs.sync_dir(dir)
    }

    /// An open takes the lock. It may use file numbers from the MANIFEST's next number on.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn FileLock>> {
        let lock = self.fs.lock(path, mode)?;
        let directory = path.parent().unwrap_or(Path::new(DB_DIR));
        self.usage.lock().min_new_number =
            read_live_files(&*self.fs, directory).map_or(0, |live| live.next_file);
        Ok(lock)
    }
}
