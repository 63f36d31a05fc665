//! Scans as Rust iterators, and reads of a snapshot.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use terrace_format::key::SequenceNumber;

use super::inner::{DbInner, ReadState};
use super::{Db, DbHandle};
use crate::error::{Error, Result};
use crate::iterator::{DbIterator, Iter, IterSource};
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use crate::sync::Arc;

/// Lower bound, included, and upper bound, excluded, of a range of keys. None means no bound.
type KeyBounds = (Option<Vec<u8>>, Option<Vec<u8>>);

/// State of the database at the creation of an [`Iter`].
struct ScanSource {
    handle: Arc<DbHandle>,
    read_state: Arc<ReadState>,
    sequence: SequenceNumber,
    options: ReadOptions,
}

impl IterSource for ScanSource {
    fn open(&self) -> DbIterator {
        let iter = DbInner::new_iter_at(&self.handle, &self.read_state, self.sequence, &self.options);
        match self.handle.inner.check_not_lost_in_fork() {
            Ok(()) => iter,
            Err(error) => iter.with_permanent_error(error),
        }
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.handle.inner.comparator.compare_user_keys(a, b)
    }
}

impl DbInner {
    /// Creates an iterator over the current state or over a snapshot. An error in `options` is the
    /// only item of the iterator.
    pub(super) fn new_scan(handle: &Arc<DbHandle>, options: ReadOptions) -> Iter {
        let (read_state, sequence) = match handle.inner.pin_read_state(&options) {
            Ok(pinned) => pinned,
            Err(error) => return Iter::from(error),
        };
        let source = ScanSource { handle: Arc::clone(handle), read_state, sequence, options };
        Iter::new(Ok(Box::new(source)))
    }

    /// Creates an iterator over the keys of `range` that are within the bounds of `options`.
    pub(super) fn new_range_scan<K: AsRef<[u8]>>(
        handle: &Arc<DbHandle>,
        range: impl RangeBounds<K>,
        options: ReadOptions,
    ) -> Iter {
        match handle.inner.key_bounds(range) {
            Ok((lower_bound, upper_bound)) => {
                DbInner::new_scan(handle, ReadOptions { lower_bound, upper_bound, ..options })
            }
            Err(error) => Iter::from(error),
        }
    }

    /// Returns the bounds of `range`: the lower one included and the upper one excluded.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an excluded start or an included end, unless the database has the
    /// bytewise comparator: only that order has a known next key.
    fn key_bounds<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<KeyBounds> {
        let lower_bound = match range.start_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(key.as_ref().to_vec()),
            Bound::Excluded(key) => Some(self.next_key(key.as_ref())?),
        };
        let upper_bound = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(self.next_key(key.as_ref())?),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
        };
        Ok((lower_bound, upper_bound))
    }

    /// Returns the smallest key after `key` in bytewise order.
    fn next_key(&self, key: &[u8]) -> Result<Vec<u8>> {
        if !self.comparator.is_bytewise() {
            return Err(Error::InvalidArgument(
                "with a custom comparator, a range includes its start and excludes its end".into(),
            ));
        }
        Ok([key, &[0]].concat())
    }
}

impl Db {
    /// Returns all entries in key order, at the state of this moment: later writes do not appear.
    ///
    /// [`Iterator::rev`] iterates backward, and [`Iter::next_entry`] scans without copies.
    /// [`Db::raw_iter`] can seek.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Chur", "46.85,9.53")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let all = db.iter();
    /// db.put("CH/Thun", "46.76,7.63")?; // too late for this iterator
    /// let names: Result<Vec<_>, _> = all.map(|entry| entry.map(|(key, _)| key)).collect();
    /// assert_eq!(names?, [b"CH/Bern", b"CH/Chur"]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter(&self) -> Iter {
        DbInner::new_scan(self.handle(), ReadOptions::DEFAULT)
    }

    /// Returns the entries that `options` selects by snapshot, bounds and prefix, in key order.
    /// Invalid options are an error, the only item.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// use terrace::ReadOptions;
    ///
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let before = ReadOptions::default().snapshot(db.snapshot()).prefix("CH/");
    /// db.delete("CH/Bern")?;
    /// assert_eq!(db.iter_with(&before).count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter_with(&self, options: &ReadOptions) -> Iter {
        DbInner::new_scan(self.reader(options), options.clone())
    }

    /// Returns the entries whose keys are in `range`, in key order, at the state of this moment.
    ///
    /// [`Iterator::rev`] iterates backward, and [`Iter::next_entry`] scans without copies. A range
    /// that excludes its start or includes its end needs the bytewise comparator. With another one,
    /// the only item is an error.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("AT/Wien", "48.21,16.37")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// db.put("CH/Chur", "46.85,9.53")?;
    /// assert_eq!(db.range("B".."CH/C").count(), 1);
    /// let (last, _) = db.range("CH/"..).next_back().unwrap()?;
    /// assert_eq!(last, b"CH/Chur");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        DbInner::new_range_scan(self.handle(), range, ReadOptions::default())
    }

    /// Returns the entries whose keys begin with `prefix`, in key order, at the state of this
    /// moment.
    ///
    /// Needs the bytewise comparator. With another one, the only item is an error.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("AT/Wien", "48.21,16.37")?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(db.prefix("CH/").count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        DbInner::new_scan(self.handle(), ReadOptions::default().prefix(prefix.as_ref()))
    }

    /// Deletes every key in `range`.
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
    /// - [`Error::InvalidArgument`] for a range that excludes its start or includes its end, if the
    ///   database has a custom comparator. Nothing is deleted.
    /// - Errors of a table that cannot be read, of the log or of the MANIFEST. Some keys may be
    ///   deleted then, and the others keep their values. The same holds if the process ends before
    ///   this returns.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// for name in ["AT/Wien", "CH/Bern", "CH/Chur", "FR/Lyon"] {
    ///     db.put(name, "")?;
    /// }
    /// db.delete_range("CH/".."CI")?;
    /// assert_eq!(db.iter().count(), 2);
    /// db.delete_range::<&str>(..)?;
    /// assert_eq!(db.iter().count(), 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let inner = self.writer()?;
        let (begin, end) = inner.key_bounds(range)?;
        inner.delete_range(begin.as_deref(), end.as_deref())
    }

    /// Compacts a range as [`Db::compact_range`] does. Calls `progress` in this thread with the
    /// completed bytes and their total, an estimate. It is called at least once, after the
    /// compaction.
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
    /// db.compact_range_with_progress(None, None, |done, total| println!("{done} of {total}"))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn compact_range_with_progress(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        self.writer()?.compact_range_with_progress(begin, end, &mut progress)
    }
}

/// Iterates over all entries, as [`Db::iter`] does.
impl IntoIterator for &Db {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

/// Iterates over all entries of the snapshot, as [`Snapshot::iter`] does.
impl IntoIterator for &Snapshot {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

impl Snapshot {
    /// Returns the value of `key` in the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`], and [`Error::NotSupported`] if the database is closed.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot();
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(before.get("CH/Bern")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.open_database()?.inner.get(key.as_ref(), &self.read_options())
    }

    /// Returns the values of `keys` in the snapshot, in the order of `keys`.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::get`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let values = db.snapshot().multi_get(&["CH/Bern", "CH/Chur"])?;
    /// assert_eq!(values, [Some(b"46.95,7.45".to_vec()), None]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        Db { handle: self.open_database()? }.multi_get_with(keys, &self.read_options())
    }

    /// Returns all entries of the snapshot in key order.
    ///
    /// If the database is closed, the only item is an [`Error::NotSupported`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let before = db.snapshot();
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(before.iter().count(), 0);
    /// assert_eq!(db.iter().count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter(&self) -> Iter {
        match self.open_database() {
            Ok(handle) => DbInner::new_scan(&handle, self.read_options()),
            Err(error) => Iter::from(error),
        }
    }

    /// Returns the entries of the snapshot whose keys are in `range`. Compare [`Db::range`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(db.snapshot().range("A".."D").count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        match self.open_database() {
            Ok(handle) => DbInner::new_range_scan(&handle, range, self.read_options()),
            Err(error) => Iter::from(error),
        }
    }

    /// Returns the entries of the snapshot whose keys begin with `prefix`. Compare [`Db::prefix`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(db.snapshot().prefix("CH/").count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        let options = self.read_options().prefix(prefix.as_ref());
        match self.open_database() {
            Ok(handle) => DbInner::new_scan(&handle, options),
            Err(error) => Iter::from(error),
        }
    }

    fn read_options(&self) -> ReadOptions {
        ReadOptions { snapshot: Some(self.clone()), ..ReadOptions::default() }
    }

    /// Returns the handle of the database, if one exists.
    fn open_database(&self) -> Result<Arc<DbHandle>> {
        self.database()
            .and_then(|database| database.downcast().ok())
            .ok_or_else(|| Error::NotSupported("database is closed".into()))
    }
}
