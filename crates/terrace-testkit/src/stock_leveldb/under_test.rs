//! The stock library as a [`DatabaseUnderTest`] for random operations.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{StockDb, StockError, StockIterator, StockLevelDb, StockSnapshot};
use crate::differential::{DatabaseUnderTest, Entry, OpResult};
use crate::op::{IteratorBounds, IteratorMove, Slot, ValueSpec, Write};
use crate::settings::{ComparatorKind, Settings};

/// A stock database with numbered snapshots and iterators. It has no bounds and no prefixes, so
/// workloads must not use them.
pub struct StockLevelDbUnderTest {
    library: &'static StockLevelDb,
    path: PathBuf,
    comparator: ComparatorKind,
    /// None only after a failed reopen.
    db: Option<StockDb>,
    snapshots: HashMap<Slot, StockSnapshot>,
    iterators: HashMap<Slot, StockIterator>,
}

impl StockLevelDbUnderTest {
    /// Opens the database at `path`.
    pub fn open(
        stock: &'static StockLevelDb,
        path: &Path,
        settings: &Settings,
    ) -> Result<StockLevelDbUnderTest, StockError> {
        Ok(StockLevelDbUnderTest {
            library: stock,
            path: path.to_path_buf(),
            comparator: settings.comparator,
            db: Some(stock.open(path, settings)?),
            snapshots: HashMap::new(),
            iterators: HashMap::new(),
        })
    }

    fn db(&self) -> OpResult<&StockDb> {
        self.db.as_ref().ok_or_else(|| "the database is closed".to_owned())
    }
}

impl DatabaseUnderTest for StockLevelDbUnderTest {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> OpResult<()> {
        Ok(self.db()?.write(&[(key, Some(value))], sync)?)
    }

    fn delete(&mut self, key: &[u8], sync: bool) -> OpResult<()> {
        Ok(self.db()?.write(&[(key, None)], sync)?)
    }

    fn write(&mut self, writes: &[Write], sync: bool) -> OpResult<()> {
        let pairs: Vec<(&[u8], Option<Vec<u8>>)> = writes
            .iter()
            .map(|write| match write {
                Write::Put { key, value } => (key.as_slice(), Some(ValueSpec::bytes(*value))),
                Write::Delete { key } => (key.as_slice(), None),
            })
            .collect();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, value.as_deref())).collect();
        Ok(self.db()?.write(&pairs, sync)?)
    }

    fn get(&mut self, key: &[u8], snapshot: Option<Slot>) -> OpResult<Option<Vec<u8>>> {
        Ok(self.db()?.get(key, snapshot.and_then(|slot| self.snapshots.get(&slot)))?)
    }

    fn take_snapshot(&mut self, slot: Slot) {
        if let Some(db) = &self.db {
            self.snapshots.insert(slot, db.snapshot());
        }
    }

    fn release_snapshot(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    fn open_iterator(&mut self, slot: Slot, snapshot: Option<Slot>, range: &IteratorBounds) {
        assert_eq!(*range, IteratorBounds::default(), "stock LevelDB has no bounds");
        if let Some(db) = &self.db {
            self.iterators.insert(slot, db.iter(snapshot.and_then(|slot| self.snapshots.get(&slot))));
        }
    }

    fn move_iterator(&mut self, slot: Slot, movement: &IteratorMove) -> OpResult<Option<Entry>> {
        let iterator = self.iterators.get_mut(&slot).ok_or("no iterator in this slot")?;
        let entry = iterator.apply_move(movement);
        iterator.status()?;
        Ok(entry)
    }

    fn close_iterator(&mut self, slot: Slot) {
        self.iterators.remove(&slot);
    }

    /// The C API has no flush. A compaction of an empty range starts with one.
    fn flush(&mut self) -> OpResult<()> {
        self.compact_range(Some(b""), Some(b""))
    }

    fn compact_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()> {
        self.db()?.compact_range(begin, end);
        Ok(())
    }

    /// Deletes key by key, because LevelDB has no such call.
    fn delete_range(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> OpResult<()> {
        let comparator = self.comparator.build();
        let db = self.db()?;
        let mut iterator = db.iter(None);
        let mut next = iterator
            .apply_move(&begin.map_or(IteratorMove::SeekToFirst, |begin| IteratorMove::Seek(begin.to_vec())));
        while let Some((key, _)) = next {
            if end.is_some_and(|end| comparator.compare(&key, end).is_ge()) {
                break;
            }
            db.write(&[(&key, None)], false)?;
            next = iterator.apply_move(&IteratorMove::Next);
        }
        Ok(iterator.status()?)
    }

    fn reopen(&mut self, settings: &Settings) -> OpResult<()> {
        self.snapshots.clear();
        self.iterators.clear();
        self.db = None;
        self.db = Some(self.library.open(&self.path, settings)?);
        Ok(())
    }

    fn approximate_size(&mut self, begin: &[u8], end: &[u8]) -> OpResult<u64> {
        Ok(self.db()?.approximate_size(begin, end))
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.db.as_ref()?.property(name)
    }
}
