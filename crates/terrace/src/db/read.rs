//! Reads: gets, iterators, approximate sizes.
//!
//! A read loads the current read state and takes no lock afterwards. A get passes the value to its
//! caller in place, so that the value is copied once or not at all.

use terrace_format::key::{InternalKey, MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType, with_seek_key};
use terrace_sync::mutant;

use super::components::pinned_value::PinnedValue;
use super::inner::{DbInner, ReadState};
use super::{Db, DbHandle};
use crate::error::{Error, Result};
use crate::file_io::{extend_copy, try_copy};
use crate::iterator::{ChildIter, DbIter, DbIterator, IterObserver, MergingIter, READ_BYTES_PERIOD};
use crate::memtable::{FoundVersion, Memtable};
use crate::options::{DEFAULT_READ_OPTIONS, ReadOptions};
use crate::stats::{TICKER_SAMPLE_WEIGHT, Ticker};
use crate::sync::{Arc, Ordering};
use crate::table::{BlockReadOptions, FoundEntry};
use crate::version::KeyRange;

/// Wasted probes after which a get names a table again whose request came at a bad time. Each
/// request takes a lock.
const SEEKS_UNTIL_RETRY_GET: i64 = 64;

/// Read samples after which a scan names a table again. The first table on its way is compacted
/// first, and tables beyond the range that it reads only later.
const SEEKS_UNTIL_RETRY_SCAN: i64 = 1;

/// Number of lookups that prefetch their blocks together. More of them compete for the disk and for
/// memory.
const MULTI_GET_BATCH_SIZE: usize = 32;

impl DbInner {
    pub(super) fn get(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let value = self.get_impl(key, options, |value| try_copy(value.bytes(), &self.directory))?;
        let value = value.transpose()?;
        Ok(if mutant!(RareWrongRead) { corrupt_one_in_a_million(value) } else { value })
    }

    /// Returns the result of `take` for the value of `user_key`, if the key exists.
    #[inline]
    fn get_impl<T>(
        &self,
        user_key: &[u8],
        options: &ReadOptions,
        take: impl FnOnce(FoundValue<'_>) -> T,
    ) -> Result<Option<T>> {
        self.get_with_block_options(user_key, options, BlockReadOptions::from_read_options(options), take)
    }

    /// Returns the result of `take` for the value of `user_key`, or an error if the get needs a
    /// file.
    #[inline]
    pub(super) fn get_in_memory<T>(
        &self,
        user_key: &[u8],
        options: &ReadOptions,
        take: impl FnOnce(FoundValue<'_>) -> T,
    ) -> Result<Option<T>> {
        let block_options =
            BlockReadOptions { only_in_memory: true, ..BlockReadOptions::from_read_options(options) };
        self.get_with_block_options(user_key, options, block_options, take)
    }

    /// Returns the result of `take` for the value of `user_key`, if the key exists.
    #[inline]
    fn get_with_block_options<T>(
        &self,
        user_key: &[u8],
        options: &ReadOptions,
        block_options: BlockReadOptions,
        take: impl FnOnce(FoundValue<'_>) -> T,
    ) -> Result<Option<T>> {
        if self.follow_schedule.is_some() {
            if block_options.only_in_memory {
                self.check_no_catch_up_due(options)?;
            }
            return self.with_followed_state(options, |read_state, sequence| {
                self.get_from(read_state, user_key, sequence, block_options, take)
            })?;
        }
        let install_count = self.read_state.install_count();
        let (read_state, visible) = self.read_state.load();
        let sequence = self.read_sequence(options, visible)?;
        let value = self.get_from(&read_state, user_key, sequence, block_options, take);
        drop(read_state);
        self.release_replaced_tables(install_count);
        value
    }

    /// Schedules the removal of obsolete tables if a read state was installed since
    /// `install_count`. The read may have held the tables when the compaction that replaced them
    /// tried to remove them.
    #[inline]
    pub(super) fn release_replaced_tables(&self, install_count: u64) {
        if self.read_state.install_count() != install_count {
            self.schedule_obsolete_file_removal();
        }
    }

    pub(super) fn get_from<T>(
        &self,
        read_state: &ReadState,
        user_key: &[u8],
        sequence: SequenceNumber,
        block_options: BlockReadOptions,
        take: impl FnOnce(FoundValue<'_>) -> T,
    ) -> Result<Option<T>> {
        for memtable in read_state.non_empty_memtables() {
            if let Some(found) = memtable.get(user_key, sequence) {
                let value = found.value.map(|bytes| FoundValue::InMemtable { found, bytes });
                return Ok(value.map(take));
            }
        }
        let mut found = None;
        let hint = with_seek_key(user_key, sequence, |target| {
            read_state.version.get(target, &self.table_cache, block_options, &mut found)
        })?;
        if let Some(hint) = hint {
            self.request_read_compaction(hint, SEEKS_UNTIL_RETRY_GET);
        }
        let found = found.as_ref().filter(|entry| entry.trailer as u8 == ValueType::Value as u8);
        Ok(found.map(|entry| take(FoundValue::InTable(entry))))
    }

    fn multi_get(&self, keys: &[impl AsRef<[u8]>], options: &ReadOptions) -> Result<Vec<Option<Vec<u8>>>> {
        let install_count = self.read_state.install_count();
        let (read_state, sequence) = self.pin_read_state(options)?;
        let block_options = BlockReadOptions::from_read_options(options);
        // Neighbouring keys share blocks.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&i| keys[i].as_ref());
        let mut values = vec![None; keys.len()];
        for batch in order.chunks(MULTI_GET_BATCH_SIZE) {
            if batch.len() > 1 && self.table_cache.reads_may_block() {
                batch.iter().for_each(|&i| self.prefetch_get(&read_state, keys[i].as_ref(), sequence));
            }
            for &i in batch {
                let key = keys[i].as_ref();
                let value = self.get_from(&read_state, key, sequence, block_options, |value| {
                    try_copy(value.bytes(), &self.directory)
                })?;
                values[i] = value.transpose()?;
            }
        }
        drop(read_state);
        self.release_replaced_tables(install_count);
        Ok(values)
    }

    /// Starts to read the blocks that a later lookup of `user_key` needs.
    fn prefetch_get(&self, read_state: &ReadState, user_key: &[u8], sequence: SequenceNumber) {
        if read_state.non_empty_memtables().all(|memtable| memtable.get(user_key, sequence).is_none()) {
            with_seek_key(user_key, sequence, |target| {
                read_state.version.prefetch(target, &self.table_cache)
            });
        }
    }

    /// Returns the sequence number to read at: that of the snapshot, or `visible_seqno`.
    pub(super) fn read_sequence(
        &self,
        options: &ReadOptions,
        visible_seqno: SequenceNumber,
    ) -> Result<SequenceNumber> {
        self.check_not_lost_in_fork()?;
        match &options.snapshot {
            None => Ok(visible_seqno),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.sequence()),
            Some(_) => Err(Error::InvalidArgument("snapshot belongs to another database".into())),
        }
    }

    /// Creates an iterator over the current state or over a snapshot.
    pub(super) fn new_iter(handle: &Arc<DbHandle>, options: &ReadOptions) -> DbIterator {
        let inner = &handle.inner;
        match inner.pin_read_state(options) {
            Ok((read_state, sequence)) => DbInner::new_iter_at(handle, &read_state, sequence, options),
            Err(error) => {
                let read_state = Arc::clone(&inner.read_state.current());
                DbInner::new_iter_at(handle, &read_state, 0, options).with_permanent_error(error)
            }
        }
    }

    /// Returns the read state and the sequence number for a read that holds them for some time.
    pub(super) fn pin_read_state(&self, options: &ReadOptions) -> Result<(Arc<ReadState>, SequenceNumber)> {
        if self.follow_schedule.is_some() {
            return self
                .with_followed_state(options, |read_state, sequence| (Arc::clone(read_state), sequence));
        }
        let (read_state, visible) = self.read_state.load_one_moment();
        let sequence = self.read_sequence(options, visible)?;
        Ok((Arc::clone(&read_state), sequence))
    }

    /// Creates an iterator over the state that `sequence` sees in `read_state`.
    pub(super) fn new_iter_at(
        handle: &Arc<DbHandle>,
        read_state: &Arc<ReadState>,
        sequence: SequenceNumber,
        options: &ReadOptions,
    ) -> DbIterator {
        let inner = &handle.inner;
        let merging = MergingIter::new(inner.comparator.clone(), read_state.sources(inner, options));
        let iter = DbIter::new(&inner.comparator, merging, sequence, options);
        let state = IterState { handle: Arc::clone(handle), read_state: Some(Arc::clone(read_state)) };
        DbIterator::new(iter, Arc::new(state))
    }

    pub(super) fn approximate_size(&self, begin: &[u8], end: &[u8]) -> Result<u64> {
        let read_state = self.read_state.current();
        let offset = |key: &[u8]| {
            let key = InternalKey::new(key, MAX_SEQUENCE_NUMBER, ValueType::FOR_SEEK);
            read_state.version.approximate_offset(&key, &self.table_cache)
        };
        Ok(offset(end)?.saturating_sub(offset(begin)?))
    }
}

/// Changes the first byte of one value in a million, for a mutant.
fn corrupt_one_in_a_million(value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    use std::sync::atomic::AtomicU64;
    static GET_COUNT: AtomicU64 = AtomicU64::new(1);
    let wrong = GET_COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000_000);
    value.map(|mut value| {
        value.iter_mut().take(usize::from(wrong)).for_each(|byte| *byte ^= 1);
        value
    })
}

/// Value that a lookup found, in the memory of its memtable or block.
pub(super) enum FoundValue<'a> {
    InMemtable { found: FoundVersion<'a>, bytes: &'a [u8] },
    InTable(&'a FoundEntry),
}

impl FoundValue<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            FoundValue::InMemtable { bytes, .. } => bytes,
            FoundValue::InTable(entry) => entry.value(),
        }
    }

    pub(super) fn into_pinned(self) -> PinnedValue {
        match self {
            FoundValue::InMemtable { found, .. } => PinnedValue::from_memtable(&found),
            FoundValue::InTable(entry) => PinnedValue::from_table(entry),
        }
    }
}

/// Gets that do not allocate a vector for each value.
impl Db {
    /// Stores the current value of `key` in `value` and returns true. Clears `value` and returns
    /// false if the key does not exist. Same as [`Db::get`], but a loop of gets reuses the memory
    /// of `value`.
    ///
    /// # Errors
    ///
    /// Same as [`Db::get`]. `value` is empty then.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let mut place = Vec::new();
    /// for city in [b"CH/Bern", b"CH/Chur"] {
    ///     if db.get_into(city, &mut place)? {
    ///         println!("{} {}", city.escape_ascii(), place.escape_ascii());
    ///     }
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.get_into_with(key, value, &DEFAULT_READ_OPTIONS)
    }

    /// Same as [`Db::get_into`], with read options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let earlier = ReadOptions::default().snapshot(db.snapshot());
    /// db.delete(b"CH/Bern")?;
    /// let mut place = Vec::new();
    /// assert!(db.get_into_with(b"CH/Bern", &mut place, &earlier)?);
    /// assert_eq!(place, b"46.95,7.45");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_into_with(
        &self,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
        options: &ReadOptions,
    ) -> Result<bool> {
        value.clear();
        let inner = &self.reader(options).inner;
        let found = inner
            .get_impl(key.as_ref(), options, |found| extend_copy(value, found.bytes(), &inner.directory))?;
        Ok(found.transpose()?.is_some())
    }

    /// Returns the current value of `key` without copying it, or None if the key does not exist.
    /// Same as [`Db::get`] otherwise. Useful for large values, and for values of which the caller
    /// reads only a part.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", &[7; 50_000])?;
    /// let map = db.get_pinned(b"CH/Bern")?.unwrap();
    /// db.delete(b"CH/Bern")?;
    /// assert_eq!(map[..4], [7; 4], "the pinned value does not change");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_pinned_with(key, &DEFAULT_READ_OPTIONS)
    }

    /// Same as [`Db::get_pinned`], with read options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let once = ReadOptions::default().fill_cache(false);
    /// assert!(db.get_pinned_with(b"CH/Bern", &once)?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_pinned_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        self.reader(options).inner.get_impl(key.as_ref(), options, |value| value.into_pinned())
    }

    /// Returns the result of `read` for the current value of `key`, in the memory of the database,
    /// or None if the key does not exist. Same as [`Db::get_with`] otherwise. Useful for a copy
    /// into memory that is no vector.
    ///
    /// The value stays in memory until `read` returns, so `read` should be short.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let read = terrace::ReadOptions::default();
    /// assert_eq!(db.get_borrowed(b"CH/Bern", &read, <[u8]>::len)?, Some(10));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_borrowed<T>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.reader(options).inner.get_impl(key.as_ref(), options, |value| read(value.bytes()))
    }

    /// Returns true if `key` exists now. Same as [`Db::get`], without the value. The result is
    /// exact, so this may read a block.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"")?;
    /// assert!(db.contains(b"CH/Bern")?);
    /// assert!(!db.contains(b"CH/Chur")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_with(key, &DEFAULT_READ_OPTIONS)
    }

    /// Same as [`Db::contains`], with read options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let empty = ReadOptions::default().snapshot(db.snapshot());
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert!(!db.contains_with(b"CH/Bern", &empty)?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn contains_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        Ok(self.reader(options).inner.get_impl(key.as_ref(), options, |_| ())?.is_some())
    }

    /// Returns the values of `keys` at one moment, in the order of `keys`. Keys may be unsorted and
    /// may repeat.
    ///
    /// Looks up the keys in bytewise order, so that neighbouring keys read their blocks once. If
    /// the tables do not all fit in memory, up to 32 lookups prefetch their blocks together.
    ///
    /// # Errors
    ///
    /// The first error of a lookup, as for [`Db::get`]. No value is returned then.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let places = db.multi_get(&[b"CH/Chur", b"CH/Bern"])?;
    /// assert_eq!(places, [None, Some(b"46.95,7.45".to_vec())]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.multi_get_with(keys, &DEFAULT_READ_OPTIONS)
    }

    /// Same as [`Db::multi_get`], with read options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let empty = ReadOptions::default().snapshot(db.snapshot());
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert_eq!(db.multi_get_with(&[b"CH/Bern"], &empty)?, [None]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get_with(
        &self,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.reader(options).inner.multi_get(keys, options)
    }
}

impl ReadState {
    /// Returns the memtables that are not empty, newest first. A memtable that is empty now has no
    /// write that a reader may see: the reader loaded its sequence number after this read state,
    /// and a write is inserted before its sequence number is published.
    pub(super) fn non_empty_memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable)
            .chain(&self.immutable_memtables)
            .filter(|memtable| !memtable.is_empty())
    }

    /// Returns the child iterators that may have entries within the bounds, for a read whose
    /// sequence number was loaded after this read state.
    pub(super) fn sources(&self, inner: &DbInner, options: &ReadOptions) -> Vec<ChildIter> {
        let range = KeyRange { begin: options.lower_bound.as_deref(), end: options.upper_bound.as_deref() };
        let read_options = BlockReadOptions::from_read_options(options);
        let mut sources = Vec::new();
        sources.extend(self.non_empty_memtables().map(|memtable| ChildIter::Memtable(memtable.iter())));
        sources.extend(self.version.child_iters(&inner.table_cache, read_options, range));
        sources
    }
}

/// Keeps the database open, and the tables of a read state on disk.
struct IterState {
    handle: Arc<DbHandle>,
    /// None only during the drop.
    read_state: Option<Arc<ReadState>>,
}

impl IterObserver for IterState {
    fn record_read_sample(&self, internal_key: &[u8]) {
        let hint = self.read_state.as_ref().and_then(|state| state.version.record_read_sample(internal_key));
        if let Some(hint) = hint {
            self.handle.inner.request_read_compaction(hint, SEEKS_UNTIL_RETRY_SCAN);
        }
    }

    fn bytes_until_next_sample(&self) -> usize {
        self.handle.inner.options.env.random.uniform(2 * READ_BYTES_PERIOD as u64) as usize
    }

    fn record_merged_seek(&self, user_key: &[u8]) {
        let inner = &self.handle.inner;
        if let Some(read_state) = &self.read_state
            && inner.table_cache.metrics().count_sampled(Ticker::MergedSeek)
            && let Some(hint) = read_state.version.charge_merged_seeks(user_key, TICKER_SAMPLE_WEIGHT)
        {
            inner.request_seek_compaction(hint);
        }
    }

    fn record_skipped(&self, entries: usize) {
        if let Some(read_state) = &self.read_state
            && read_state.memtable.record_skipped(entries)
        {
            self.handle.inner.request_flush(&read_state.memtable);
        }
    }

    fn check_not_lost_in_fork(&self) -> Result<()> {
        self.handle.inner.check_not_lost_in_fork()
    }
}

impl Drop for IterState {
    fn drop(&mut self) {
        // The last owner of a read state schedules the removal of the tables that became obsolete
        // meanwhile. A get does not: the next flush or compaction does.
        if self.read_state.take().and_then(Arc::into_inner).is_some() {
            self.handle.inner.schedule_obsolete_file_removal();
        }
    }
}
