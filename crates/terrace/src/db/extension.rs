//! Access of higher layers, such as transactions, to an open database.

use std::any::Any;
use std::path::Path;

use terrace_env::Clock;
use terrace_format::batch::WriteBatch;
use terrace_format::comparator::Comparator;
use terrace_format::key::SequenceNumber;

use super::Db;
use super::components::database_capture::DatabaseCapture;
use super::inner::DbInner;
use crate::error::Result;
use crate::options::{Options, WriteOptions};
use crate::sync::Arc;

impl DbInner {
    /// Returns the state of a higher layer, which `create` creates at the first call.
    pub(super) fn extension<T: Any + Send + Sync>(&self, create: impl FnOnce() -> T) -> &T {
        let extension = terrace_sync::get_or_init_for_fork(&self.extension, || Box::new(create()));
        // Only one module uses the slot, so the type is always the same.
        extension.downcast_ref().expect("the slot has one type")
    }
}

impl Db {
    /// Same as [`Db::write_with`]. Returns the sequence number of the last operation.
    pub(crate) fn write_numbered(
        &self,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.writer()?.write(batch, options)
    }

    /// Returns the state of a higher layer, which `create` creates at the first call. One database
    /// has one such state.
    pub(crate) fn extension<T: Any + Send + Sync>(&self, create: impl FnOnce() -> T) -> &T {
        self.handle().inner.extension(create)
    }

    /// Passes a capture of the current state to `work`. Its tables exist until `work` returns.
    pub(crate) fn with_capture<T>(&self, work: impl FnOnce(DatabaseCapture) -> Result<T>) -> Result<T> {
        let inner = self.writer()?;
        let outcome = work(inner.capture()?);
        // A compaction may have replaced tables that only the capture has kept.
        inner.schedule_obsolete_file_removal();
        outcome
    }

    /// Options of this run, with the codec of the database if it is open for writing.
    pub(crate) fn options(&self) -> &Options {
        &self.handle().inner.options
    }

    /// Directory of the database, independent of the current directory of the process.
    pub(crate) fn absolute_path(&self) -> &Path {
        &self.handle().inner.absolute_directory
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.handle().inner.options.env.clock
    }

    pub(crate) fn comparator(&self) -> &Arc<dyn Comparator> {
        self.handle().inner.comparator.user_comparator()
    }
}
