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

    /// Takes the pages of mapped tables out of the memory of the process. The system keeps them in
    /// its page cache as long as it has memory, so a later read of them costs a short page fault.
    ///
    /// The system counts such pages as memory of the process, although it may take them back. A
    /// long series of random gets counts all tables in the end.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// db.release_mapped_pages();
    /// assert!(db.contains(b"CH/Bern")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn release_mapped_pages(&self) {
        let inner = &self.handle().inner;
        let read_state = inner.read_state.current();
        for file in read_state.version.levels.iter().flatten() {
            inner.table_cache.advise_dontneed(file.table_ref());
        }
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

#[cfg(all(test, target_os = "linux", not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use terrace_env::{Random, SeededRandom};

    use super::*;

    #[test]
    fn mapped_pages_are_released() {
        /// Number of values of 1 KiB. Other tests of the process map less at the same time.
        const VALUES: u32 = 32 << 10;
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().create_if_missing(true);
        let db = Db::open(dir.path(), &options).unwrap();
        let random = SeededRandom::new(7);
        for number in 0..VALUES {
            let value: Vec<u8> = (0..128).flat_map(|_| random.uniform(u64::MAX).to_le_bytes()).collect();
            db.put(number.to_be_bytes(), value).unwrap();
        }
        db.compact_range(None, None).unwrap();
        let read_all = || assert!((0..VALUES).all(|number| db.contains(number.to_be_bytes()).unwrap()));
        let mapped = || options.env.fs.resident_mapped_bytes().unwrap();
        read_all();
        let before = mapped();
        db.release_mapped_pages();
        let after = mapped();
        assert!(before > after + u64::from(VALUES << 9), "{before} bytes, then {after}");
        read_all();
        assert!(mapped() > after, "the pages return");
    }
}
