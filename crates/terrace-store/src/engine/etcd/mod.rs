//! Engine `etcd://`: the keys of a prefix in an etcd cluster.
//!
//! ```text
//!   address    hosts, prefix, TLS and user of an address
//!   cluster    requests with time limits, repeated on another server; errors
//!   creation   layout record of a store
//!   stored     stored form of values
//!   lane       one commit, and the resolution of a commit without an answer
//!   committer  commits of one client; lease of the markers
//!   snapshot   reads at a revision, in pages
//! ```
//!
//! A snapshot is a revision of etcd. A write is one transaction of etcd: the operations, and a
//! commit marker by which the client recognises the transaction after a lost answer. A conditional
//! write also compares the revisions of the keys that it depends on.

mod address;
mod cluster;
mod committer;
mod creation;
mod lane;
mod snapshot;
mod stored;

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, TxnOp};
use terrace::{WriteBatch, WriteOptions};

use self::cluster::Cluster;
use self::committer::Committer;
use self::snapshot::{EtcdSnapshot, Snapshots};
use super::OpenOptions;
use super::connection_error::explain;
use super::group_commit::{GroupedWrite, Writes, bytes_of, check_size, checked_writes};
use super::prefix_layout::Layout;
use crate::address::Address;
use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::store::{
    Condition, Limits, Position, RequestCount, SnapshotWithValues, Store, StoreSnapshot, foreign_snapshot,
};

/// Operations that the commit itself adds to a transaction: the commit marker and the record of the
/// last deletion.
const OWN_OPERATIONS: usize = 2;
/// Comparisons that the commit itself adds: that of the commit marker.
const OWN_COMPARES: usize = 1;
/// Bytes of a request by etcd's default `--max-request-bytes`, less the fields of the request.
const MAX_REQUEST_BYTES: usize = (3 << 19) - (16 << 10);
/// Maximum size of a key in bytes.
const MAX_KEY_BYTES: usize = 64 << 10;
/// Maximum size of a value in bytes. A value, its key and the rest fit into a request.
const MAX_VALUE_BYTES: usize = 1 << 20;
/// Keys of a range that a condition compares one by one. Beyond it, every deletion in the store
/// counts as a change of the range.
const COMPARED_KEYS_OF_RANGE: usize = 32;

/// Opens the store of `address`.
pub(super) fn open(address: &Address, options: &OpenOptions) -> Result<Arc<dyn Store>> {
    let settings = address::Settings::parse(address)?;
    let cluster = Arc::new(Cluster::new(&settings)?);
    let layout = Arc::new(Layout::new("etcd", &settings.prefix));
    creation::open(&cluster, &layout, options.create_if_missing && !options.read_only)
        .map_err(|error| explain(error, address))?;
    let snapshots = Snapshots { cluster: Arc::clone(&cluster), layout: Arc::clone(&layout) };
    let max_txn_ops = settings.max_txn_ops;
    let committer = Committer::new(cluster, layout, max_txn_ops - OWN_OPERATIONS);
    Ok(Arc::new(EtcdStore { is_read_only: options.read_only, max_txn_ops, snapshots, committer }))
}

struct EtcdStore {
    is_read_only: bool,
    /// Limit of the cluster on the operations, and on the comparisons, of a transaction.
    max_txn_ops: usize,
    snapshots: Snapshots,
    committer: Committer,
}

impl EtcdStore {
    /// Returns the writes of `batch`, or the limit that it exceeds.
    fn checked_writes(&self, batch: &WriteBatch) -> Result<Writes> {
        if self.is_read_only {
            return Err(Error::NotSupported("the store is open for reading only".into()));
        }
        checked_writes(batch, &self.limits(), |key| self.snapshots.layout.data_key(key))
    }

    /// Returns the write of `writes` under the condition that `keys` are as in `since`.
    fn grouped(&self, writes: Writes, since: &EtcdSnapshot, keys: &[&[u8]]) -> Result<GroupedWrite> {
        let revisions = since.revisions(keys)?.into_iter().map(i64::unsigned_abs);
        let stored_keys = keys.iter().map(|key| self.snapshots.layout.data_key(key));
        let since = since.revision().unsigned_abs();
        Ok(GroupedWrite { writes, compared: stored_keys.zip(revisions).collect(), since, has_position: true })
    }

    /// Returns the comparisons that hold while the keys and `ranges` of a condition have not
    /// changed.
    fn compares(&self, keys: &GroupedWrite, since: &EtcdSnapshot, ranges: &[&KeyRange]) -> Result<Compares> {
        let mut compares = Compares::default();
        for (key, revision) in &keys.compared {
            compares.add(key.clone(), CompareOp::Equal, revision.cast_signed());
        }
        for range in ranges {
            self.compare_range(since, range, &mut compares)?;
        }
        check_size("compared keys and ranges", compares.all.len(), self.max_txn_ops - OWN_COMPARES)?;
        Ok(compares)
    }

    /// Adds the comparisons of a range. One covers new and changed keys. A deleted key has no
    /// revision, so each key of a small range has a comparison of its own. For a large range, the
    /// record of the last deletion must be unchanged.
    fn compare_range(&self, since: &EtcdSnapshot, range: &KeyRange, compares: &mut Compares) -> Result<()> {
        let layout = &self.snapshots.layout;
        let later = since.revision() + 1;
        let (start, end) = layout.data_range(range);
        compares.add_range(start, end, later);
        let keys = since.keys_with_revisions(range, COMPARED_KEYS_OF_RANGE + 1)?;
        if keys.len() > COMPARED_KEYS_OF_RANGE {
            compares.add(layout.change_record_key(), CompareOp::Less, later);
        } else {
            keys.into_iter().for_each(|(key, at)| compares.add(key, CompareOp::Equal, at));
        }
        Ok(())
    }
}

/// Comparisons of revisions, and the bytes that they take in a request.
#[derive(Default)]
struct Compares {
    all: Vec<Compare>,
    bytes: usize,
}

impl Compares {
    fn add(&mut self, key: Vec<u8>, op: CompareOp, revision: i64) {
        self.bytes += Limits::batch_bytes_of(&key, &[]);
        self.all.push(Compare::mod_revision(key, op, revision));
    }

    /// All keys from `start` to `end` have revisions before `later`.
    fn add_range(&mut self, start: Vec<u8>, end: Vec<u8>, later: i64) {
        self.bytes += Limits::batch_bytes_of(&start, &end);
        self.all.push(Compare::mod_revision(start, CompareOp::Less, later).with_range(end));
    }
}

impl Store for EtcdStore {
    fn limits(&self) -> Limits {
        Limits {
            key_bytes: MAX_KEY_BYTES,
            value_bytes: MAX_VALUE_BYTES,
            batch_operations: self.max_txn_ops - OWN_OPERATIONS,
            batch_bytes: MAX_REQUEST_BYTES,
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.snapshots.get_newest(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        match keys {
            [] => Ok(Vec::new()),
            [key] => Ok(vec![self.get(key)?]),
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
        let writes = self.checked_writes(batch)?;
        let since = condition.since.as_any().downcast_ref::<EtcdSnapshot>();
        let since = since.filter(|since| since.belongs_to(&self.snapshots)).ok_or_else(foreign_snapshot)?;
        let ranges: Vec<&KeyRange> = condition.ranges.iter().filter(|range| !range.is_empty()).collect();
        let compared = condition.keys.len() + ranges.len();
        // The reads that follow have a number in proportion.
        check_size("compared keys and ranges", compared, self.max_txn_ops - OWN_COMPARES)?;
        let write = self.grouped(writes, since, condition.keys)?;
        if ranges.is_empty() {
            check_size("bytes with the condition", write.bytes(), MAX_REQUEST_BYTES)?;
            return self.committer.write(write).map_err(|error| self.snapshots.layout.with_user_key(error));
        }
        let compares = self.compares(&write, since, &ranges)?;
        check_size("bytes with the condition", bytes_of(batch) + compares.bytes, MAX_REQUEST_BYTES)?;
        self.committer.write_alone(compares.all, self.committer.operations(&write.writes))
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        Ok(Box::new(self.snapshots.take()?))
    }

    fn snapshot_with(&self, keys: &[&[u8]]) -> Result<SnapshotWithValues> {
        let (snapshot, values) = self.snapshots.take_with(keys)?;
        Ok((Box::new(snapshot), values))
    }

    fn delete_range(&self, range: &KeyRange, _: &WriteOptions) -> Result<()> {
        self.checked_writes(&WriteBatch::new())?;
        if range.is_empty() {
            return Ok(());
        }
        let (start, end) = self.snapshots.layout.data_range(range);
        let delete = TxnOp::delete(start, Some(DeleteOptions::new().with_range(end)));
        self.committer.write_alone(Vec::new(), vec![delete, self.committer.deletion_record()]).map(drop)
    }

    fn approximate_size(&self, range: &KeyRange) -> Result<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let (start, end) = self.snapshots.layout.data_range(range);
        let count = GetOptions::new().with_range(end).with_count_only();
        let count = self.snapshots.cluster.get(start, count)?.count().unsigned_abs();
        let sample = self.snapshots.take()?.first_entries(range)?;
        let bytes: u64 = sample.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        Ok(count.saturating_mul(bytes) / (sample.len().max(1) as u64))
    }

    fn request_count(&self) -> RequestCount {
        self.snapshots.cluster.request_count()
    }
}
