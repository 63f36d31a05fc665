//! Info log: events of the database, one line each, for operators.

use std::fmt;
use std::path::{Path, PathBuf};

use terrace_env::{Env, FileLock, LockOwner, WritableFile};
use terrace_format::filename::FileName;

use crate::error::Result;
use crate::sync::{Arc, ForkLocks, ForkParticipant, ForkRank, Mutex, Weak, register_fork_participant};

/// Receiver of the info log, one call per event. Any thread may call it, sometimes while it holds
/// locks of the database. An implementation must not call the database, and it should return soon.
pub trait Logger: Send + Sync {
    /// Receives a line without its newline.
    fn log(&self, line: fmt::Arguments<'_>);

    /// Receives a line of a program in another language, without its newline. The default
    /// implementation replaces bytes that are no UTF-8.
    fn log_bytes(&self, line: &[u8]) {
        self.log(format_args!("{}", String::from_utf8_lossy(line)));
    }
}

impl fmt::Debug for dyn Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logger")
    }
}

/// Returns a logger that appends to the file at `path`, which is created if it does not exist. A
/// file with several hard links is replaced. Anything at `path` that is not a regular file is an
/// error. Each line begins with the time: `2026/11/21-20:44:03.000251 Recovering log #3`.
///
/// The logger keeps a descriptor of the file, and ignores errors of its writes.
///
/// ```
/// use terrace::{Env, Options, file_logger};
///
/// let env = Env::in_memory();
/// let logger = file_logger(&env, "cities.log".as_ref())?;
/// logger.log(format_args!("opened {} times", 3));
/// let options = Options::default().logger(logger).env(env);
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn file_logger(env: &Env, path: &Path) -> Result<Arc<dyn Logger>> {
    FileLogger::append(env, path)
}

/// Logger that drops every line.
pub(crate) struct NoLogger;

impl Logger for NoLogger {
    fn log(&self, _line: fmt::Arguments<'_>) {}
}

/// Logger that writes to a file. Each line begins with the time: `2026/11/21-20:44:03.000251
/// Recovering log #3`.
pub(crate) struct FileLogger {
    env: Env,
    file: Mutex<InfoLogFile>,
}

enum InfoLogFile {
    /// The first line creates the file `LOG` in this directory and renames an existing one to
    /// `LOG.old`.
    NotCreated(PathBuf),
    /// File of a program, or, if there is a directory, the file `LOG` of the database in it. The
    /// descriptor of a `LOG` is released after each line.
    Open { file: Box<dyn WritableFile>, directory: Option<PathBuf> },
    /// The logger drops lines: the file could not be created, or the database was closed before the
    /// first line.
    Disabled,
}

impl FileLogger {
    /// Appends to the file at `path`.
    fn append(env: &Env, path: &Path) -> Result<Arc<dyn Logger>> {
        let file = match env.fs.open_append(path) {
            Err(error) if error.is_unsupported() => env.fs.create(path)?,
            opened => opened?,
        };
        Ok(FileLogger::new(env, Mutex::new(InfoLogFile::Open { file, directory: None })))
    }

    fn new(env: &Env, file: Mutex<InfoLogFile>) -> Arc<FileLogger> {
        let logger = Arc::new(FileLogger { env: env.clone(), file });
        let weak: Weak<FileLogger> = Arc::downgrade(&logger);
        register_fork_participant(ForkRank::Cache, weak);
        logger
    }

    /// Returns a logger to the file `LOG` of the database in `directory`. Its first line creates
    /// the file, so that an open without events changes no file. The caller passes the database
    /// lock to [`FileLogger::bind_to_lock`].
    pub(crate) fn for_database(env: &Env, directory: &Path) -> Arc<FileLogger> {
        let file = Mutex::new(InfoLogFile::NotCreated(directory.to_path_buf()));
        FileLogger::new(env, file)
    }

    /// Returns a lock that disables the creation of `LOG` before it releases `lock`. A later
    /// creation would rename the `LOG` of the next process that opens the database.
    pub(crate) fn bind_to_lock(self: &Arc<Self>, lock: Box<dyn FileLock>) -> Box<dyn FileLock> {
        Box::new(InfoLogLock { logger: Arc::clone(self), lock })
    }
}

impl ForkParticipant for FileLogger {
    fn lock_for_fork(self: Arc<Self>, locks: &mut ForkLocks) {
        locks.lock(&self, |logger| &logger.file);
    }
}

impl InfoLogFile {
    /// Forgets a file that the process cannot open again, so that the next line creates one: an
    /// administrator has moved it, or the process has changed its user.
    fn forget_lost_file(&mut self) {
        if let InfoLogFile::Open { file, directory: Some(directory) } = self
            && file.acquire_descriptor().is_err_and(|error| !error.is_resource_exhausted())
        {
            *self = InfoLogFile::NotCreated(std::mem::take(directory));
        }
    }

    fn create_if_missing(&mut self, env: &Env) {
        if let InfoLogFile::NotCreated(directory) = self {
            let directory = std::mem::take(directory);
            let [path, old] =
                [FileName::InfoLog, FileName::OldInfoLog].map(|name| directory.join(name.to_string()));
            // Some file systems write the data of a renamed file at once if the rename replaces
            // another file.
            let _ = env.fs.remove(&old);
            // A directory with the name of the old log prevents the rename.
            let _ = env.fs.rename(&path, &old).or_else(|_| env.fs.remove(&path));
            // The database works without an info log.
            *self = env
                .fs
                .create(&path)
                .map_or(InfoLogFile::Disabled, |file| InfoLogFile::Open { file, directory: Some(directory) });
        }
    }
}

impl Logger for FileLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        self.log_bytes(line.to_string().as_bytes());
    }

    fn log_bytes(&self, line: &[u8]) {
        let mut text = format!("{} ", Timestamp(self.env.clock.wall_us())).into_bytes();
        text.extend_from_slice(line);
        text.push(b'\n');
        let mut log = self.file.lock();
        log.forget_lost_file();
        log.create_if_missing(&self.env);
        if let InfoLogFile::Open { file, directory } = &mut *log {
            // The database must not fail because its info log does, for example on a full disk.
            let _ = file.append(&text).and_then(|()| file.flush());
            if directory.is_some() {
                // Lines are rare, and a process may have thousands of databases open.
                file.release_descriptor();
            }
        }
    }
}

/// Database lock, bound to the logger that may create `LOG` while the lock is held.
#[derive(Debug)]
struct InfoLogLock {
    logger: Arc<FileLogger>,
    lock: Box<dyn FileLock>,
}

impl FileLock for InfoLogLock {
    fn fallbacks(&self) -> &[String] {
        self.lock.fallbacks()
    }

    fn owner(&self) -> Option<Arc<dyn LockOwner>> {
        self.lock.owner()
    }
}

impl Drop for InfoLogLock {
    /// Disables the creation of `LOG`. The field `lock` is dropped afterwards.
    fn drop(&mut self) {
        match &mut *self.logger.file.lock() {
            file @ InfoLogFile::NotCreated(_) => *file = InfoLogFile::Disabled,
            InfoLogFile::Open { directory, .. } => *directory = None,
            InfoLogFile::Disabled => {}
        }
    }
}

impl fmt::Debug for FileLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileLogger")
    }
}

/// Microseconds since 1970, displayed in UTC in the format of LevelDB's info log.
struct Timestamp(u64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000;
        let micros = self.0 % 1_000_000;
        let (year, month, day) = civil_from_days(seconds / 86_400);
        let hour = seconds / 3600 % 24;
        let minute = seconds / 60 % 60;
        let second = seconds % 60;
        write!(f, "{year:04}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}.{micros:06}")
    }
}

/// Returns year, month and day of the day number `days` since 1970-01-01.
///
/// Years begin on March 1 here, so that the leap day is the last day of its year (Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms").
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: u64, expected: &str) {
        assert_eq!(Timestamp(micros).to_string(), expected);
    }

    #[test]
    fn unix_epoch() {
        check(0, "1970/01/01-00:00:00.000000");
    }

    #[test]
    fn leap_day() {
        check(1_709_210_096_000_007, "2024/02/29-12:34:56.000007");
    }

    #[test]
    fn march_first_of_a_century_without_leap_day() {
        check(4_107_542_400_000_000, "2100/03/01-00:00:00.000000");
    }
}
