//! The info log: what the database did and why, for people.

use std::fmt;
use std::path::{Path, PathBuf};

use terrace_env::{Env, FileLock, WritableFile};
use terrace_format::filename::FileName;

use crate::error::Result;
use crate::sync::{Arc, Mutex};

/// Receives one line per event. Called from any thread, sometimes with the database's locks held: it must not call
/// back into the database, and should return soon.
pub trait Logger: Send + Sync {
    /// Takes a line, without its newline.
    fn log(&self, line: fmt::Arguments<'_>);
}

impl fmt::Debug for dyn Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logger")
    }
}

/// A logger into a fresh file at `path`: each line behind its time, `2026/11/21-20:44:03.000251 Recovering log #3`.
///
/// ```
/// use terrace::{Env, Options, file_logger};
///
/// let env = Env::memory();
/// let logger = file_logger(&env, "what happened".as_ref())?;
/// logger.log(format_args!("opened {} times", 3));
/// let options = Options { logger: Some(logger), env, ..Options::default() };
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn file_logger(env: &Env, path: &Path) -> Result<Arc<dyn Logger>> {
    FileLogger::create(env, path)
}

/// Drops every line.
pub(crate) struct NoLogger;

impl Logger for NoLogger {
    fn log(&self, _line: fmt::Arguments<'_>) {}
}

/// Lines in a file, each behind its time: `2026/11/21-20:44:03.000251 Recovering log #3`.
pub(crate) struct FileLogger {
    env: Env,
    file: Mutex<InfoLogFile>,
}

enum InfoLogFile {
    /// The first line makes the file `LOG` in this directory, and keeps the one before as `LOG.old`.
    NotCreated(PathBuf),
    Open(Box<dyn WritableFile>),
    /// Lines go nowhere.
    Disabled,
}

impl FileLogger {
    /// Starts a fresh file at `path`.
    fn create(env: &Env, path: &Path) -> Result<Arc<dyn Logger>> {
        let file = Mutex::new(InfoLogFile::Open(env.fs.create(path)?));
        Ok(Arc::new(FileLogger { env: env.clone(), file }))
    }

    /// The file `LOG` of the database in `directory`, made by the first line, so that who has nothing to tell changes
    /// nothing. Who opens it holds the lock and hands it to [`FileLogger::bind_to_lock`].
    pub(crate) fn for_database(env: &Env, directory: &Path) -> Arc<FileLogger> {
        let file = Mutex::new(InfoLogFile::NotCreated(directory.to_path_buf()));
        Arc::new(FileLogger { env: env.clone(), file })
    }

    /// The database's lock, before whose release this stops to make a file: the next opener's must not be taken away.
    pub(crate) fn bind_to_lock(self: &Arc<Self>, lock: Box<dyn FileLock>) -> Box<dyn FileLock> {
        Box::new(InfoLogLock { logger: Arc::clone(self), _lock: lock })
    }
}

impl InfoLogFile {
    fn get_or_create(&mut self, env: &Env) -> Option<&mut Box<dyn WritableFile>> {
        if let InfoLogFile::NotCreated(directory) = self {
            let [path, old] =
                [FileName::InfoLog, FileName::OldInfoLog].map(|name| directory.join(name.to_string()));
            // Some file systems write out what is renamed onto another file, at once.
            let _ = env.fs.remove(&old);
            let _ = env.fs.rename(&path, &old);
            // A database works without.
            *self = env.fs.create(&path).map_or(InfoLogFile::Disabled, InfoLogFile::Open);
        }
        match self {
            InfoLogFile::Open(file) => Some(file),
            _ => None,
        }
    }
}

impl Logger for FileLogger {
    fn log(&self, line: fmt::Arguments<'_>) {
        let text = format!("{} {line}\n", Timestamp(self.env.clock.wall_us()));
        if let Some(file) = self.file.lock().get_or_create(&self.env) {
            // A full disk must not stop the database from saying so elsewhere.
            let _ = file.append(text.as_bytes()).and_then(|()| file.flush());
        }
    }
}

/// A lock with the log that may be made while it is held.
#[derive(Debug)]
struct InfoLogLock {
    logger: Arc<FileLogger>,
    _lock: Box<dyn FileLock>,
}

impl FileLock for InfoLogLock {}

impl Drop for InfoLogLock {
    /// The lock goes after this.
    fn drop(&mut self) {
        let mut file = self.logger.file.lock();
        if matches!(*file, InfoLogFile::NotCreated(_)) {
            *file = InfoLogFile::Disabled;
        }
    }
}

impl fmt::Debug for FileLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileLogger")
    }
}

/// Microseconds since 1970 as LevelDB's info log writes them, in UTC.
struct Timestamp(u64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let (year, month, day) = civil_from_days(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}.{micros:06}")
    }
}

/// Year, month and day of the day number `days` since 1970-01-01.
///
/// Counts from 0000-03-01, so that the leap day is the last of its year (Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms").
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
    fn check(micros: u64, expect: &str) {
        assert_eq!(Timestamp(micros).to_string(), expect);
    }

    #[test]
    fn the_epoch() {
        check(0, "1970/01/01-00:00:00.000000");
    }

    #[test]
    fn a_leap_day() {
        check(1_709_210_096_000_007, "2024/02/29-12:34:56.000007");
    }

    #[test]
    fn the_day_after_a_century_without_leap_day() {
        check(4_107_542_400_000_000, "2100/03/01-00:00:00.000000");
    }
}
