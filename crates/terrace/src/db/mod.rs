//! Handle of a database.
//!
//! ```text
//!   mod.rs         the handle `Db`
//!   operations     read.rs, write/, background/, recovery/, ..   methods of `DbInner`
//!   inner.rs       `DbInner`: the shared state and all locks
//!   fork.rs        forks of the process, and adoption of the database by a child
//!   components/    parts that know nothing of the shared state
//! ```

mod background;
mod capture;
mod close;
pub(crate) mod components;
mod db_stats;
mod delete_range;
mod extension;
mod follower;
mod fork;
mod ingest;
mod inner;
mod install;
#[cfg(test)]
mod load_simulation;
mod nonblocking_calls;
mod obsolete_files;
mod panic_guard;
mod properties;
mod read;
mod recovery;
mod recovery_report;
mod scan;
mod suspend_compactions;
mod write;

pub(crate) use components::database_capture::{CapturedLog, DatabaseCapture};
pub use components::directory::{DestroyOptions, DestroyReport, comparator_name, destroy, destroy_with};
pub(crate) use components::directory::{list_db_files, lock_directory, lock_directory_shared};
pub use components::level_info::LevelInfo;
pub(crate) use components::lost_directory::LostDirectory;
pub use components::pinned_value::PinnedValue;
pub use components::read_state::StateStamp;
pub use components::recovery_report::{LogEndReason, RecoveredLog, RecoveryReport};
pub use components::write_stalls::StalledWriters;
pub use db_stats::{
    CompactionStatus, LevelStats, MemoryPart, MemoryUse, MemtableState, MemtableStats, Stats,
};
pub use follower::FollowOptions;
pub(crate) use ingest::{NewTable, TableStage};
pub use write::{Unchanged, UnchangedKey, UnchangedRange};

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use terrace_env::ProcessToken;
use terrace_format::batch::WriteBatch;

use crate::error::Result;
use crate::iterator::DbIterator;
use crate::options::{DEFAULT_READ_OPTIONS, Options, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use crate::sync::{Arc, ForkRank, ForkRegistration, Weak, register_fork_participant_until};
use inner::{DbInner, FlushTarget};

/// Open database.
///
/// A clone is cheap and shares the database with its original; threads may share clones. The
/// database closes when the last clone and the last iterator are dropped. [`Db::close`] closes it,
/// too, and reports errors.
#[derive(Clone)]
pub struct Db {
    handle: Arc<DbHandle>,
}

/// Closes the database when it is dropped. Clones of [`Db`] and iterators hold it; background jobs
/// hold only the shared state.
struct DbHandle {
    /// The first field, so that no fork uses the shared state after its drop.
    _fork_registration: ForkRegistration,
    /// Process that opened the database.
    owner_process: ProcessToken,
    inner: Arc<DbInner>,
    /// Handle of a forked child that has adopted the database. Set under `ForkState::adoption`.
    successor: OnceLock<Arc<DbHandle>>,
}

impl DbHandle {
    fn new(inner: Arc<DbInner>) -> DbHandle {
        let weak: Weak<DbInner> = Arc::downgrade(&inner);
        let registration = register_fork_participant_until(ForkRank::Database, weak);
        let owner_process = inner.owner_process;
        DbHandle { _fork_registration: registration, owner_process, inner, successor: OnceLock::new() }
    }
}

impl Db {
    /// Opens the database in directory `path`. Creates it if it is missing and
    /// [`Options::create_if_missing`] is set.
    ///
    /// Replays the logs, so that every write that survived a crash is readable when this returns.
    /// Locks the directory: only one process can open a database, with Terrace or with LevelDB, and
    /// only once.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidArgument`]: the database is missing and may not be created, it exists
    ///   although [`Options::error_if_exists`] is set, or it was created with another comparator.
    /// - [`ErrorKind::Corruption`]: the MANIFEST is damaged or a table is missing.
    ///   [`repair`](fn@crate::repair) can help.
    /// - [`ErrorKind::Io`]: the database is open elsewhere
    ///   ([`Error::is_locked`](crate::Error::is_locked)), or a file cannot be read.
    ///
    /// An error leaves the stored data unchanged.
    ///
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::Corruption`]: crate::ErrorKind::Corruption
    /// [`ErrorKind::Io`]: crate::ErrorKind::Io
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// let env = Env::in_memory();
    /// let options = Options::default().create_if_missing(true).env(env);
    /// let db = Db::open("cities", &options)?;
    /// assert!(Db::open("cities", &options).unwrap_err().is_locked());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let inner = DbInner::open(path.as_ref(), options)?;
        Ok(Db { handle: Arc::new(DbHandle::new(inner)) })
    }

    /// Opens the database in directory `path` for reads only. Creates, changes and removes no file,
    /// so that it works on read-only media.
    ///
    /// Replays the logs in memory. Several processes may open a database read-only at the same
    /// time. If the directory has a lock file, read-only handles and a writer exclude each other.
    /// Writes fail with [`Error::NotSupported`](crate::Error::NotSupported). The errors are those
    /// of [`Db::open`]. [`Db::recovery`] tells which data of the logs is damaged and missing.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.close()?;
    /// let reader = Db::open_read_only("cities", &options)?;
    /// assert!(reader.get(b"CH/Bern")?.is_some());
    /// assert!(reader.put(b"CH/Chur", b"").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let inner = DbInner::open_read_only(path.as_ref(), options, false)?;
        Ok(Db { handle: Arc::new(DbHandle::new(inner)) })
    }

    /// Sets the value of `key`. Same as [`Db::write`] of a batch with this one operation.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.put(b"CH/Bern", b"46.948,7.447")?; // replaces
    /// assert_eq!(db.get(b"CH/Bern")?.as_deref(), Some(b"46.948,7.447".as_slice()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// Same as [`Db::put`], with write options.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put_with(b"CH/Bern", b"46.95,7.45", &terrace::WriteOptions::default().sync(true))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.writer()?.write_one(key.as_ref(), Some(value.as_ref()), options)
    }

    /// Deletes `key`, which need not exist. Same as [`Db::write`] of a batch with this one
    /// operation.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.delete(b"CH/Bern")?;
    /// db.delete(b"CH/Bern")?; // no error
    /// assert!(db.get(b"CH/Bern")?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// Same as [`Db::delete`], with write options.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.delete_with(b"CH/Bern", &terrace::WriteOptions::default().sync(true))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.writer()?.write_one(key.as_ref(), None, options)
    }

    /// Applies all operations of `batch`, in order, or none of them.
    ///
    /// Reads that start after this returns see the batch, in every thread. A concurrent read sees
    /// all of it or nothing. The batch survives the end of the process when this returns.
    ///
    /// # Errors
    ///
    /// If the log cannot be written, no read sees any part of `batch`. After an error for lack of
    /// space, memory or file descriptors, a retry may succeed
    /// ([`Error::is_retryable`](crate::Error::is_retryable)). After any other error, the state of
    /// the disk is unknown. The database then refuses writes until it is opened again
    /// ([`Error::BackgroundError`](crate::Error::BackgroundError)); reads still work.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Berne", b"46.95,7.45")?;
    /// let mut rename = terrace::WriteBatch::new();
    /// rename.delete(b"CH/Berne");
    /// rename.put(b"CH/Bern", b"46.95,7.45");
    /// db.write(&rename)?; // no reader sees both names or none
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::default())
    }

    /// Same as [`Db::write`], with write options.
    ///
    /// With [`WriteOptions::sync`], the batch and all earlier writes are durable when this returns.
    /// Concurrent calls share one sync. Other threads may read the batch a little earlier. If the
    /// sync fails, the batch may or may not survive a power cut. Reads that start after the failed
    /// call do not see it, and the database refuses further writes.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut batch = terrace::WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// batch.delete(b"CH/Berne");
    /// db.write_with(&batch, &terrace::WriteOptions::default().sync(true))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.write_numbered(batch, options).map(drop)
    }

    /// Returns the current value of `key`, or None if the key does not exist.
    ///
    /// Sees every write that returned before this call. Waits for no lock that a writer holds for
    /// long.
    ///
    /// # Errors
    ///
    /// Corruption or an I/O error of a table that the get needs.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"")?;
    /// assert_eq!(db.get(b"CH/Bern")?, Some(vec![]), "an empty value is a value");
    /// assert_eq!(db.get(b"CH/Chur")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, &DEFAULT_READ_OPTIONS)
    }

    /// Same as [`Db::get`], with read options, for example a snapshot of this database.
    ///
    /// ```
    /// # use terrace::{Env, Options, ReadOptions};
    /// # let env = Env::in_memory();
    /// # let options = Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot();
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert!(db.get(b"CH/Bern")?.is_some());
    /// let earlier = ReadOptions::default().snapshot(before);
    /// assert!(db.get_with(b"CH/Bern", &earlier)?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.reader(options).inner.get(key.as_ref(), options)
    }

    /// Creates a snapshot of the current state. It contains every write that has returned, and no
    /// write that starts later.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let before = terrace::ReadOptions::default().snapshot(db.snapshot());
    /// db.delete(b"CH/Bern")?;
    /// assert_eq!(db.iter_with(&before).count(), 1);
    /// assert_eq!(db.iter().count(), 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let handle = self.handle();
        handle.inner.new_snapshot().attach(handle)
    }

    /// Returns a cursor on the current state. It can seek, and later writes do not change it.
    ///
    /// A loop with [`Db::iter`] or [`Db::range`] is shorter. The cursor offers the calls of
    /// LevelDB's `Iterator`.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Chur", "46.85,9.53")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let mut cursor = db.raw_iter();
    /// cursor.seek(b"CH/C");
    /// assert_eq!(cursor.key(), b"CH/Chur");
    /// cursor.prev();
    /// assert_eq!(cursor.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn raw_iter(&self) -> DbIterator {
        self.raw_iter_with(&DEFAULT_READ_OPTIONS)
    }

    /// Returns a cursor with read options: snapshot, bounds or prefix. Its status reports invalid
    /// options.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("AT/Wien", "48.21,16.37")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let mut cursor = db.raw_iter_with(&terrace::ReadOptions::default().prefix("CH/"));
    /// cursor.seek_to_first();
    /// assert_eq!(cursor.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn raw_iter_with(&self, options: &ReadOptions) -> DbIterator {
        DbInner::new_iter(self.reader(options), options)
    }

    /// Estimates for each range how many bytes its entries take in table files. A range includes
    /// its begin, but not its end. Entries that are only in memory do not count.
    ///
    /// # Errors
    ///
    /// Corruption or an I/O error of a table at the edge of a range.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", &[7; 5000])?;
    /// db.flush()?;
    /// let sizes = db.approximate_sizes(&[(b"CH/", b"CI/"), (b"FR/", b"FS/")])?;
    /// assert!(sizes[0] > 0);
    /// assert_eq!(sizes[1], 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        ranges.iter().map(|(begin, end)| self.inner().approximate_size(begin, end)).collect()
    }

    /// Compacts a range of keys, both ends included, down to the deepest level that has keys of the
    /// range. None means no bound.
    ///
    /// Frees the space of overwritten and deleted entries that no snapshot needs. Tables on the
    /// deepest level that overlap no other table of the range stay unchanged. Returns after the
    /// compaction. Reads and writes continue meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of the flush or of a compaction. No stored data is lost.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// db.delete(b"CH/Bern")?;
    /// db.compact_range(Some(b"CH/"), Some(b"CI/"))?; // one range
    /// db.compact_range(None, None)?; // everything
    /// assert!(db.levels().iter().all(|level| level.files.is_empty()), "no entry is left");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.writer()?.compact_range(begin, end)
    }

    /// Writes the memtables to tables. Returns when the tables are durable.
    ///
    /// # Errors
    ///
    /// Errors of the log or of the table. The writes are still in their log.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// let tables: usize = db.levels().iter().map(|level| level.files.len()).sum();
    /// assert_eq!(tables, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.writer()?.flush(FlushTarget::AnyLevel)
    }

    /// Returns the handle for an operation of this process.
    #[inline]
    fn handle(&self) -> &Arc<DbHandle> {
        let is_owner = self.handle.owner_process.is_current();
        if is_owner { &self.handle } else { self.handle.after_fork() }
    }

    #[inline]
    fn inner(&self) -> &DbInner {
        &self.handle().inner
    }

    /// Returns the handle for a read. A snapshot from before an adoption reads the state at the
    /// fork.
    #[inline]
    fn reader(&self, options: &ReadOptions) -> &Arc<DbHandle> {
        match &options.snapshot {
            Some(snapshot) if snapshot.belongs_to(&self.handle.inner.snapshots) => &self.handle,
            _ => self.handle(),
        }
    }

    /// Returns the shared state for a write.
    #[inline]
    fn writer(&self) -> Result<&DbInner> {
        let is_owner = self.handle.owner_process.is_current();
        let handle = if is_owner { &self.handle } else { self.handle.after_fork_for_write()? };
        Ok(&handle.inner)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.path().display())
    }
}
