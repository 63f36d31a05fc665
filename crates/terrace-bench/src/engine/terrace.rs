//! Terrace, through its Rust API.

use std::path::Path;

use terrace::{
    BlockCache, BloomFilterPolicy, CompactionStyle, Db, DbIterator, ErrorKind, FollowOptions, LoadOptions,
    MappedLogs, Options, ReadOptions, Transaction, WriteBatch, WriteOptions, compress,
};

use super::entry_source::SmallBytes;
use super::{
    Change, Cursor, Engine, EngineRunner, EntrySource, EntryVisitor, Follower, FoundEngine, Result, Store,
    Txn, TxnBody, TxnError,
};
use crate::report::model::Settings;
use crate::workload::phase_spec::Kind;

pub(super) fn find(_: Option<&Path>) -> Result<FoundEngine> {
    Ok(found("", |options| options))
}

pub(super) fn find_appended(_: Option<&Path>) -> Result<FoundEngine> {
    Ok(found("mapped_logs: Never", |options| options.mapped_logs(MappedLogs::Never)))
}

pub(super) fn find_leveled(_: Option<&Path>) -> Result<FoundEngine> {
    Ok(found("compaction_style: Leveled", |options| options.compaction_style(CompactionStyle::Leveled)))
}

fn found(note: &str, adjust: fn(Options) -> Options) -> FoundEngine {
    FoundEngine {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        location: String::new(),
        note: note.to_owned(),
        has_compaction: true,
        has_transactions: true,
        optional_kinds: &[Kind::Load, Kind::Checkpoint, Kind::Follow, Kind::FollowReplay, Kind::FollowAge],
        runner: EngineRunner::InProcess(Box::new(TerraceEngine { adjust })),
    }
}

struct TerraceEngine {
    adjust: fn(Options) -> Options,
}

fn error_text(error: terrace::Error) -> String {
    error.to_string()
}

fn options(settings: &Settings) -> Result<Options> {
    let mut options = Options::default().create_if_missing(true);
    let size = |bytes: u64| usize::try_from(bytes).map_err(|_| format!("{bytes} bytes do not fit in memory"));
    if let Some(bytes) = settings.write_buffer_bytes {
        options.write_buffer_size = Some(size(bytes)?);
    }
    if let Some(bytes) = settings.cache_bytes {
        options.block_cache = Some(BlockCache::new(size(bytes)?));
    }
    if let Some(bits) = settings.filter_bits {
        options.filter_policy = Some(std::sync::Arc::new(BloomFilterPolicy::new(bits as usize)));
    }
    if let Some(name) = &settings.compression {
        let codec = compress::codec_by_name(name).ok_or_else(|| format!("no codec {name}"))?;
        options.compression = Some(codec);
    }
    Ok(options)
}

impl Engine for TerraceEngine {
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let options = (self.adjust)(options(settings)?);
        Ok(Box::new(TerraceStore(Db::open(dir, &options).map_err(error_text)?)))
    }
}

struct TerraceStore(Db);

impl Store for TerraceStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.0.put_with(key, value, &WriteOptions::default().sync(sync)).map_err(error_text)
    }

    fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.0.delete_with(key, &WriteOptions::default().sync(sync)).map_err(error_text)
    }

    fn write(&self, changes: &[Change], sync: bool) -> Result<()> {
        let mut batch = WriteBatch::new();
        for Change { key, value } in changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        self.0.write_with(&batch, &WriteOptions::default().sync(sync)).map_err(error_text)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.0.get_into(key, value).map_err(error_text)
    }

    fn cursor(&self) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(TerraceCursor(self.0.raw_iter())))
    }

    fn compact(&self) -> Result<()> {
        self.0.compact_range(None, None).map_err(error_text)
    }

    fn bulk_load(&self, mut entries: EntrySource<'_>) -> Result<()> {
        let copies = std::iter::from_fn(|| {
            let (key, value) = entries.next_entry()?;
            Some(Ok::<_, terrace::Error>((SmallBytes::from(key), SmallBytes::from(value))))
        });
        terrace::bulk_load(&self.0, copies, &LoadOptions::default()).map(drop).map_err(error_text)
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.0.checkpoint(dir).map(drop).map_err(error_text)
    }

    fn follow(&self) -> Result<Box<dyn Follower>> {
        let follower = Db::follow(self.0.path(), &Options::default(), &FollowOptions::default());
        Ok(Box::new(TerraceFollower(follower.map_err(error_text)?)))
    }

    fn transact(&self, body: &mut TxnBody<'_>) -> Result<()> {
        let done = self.0.transact(|transaction| {
            body(&mut TerraceTxn(transaction)).map_err(|error| match error {
                TxnError::Conflict => terrace::Error::Conflict { key: Vec::new() },
                TxnError::Failed(error) => terrace::Error::NotSupported(error),
            })
        });
        done.map_err(error_text)
    }
}

struct TerraceFollower(Db);

impl Follower for TerraceFollower {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.0.get_into(key, value).map_err(error_text)
    }

    fn catch_up(&self) -> Result<()> {
        self.0.catch_up().map(drop).map_err(error_text)
    }
}

struct TerraceTxn<'a>(&'a mut Transaction);

fn txn_error(error: terrace::Error) -> TxnError {
    match error.kind() {
        ErrorKind::Busy => TxnError::Conflict,
        _ => TxnError::Failed(error.to_string()),
    }
}

impl Txn for TerraceTxn<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> std::result::Result<bool, TxnError> {
        self.0.get_into(key, value).map_err(txn_error)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), TxnError> {
        self.0.put(key, value).map_err(txn_error)
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut EntryVisitor<'_>,
    ) -> std::result::Result<(), TxnError> {
        let options = ReadOptions::default().upper_bound(to);
        let mut entries = self.0.raw_iter_with(&options).map_err(txn_error)?;
        entries.seek(from);
        while entries.valid() {
            visit(entries.key(), entries.value())?;
            entries.next();
        }
        entries.status().map_err(txn_error)
    }
}

struct TerraceCursor(DbIterator);

impl TerraceCursor {
    /// Returns whether the iterator is at an entry, or its error.
    fn is_valid(&self) -> Result<bool> {
        if self.0.valid() {
            return Ok(true);
        }
        self.0.status().map(|()| false).map_err(error_text)
    }
}

impl Cursor for TerraceCursor {
    fn first(&mut self) -> Result<bool> {
        self.0.seek_to_first();
        self.is_valid()
    }

    fn last(&mut self) -> Result<bool> {
        self.0.seek_to_last();
        self.is_valid()
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.0.seek(key);
        self.is_valid()
    }

    fn next(&mut self) -> Result<bool> {
        self.0.next();
        self.is_valid()
    }

    fn prev(&mut self) -> Result<bool> {
        self.0.prev();
        self.is_valid()
    }

    fn entry(&self) -> (&[u8], &[u8]) {
        (self.0.key(), self.0.value())
    }
}
