//! Calls that never wait, for event loops: they answer from memory, or return
//! [`Error::WouldWait`](crate::Error::WouldWait) and have no effect.
//!
//! ```text
//!   event loop -- try_get, try_write --> result, in about the time of a get or put
//!              \-- WouldWait --> thread that may wait: get_pinned, write_with
//! ```
//!
//! A round trip to another thread takes ten to a hundred times as long as a get or put in memory.

use std::ops::ControlFlow;

use terrace_format::batch::WriteBatch;
use terrace_format::key::SequenceNumber;

use super::Db;
use super::components::pinned_value::PinnedValue;
use super::components::read_state::StateStamp;
use super::inner::{DbInner, ReadState};
use crate::error::Result;
use crate::options::{ReadOptions, WriteOptions};
use crate::table::BlockReadOptions;

/// Number of keys for which the lookup of several keys prefetches together.
const KEYS_AHEAD: usize = 16;

/// Calls for threads that must not wait, and a sync of all writes so far.
impl Db {
    /// Returns the current value of `key` if memory holds the answer. Same as
    /// [`Db::get_pinned_with`] otherwise.
    ///
    /// Reads memtables, open tables, cached blocks, and blocks of mapped tables that are in the
    /// page cache. Blocks that an earlier read has verified count as memory while all mapped tables
    /// of the process fit in it. The system may nevertheless have to load a page that it has
    /// evicted.
    ///
    /// # Errors
    ///
    /// [`Error::WouldWait`](crate::Error::WouldWait) if the get needs a file.
    /// [`Db::get_pinned_with`] then reads the block on a thread that may wait, and later calls find
    /// it in memory. Otherwise the errors of [`Db::get`].
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let read = ReadOptions::default();
    /// assert_eq!(db.try_get(b"CH/Bern", &read)?.as_deref(), Some(&b"46.95,7.45"[..]));
    /// db.flush()?;
    /// let place = match db.try_get(b"CH/Bern", &read) {
    ///     Err(error) if error.is_would_wait() => db.get_pinned(b"CH/Bern")?, // on another thread
    ///     answer => answer?,
    /// };
    /// assert_eq!(place.as_deref(), Some(&b"46.95,7.45"[..]));
    /// assert!(db.try_get(b"CH/Bern", &read)?.is_some(), "the block is in memory now");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn try_get(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<PinnedValue>> {
        self.reader(options).inner.get_in_memory(key.as_ref(), options, |value| value.into_pinned())
    }

    /// Returns the result of `read` for the current value of `key` if memory holds the answer.
    /// Same as [`Db::get_borrowed`] otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`Db::try_get`].
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let read = ReadOptions::default();
    /// assert_eq!(db.try_get_borrowed(b"CH/Bern", &read, <[u8]>::len)?, Some(10));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn try_get_borrowed<T>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.reader(options).inner.get_in_memory(key.as_ref(), options, |value| read(value.bytes()))
    }

    /// Passes the current values of `keys` to `read`, in this order, if memory holds the answers.
    /// All values are of one moment. Ends when `read` returns [`ControlFlow::Break`].
    ///
    /// Cheaper than a [`Db::try_get_borrowed`] for each key. The calls of `read` before an error
    /// have happened.
    ///
    /// # Errors
    ///
    /// Those of [`Db::try_get`].
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let mut lens = Vec::new();
    /// let keys = [&b"CH/Bern"[..], b"CH/Chur"];
    /// db.try_get_each(keys.into_iter(), &terrace::ReadOptions::default(), |value| {
    ///     lens.push(value.map(<[u8]>::len));
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(lens, [Some(10), None]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn try_get_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        options: &ReadOptions,
        read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.reader(options).inner.get_each_in_memory(keys, options, read)
    }

    /// Returns the stamp of the current state, for [`Db::is_unchanged_since`].
    pub fn state_stamp(&self) -> StateStamp {
        self.handle().inner.read_state.stamp()
    }

    /// Returns true if all reads since `stamp` have seen the same state: no write became visible,
    /// and no table was installed or removed. False without such a change is possible.
    ///
    /// A few short reads are cheaper with a stamp than with a snapshot, which takes two locks.
    /// After a change, the caller repeats them with a snapshot. An iterator keeps the state of its
    /// creation.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let stamp = db.state_stamp();
    /// let places = [db.get(b"CH/Bern")?, db.get(b"CH/Chur")?];
    /// assert!(db.is_unchanged_since(stamp), "both values are of one moment");
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert!(!db.is_unchanged_since(stamp));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn is_unchanged_since(&self, stamp: StateStamp) -> bool {
        self.handle().inner.read_state.is_unchanged_since(stamp)
    }

    /// Applies all operations of `batch`, in order, or none of them, if this does not wait. Same as
    /// [`Db::write_with`] otherwise, with the same durability and visibility.
    ///
    /// The call may spin for some microseconds until another thread has finished its write.
    ///
    /// # Errors
    ///
    /// [`Error::WouldWait`](crate::Error::WouldWait), and no operation has an effect: the options
    /// ask for a sync; the memtable is full; writes are delayed because compactions lag; other
    /// threads write at the same time. [`Db::write_with`] then writes the batch on a thread that
    /// may wait. Otherwise the errors of [`Db::write`].
    ///
    /// ```
    /// # use terrace::{WriteBatch, WriteOptions};
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"CH/Bern", b"46.95,7.45");
    /// match db.try_write(&batch, &WriteOptions::default()) {
    ///     Err(error) if error.is_would_wait() => db.write(&batch)?, // on another thread
    ///     outcome => outcome?,
    /// }
    /// assert!(db.contains(b"CH/Bern")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn try_write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.writer()?.try_write(batch, options)
    }

    /// Returns true if a write would probably be delayed or stalled now: compactions lag, or the
    /// memtable is full and the next one has to wait for a flush. The answer may be outdated when
    /// the caller uses it; [`Db::try_write`] decides exactly.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// assert!(!db.would_wait());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn would_wait(&self) -> bool {
        self.inner().would_wait()
    }

    /// Makes all writes that have returned durable: they survive a power cut when this returns.
    /// Same as a write without operations and with [`WriteOptions::sync`]. Concurrent calls share
    /// one sync.
    ///
    /// # Errors
    ///
    /// An I/O error of the sync. The database then refuses writes until it is opened again
    /// ([`Error::BackgroundError`](crate::Error::BackgroundError)); reads still work.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// for city in ["CH/Bern", "CH/Chur"] {
    ///     db.put(city, "")?;
    /// }
    /// db.sync()?; // one wait for both
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.writer()?.write_empty_batch(&WriteOptions { sync: true }).map(drop)
    }
}

impl DbInner {
    /// Passes the values of `keys` at one moment to `read`, as long as it returns
    /// [`ControlFlow::Continue`]. Returns an error if a get needs a file.
    fn get_each_in_memory<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        options: &ReadOptions,
        read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let block_options =
            BlockReadOptions { only_in_memory: true, ..BlockReadOptions::from_read_options(options) };
        if self.follow_schedule.is_some() {
            self.check_no_catch_up_due(options)?;
            return self.with_followed_state(options, |read_state, sequence| {
                self.get_each_from(read_state, keys, sequence, block_options, read)
            })?;
        }
        let install_count = self.read_state.install_count();
        let (read_state, visible) = self.read_state.load_one_moment();
        let sequence = self.read_sequence(options, visible)?;
        let result = self.get_each_from(&read_state, keys, sequence, block_options, read);
        drop(read_state);
        self.release_replaced_tables(install_count);
        result
    }

    fn get_each_from<'k>(
        &self,
        read_state: &ReadState,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        sequence: SequenceNumber,
        block_options: BlockReadOptions,
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut ahead = keys.clone();
        for (index, key) in keys.enumerate() {
            if index % KEYS_AHEAD == 0 {
                ahead.by_ref().take(KEYS_AHEAD).for_each(|key| {
                    read_state.non_empty_memtables().for_each(|memtable| memtable.prefetch_get(key));
                });
            }
            let found =
                self.get_from(read_state, key, sequence, block_options, |value| read(Some(value.bytes())))?;
            if found.unwrap_or_else(|| read(None)).is_break() {
                break;
            }
        }
        Ok(())
    }
}
