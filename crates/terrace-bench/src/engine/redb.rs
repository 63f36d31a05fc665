//! redb, a copy-on-write B-tree in Rust. Requires the cargo feature `redb`.
//!
//! redb executes every operation in a transaction. Each put, batch and get gets its own transaction
//! here, so that it has the same meaning as with the other engines: visible to all threads, and of
//! the newest state. Without `sync`, a commit is not durable; closing the database syncs it.

use std::ops::Bound;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use redb::{
    AccessGuard, Database, Durability, Range, ReadOnlyTable, ReadableDatabase, ReadableTable, Table,
    TableDefinition,
};

use super::lockfile_versions;
use super::range_cursor::{RangeCursor, RangeSource};
use super::{
    Change, Cursor, Engine, EngineRunner, EntryVisitor, FoundEngine, Result, Settings, Store, Txn, TxnBody,
    TxnError,
};

type Bytes = &'static [u8];
const ENTRIES_TABLE: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("entries");

/// Describes redb, which is compiled into this program.
pub(super) fn find(_: Option<&Path>) -> Result<FoundEngine> {
    Ok(FoundEngine {
        version: lockfile_versions::crate_version("redb"),
        location: String::new(),
        note: "every put and get is a transaction, and a crash may lose puts without sync; no write buffer, filter or compression".to_owned(),
        has_compaction: true,
        has_transactions: true,
        optional_kinds: &[],
        runner: EngineRunner::InProcess(Box::new(Redb)),
    })
}

struct Redb;

impl Engine for Redb {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let mut builder = Database::builder();
        if let Some(bytes) = settings.cache_bytes {
            builder.set_cache_size(usize::try_from(bytes).map_err(error_text)?);
        }
        let store = RedbStore(RwLock::new(builder.create(dir.join("entries.redb")).map_err(error_text)?));
        store.with_write_txn(true, |_| Ok(()))?; // creates the table, which readers require
        Ok(Box::new(store))
    }
}

/// The lock is held exclusively only during a compaction, for which redb needs exclusive access to
/// the database.
struct RedbStore(RwLock<Database>);

impl RedbStore {
    fn database(&self) -> RwLockReadGuard<'_, Database> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_write_txn(
        &self,
        sync: bool,
        change: impl FnOnce(&mut Table<'_, Bytes, Bytes>) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = self.database().begin_write().map_err(error_text)?;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability).map_err(error_text)?;
        change(&mut transaction.open_table(ENTRIES_TABLE).map_err(error_text)?)?;
        transaction.commit().map_err(error_text)
    }

    fn open_for_read(&self) -> Result<ReadOnlyTable<Bytes, Bytes>> {
        let transaction = self.database().begin_read().map_err(error_text)?;
        transaction.open_table(ENTRIES_TABLE).map_err(error_text)
    }
}

impl Store for RedbStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.with_write_txn(sync, |entries| insert_entry(entries, key, value))
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.with_write_txn(sync, |entries| remove_entry(entries, key))
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        self.with_write_txn(sync, |entries| {
            changes.iter().try_for_each(|change| match &change.value {
                Some(value) => insert_entry(entries, &change.key, value),
                None => remove_entry(entries, &change.key),
            })
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let entries = self.open_for_read()?;
        let Some(found) = entries.get(key).map_err(error_text)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(RangeCursor::new(self.open_for_read()?)))
    }

    fn compact(&self) -> Result<()> {
        let mut database = self.0.write().unwrap_or_else(PoisonError::into_inner);
        database.compact().map(drop).map_err(error_text)
    }

    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        self.with_write_txn(false, |entries| Ok(body(&mut RedbTxn(entries))?))
    }
}

/// One write transaction runs at a time, so there are no conflicts.
struct RedbTxn<'a, 'txn>(&'a mut Table<'txn, Bytes, Bytes>);

impl Txn for RedbTxn<'_, '_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError> {
        let Some(found) = self.0.get(key).map_err(error_text)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError> {
        Ok(insert_entry(self.0, key, value)?)
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError> {
        for entry in self.0.range::<&[u8]>(from..to).map_err(error_text)? {
            let (key, value) = entry.map_err(error_text)?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }
}

fn insert_entry(entries: &mut Table<'_, Bytes, Bytes>, key: &[u8], value: &[u8]) -> Result<()> {
    entries.insert(key, value).map(drop).map_err(error_text)
}

fn remove_entry(entries: &mut Table<'_, Bytes, Bytes>, key: &[u8]) -> Result<()> {
    entries.remove(key).map(drop).map_err(error_text)
}

type Pair = (AccessGuard<'static, Bytes>, AccessGuard<'static, Bytes>);

/// Bounds of a range in redb's form.
type RangeBoundsPair<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A table that is open for reading shows the state at the start of its transaction.
impl RangeSource for ReadOnlyTable<Bytes, Bytes> {
    type Entry = Pair;
    type Range = std::iter::Map<
        Range<'static, Bytes, Bytes>,
        fn(redb::Result<Pair, redb::StorageError>) -> Result<Pair>,
    >;

    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Self::Range> {
        let bounds: RangeBoundsPair<'_> = (from, to);
        let range = ReadOnlyTable::range::<&[u8]>(self, bounds).map_err(error_text)?;
        Ok(range.map(|pair| pair.map_err(error_text)))
    }

    fn bytes(entry: &Pair) -> (&[u8], &[u8]) {
        (entry.0.value(), entry.1.value())
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn satisfies_adapter_contract() {
        super::super::tests::check_adapter(super::find(None));
    }
}
