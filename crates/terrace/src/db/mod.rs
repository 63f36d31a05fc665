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
mod write;

pub use components::directory::destroy;
pub(crate) use components::directory::{list_db_files, lock_directory, lock_directory_shared};
pub use components::level_info::{LevelInfo, TableInfo};
pub use components::pinned_value::PinnedValue;

use std::fmt;
use std::path::Path;

use terrace_format::batch::WriteBatch;

use crate::error::Result;
use crate::iterator::DbIterator;
use crate::options::{DEFAULT_READ_OPTIONS, Options, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use crate::sync::Arc;
use inner::{DbInner, FlushTarget};

/// An open database.
///
/// Cheap to clone; clones share the database, from any thread. When the last clone and the last iterator are gone it
/// closes: [`Db::close`] does the same and says whether all went well.
#[derive(Clone)]
pub struct Db {
    handle: Arc<DbHandle>,
}

/// Closes the database when it goes. Background jobs hold the engine, not this.
struct DbHandle {
    inner: Arc<DbInner>,
}

impl Db {
    /// Opens the database in directory `path`, or creates it if [`Options::create_if_missing`].
    ///
    /// Replays the logs, so that every write that survived is there when this returns. Takes the directory's lock:
    /// one database is open once, in one process, by Terrace or by a LevelDB.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] if it does not exist (or does, with [`Options::error_if_exists`]), or was
    /// created with another comparator; [`ErrorKind::Corruption`] if the manifest is damaged or a table is missing
    /// (then [`repair`](crate::repair) can help); [`ErrorKind::Io`] if it is open elsewhere
    /// ([`ErrorOut::is_locked`]) or a file can't be read. What is stored stays as it was.
    ///
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::Corruption`]: crate::ErrorKind::Corruption
    /// [`ErrorKind::Io`]: crate::ErrorKind::Io
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
    /// let db = Db::open("cities", &options)?;
    /// assert!(Db::open("cities", &options).unwrap_err().is_locked());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let inner = DbInner::open(path.as_ref(), options)?;
        Ok(Db { handle: Arc::new(DbHandle { inner }) })
    }

    /// Opens the database in directory `path` for reading, and writes nothing at all: no file is created, changed or
    /// removed, so it works on read-only media.
    ///
    /// Logs are replayed in memory. Several read-only handles may be open at once, in any processes; an open writer
    /// excludes them and they exclude a writer, if there is a lock file to lock. Writes fail with
    /// [`ErrorOut::NotSupported`]. Errors are those of [`Db::open`].
    ///
    /// ```
    /// # use terrace::{Db, Env, Options};
    /// # let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
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

    /// Gives `key` the value `value`. As [`Db::write`] of a batch with that one operation.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.put(b"CH/Bern", b"46.948,7.447")?; // replaces
    /// assert_eq!(db.get(b"CH/Bern")?.as_deref(), Some(b"46.948,7.447".as_slice()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, &WriteOptions::default())
    }

    /// As [`Db::put`], with options.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put_with(b"CH/Bern", b"46.95,7.45", &terrace::WriteOptions { sync: true })?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner().write_one(key, Some(value), options)
    }

    /// Removes `key`. It need not exist. As [`Db::write`] of a batch with that one operation.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.delete(b"CH/Bern")?;
    /// db.delete(b"CH/Bern")?; // no error
    /// assert!(db.get(b"CH/Bern")?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, &WriteOptions::default())
    }

    /// As [`Db::delete`], with options.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.delete_with(b"CH/Bern", &terrace::WriteOptions { sync: true })?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_with(&self, key: &[u8], options: &WriteOptions) -> Result<()> {
        self.inner().write_one(key, None, options)
    }

    /// Removes every key from `begin` up to, but without, `end`. An end that is None is open.
    ///
    /// Tables with no other keys are removed whole, and their space is free when no iterator reads them any more; what
    /// else there is of the range is deleted key by key. Durable when this returns, with every write before it. Keys that
    /// other threads write into the range meanwhile may stay or go. While a snapshot is held, every key is deleted by
    /// itself and the space comes back with merges.
    ///
    /// Not one step for readers: beside it a reader may see a part of the keys gone, but never an older value.
    ///
    /// # Errors
    ///
    /// Of a table that can't be read, of the log or of the manifest: some of the keys may be gone then, and the others
    /// have their values. It is the same if the process dies before this returns.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
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

    /// Applies every operation of `batch`, in order, or none.
    ///
    /// Visible to reads that start after this returns, in every thread; a concurrent reader sees all of it or nothing.
    /// It survives the death of the process when this returns.
    ///
    /// # Errors
    ///
    /// If the log can't be written, nothing of `batch` is visible. No space, memory or descriptors: the same write
    /// may succeed later ([`ErrorOut::is_retryable`]). Anything else: the database refuses writes until it is opened
    /// again ([`ErrorOut::BackgroundError`]), because what reached the disk is unknown; reads go on.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Berne", b"46.95,7.45")?;
    /// let mut rename = terrace::WriteBatch::new();
    /// rename.delete(b"CH/Berne");
    /// rename.put(b"CH/Bern", b"46.95,7.45");
    /// db.write(&rename)?; // nobody ever sees both names, or none
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, &WriteOptions::default())
    }

    /// As [`Db::write`]. With [`WriteOptions::sync`] the batch, and every write before it, is on the medium when this
    /// returns; concurrent calls share one flush of the device. Other threads may read the batch a little before
    /// that. If the sync fails, whether the batch survives a power cut is unknown, further writes are refused, and reads
    /// that start after this returned do not see the batch.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
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

    /// The value of `key` now, or None if it has none.
    ///
    /// Sees every write that returned before this call. Takes no lock that a writer holds for long.
    ///
    /// # Errors
    ///
    /// Damage in, or failure of, a table that the look-up needed.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"")?;
    /// assert_eq!(db.get(b"CH/Bern")?, Some(vec![]), "an empty value is a value");
    /// assert_eq!(db.get(b"CH/Chur")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, &DEFAULT_READ_OPTIONS)
    }

    /// As [`Db::get`], with options: a snapshot of this database, for one.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot();
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert!(db.get(b"CH/Bern")?.is_some());
    /// let then = ReadOptions { snapshot: Some(before), ..ReadOptions::default() };
    /// assert!(db.get_with(b"CH/Bern", &then)?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.inner().get(key, options)
    }

    /// A handle on the state of this moment: on every write that has returned, and on none that starts later.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let before = terrace::ReadOptions { snapshot: Some(db.snapshot()), ..Default::default() };
    /// db.delete(b"CH/Bern")?;
    /// assert_eq!(db.iter_with(&before).into_forward().count(), 1);
    /// assert_eq!(db.iter().into_forward().count(), 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.inner().snapshots.new_snapshot(self.inner().read_state.visible_seqno())
    }

    /// An iterator over the state of this moment.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Chur", b"46.85,9.53")?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let all = db.iter();
    /// db.put(b"CH/Thun", b"46.76,7.63")?; // too late for this iterator
    /// let names = all.into_forward().map(|entry| Ok(entry?.0)).collect::<terrace::Result<Vec<_>>>()?;
    /// assert_eq!(names, [b"CH/Bern", b"CH/Chur"]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter(&self) -> DbIterator {
        self.iter_with(&DEFAULT_READ_OPTIONS)
    }

    /// An iterator with options: snapshot, bounds, prefix. What is wrong with the options is in its status.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"AT/Wien", b"48.21,16.37")?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let swiss = ReadOptions { prefix: Some(b"CH/".to_vec()), ..ReadOptions::default() };
    /// let names: Vec<Vec<u8>> =
    ///     db.iter_with(&swiss).into_backward().map(|e| e.map(|(key, _)| key)).collect::<Result<_, _>>()?;
    /// assert_eq!(names, [b"CH/Chur", b"CH/Bern"]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter_with(&self, options: &ReadOptions) -> DbIterator {
        DbInner::new_iter(&self.handle, options)
    }

    /// For each range, begin included and end not, about how many bytes its entries take in table files. What is
    /// only in memory yet does not count.
    ///
    /// # Errors
    ///
    /// Damage in, or failure of, a table at the edge of a range.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
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

    /// Merges everything in a range of keys, both ends included, down to the deepest level that has some of it:
    /// what was overwritten or deleted on the way, and is in no snapshot, gives its space back. Tables that are on that
    /// level already, and overlap nothing above, stay as they are. An end that is None is open.
    ///
    /// Returns when that is done; reads and writes go on meanwhile.
    ///
    /// # Errors
    ///
    /// Of the flush or of a merge; what was stored is still stored.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// db.delete(b"CH/Bern")?;
    /// db.compact_range(Some(b"CH/"), Some(b"CI/"))?; // a part
    /// db.compact_range(None, None)?; // everything
    /// assert!(db.levels().iter().all(|level| level.files.is_empty()), "nothing is left to be stored");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.inner().compact_range(begin, end)
    }

    /// Turns what is in memory into a table, and returns when that is done and durable.
    ///
    /// # Errors
    ///
    /// Of the log or the table; what was written is still in the old log.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
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

    /// A property by its LevelDB name, in LevelDB's own words, or by ours; None for any other name.
    ///
    /// - `leveldb.num-files-at-level<N>`: the tables on level N, 0 to 6
    /// - `leveldb.stats`: a table of what merges have done per level
    /// - `leveldb.sstables`: every table with its range of keys
    /// - `leveldb.approximate-memory-usage`: bytes of memtables and block cache
    /// - `terrace.memory`: bytes of all that [`Options::memory_budget`] counts, whether there is one or not
    /// - `terrace.stats`: how many blocks reads found in the cache and how many not; how many look-ups in tables the filters
    ///   spared, and how many they let through in vain; how many writes slept because merges are behind, or waited for a
    ///   flush or a merge, and for how long in all; for each thing that writes waited for, and for flushes and merges, how
    ///   often, how long in all and at most, and how many by powers of two of microseconds; since the database was opened. And
    ///   what its parts hold in memory now
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// assert_eq!(db.property("leveldb.num-files-at-level0").as_deref(), Some("0"));
    /// assert!(db.property("leveldb.stats").is_some());
    /// assert_eq!(db.property("no such property"), None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner().property(name)
    }

    /// The tables of each of the seven levels now, level 0 from the newest to the oldest, the others in key order.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// for level in db.levels() {
    ///     for file in level.files {
    ///         println!("level {}: file {}, {} bytes", level.level, file.number, file.size);
    ///     }
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn levels(&self) -> Vec<LevelInfo> {
        components::level_info::level_infos(&self.inner().read_state.current().version)
    }

    /// True if a stock LevelDB can open this database. False once it was opened with a compression that a stock LevelDB
    /// can't read: such a database carries another comparator name, so that it is refused and left alone. The way back
    /// is to copy the entries to a new database.
    ///
    /// ```
    /// # use terrace::{Db, Env, Options, compress};
    /// # let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
    /// assert!(Db::open("plain", &options)?.is_portable());
    /// # if cfg!(feature = "zstd") {
    /// let packed = Options { compression: &compress::ZSTD, ..options };
    /// assert!(!Db::open("packed", &packed)?.is_portable());
    /// # }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_leveldb_compatible(&self) -> bool {
        !self.inner().state.lock().version_set.is_incompatible
    }

    /// The directory, as it was given to [`Db::open`].
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// assert_eq!(db.path(), std::path::Path::new("cities"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.inner().directory
    }

    /// Closes the database, if this is its last handle and no iterator is left; otherwise only gives up the handle.
    ///
    /// What is in memory stays in the log, which is made durable and given its end; a running merge is given up. The
    /// database can be opened elsewhere when this returns.
    ///
    /// # Errors
    ///
    /// If the log could not be made durable. Everything is closed all the same.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let clone = db.clone();
    /// db.close()?; // gives up one handle
    /// clone.put(b"CH/Bern", b"46.95,7.45")?;
    /// clone.close()?; // the last: closed, and whether all went well is known
    /// assert!(terrace::Db::open("cities", &options)?.get(b"CH/Bern")?.is_some());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        // Not `try_unwrap`: of two clones that close at once, one is the last.
        Arc::into_inner(self.handle).map_or(Ok(()), |handle| handle.inner.close())
    }

    /// Closes the database for every handle and iterator, as [`Db::close`] does for the last one.
    ///
    /// Writes are refused from then on. Iterators and reads go on with the state that they have, unless another opener
    /// removes a file that they have not opened yet: then they fail.
    ///
    /// # Errors
    ///
    /// If the log could not be made durable. Everything is closed all the same.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let mut forgotten = db.iter();
    /// db.shut()?;
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
