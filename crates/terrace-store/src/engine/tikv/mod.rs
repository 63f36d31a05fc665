//! Engine `tikv://`: the keys of a prefix in a TiKV cluster.
//!
//! ```text
//!   address           placement drivers, prefix, TLS and times of an address
//!   cluster           requests with time limits
//!   failure           consequences of the library's errors
//!   creation          layout record of a store
//!   stored            stored form of values, with the stamp of their transaction
//!   commit            one transaction, and the resolution of a commit without an answer
//!   committer         groups of writes, commit markers
//!   condition         conditions on keys and ranges
//!   snapshot          reads at a timestamp, in pages
//!   regions           borders of regions, by which a page asks one region
//!   placement_driver  requests for regions
//!   safe_point        removal of old versions, on demand
//!   request_count     number of requests of this process
//!   key_codec         form of keys in the answers of a placement driver
//! ```
//!
//! A snapshot is a timestamp of TiKV. A write is one optimistic transaction of the client library
//! with two phases. It also writes a commit marker, by which the client recognises it after a lost
//! answer.

mod address;
mod cluster;
mod commit;
mod committer;
mod condition;
mod creation;
mod failure;
mod key_codec;
mod placement_driver;
mod regions;
mod request_count;
mod safe_point;
mod snapshot;
mod stored;

use std::sync::Arc;

use terrace::{WriteBatch, WriteOptions};

use self::cluster::Cluster;
use self::committer::Committer;
use self::snapshot::{Content, Snapshots};
use super::OpenOptions;
use super::connection_error::explain;
use super::group_commit::{Writes, checked_writes};
use super::prefix_layout::Layout;
use super::server_address::MAX_PREFIX;
use crate::address::Address;
use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::store::{Condition, Limits, Position, RequestCount, Store, StoreIterator, StoreSnapshot};

/// Maximum size of a key in bytes: TiKV's default `max-key-size` of 8 KiB, less the prefix and two
/// bytes.
const MAX_KEY_BYTES: usize = (8 << 10) - MAX_PREFIX - 2;
/// Maximum size of a value in bytes. It fits into an entry of Raft, which has 8 MiB by default.
const MAX_VALUE_BYTES: usize = 4 << 20;
/// Maximum size of a batch in bytes. The library keeps its locks alive until the commit.
const MAX_BATCH_BYTES: usize = 32 << 20;
/// Maximum number of operations of a batch.
const MAX_BATCH_OPERATIONS: usize = 100_000;
/// Number of commit markers that a condition on a range can lock.
const MAX_LANES: usize = 10_240;
/// Keys of one transaction of `delete_range`.
const DELETED_KEYS: usize = 1000;
/// Number of entries by which `approximate_size` counts. A larger range has at least their size.
const SIZE_SAMPLE: usize = 16 * 1024;

/// Opens the store of `address`.
pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Arc<dyn Store>> {
    let settings = address::Settings::parse(address)?;
    let cluster = Arc::new(Cluster::new(&settings)?);
    let layout = Arc::new(Layout::new("tikv", &settings.prefix));
    creation::open(&cluster, &layout, options.create_if_missing && !options.read_only)
        .map_err(|error| explain(cluster.explain(error), address))?;
    if let Some(age) = settings.gc_age.filter(|_| !options.read_only) {
        safe_point::start(&cluster, &layout, age);
    }
    let max_age = settings.max_snapshot_age;
    let snapshots = Snapshots { cluster: Arc::clone(&cluster), layout: Arc::clone(&layout), max_age };
    let committer = Committer::new(cluster, layout);
    Ok(Arc::new(TikvStore { is_read_only: options.read_only, snapshots, committer }))
}

struct TikvStore {
    is_read_only: bool,
    snapshots: Snapshots,
    committer: Committer,
}

impl TikvStore {
    /// Returns the writes of `batch`, or the limit that it exceeds.
    fn checked_writes(&self, batch: &WriteBatch) -> Result<Writes> {
        if self.is_read_only {
            return Err(Error::NotSupported("the store is open for reading only".into()));
        }
        checked_writes(batch, &self.limits(), |key| self.snapshots.layout.data_key(key))
    }
}

impl Store for TikvStore {
    fn limits(&self) -> Limits {
        Limits {
            key_bytes: MAX_KEY_BYTES,
            value_bytes: MAX_VALUE_BYTES,
            batch_operations: MAX_BATCH_OPERATIONS,
            batch_bytes: MAX_BATCH_BYTES,
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.snapshots.take()?.get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        match keys {
            [] => Ok(Vec::new()),
            keys => self.snapshots.take()?.multi_get(keys),
        }
    }

    fn write(&self, batch: &WriteBatch, _: &WriteOptions) -> Result<()> {
        let writes = self.checked_writes(batch)?;
        match writes.is_empty() {
            true => Ok(()),
            false => self.committer.write(writes.into()).map(drop),
        }
    }

    fn write_if(&self, batch: &WriteBatch, condition: &Condition<'_>, _: &WriteOptions) -> Result<Position> {
        condition::write_if(&self.snapshots, &self.committer, self.checked_writes(batch)?, condition)
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        Ok(Box::new(self.snapshots.take()?))
    }

    fn delete_range(&self, range: &KeyRange, _: &WriteOptions) -> Result<()> {
        self.checked_writes(&WriteBatch::new())?;
        let mut keys = self.snapshots.take()?.cursor(range, Content::Keys);
        keys.seek_to_first();
        let mut writes = Writes::new();
        while keys.valid() {
            writes.insert(self.snapshots.layout.data_key(keys.key()), None);
            keys.next();
            if writes.len() >= DELETED_KEYS || !keys.valid() {
                self.committer.write(std::mem::take(&mut writes).into())?;
            }
        }
        keys.status()
    }

    fn approximate_size(&self, range: &KeyRange) -> Result<u64> {
        let mut entries = self.snapshots.take()?.cursor(range, Content::Values);
        entries.seek_to_first();
        let mut bytes = 0;
        for _ in 0..SIZE_SAMPLE {
            if !entries.valid() {
                break;
            }
            bytes += (entries.key().len() + entries.value().len()) as u64;
            entries.next();
        }
        entries.status()?;
        Ok(bytes)
    }

    fn request_count(&self) -> RequestCount {
        request_count::read()
    }
}
