//! Open databases, alone or shared by the JavaScript threads of the process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use terrace::{BlockCache, Db, ErrorKind, FollowOptions, Options, compress};
use terrace_sync::{Arc, Mutex};

use crate::error::{Failure, Result};

/// Database that openers of this process may share, and the number of those that have it open.
#[derive(Default)]
struct Shared {
    db: Option<Db>,
    openers: usize,
}

/// Writable databases by directory. An entry stays after the last close. It is as small as its
/// path.
static SHARED: Mutex<BTreeMap<PathBuf, Arc<Mutex<Shared>>>> = Mutex::new(BTreeMap::new());

/// Mode of an open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reads and writes. The database is open nowhere else yet.
    Exclusive,
    /// Reads and writes, perhaps together with earlier openers of the same process.
    Shared,
    ReadOnly,
    /// Reads beside a writer in another process. The time is the maximum age of the state.
    Follower(Duration),
}

/// Open database of one JavaScript environment. It closes when it is dropped.
pub(crate) struct Database {
    db: Option<Db>,
    shared: Option<Arc<Mutex<Shared>>>,
}

impl Database {
    pub(crate) fn open(path: &Path, options: &Options, mode: Mode) -> Result<Database> {
        let db = match mode {
            Mode::Exclusive => return Database::open_writable(path, options, false),
            Mode::Shared => return Database::open_writable(path, options, true),
            Mode::ReadOnly => Db::open_read_only(path, options)?,
            Mode::Follower(every) => Db::follow(path, options, &FollowOptions::default().every(every))?,
        };
        Ok(Database { db: Some(db), shared: None })
    }

    fn open_writable(path: &Path, options: &Options, may_join: bool) -> Result<Database> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let shared = Arc::clone(SHARED.lock().entry(path.clone()).or_default());
        let mut locked = shared.lock();
        let db = match &locked.db {
            Some(db) if may_join => db.clone(),
            _ => Db::open(&path, options)?, // The lock of the directory refuses a second opener.
        };
        locked.db = Some(db.clone());
        locked.openers += 1;
        drop(locked);
        Ok(Database { db: Some(db), shared: Some(shared) })
    }

    pub(crate) fn db(&self) -> Result<&Db> {
        self.db.as_ref().ok_or_else(|| Failure::new("LEVEL_DATABASE_NOT_OPEN", "Database is not open"))
    }

    /// Closes the database for this environment. A shared one stays open for its other openers.
    pub(crate) fn close(&mut self) -> Result<()> {
        let Some(db) = self.db.take() else { return Ok(()) };
        let Some(shared) = self.shared.take() else { return shut_down(&db) };
        // The lock is held during the close, so that the next opener waits for its end.
        let mut shared = shared.lock();
        shared.openers -= 1;
        if shared.openers > 0 {
            return Ok(());
        }
        shared.db = None;
        shut_down(&db)
    }
}

/// Closes `db`. Files that were removed before are no error, as in classic-level: programs delete
/// the directory of an open database.
fn shut_down(db: &Db) -> Result<()> {
    match db.shutdown() {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The environment ends without a close. No caller can receive the error, and the log keeps
        // all writes.
        let _ = self.close();
    }
}

/// Options of a database in the units of JavaScript. None stands for the default of the engine.
#[napi_derive::napi(object)]
#[derive(Default)]
pub(crate) struct OpenOptions {
    /// Creates the database if it is missing.
    pub create_if_missing: Option<bool>,
    /// Fails if the database exists.
    pub error_if_exists: Option<bool>,
    /// Compression of new tables: true for snappy, false for none, or the name of a codec.
    pub compression: Option<napi::Either<bool, String>>,
    /// Bytes of the block cache.
    pub cache_size: Option<f64>,
    /// Bytes of a memtable.
    pub write_buffer_size: Option<f64>,
    /// Bytes of a block.
    pub block_size: Option<f64>,
    /// Number of open tables.
    pub max_open_files: Option<f64>,
    /// Number of keys between two restarts of the prefix compression.
    pub block_restart_interval: Option<f64>,
    /// Bytes of a table.
    pub max_file_size: Option<f64>,
    /// Bytes of all memory of the database.
    pub memory_budget: Option<f64>,
    /// Shares the database with other threads of the process.
    pub multithreading: Option<bool>,
    /// Opens for reads only.
    pub read_only: Option<bool>,
    /// Follows the writer in another process.
    pub follow: Option<bool>,
    /// Maximum age in milliseconds of the state that a follower shows.
    pub follow_every: Option<f64>,
}

/// Returns the option `name` as a count of something, or an error that names its bounds.
fn count(name: &str, value: f64) -> Result<usize> {
    const MAX: f64 = 9_007_199_254_740_991.0; // 2^53 - 1, the greatest exact integer.
    if value.fract() != 0.0 || !(0.0..=MAX).contains(&value) {
        let message = format!("option '{name}' must be an integer from 0 to {MAX}, but is {value}");
        return Err(Failure::new("LEVEL_INVALID_ARGUMENT", message));
    }
    Ok(value as usize)
}

/// Sets the option `name` with `set`, if it has a value.
fn set(name: &str, value: Option<f64>, set: impl FnOnce(usize)) -> Result<()> {
    if let Some(value) = value {
        set(count(name, value)?);
    }
    Ok(())
}

impl OpenOptions {
    pub(crate) fn mode(&self) -> Result<Mode> {
        let flags = [self.multithreading, self.read_only, self.follow].map(|flag| flag == Some(true));
        match flags {
            [false, false, false] => Ok(Mode::Exclusive),
            [true, false, false] => Ok(Mode::Shared),
            [false, true, false] => Ok(Mode::ReadOnly),
            [false, false, true] => {
                let every = count("followEvery", self.follow_every.unwrap_or(10.0))?;
                Ok(Mode::Follower(Duration::from_millis(every as u64)))
            }
            _ => Err(Failure::new(
                "LEVEL_INVALID_ARGUMENT",
                "options 'multithreading', 'readOnly' and 'follow' exclude each other",
            )),
        }
    }

    pub(crate) fn to_engine(&self) -> Result<Options> {
        let mut options = Options::default()
            .create_if_missing(self.create_if_missing == Some(true))
            .error_if_exists(self.error_if_exists == Some(true));
        options.compression = match &self.compression {
            None | Some(napi::Either::A(true)) => None,
            Some(napi::Either::A(false)) => Some(&compress::NO_COMPRESSION),
            Some(napi::Either::B(name)) => Some(compress::codec_by_name(name).ok_or_else(|| {
                let known = compress::CODECS.iter().map(|codec| codec.name).collect::<Vec<_>>().join(", ");
                let message = format!("no compression has the name '{name}'; known: {known}");
                Failure::new("LEVEL_INVALID_ARGUMENT", message)
            })?),
        };
        set("cacheSize", self.cache_size, |size| options.block_cache = Some(BlockCache::new(size)))?;
        set("writeBufferSize", self.write_buffer_size, |size| options.write_buffer_size = Some(size))?;
        set("blockSize", self.block_size, |size| options.block_size = size)?;
        set("maxOpenFiles", self.max_open_files, |count| options.max_open_files = count)?;
        set("blockRestartInterval", self.block_restart_interval, |count| {
            options.block_restart_interval = count;
        })?;
        set("maxFileSize", self.max_file_size, |size| options.max_file_size = Some(size as u64))?;
        set("memoryBudget", self.memory_budget, |size| options.memory_budget = Some(size))?;
        Ok(options)
    }
}
