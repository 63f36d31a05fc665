//! Reads of a damaged database, and the report of the damage that an open has found.

use std::path::Path;

use super::components::recovery_report::RecoveryReport;
use super::inner::DbInner;
use super::{Db, DbHandle};
use crate::error::Result;
use crate::options::Options;
use crate::sync::Arc;

/// Damaged databases.
impl Db {
    /// Opens a damaged database for reads only, like [`Db::open_read_only`], and reads all data
    /// that is readable. [`Db::recovery`] lists missing tables and damaged logs.
    ///
    /// Gets of a key in a damaged table fail. Iterators skip damaged blocks, and
    /// [`DbIterator::status`](crate::DbIterator::status) returns the first error. Tables are read
    /// by system calls, as with [`Options::paranoid_checks`], so a bad sector is an error.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open`], if CURRENT or the MANIFEST is damaged before its last edit.
    /// [`repair`](fn@crate::repair) can help.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use terrace::{Db, Env, Options};
    /// # let options = Options::default().create_if_missing(true).env(Env::in_memory());
    /// # let db = Db::open("cities", &options)?;
    /// # db.put(b"CH/Bern", b"46.95,7.45")?;
    /// # db.flush()?;
    /// # let table = db.levels().iter().find_map(|level| level.files.first().cloned()).unwrap();
    /// # db.close()?;
    /// options.env.fs.remove(&Path::new("cities").join(format!("{:06}.ldb", table.number)))?;
    /// assert!(Db::open_read_only("cities", &options).is_err());
    /// let db = Db::open_damaged("cities", &options)?;
    /// assert_eq!(db.recovery().damage.len(), 1);
    /// assert!(db.get(b"CH/Bern").is_err(), "the table is missing");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_damaged(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let inner = DbInner::open_read_only(path.as_ref(), options, true)?;
        Ok(Db { handle: Arc::new(DbHandle::new(inner)) })
    }

    /// Returns the findings of the open: the end of each log, and damage whose data is missing.
    ///
    /// [`Options::paranoid_checks`](crate::Options::paranoid_checks) makes damage in a log an error
    /// of the open instead.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.handle.inner.recovery
    }
}
