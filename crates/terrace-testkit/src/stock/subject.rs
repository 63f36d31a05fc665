//! The stock library as a [`Subject`] of random operations.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Stock, StockCursor, StockDb, StockError, StockSnapshot};
use crate::op::{Range, Slot, Step, Value, Write};
use crate::run::{Answer, Entry, Subject};
use crate::settings::{Order, Settings};

/// A stock database and its slots. Has no bounds and no prefixes: draw shapes without them.
pub struct StockSubject {
    stock: &'static Stock,
    path: PathBuf,
    order: Order,
    /// None only if opening it again failed.
    db: Option<StockDb>,
    snapshots: HashMap<Slot, StockSnapshot>,
    cursors: HashMap<Slot, StockCursor>,
}

impl StockSubject {
    /// Opens the database at `path`.
    pub fn open(stock: &'static Stock, path: &Path, settings: &Settings) -> Result<StockSubject, StockError> {
        let db = Some(stock.open(path, settings)?);
        let (snapshots, cursors) = (HashMap::new(), HashMap::new());
        Ok(StockSubject { stock, path: path.to_path_buf(), order: settings.order, db, snapshots, cursors })
    }

    fn db(&self) -> Answer<&StockDb> {
        self.db.as_ref().ok_or_else(|| "the database is closed".to_owned())
    }
}

impl Subject for StockSubject {
    fn put(&mut self, key: &[u8], value: &[u8], sync: bool) -> Answer<()> {
        Ok(self.db()?.write(&[(key, Some(value))], sync)?)
    }

    fn delete(&mut self, key: &[u8], sync: bool) -> Answer<()> {
        Ok(self.db()?.write(&[(key, None)], sync)?)
    }

    fn write(&mut self, writes: &[Write], sync: bool) -> Answer<()> {
        let pairs: Vec<(&[u8], Option<Vec<u8>>)> = writes
            .iter()
            .map(|write| match write {
                Write::Put { key, value } => (key.as_slice(), Some(Value::bytes(*value))),
                Write::Delete { key } => (key.as_slice(), None),
            })
            .collect();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, value.as_deref())).collect();
        Ok(self.db()?.write(&pairs, sync)?)
    }

    fn get(&mut self, key: &[u8], at: Option<Slot>) -> Answer<Option<Vec<u8>>> {
        Ok(self.db()?.get(key, at.and_then(|slot| self.snapshots.get(&slot)))?)
    }

    fn take(&mut self, slot: Slot) {
        if let Some(db) = &self.db {
            self.snapshots.insert(slot, db.snapshot());
        }
    }

    fn release(&mut self, slot: Slot) {
        self.snapshots.remove(&slot);
    }

    fn open_cursor(&mut self, slot: Slot, at: Option<Slot>, range: &Range) {
        assert_eq!(*range, Range::default(), "stock LevelDB has no bounds");
        if let Some(db) = &self.db {
            self.cursors.insert(slot, db.cursor(at.and_then(|slot| self.snapshots.get(&slot))));
        }
    }

    fn step(&mut self, slot: Slot, step: &Step) -> Answer<Option<Entry>> {
        let cursor = self.cursors.get_mut(&slot).ok_or("no cursor")?;
        let entry = cursor.step(step);
        cursor.status()?;
        Ok(entry)
    }

    fn close_cursor(&mut self, slot: Slot) {
        self.cursors.remove(&slot);
    }

    /// There is no call for it alone: a compaction of the empty key's range begins with one.
    fn flush(&mut self) -> Answer<()> {
        self.compact(Some(b""), Some(b""))
    }

    fn compact(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Answer<()> {
        self.db()?.compact_range(begin, end);
        Ok(())
    }

    /// Key by key: it has no call for that.
    fn erase(&mut self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Answer<()> {
        let order = self.order.comparator();
        let db = self.db()?;
        let mut cursor = db.cursor(None);
        let mut next = cursor.step(&begin.map_or(Step::First, |begin| Step::Seek(begin.to_vec())));
        while let Some((key, _)) = next {
            if end.is_some_and(|end| order.compare(&key, end).is_ge()) {
                break;
            }
            db.write(&[(&key, None)], false)?;
            next = cursor.step(&Step::Next);
        }
        Ok(cursor.status()?)
    }

    fn reopen(&mut self, settings: &Settings) -> Answer<()> {
        self.snapshots.clear();
        self.cursors.clear();
        self.db = None;
        self.db = Some(self.stock.open(&self.path, settings)?);
        Ok(())
    }

    fn size(&mut self, begin: &[u8], end: &[u8]) -> Answer<u64> {
        Ok(self.db()?.size(begin, end))
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.db.as_ref()?.property(name)
    }
}
