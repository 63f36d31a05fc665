//! Handle of a database.
//!
//! ```text
//!   mod.rs         the handle `Db`
//!   operations     read.rs, write/, background/, recovery/, ..   methods of `DbInner`
//!   inner.rs       `DbInner`: the shared state and all locks
//!   components/    parts that know nothing of the shared state
//! ```

mod background;
mod close;
pub(crate) mod components;
mod delete_range;
mod inner;
mod install;
mod obsolete_files;
mod panic_guard;
mod properties;
mod read;
mod recovery;
mod scan;
mod write;

pub use components::directory::destroy;
pub(crate) use components::directory::{list_db_files, lock_directory, lock_directory_shared};
pub use components::level_info::{LevelInfo, TableInfo};
pub use components::pinned_value::PinnedValue;

use std::fmt;
use std::ops::RangeBounds;
use std::path::Path;

use terrace_format::batch::WriteBatch;

use crate::error::Result;
use crate::iterator::{DbIterator, Iter};
use crate::options::{DEFAULT_READ_OPTIONS, Options, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use crate::sync::Arc;
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
    inner: Arc<DbInner>,
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
    /// let options = Options { create_if_missing: true, env, ..Options::default() };
    /// let db = Db::open("cities", &options)?;
    /// assert!(Db::open("cities", &options).unwrap_err().is_locked());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let inner = DbInner::open(path.as_ref(), options)?;
        Ok(Db { handle: Arc::new(DbHandle { inner }) })
    }

    /// Opens the database in directory `path` for reads only. Creates, changes and removes no file,
    /// so that it works on read-only media.
    ///
    /// Replays the logs in memory. Several processes may open a database read-only at the same
    /// time. If the directory has a lock file, read-only handles and a writer exclude each other.
    /// Writes fail with [`Error::NotSupported`](crate::Error::NotSupported). The errors are those
    /// of [`Db::open`].
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// # let env = Env::in_memory();
    /// # let options = Options { create_if_missing: true, env, ..Options::default() };
    /// # let db = Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.close()?;
    /// let reader = Db::open_read_only("cities", &options)?;
    /// assert!(reader.get(b"CH/Bern")?.is_some());
    /// assert!(reader.put(b"CH/Chur", b"").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let inner = DbInner::open_read_only(path.as_ref(), options)?;
        Ok(Db { handle: Arc::new(DbHandle { inner }) })
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
    /// db.put_with(b"CH/Bern", b"46.95,7.45", &terrace::WriteOptions { sync: true })?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.inner().write_one(key.as_ref(), Some(value.as_ref()), options)
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
    /// db.delete_with(b"CH/Bern", &terrace::WriteOptions { sync: true })?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.inner().write_one(key.as_ref(), None, options)
    }

    /// Deletes every key from `begin` up to, but not including, `end`. None means no bound.
    ///
    /// Drops tables whole if all of their keys are in the range; their space is free when no
    /// iterator reads them. Deletes the other keys one by one. When this returns, the deletion and
    /// all earlier writes are durable. Keys that other threads write into the range at the same
    /// time may survive. While a snapshot is held, all keys are deleted one by one, and compactions
    /// free the space later.
    ///
    /// The deletion is not atomic. A concurrent reader may miss only some of the keys, but it never
    /// sees an older value.
    ///
    /// # Errors
    ///
    /// Errors of a table that cannot be read, of the log or of the MANIFEST. Some keys may be
    /// deleted then, and the others keep their values. The same holds if the process ends before
    /// this returns.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// for name in ["AT/Wien", "CH/Bern", "CH/Chur", "FR/Lyon"] {
    ///     db.put(name.as_bytes(), b"")?;
    /// }
    /// db.delete_range(Some(b"CH/"), Some(b"CI"))?;
    /// assert_eq!(db.iter().into_forward().count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner().delete_range(begin, end)
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
    /// db.write_with(&batch, &terrace::WriteOptions { sync: true })?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.inner().write(batch, options)
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
    /// # let options = Options { create_if_missing: true, env, ..Options::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot();
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert!(db.get(b"CH/Bern")?.is_some());
    /// let earlier = ReadOptions { snapshot: Some(before), ..ReadOptions::default() };
    /// assert!(db.get_with(b"CH/Bern", &earlier)?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.inner().get(key.as_ref(), options)
    }

    /// Creates a snapshot of the current state. It contains every write that has returned, and no
    /// write that starts later.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let before = terrace::ReadOptions { snapshot: Some(db.snapshot()), ..Default::default() };
    /// db.delete(b"CH/Bern")?;
    /// assert_eq!(db.iter_with(&before).into_forward().count(), 1);
    /// assert_eq!(db.iter().into_forward().count(), 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let snapshot = self.inner().snapshots.new_snapshot(self.inner().read_state.visible_seqno());
        snapshot.attach(&self.handle)
    }

    /// Returns an iterator over the current state. It does not see later writes.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Chur", b"46.85,9.53")?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let all = db.iter();
    /// db.put(b"CH/Thun", b"46.76,7.63")?; // too late for this iterator
    /// let names: Result<Vec<_>, _> = all.into_forward().map(|entry| entry.map(|e| e.0)).collect();
    /// assert_eq!(names?, [b"CH/Bern", b"CH/Chur"]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter(&self) -> DbIterator {
        self.iter_with(&DEFAULT_READ_OPTIONS)
    }

    /// Returns an iterator with read options: snapshot, bounds or prefix. Its status reports
    /// invalid options.
    ///
    /// ```
    /// # use terrace::{Env, Options, ReadOptions};
    /// # let env = Env::in_memory();
    /// # let options = Options { create_if_missing: true, env, ..Options::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"AT/Wien", b"48.21,16.37")?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let swiss = ReadOptions { prefix: Some(b"CH/".to_vec()), ..ReadOptions::default() };
    /// let names = db.iter_with(&swiss).into_backward().map(|entry| entry.map(|e| e.0));
    /// let names = names.collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(names, [b"CH/Chur", b"CH/Bern"]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter_with(&self, options: &ReadOptions) -> DbIterator {
        DbInner::new_iter(&self.handle, options)
    }

    /// Returns the entries whose keys are in `range`, in key order, at the state of this moment.
    ///
    /// [`Iterator::rev`] iterates backward, and [`Iter::next_entry`] scans without copies. A range that
    /// excludes its start or includes its end needs the bytewise comparator. With another one, the only
    /// item is an error.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let db = terrace::Db::open("cities", &terrace::Options::default().create_if_missing(true).env(env))?;
    /// db.put("AT/Wien", "48.21,16.37")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// db.put("CH/Chur", "46.85,9.53")?;
    /// assert_eq!(db.range("B".."CH/C").count(), 1);
    /// let (last, _) = db.range("CH/"..).next_back().unwrap()?;
    /// assert_eq!(last, b"CH/Chur");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        DbInner::new_range_scan(&self.handle, range, ReadOptions::default())
    }

    /// Returns the entries whose keys begin with `prefix`, in key order, at the state of this moment.
    ///
    /// Needs the bytewise comparator. With another one, the only item is an error.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let db = terrace::Db::open("cities", &terrace::Options::default().create_if_missing(true).env(env))?;
    /// db.put("AT/Wien", "48.21,16.37")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(db.prefix("CH/").count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let options = ReadOptions { prefix: Some(prefix.as_ref().to_vec()), ..ReadOptions::default() };
        DbInner::new_scan(&self.handle, options)
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
        self.inner().compact_range(begin, end)
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
        self.inner().flush(FlushTarget::AnyLevel)
    }

    /// Closes the database if this is its last handle and no iterator exists. Otherwise only drops
    /// the handle.
    ///
    /// Makes the log durable; the next open replays it. Cancels a running compaction. When this
    /// returns, another process can open the database.
    ///
    /// # Errors
    ///
    /// An I/O error if the log could not be made durable. The database is closed nevertheless.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let clone = db.clone();
    /// db.close()?; // drops one handle
    /// clone.put(b"CH/Bern", b"46.95,7.45")?;
    /// clone.close()?; // the last one: closes the database
    /// assert!(terrace::Db::open("cities", &options)?.get(b"CH/Bern")?.is_some());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        // `try_unwrap` could fail for two clones that close at the same time.
        Arc::into_inner(self.handle).map_or(Ok(()), |handle| handle.inner.close())
    }

    /// Closes the database for all handles and iterators, as [`Db::close`] does for the last one.
    ///
    /// Later writes fail. Iterators and reads continue with their state. They fail if a later
    /// opener removes a table that they have not opened yet.
    ///
    /// # Errors
    ///
    /// An I/O error if the log could not be made durable. The database is closed nevertheless.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let mut forgotten = db.iter();
    /// db.shutdown()?;
    /// let again = terrace::Db::open("cities", &options)?;
    /// again.delete(b"CH/Bern")?;
    /// forgotten.seek_to_first();
    /// assert_eq!(forgotten.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn shutdown(&self) -> Result<()> {
        let outcome = self.inner().close();
        self.inner().join_background_jobs();
        outcome
    }

    fn inner(&self) -> &DbInner {
        &self.handle.inner
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.path().display())
    }
}

impl Drop for DbHandle {
    fn drop(&mut self) {
        if let Err(error) = self.inner.close() {
            self.inner.logger.log(format_args!("Closing: {error}"));
        }
        self.inner.join_background_jobs();
    }
}
