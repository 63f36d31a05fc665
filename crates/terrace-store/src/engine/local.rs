//! Engine `local:`: a database of the crate `terrace`.
//!
//! A read-only store follows the writer of the directory: it takes no lock, and each snapshot shows
//! the newest state of the log. One that excludes writers takes the lock of readers instead.

use std::any::Any;
use std::ops::Bound;
use std::sync::Arc;

use terrace::{
    Db, DbIterator, FollowOptions, Options, ReadOptions, Snapshot, Unchanged, UnchangedKey, UnchangedRange,
    WriteBatch, WriteOptions,
};

use super::OpenOptions;
use crate::address::Address;
use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::store::{Condition, Limits, Position, Store, StoreIterator, StoreSnapshot, foreign_snapshot};

/// Opens the database in the directory of `address`.
pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Arc<dyn Store>> {
    if address.path.is_empty() {
        return Err(Error::InvalidArgument("'local:' has no path, expected local:PATH".into()));
    }
    let settings = Options::default().create_if_missing(options.create_if_missing);
    let is_follower = options.read_only && !options.exclude_writers;
    let db = match (options.read_only, options.exclude_writers) {
        (false, _) => Db::open(&address.path, &settings)?,
        (true, false) => Db::follow(&address.path, &settings, &FollowOptions::default())?,
        (true, true) => {
            let db = Db::open_read_only(&address.path, &settings)?;
            if let Some(damage) = db.recovery().damage.first() {
                return Err(Error::Corruption(format!("{}: {damage}", address.path)));
            }
            db
        }
    };
    Ok(Arc::new(LocalStore { db, is_follower }))
}

struct LocalStore {
    db: Db,
    is_follower: bool,
}

/// Snapshot of a database, with a handle that keeps the database open.
struct LocalSnapshot {
    db: Db,
    snapshot: Snapshot,
}

impl LocalStore {
    /// Shows the newest writes of the writer to the reads that follow.
    fn catch_up(&self) -> Result<()> {
        if self.is_follower {
            self.db.catch_up()?;
        }
        Ok(())
    }
}

impl Store for LocalStore {
    fn limits(&self) -> Limits {
        Limits::NONE
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.catch_up()?;
        Ok(self.db.get(key)?)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.catch_up()?;
        Ok(self.db.multi_get(keys)?)
    }

    fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        Ok(self.db.write_with(batch, options)?)
    }

    fn write_if(
        &self,
        batch: &WriteBatch,
        condition: &Condition<'_>,
        options: &WriteOptions,
    ) -> Result<Position> {
        let since = condition.since.as_any().downcast_ref::<LocalSnapshot>().ok_or_else(foreign_snapshot)?;
        let keys: Vec<UnchangedKey<'_>> = condition.keys.iter().map(|key| UnchangedKey::from(*key)).collect();
        let ranges: Vec<UnchangedRange<'_>> = condition.ranges.iter().map(unchanged_range).collect();
        let unchanged = Unchanged { since: &since.snapshot, keys: &keys, ranges: &ranges };
        Ok(self.db.write_if_with(batch, &unchanged, options)?)
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        self.catch_up()?;
        Ok(Box::new(LocalSnapshot { db: self.db.clone(), snapshot: self.db.snapshot() }))
    }

    fn delete_range(&self, range: &KeyRange, options: &WriteOptions) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.db.delete_range::<&[u8]>((Bound::Included(range.start.as_slice()), end_bound(range)))?;
        if options.sync {
            self.db.sync()?;
        }
        Ok(())
    }

    fn approximate_size(&self, range: &KeyRange) -> Result<u64> {
        self.catch_up()?;
        // A key after all others, because the engine takes an end and has no greatest key.
        let last = match &range.end {
            Some(end) => end.clone(),
            None => self.last_key()?,
        };
        Ok(self.db.approximate_sizes(&[(&range.start, &last)])?.into_iter().sum())
    }
}

impl LocalStore {
    fn last_key(&self) -> Result<Vec<u8>> {
        let mut iter = self.db.raw_iter();
        iter.seek_to_last();
        iter.status()?;
        Ok(crate::key_range::successor(iter.key()))
    }
}

fn end_bound(range: &KeyRange) -> Bound<&[u8]> {
    range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)
}

fn unchanged_range(range: &KeyRange) -> UnchangedRange<'_> {
    UnchangedRange { begin: Bound::Included(&range.start), end: end_bound(range) }
}

impl StoreSnapshot for LocalSnapshot {
    fn position(&self) -> Position {
        self.snapshot.sequence()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.snapshot.get(key)?)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(self.snapshot.multi_get(keys)?)
    }

    fn iter(&self, range: &KeyRange) -> Result<Box<dyn StoreIterator>> {
        let mut options = ReadOptions::default().snapshot(self.snapshot.clone());
        options.lower_bound = Some(range.start.clone());
        options.upper_bound.clone_from(&range.end);
        Ok(Box::new(self.db.raw_iter_with(&options)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl StoreIterator for DbIterator {
    fn valid(&self) -> bool {
        DbIterator::valid(self)
    }

    fn key(&self) -> &[u8] {
        DbIterator::key(self)
    }

    fn value(&self) -> &[u8] {
        DbIterator::value(self)
    }

    fn status(&self) -> Result<()> {
        Ok(DbIterator::status(self)?)
    }

    fn seek_to_first(&mut self) {
        DbIterator::seek_to_first(self);
    }

    fn seek_to_last(&mut self) {
        DbIterator::seek_to_last(self);
    }

    fn seek(&mut self, target: &[u8]) {
        DbIterator::seek(self, target);
    }

    fn next(&mut self) {
        DbIterator::next(self);
    }

    fn prev(&mut self) {
        DbIterator::prev(self);
    }
}
