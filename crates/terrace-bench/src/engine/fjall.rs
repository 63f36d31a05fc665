//! fjall, a log-structured merge tree in Rust. Requires the cargo feature `fjall`.

use std::ops::Bound;
use std::path::Path;

use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    CompressionType, Database, Guard, Iter, Keyspace, KeyspaceCreateOptions, KvPair, PersistMode, Readable,
    SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx, Snapshot,
};

use super::lockfile_versions;
use super::range_cursor::{RangeCursor, RangeSource};
use super::{
    Change, Cursor, Engine, EngineRunner, EntryVisitor, FoundEngine, Result, Settings, Store, Txn, TxnBody,
    TxnError,
};

/// Describes fjall, which is compiled into this program.
pub(super) fn find(_: Option<&Path>) -> Result<FoundEngine> {
    Ok(FoundEngine {
        version: lockfile_versions::crate_version("fjall"),
        location: String::new(),
        note: "no Snappy: uses LZ4 instead; one write transaction at a time".to_owned(),
        has_compaction: true,
        has_transactions: true,
        optional_kinds: &[],
        runner: EngineRunner::InProcess(Box::new(Fjall)),
    })
}

struct Fjall;

impl Engine for Fjall {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let mut builder = SingleWriterTxDatabase::builder(dir);
        if let Some(bytes) = settings.cache_bytes {
            builder = builder.cache_size(bytes);
        }
        let database = builder.open().map_err(error_text)?;
        let entries = database.keyspace("entries", || options(settings)).map_err(error_text)?;
        Ok(Box::new(FjallStore { database, entries }))
    }
}

fn options(settings: &Settings) -> KeyspaceCreateOptions {
    let mut options = KeyspaceCreateOptions::default();
    if let Some(bytes) = settings.write_buffer_bytes {
        options = options.max_memtable_size(bytes);
    }
    if let Some(bits) = settings.filter_bits {
        options = options.filter_policy(bloom_policy(bits));
    }
    if let Some(codec) = &settings.compression {
        let codec = if codec == "none" { CompressionType::None } else { CompressionType::Lz4 };
        options = options.data_block_compression_policy(CompressionPolicy::all(codec));
    }
    options
}

fn bloom_policy(bits: u32) -> FilterPolicy {
    if bits == 0 {
        return FilterPolicy::disabled();
    }
    let bloom = BloomConstructionPolicy::BitsPerKey(bits as f32);
    FilterPolicy::all(FilterPolicyEntry::Bloom(bloom))
}

/// The database with transactions of a single writer. Other operations use the plain database in
/// it.
///
/// A commit of an optimistic transaction takes time in proportion to the transactions since the
/// last garbage collection, about 0.1 ms, so their rows would be slower.
struct FjallStore {
    database: SingleWriterTxDatabase,
    entries: SingleWriterTxKeyspace,
}

impl FjallStore {
    fn plain(&self) -> &Database {
        self.database.inner()
    }

    fn entries(&self) -> &Keyspace {
        self.entries.inner()
    }

    fn persist(&self, sync: bool) -> Result<()> {
        if sync { self.plain().persist(PersistMode::SyncData).map_err(error_text) } else { Ok(()) }
    }
}

impl Store for FjallStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.entries().insert(key, value).map_err(error_text)?;
        self.persist(sync)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.entries().remove(key).map_err(error_text)?;
        self.persist(sync)
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        let mut batch = self.plain().batch().durability(sync.then_some(PersistMode::SyncData));
        for change in changes {
            match &change.value {
                Some(value) => batch.insert(self.entries(), &change.key[..], &value[..]),
                None => batch.remove(self.entries(), &change.key[..]),
            }
        }
        batch.commit().map_err(error_text)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.entries().get(key).map_err(error_text)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        let snapshot = self.plain().snapshot();
        Ok(Box::new(RangeCursor::new(FjallSnapshot { snapshot, entries: self.entries() })))
    }

    fn compact(&self) -> Result<()> {
        self.entries().rotate_memtable_and_wait().map_err(error_text)?;
        self.entries().major_compact().map_err(error_text)
    }

    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        let mut txn = FjallTxn { txn: self.database.write_tx(), entries: &self.entries };
        body(&mut txn)?;
        txn.txn.commit().map_err(error_text)
    }
}

/// One write transaction runs at a time, so there are no conflicts.
struct FjallTxn<'a> {
    txn: SingleWriterWriteTx<'a>,
    entries: &'a SingleWriterTxKeyspace,
}

impl Txn for FjallTxn<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError> {
        let Some(found) = self.txn.get(self.entries, key).map_err(error_text)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError> {
        self.txn.insert(self.entries, key, value);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError> {
        for guard in self.txn.range(self.entries, from..to) {
            let (key, value) = read_pair(guard)?;
            visit(&key, &value)?;
        }
        Ok(())
    }
}

/// Entries of a snapshot.
struct FjallSnapshot<'a> {
    snapshot: Snapshot,
    entries: &'a Keyspace,
}

type PairIter = std::iter::Map<Iter, fn(Guard) -> Result<KvPair>>;

impl RangeSource for FjallSnapshot<'_> {
    type Entry = KvPair;
    type Range = PairIter;

    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<PairIter> {
        Ok(self.snapshot.range::<&[u8], _>(self.entries, (from, to)).map(read_pair))
    }

    fn bytes(entry: &KvPair) -> (&[u8], &[u8]) {
        (&entry.0, &entry.1)
    }
}

fn read_pair(guard: Guard) -> Result<KvPair> {
    guard.into_inner().map_err(error_text)
}

fn error_text(error: fjall::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn satisfies_adapter_contract() {
        super::super::tests::check_adapter(super::find(None));
    }
}
