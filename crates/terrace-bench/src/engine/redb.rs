//! redb, a copy-on-write B-tree in Rust. With the cargo feature `redb`.
//!
//! Whatever one does there is a transaction. Each put, each batch and each get is one of its own here, so that it
//! means what it means with the others: done for everybody, and of the newest state. Without `sync` a commit has no
//! durability; closing brings it to the disk.

use std::ops::Bound;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use redb::{
    AccessGuard, Database, Durability, Range, ReadOnlyTable, ReadableDatabase, Table, TableDefinition,
};

use super::lockfile_versions;
use super::range_cursor::{RangeCursor, RangeSource};
use super::{Change, Cursor, Engine, EngineRunner, FoundEngine, Result, Settings, Store};

type Bytes = &'static [u8];
const ENTRIES_TABLE: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("entries");

/// It is part of this program, so it is there; only its peculiarities are to be told.
pub(super) fn find(_: Option<&Path>) -> Result<FoundEngine> {
    Ok(FoundEngine {
        version: lockfile_versions::crate_version("redb"),
        location: String::new(),
        note: "a transaction for each put and each get, of which a crash of the process may lose those without sync; no write buffer, filter or compression".to_owned(),
        runner: EngineRunner::InProcess(Box::new(Redb)),
    })
}

struct Redb;

impl Engine for Redb {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let mut builder = Database::builder();
        if let Some(bytes) = settings.cache_bytes {
            builder.set_cache_size(usize::try_from(bytes).map_err(told)?);
        }
        let open = RedbStore(RwLock::new(builder.create(dir.join("entries.redb")).map_err(told)?));
        open.with_write_txn(true, |_| Ok(()))?; // makes the table, which readers must find
        Ok(Box::new(open))
    }
}

/// Locked for writing only while it compacts, because redb wants the database for itself then.
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
        let mut transaction = self.database().begin_write().map_err(told)?;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability).map_err(told)?;
        change(&mut transaction.open_table(ENTRIES_TABLE).map_err(told)?)?;
        transaction.commit().map_err(told)
    }

    fn open_for_read(&self) -> Result<ReadOnlyTable<Bytes, Bytes>> {
        let transaction = self.database().begin_read().map_err(told)?;
        transaction.open_table(ENTRIES_TABLE).map_err(told)
    }
}

impl Store for RedbStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.with_write_txn(sync, |entries| put(entries, key, value))
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.with_write_txn(sync, |entries| delete(entries, key))
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        self.with_write_txn(sync, |entries| {
            changes.iter().try_for_each(|change| match &change.value {
                Some(value) => put(entries, &change.key, value),
                None => delete(entries, &change.key),
            })
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let entries = self.open_for_read()?;
        let Some(found) = entries.get(key).map_err(told)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(RangeCursor::new(self.open_for_read()?)))
    }

    fn compact(&self) -> Result<()> {
        let mut database = self.0.write().unwrap_or_else(PoisonError::into_inner);
        database.compact().map(drop).map_err(told)
    }
}

fn put(entries: &mut Table<'_, Bytes, Bytes>, key: &[u8], value: &[u8]) -> Result<()> {
    entries.insert(key, value).map(drop).map_err(told)
}

fn delete(entries: &mut Table<'_, Bytes, Bytes>, key: &[u8]) -> Result<()> {
    entries.remove(key).map(drop).map_err(told)
}

type Pair = (AccessGuard<'static, Bytes>, AccessGuard<'static, Bytes>);

/// Ends of a range, as redb wants them.
type RangeBoundsPair<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A table opened for reading stays as it was when its transaction began.
impl RangeSource for ReadOnlyTable<Bytes, Bytes> {
    type Entry = Pair;
    type Range = std::iter::Map<
        Range<'static, Bytes, Bytes>,
        fn(redb::Result<Pair, redb::StorageError>) -> Result<Pair>,
    >;

    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Self::Range> {
        let ends: RangeBoundsPair<'_> = (from, to);
        let range = ReadOnlyTable::range::<&[u8]>(self, ends).map_err(told)?;
        Ok(range.map(|pair| pair.map_err(told)))
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
