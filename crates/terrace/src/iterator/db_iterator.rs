//! Iterator of the public API.

use terrace_env::ProcessToken;

use super::db_iter::DbIter;
use super::read_sample::{IterObserver, ReadSampler};
use crate::error::Error;
use crate::internal_iterator::{InternalIterator, delegate_iterator};
use crate::sync::Arc;

/// Iterator over a database in key order, in both directions, at the state of one moment.
///
/// A new iterator is invalid: the caller seeks first. One thread at a time can use an iterator. It
/// keeps its files and the database open until it is dropped.
///
/// Damage does not end the iteration: the iterator skips the damaged block, and
/// [`DbIterator::status`] returns the error from then on. A loop that must not miss an entry checks
/// the status after its end.
///
/// ```
/// # let env = terrace::Env::in_memory();
/// # let options = terrace::Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// db.put(b"CH/Bern", b"46.95,7.45")?;
/// db.put(b"CH/Chur", b"46.85,9.53")?;
/// let mut iter = db.raw_iter();
/// iter.seek(b"CH/C");
/// while iter.valid() {
///     println!("{} {}", iter.key().escape_ascii(), iter.value().escape_ascii());
///     iter.next();
/// }
/// iter.status()?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct DbIterator {
    iter: DbIter,
    /// Process that created the iterator.
    process: ProcessToken,
    /// Database that owns the memory that `iter` reads. The field is the last one, so that it is
    /// dropped last.
    observer: Arc<dyn IterObserver>,
}

impl DbIterator {
    /// Creates an iterator that shows the entries of `iter` and reports its read samples to
    /// `observer`.
    pub(crate) fn new(mut iter: DbIter, observer: Arc<dyn IterObserver>) -> DbIterator {
        iter.sampler = ReadSampler::new(Arc::clone(&observer));
        DbIterator { iter, process: ProcessToken::current(), observer }
    }

    /// Returns this iterator without entries and with `error` as its status.
    pub(crate) fn with_permanent_error(mut self, error: Error) -> DbIterator {
        self.iter.set_permanent_error(error);
        self
    }

    delegate_iterator! {
        iter in [DbIterator { iter, .. }];

        /// Returns true if the iterator is at an entry.
        ///
        /// ```
        /// # let env = terrace::Env::in_memory();
        /// # let options = terrace::Options::default().create_if_missing(true).env(env);
        /// # let db = terrace::Db::open("cities", &options)?;
        /// # db.put(b"CH/Bern", b"46.95,7.45")?;
        /// # db.put(b"CH/Chur", b"46.85,9.53")?;
        /// let mut iter = db.raw_iter();
        ///
        /// assert!(!iter.valid(), "a new iterator is invalid");
        /// iter.seek_to_first();
        /// assert!(iter.valid());
        /// # Ok::<(), terrace::Error>(())
        /// ```
        #[inline]
        pub fn valid;

        /// Returns the current key, or an empty slice if the iterator is invalid.
        ///
        /// ```
        /// # let env = terrace::Env::in_memory();
        /// # let options = terrace::Options::default().create_if_missing(true).env(env);
        /// # let db = terrace::Db::open("cities", &options)?;
        /// # db.put(b"CH/Bern", b"46.95,7.45")?;
        /// # db.put(b"CH/Chur", b"46.85,9.53")?;
        /// let mut iter = db.raw_iter();
        ///
        /// iter.seek_to_first();
        /// assert_eq!(iter.key(), b"CH/Bern");
        /// # Ok::<(), terrace::Error>(())
        /// ```
        #[inline]
        pub fn key;

        /// Returns the current value, or an empty slice if the iterator is invalid.
        ///
        /// ```
        /// # let env = terrace::Env::in_memory();
        /// # let options = terrace::Options::default().create_if_missing(true).env(env);
        /// # let db = terrace::Db::open("cities", &options)?;
        /// # db.put(b"CH/Bern", b"46.95,7.45")?;
        /// # db.put(b"CH/Chur", b"46.85,9.53")?;
        /// let mut iter = db.raw_iter();
        ///
        /// iter.seek_to_first();
        /// assert_eq!(iter.value(), b"46.95,7.45");
        /// # Ok::<(), terrace::Error>(())
        /// ```
        #[inline]
        pub fn value;

        /// Returns the first error since the iterator was created, damage included.
        ///
        /// ```
        /// # let env = terrace::Env::in_memory();
        /// # let options = terrace::Options::default().create_if_missing(true).env(env);
        /// # let db = terrace::Db::open("cities", &options)?;
        /// # db.put(b"CH/Bern", b"46.95,7.45")?;
        /// # db.put(b"CH/Chur", b"46.85,9.53")?;
        /// let mut iter = db.raw_iter();
        ///
        /// iter.seek_to_first();
        /// while iter.valid() {
        ///     iter.next();
        /// }
        /// iter.status()?; // The loop has seen every entry.
        /// # Ok::<(), terrace::Error>(())
        /// ```
        pub fn status;
    }

    /// Moves to the first key.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.raw_iter();
    ///
    /// iter.seek_to_first();
    /// assert_eq!(iter.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek_to_first(&mut self) {
        self.check_fork();
        self.iter.seek_to_first();
    }

    /// Moves to the last key.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.raw_iter();
    ///
    /// iter.seek_to_last();
    /// assert_eq!(iter.key(), b"CH/Chur");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek_to_last(&mut self) {
        self.check_fork();
        self.iter.seek_to_last();
    }

    /// Moves to the first key that is at or after `target`.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.raw_iter();
    ///
    /// iter.seek(b"CH/C");
    /// assert_eq!(iter.key(), b"CH/Chur");
    /// iter.seek(b"FR/");
    /// assert!(!iter.valid(), "there is no such key");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek(&mut self, target: &[u8]) {
        self.check_fork();
        self.iter.seek(target);
    }

    /// Moves to the next key. Does nothing if the iterator is invalid.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.raw_iter();
    ///
    /// iter.seek_to_first();
    /// iter.next();
    /// assert_eq!(iter.key(), b"CH/Chur");
    /// iter.next();
    /// assert!(!iter.valid());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    // LevelDB's name; `Iter` implements `Iterator`.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) {
        self.check_fork();
        self.iter.next();
    }

    /// Moves to the key before. Does nothing if the iterator is invalid.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.raw_iter();
    ///
    /// iter.seek(b"CH/Chur");
    /// iter.prev();
    /// assert_eq!(iter.key(), b"CH/Bern");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[inline]
    pub fn prev(&mut self) {
        self.check_fork();
        self.iter.prev();
    }

    /// Returns how many of the `count` entries from `first` on come before an error. Steps forward,
    /// or backward.
    ///
    /// This is for a caller that fetches entries in chunks and wants none after the damage. It
    /// checks [`DbIterator::status`] before and after each chunk. If only the second check finds an
    /// error, it calls this method with the first key of the chunk and the number of its entries.
    ///
    /// The iterator reads the entries again with a check at each step, and is beyond the last one
    /// of them afterwards. If the error does not occur again, the result is `count` and the status
    /// has no error.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.put(b"CH/Chur", b"46.85,9.53")?;
    /// let mut iter = db.raw_iter();
    /// iter.seek_to_first();
    /// iter.status()?;
    /// let mut keys = Vec::new();
    /// while iter.valid() && keys.len() < 100 {
    ///     keys.push(iter.key().to_vec());
    ///     iter.next();
    /// }
    /// if iter.status().is_err() {
    ///     keys.truncate(iter.entries_before_error(b"CH/Bern", true, keys.len()));
    /// }
    /// # assert_eq!(iter.entries_before_error(b"CH/Bern", true, 2), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn entries_before_error(&mut self, first: &[u8], forward: bool, count: usize) -> usize {
        // The iterator shows no entry after a permanent error.
        if !self.forget_errors() {
            return count;
        }
        self.seek(first);
        for shown in 0..count {
            if self.status().is_err() {
                return shown;
            }
            if forward { self.next() } else { self.prev() }
        }
        count
    }

    /// Forgets the errors, and makes the iterator invalid. Returns false, and changes nothing, if
    /// its error is permanent.
    pub(crate) fn forget_errors(&mut self) -> bool {
        self.iter.forget_errors()
    }

    /// Checks in a forked child whether it can read the database.
    #[inline]
    fn check_fork(&mut self) {
        if !self.process.is_current() {
            self.check_not_lost_in_fork();
        }
    }

    #[cold]
    fn check_not_lost_in_fork(&mut self) {
        if let Err(error) = self.observer.check_not_lost_in_fork() {
            self.iter.set_permanent_error(error);
        }
    }
}

impl std::fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.valid() {
            write!(f, "DbIterator('{}')", self.key().escape_ascii())
        } else {
            f.write_str("DbIterator")
        }
    }
}
