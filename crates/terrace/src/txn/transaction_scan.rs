//! Scans of a transaction.

use super::transaction::Transaction;
use super::transaction_options::Isolation;
use super::txn_iter::{RangeRecorder, TransactionEntries, TransactionIterator};
use crate::error::{Error, Result};
use crate::iterator::IterBounds;
use crate::options::ReadOptions;
use crate::sync::Arc;

/// Scans.
impl Transaction {
    /// Returns copies of all entries in key order, own writes included.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotSupported`](crate::ErrorKind::NotSupported) as for
    /// [`Transaction::iter_with`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// assert_eq!(transaction.iter()?.count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter(&mut self) -> Result<TransactionEntries> {
        self.iter_with(&ReadOptions::DEFAULT)
    }

    /// Returns copies of the entries within the bounds or with the prefix of `options`, in key
    /// order. The snapshot is that of the transaction.
    ///
    /// # Errors
    ///
    /// `NotSupported` for a prefix with a custom comparator, `InvalidArgument` for a snapshot in
    /// `options`.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// use terrace::ReadOptions;
    ///
    /// db.put("AT/Wien", "48.21,16.37")?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// for entry in transaction.iter_with(&ReadOptions::default().prefix("CH/"))? {
    ///     let (city, place) = entry?;
    ///     transaction.put([b"old/", city.as_slice()].concat(), place)?; // not seen by this loop
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn iter_with(&mut self, options: &ReadOptions) -> Result<TransactionEntries> {
        Ok(TransactionEntries::new(self.raw_iter_with(options)?))
    }

    /// Returns a cursor over all entries, own writes included. It moves in both directions.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.delete("CH/Bern")?;
    /// let mut cursor = transaction.raw_iter()?;
    /// cursor.seek_to_first();
    /// assert!(!cursor.valid());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn raw_iter(&mut self) -> Result<TransactionIterator> {
        self.raw_iter_with(&ReadOptions::DEFAULT)
    }

    /// Returns a cursor within the bounds or the prefix of `options`. The errors are those of
    /// [`Transaction::iter_with`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let mut transaction = db.begin(&Default::default());
    /// let mut cursor = transaction.raw_iter_with(&terrace::ReadOptions::default().prefix("AT/"))?;
    /// cursor.seek_to_last();
    /// assert!(!cursor.valid());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn raw_iter_with(&mut self, options: &ReadOptions) -> Result<TransactionIterator> {
        if options.snapshot.is_some() {
            return Err(Error::InvalidArgument("an iterator of a transaction has its snapshot".into()));
        }
        let comparator = Arc::clone(self.db.comparator());
        let bounds = IterBounds::new(options, &*comparator)?;
        let snapshot = self.start_reading();
        let base = self.db.raw_iter_with(&ReadOptions { snapshot: Some(snapshot), ..options.clone() });
        if !self.writes.batch().is_empty() && !self.writes.has_index() {
            self.writes.make_mut().build_index(&comparator);
        }
        let is_tracked = self.options.isolation == Isolation::Serializable;
        let recorder = is_tracked.then(|| RangeRecorder {
            ranges: Arc::clone(self.reads.ranges_mut()),
            current: None,
            is_at_edge: false,
            limit: self.options.memory,
        });
        Ok(TransactionIterator::new(comparator, base, self.writes.share(), bounds, recorder))
    }
}
