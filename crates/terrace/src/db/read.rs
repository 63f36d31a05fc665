//! Reading: look-ups, iterators, sizes.
//!
//! A read looks at the present, and needs no lock after that. A look-up hands its value to who asked while it lies where it
//! was found: copied once or not at all.

use terrace_format::key::{InternalKey, MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType, with_seek_key};
use terrace_sync::mutant;

use super::components::pinned_value::PinnedValue;
use super::inner::{DbInner, ReadState};
use super::{Db, DbHandle};
use crate::error::{Error, Result};
use crate::iterator::{ChildIter, DbIter, DbIterator, IterObserver, MergingIter, READ_BYTES_PERIOD};
use crate::memtable::{FoundVersion, Memtable};
use crate::options::{DEFAULT_READ_OPTIONS, ReadOptions};
use crate::sync::{Arc, Ordering};
use crate::table::{BlockReadOptions, FoundEntry};

/// Wasted probes after which a get names a table again whose request came at a bad time. Each
/// request takes a lock.
const SEEKS_UNTIL_RETRY_GET: i64 = 64;

/// Read samples after which a scan names a table again. The first table on its way is compacted
/// first, and tables beyond the range that it reads only later.
const SEEKS_UNTIL_RETRY_SCAN: i64 = 1;

/// So many look-ups wait for the device together: more are in each other's way there, and their blocks in memory.
const MULTI_GET_BATCH_SIZE: usize = 32;

impl DbInner {
    pub(super) fn get(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let value = self.get_impl(key, options, |value| value.bytes().to_vec())?;
        Ok(if mutant!(RareWrongRead) { corrupt_one_in_a_million(value) } else { value })
    }

    /// What `take` makes of the value of `user_key`, if it has one.
    #[inline]
    fn get_impl<T>(
        &self,
        user_key: &[u8],
        options: &ReadOptions,
        take: impl FnOnce(FoundValue<'_>) -> T,
    ) -> Result<Option<T>> {
        let (view, now) = self.read_state.load();
        let sequence = self.read_sequence(options, now)?;
        self.get_from(&view, user_key, sequence, options, take)
    }

    fn get_from<T>(
        &self,
        view: &ReadState,
        user_key: &[u8],
        sequence: SequenceNumber,
        options: &ReadOptions,
        take: impl FnOnce(FoundValue<'_>) -> T,
    ) -> Result<Option<T>> {
        for memtable in view.non_empty_memtables() {
            if let Some(found) = memtable.get(user_key, sequence) {
                let value = found.value.map(|bytes| FoundValue::InMemtable { found, bytes });
                return Ok(value.map(take));
            }
        }
        let read = BlockReadOptions { fill_cache: options.fill_cache };
        let mut found = None;
        let look = |target: &[u8]| view.version.get(target, &self.table_cache, read, &mut found);
        if let Some(worn) = with_seek_key(user_key, sequence, look)? {
            self.request_read_compaction(worn, SEEKS_UNTIL_RETRY_GET);
        }
        let found = found.as_ref().filter(|hit| hit.trailer as u8 == ValueType::Value as u8);
        Ok(found.map(|hit| take(FoundValue::InTable(hit))))
    }

    fn multi_get(&self, keys: &[impl AsRef<[u8]>], options: &ReadOptions) -> Result<Vec<Option<Vec<u8>>>> {
        let (view, now) = self.read_state.load();
        let sequence = self.read_sequence(options, now)?;
        // Neighbours share blocks.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&i| keys[i].as_ref());
        let mut values = vec![None; keys.len()];
        for together in order.chunks(MULTI_GET_BATCH_SIZE) {
            if together.len() > 1 && self.table_cache.reads_may_block() {
                together.iter().for_each(|&i| self.prefetch_get(&view, keys[i].as_ref(), sequence));
            }
            for &i in together {
                let copy = |value: FoundValue<'_>| value.bytes().to_vec();
                values[i] = self.get_from(&view, keys[i].as_ref(), sequence, options, copy)?;
            }
        }
        Ok(values)
    }

    /// Has the device begin with what a look-up will want.
    fn prefetch_get(&self, view: &ReadState, user_key: &[u8], sequence: SequenceNumber) {
        if view.non_empty_memtables().all(|memtable| memtable.get(user_key, sequence).is_none()) {
            with_seek_key(user_key, sequence, |target| view.version.prefetch(target, &self.table_cache));
        }
    }

    /// The number to read at.
    fn read_sequence(&self, options: &ReadOptions, now: SequenceNumber) -> Result<SequenceNumber> {
        match &options.snapshot {
            None => Ok(now),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.sequence()),
            Some(_) => Err(Error::InvalidArgument("a snapshot of another database".into())),
        }
    }

    /// Creates an iterator over the current state or over a snapshot.
    pub(super) fn new_iter(handle: &Arc<DbHandle>, options: &ReadOptions) -> DbIterator {
        let engine = &handle.inner;
        let (view, now) = engine.read_state.load();
        let (sequence, refused) = match engine.read_sequence(options, now) {
            Ok(sequence) => (sequence, None),
            Err(error) => (0, Some(error)),
        };
        let merge = MergingIter::new(engine.comparator.clone(), view.sources(engine, options));
        let mut walk = DbIter::new(&engine.comparator, merge, sequence, options);
        if let Some(error) = refused {
            walk.set_permanent_error(error);
        }
        DbIterator::new(
            walk,
            Arc::new(IterState { handle: Arc::clone(handle), read_state: Some(Arc::clone(&view)) }),
        )
    }

    pub(super) fn approximate_size(&self, begin: &[u8], end: &[u8]) -> Result<u64> {
        let view = self.read_state.current();
        let offset = |key: &[u8]| {
            let key = InternalKey::new(key, MAX_SEQUENCE_NUMBER, ValueType::FOR_SEEK);
            view.version.approximate_offset(&key, &self.table_cache)
        };
        Ok(offset(end)?.saturating_sub(offset(begin)?))
    }
}

/// One value in a million with a wrong first byte.
fn corrupt_one_in_a_million(value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    use std::sync::atomic::AtomicU64;
    static GET_COUNT: AtomicU64 = AtomicU64::new(1);
    let wrong = GET_COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000_000);
    value.map(|mut value| {
        value.iter_mut().take(usize::from(wrong)).for_each(|byte| *byte ^= 1);
        value
    })
}

/// The value that a look-up found, where it lies.
enum FoundValue<'a> {
    InMemtable { found: FoundVersion<'a>, bytes: &'a [u8] },
    InTable(&'a FoundEntry),
}

impl FoundValue<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            FoundValue::InMemtable { bytes, .. } => bytes,
            FoundValue::InTable(hit) => hit.value(),
        }
    }

    fn into_pinned(self) -> PinnedValue {
        match self {
            FoundValue::InMemtable { found, .. } => PinnedValue::from_memtable(&found),
            FoundValue::InTable(hit) => PinnedValue::from_table(hit),
        }
    }
}

/// Look-ups for those who need no vector of their own for each value.
impl Db {
    /// True, and `value` holds the value of `key` now; or false, and `value` is empty. As [`Db::get`], in the memory of
    /// `value`, so that a loop of look-ups allocates nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`]; then `value` is empty, too.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
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
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_into_with(key, value, &DEFAULT_READ_OPTIONS)
    }

    /// As [`Db::get_into`], with options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let then = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    /// db.delete(b"CH/Bern")?;
    /// let mut place = Vec::new();
    /// assert!(db.get_into_with(b"CH/Bern", &mut place, &then)?);
    /// assert_eq!(place, b"46.95,7.45");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_into_with(&self, key: &[u8], value: &mut Vec<u8>, options: &ReadOptions) -> Result<bool> {
        value.clear();
        let found = self.inner().get_impl(key, options, |found| value.extend_from_slice(found.bytes()))?;
        Ok(found.is_some())
    }

    /// The value of `key` now where it lies, not copied; None if it has none. As [`Db::get`] otherwise; for large values,
    /// and for values of which little is looked at.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", &[7; 50_000])?;
    /// let map = db.get_pinned(b"CH/Bern")?.unwrap();
    /// db.delete(b"CH/Bern")?;
    /// assert_eq!(map[..4], [7; 4], "it stays as it was found");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_pinned(&self, key: &[u8]) -> Result<Option<PinnedValue>> {
        self.get_pinned_with(key, &DEFAULT_READ_OPTIONS)
    }

    /// As [`Db::get_pinned`], with options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert!(db.get_pinned_with(b"CH/Bern", &once)?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_pinned_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<PinnedValue>> {
        self.inner().get_impl(key, options, |value| value.into_pinned())
    }

    /// True if `key` has a value now. As [`Db::get`], without the value. It is certain, and so may have to read a block.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"")?;
    /// assert!(db.contains(b"CH/Bern")?);
    /// assert!(!db.contains(b"CH/Chur")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.contains_with(key, &DEFAULT_READ_OPTIONS)
    }

    /// As [`Db::contains`], with options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let empty = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert!(!db.contains_with(b"CH/Bern", &empty)?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn contains_with(&self, key: &[u8], options: &ReadOptions) -> Result<bool> {
        Ok(self.inner().get_impl(key, options, |_| ())?.is_some())
    }

    /// The values of `keys`, each in the place of its key, all of one moment. Keys may come in any order, and twice; they
    /// are looked up in the order of their bytes, so that keys side by side read their blocks once. Where tables do not all fit in
    /// memory, the device reads for up to 32 of them at a time.
    ///
    /// # Errors
    ///
    /// The first of those of [`Db::get`]; then there is no value at all.
    ///
    /// ```
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// let places = db.multi_get(&[b"CH/Chur", b"CH/Bern"])?;
    /// assert_eq!(places, [None, Some(b"46.95,7.45".to_vec())]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.multi_get_with(keys, &DEFAULT_READ_OPTIONS)
    }

    /// As [`Db::multi_get`], with options.
    ///
    /// ```
    /// # use terrace::ReadOptions;
    /// # let options = terrace::Options { create_if_missing: true, env: terrace::Env::memory(), ..Default::default() };
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let empty = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// assert_eq!(db.multi_get_with(&[b"CH/Bern"], &empty)?, [None]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get_with(
        &self,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.inner().multi_get(keys, options)
    }
}

impl ReadState {
    /// Those that have anything in them, newest first. What is empty now has nothing that a number covers which was loaded
    /// behind the view: that was inserted before the number was published.
    fn non_empty_memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable)
            .chain(&self.immutable_memtables)
            .filter(|memtable| !memtable.is_empty())
    }

    /// The runs to read at a number that was loaded behind the view.
    pub(super) fn sources(&self, engine: &DbInner, options: &ReadOptions) -> Vec<ChildIter> {
        let mut sources =
            Vec::with_capacity(1 + self.immutable_memtables.len() + self.version.max_child_iters());
        sources.extend(self.non_empty_memtables().map(|memtable| ChildIter::Memtable(memtable.iter())));
        sources.extend(
            self.version
                .child_iters(&engine.table_cache, BlockReadOptions { fill_cache: options.fill_cache }),
        );
        sources
    }
}

/// Keeps the database open, and the files of a view from being removed.
struct IterState {
    handle: Arc<DbHandle>,
    /// None only while it is dropped.
    read_state: Option<Arc<ReadState>>,
}

impl IterObserver for IterState {
    fn record_read_sample(&self, internal_key: &[u8]) {
        let worn = self.read_state.as_ref().and_then(|view| view.version.record_read_sample(internal_key));
        if let Some(worn) = worn {
            self.handle.inner.request_read_compaction(worn, SEEKS_UNTIL_RETRY_SCAN);
        }
    }

    fn bytes_until_next_sample(&self) -> usize {
        self.handle.inner.options.env.random.uniform(2 * READ_BYTES_PERIOD as u64) as usize
    }

    fn record_skipped(&self, entries: usize) {
        if let Some(view) = &self.read_state
            && view.memtable.record_skipped(entries)
        {
            self.handle.inner.request_flush(&view.memtable);
        }
    }
}

impl Drop for IterState {
    fn drop(&mut self) {
        // Who else has the view keeps its files from being removed. The last one looks for files to remove, or else the
        // next who installs an edit: a look-up does not.
        if self.read_state.take().and_then(Arc::into_inner).is_some() {
            self.handle.inner.remove_obsolete_files();
        }
    }
}
