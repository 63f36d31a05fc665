//! Reading: look-ups, iterators, sizes.
//!
//! A read looks at the present, and needs no lock after that. A look-up hands its value to who asked while it lies where it
//! was found: copied once or not at all.

use terrace_format::key::{InternalKey, Kind, MAX_SEQUENCE, Sequence, with_seek_key};
use terrace_sync::mutant;

use super::wish::{LATER, NEXT_TIME};
use super::{Db, Engine, Handle, PinnedValue, View};
use crate::btree::VersionAt;
use crate::error::{Error, Result};
use crate::iter::{DbIterator, MergeIter, Owner, SAMPLE_PERIOD, Source, Visible};
use crate::memtable::Memtable;
use crate::options::{PLAIN, ReadOptions};
use crate::sync::{Arc, Ordering};
use crate::tables::{BlockRead, Hit};

/// So many look-ups wait for the device together: more are in each other's way there, and their blocks in memory.
const TOGETHER: usize = 32;

impl Engine {
    pub(super) fn get(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let value = self.look_up(key, options, |value| value.bytes().to_vec())?;
        Ok(if mutant!(RareWrongRead) { now_and_then_wrong(value) } else { value })
    }

    /// What `take` makes of the value of `user_key`, if it has one.
    #[inline]
    fn look_up<T>(
        &self,
        user_key: &[u8],
        options: &ReadOptions,
        take: impl FnOnce(Value<'_>) -> T,
    ) -> Result<Option<T>> {
        let (view, now) = self.present.look();
        let sequence = self.sequence_for(options, now)?;
        self.look_up_in(&view, user_key, sequence, options, take)
    }

    fn look_up_in<T>(
        &self,
        view: &View,
        user_key: &[u8],
        sequence: Sequence,
        options: &ReadOptions,
        take: impl FnOnce(Value<'_>) -> T,
    ) -> Result<Option<T>> {
        for memtable in view.memtables() {
            if let Some(found) = memtable.get(user_key, sequence) {
                let value = found.value.map(|bytes| Value::InMemtable { memtable, at: found.at, bytes });
                return Ok(value.map(take));
            }
        }
        let read = BlockRead { fill_cache: options.fill_cache };
        let mut found = None;
        let look = |target: &[u8]| view.version.get(target, &self.tables, read, &mut found);
        if let Some(worn) = with_seek_key(user_key, sequence, look)? {
            self.wish(worn, LATER);
        }
        let found = found.as_ref().filter(|hit| hit.trailer as u8 == Kind::Put as u8);
        Ok(found.map(|hit| take(Value::InTable(hit))))
    }

    fn multi_get(&self, keys: &[impl AsRef<[u8]>], options: &ReadOptions) -> Result<Vec<Option<Vec<u8>>>> {
        let (view, now) = self.present.look();
        let sequence = self.sequence_for(options, now)?;
        // Neighbours share blocks.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&i| keys[i].as_ref());
        let mut values = vec![None; keys.len()];
        for together in order.chunks(TOGETHER) {
            if together.len() > 1 && self.tables.reads_wait() {
                together.iter().for_each(|&i| self.will_look_up(&view, keys[i].as_ref(), sequence));
            }
            for &i in together {
                let copy = |value: Value<'_>| value.bytes().to_vec();
                values[i] = self.look_up_in(&view, keys[i].as_ref(), sequence, options, copy)?;
            }
        }
        Ok(values)
    }

    /// Has the device begin with what a look-up will want.
    fn will_look_up(&self, view: &View, user_key: &[u8], sequence: Sequence) {
        if view.memtables().all(|memtable| memtable.get(user_key, sequence).is_none()) {
            with_seek_key(user_key, sequence, |target| view.version.will_get(target, &self.tables));
        }
    }

    /// The number to read at.
    fn sequence_for(&self, options: &ReadOptions, now: Sequence) -> Result<Sequence> {
        match &options.snapshot {
            None => Ok(now),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.sequence()),
            Some(_) => Err(Error::InvalidArgument("a snapshot of another database".into())),
        }
    }

    pub(super) fn approximate_size(&self, begin: &[u8], end: &[u8]) -> Result<u64> {
        let view = self.present.view();
        let offset = |key: &[u8]| {
            let key = InternalKey::new(key, MAX_SEQUENCE, Kind::SEEK);
            view.version.approximate_offset(&key, &self.tables)
        };
        Ok(offset(end)?.saturating_sub(offset(begin)?))
    }
}

/// One value in a million with a wrong first byte.
fn now_and_then_wrong(value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    use std::sync::atomic::AtomicU64;
    static LOOKS: AtomicU64 = AtomicU64::new(1);
    let wrong = LOOKS.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000_000);
    value.map(|mut value| {
        value.iter_mut().take(usize::from(wrong)).for_each(|byte| *byte ^= 1);
        value
    })
}

/// The value that a look-up found, where it lies.
enum Value<'a> {
    InMemtable { memtable: &'a Arc<Memtable>, at: VersionAt, bytes: &'a [u8] },
    InTable(&'a Hit),
}

impl Value<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Value::InMemtable { bytes, .. } => bytes,
            Value::InTable(hit) => hit.value(),
        }
    }

    fn pinned(self) -> PinnedValue {
        match self {
            Value::InMemtable { memtable, at, .. } => PinnedValue::in_memtable(memtable, at),
            Value::InTable(hit) => PinnedValue::in_table(hit),
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
        self.get_into_with(key, value, &PLAIN)
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
        let found = self.engine().look_up(key, options, |found| value.extend_from_slice(found.bytes()))?;
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
        self.get_pinned_with(key, &PLAIN)
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
        self.engine().look_up(key, options, |value| value.pinned())
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
        self.contains_with(key, &PLAIN)
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
        Ok(self.engine().look_up(key, options, |_| ())?.is_some())
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
        self.multi_get_with(keys, &PLAIN)
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
        self.engine().multi_get(keys, options)
    }
}

impl View {
    /// Those that have anything in them, newest first. What is empty now has nothing that a number covers which was loaded
    /// behind the view: that was inserted before the number was published.
    fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.frozen).filter(|memtable| !memtable.is_empty())
    }

    /// The runs to read at a number that was loaded behind the view.
    pub(super) fn sources(&self, engine: &Engine, options: &ReadOptions) -> Vec<Source> {
        let mut sources = Vec::with_capacity(1 + self.frozen.len() + self.version.sources_max());
        sources.extend(self.memtables().map(|memtable| Source::Memtable(memtable.iter())));
        sources.extend(self.version.sources(&engine.tables, BlockRead { fill_cache: options.fill_cache }));
        sources
    }
}

/// Keeps the database open, and the files of a view from being removed.
struct Reader {
    handle: Arc<Handle>,
    /// None only while it is dropped.
    view: Option<Arc<View>>,
}

impl Owner for Reader {
    fn sample(&self, internal_key: &[u8]) {
        let worn = self.view.as_ref().and_then(|view| view.version.charge(internal_key));
        if let Some(worn) = worn {
            self.handle.engine.wish(worn, NEXT_TIME);
        }
    }

    fn until_sample(&self) -> usize {
        self.handle.engine.options.env.random.below(2 * SAMPLE_PERIOD as u64) as usize
    }

    fn passed_over(&self, entries: usize) {
        if let Some(view) = &self.view
            && view.memtable.passed_over(entries)
        {
            self.handle.engine.wish_for_flush(&view.memtable);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Who else has the view keeps its files from being removed. The last one looks for files to remove, or else the
        // next who installs an edit: a look-up does not.
        if self.view.take().and_then(Arc::into_inner).is_some() {
            self.handle.engine.remove_doomed();
        }
    }
}

pub(super) fn iter(handle: &Arc<Handle>, options: &ReadOptions) -> DbIterator {
    let engine = &handle.engine;
    let (view, now) = engine.present.look();
    let (sequence, refused) = match engine.sequence_for(options, now) {
        Ok(sequence) => (sequence, None),
        Err(error) => (0, Some(error)),
    };
    let merge = MergeIter::new(engine.comparator.clone(), view.sources(engine, options));
    let mut walk = Visible::new(&engine.comparator, merge, sequence, options);
    if let Some(error) = refused {
        walk.refuse(error);
    }
    DbIterator::new(walk, Arc::new(Reader { handle: Arc::clone(handle), view: Some(Arc::clone(&view)) }))
}
