//! Traits of a store, its snapshots and its iterators.
//!
//! ```text
//!   Store --snapshot()--> StoreSnapshot --iter()--> StoreIterator
//!     |                        |
//!     +---- write_if(batch, Condition { since: snapshot, keys, ranges })
//! ```
//!
//! All calls wait for their result. Several threads may use a store at the same time.

use std::any::Any;

use terrace::{WriteBatch, WriteOptions};

use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::transaction::{Transaction, TransactionOptions};

/// Place of a write in the order of all writes of a store: a sequence number, or a revision. Later
/// writes have greater positions, with gaps.
pub type Position = u64;

/// Maximum sizes of a store. `usize::MAX`: the engine has no limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Size of a key in bytes.
    pub key_bytes: usize,
    /// Size of a value in bytes.
    pub value_bytes: usize,
    /// Number of puts and deletes in an atomic batch.
    pub batch_operations: usize,
    /// Size of an atomic batch in bytes, as [`batch_bytes`](Limits::batch_bytes_of) counts it.
    pub batch_bytes: usize,
}

impl Limits {
    /// Limits of an engine without limits of its own.
    pub const NONE: Limits = Limits {
        key_bytes: usize::MAX,
        value_bytes: usize::MAX,
        batch_operations: usize::MAX,
        batch_bytes: usize::MAX,
    };

    /// Bytes that an operation takes in a batch: its key, its value and an overhead.
    pub fn batch_bytes_of(key: &[u8], value: &[u8]) -> usize {
        key.len() + value.len() + OPERATION_OVERHEAD
    }
}

/// Maximum number of bytes around a key and a value in a request: tags, lengths and a key prefix.
const OPERATION_OVERHEAD: usize = 192;

/// Condition of a write: the state on which it depends is unchanged.
#[derive(Clone, Copy)]
pub struct Condition<'a> {
    /// State after which a change is a conflict. It is a snapshot of the same store.
    pub since: &'a dyn StoreSnapshot,
    /// Keys in any order. They may repeat, and they need not exist.
    pub keys: &'a [&'a [u8]],
    /// Ranges in any order. They cover keys that do not exist, too.
    pub ranges: &'a [KeyRange],
}

/// Snapshot, and the values of some keys in it.
pub type SnapshotWithValues = (Box<dyn StoreSnapshot>, Vec<Option<Vec<u8>>>);

/// Number of requests to the servers of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCount {
    /// Reads and writes, with repetitions.
    pub requests: u64,
    /// Timestamps of TiKV.
    pub timestamps: u64,
}

/// Ordered key-value store.
///
/// A write is atomic. It is visible to every later read, through every client. Keys are in
/// bytewise order.
pub trait Store: Send + Sync {
    /// Returns the maximum sizes.
    fn limits(&self) -> Limits;

    /// Returns the value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the values of `keys` at one moment, in the order of `keys`.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Applies every operation of `batch`, or none.
    ///
    /// A distributed engine has stored the batch on a majority of its servers on return, with and
    /// without `sync`.
    ///
    /// # Errors
    ///
    /// After [`Error::CommitUnknown`], the batch is applied, or it is not. After every other
    /// error, it is not.
    fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()>;

    /// Applies `batch` if nothing in `condition` has changed, and returns its position.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] after a change. [`Error::InvalidArgument`] for a snapshot of another
    /// store. Otherwise those of [`Store::write`].
    fn write_if(
        &self,
        batch: &WriteBatch,
        condition: &Condition<'_>,
        options: &WriteOptions,
    ) -> Result<Position>;

    /// Returns a snapshot of the current state.
    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>>;

    /// Returns a snapshot of the current state with the values of `keys` in it. An engine may send
    /// fewer requests than for the two calls.
    fn snapshot_with(&self, keys: &[&[u8]]) -> Result<SnapshotWithValues> {
        let snapshot = self.snapshot()?;
        let values = snapshot.multi_get(keys)?;
        Ok((snapshot, values))
    }

    /// Deletes all keys of `range`. The deletion is atomic on etcd and in memory. A concurrent
    /// reader of a local database or of TiKV may miss only some of the keys.
    fn delete_range(&self, range: &KeyRange, options: &WriteOptions) -> Result<()>;

    /// Returns the estimated number of bytes that the entries of `range` take.
    fn approximate_size(&self, range: &KeyRange) -> Result<u64>;

    /// Returns the number of requests so far. An engine without servers has none. On TiKV, it
    /// includes those of the other stores of this process.
    fn request_count(&self) -> RequestCount {
        RequestCount::default()
    }
}

/// State of a store at one moment. It stays readable while other writes continue.
pub trait StoreSnapshot: Send + Sync {
    /// Returns the position of the last write that the snapshot contains.
    fn position(&self) -> Position;

    /// Returns the value of `key`.
    ///
    /// # Errors
    ///
    /// [`Error::SnapshotTooOld`] after the store has removed the old versions.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the values of `keys`, in the order of `keys`. The errors are those of
    /// [`StoreSnapshot::get`].
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Returns an iterator over the entries of `range`. It is invalid until a seek. It may outlive
    /// the snapshot.
    fn iter(&self, range: &KeyRange) -> Result<Box<dyn StoreIterator>>;

    /// Returns the type of the engine, by which an engine recognises its own snapshots.
    fn as_any(&self) -> &dyn Any;
}

/// Cursor over the entries of a range, in both directions, at one moment.
///
/// An invalid cursor is before the first entry, after the last one, or it has met an error, which
/// [`StoreIterator::status`] returns.
pub trait StoreIterator: Send {
    /// Returns true if the cursor is at an entry.
    fn valid(&self) -> bool;
    /// Returns the current key, or an empty slice if the cursor is invalid.
    fn key(&self) -> &[u8];
    /// Returns the current value, or an empty slice if the cursor is invalid.
    fn value(&self) -> &[u8];
    /// Returns the first error of the cursor.
    fn status(&self) -> Result<()>;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry whose key is `target` or later.
    fn seek(&mut self, target: &[u8]);
    /// Moves to the next entry. Does nothing if the cursor is invalid.
    fn next(&mut self);
    /// Moves to the previous entry. Does nothing if the cursor is invalid.
    fn prev(&mut self);
}

/// Calls that follow from those of the trait.
impl dyn Store + '_ {
    /// Sets the value of `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(&batch, &WriteOptions::DEFAULT)
    }

    /// Deletes `key`. A missing key is no error.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(&batch, &WriteOptions::DEFAULT)
    }

    /// Returns an iterator over `range` at the current moment.
    pub fn iter(&self, range: &KeyRange) -> Result<Box<dyn StoreIterator>> {
        self.snapshot()?.iter(range)
    }

    /// Starts a transaction.
    pub fn begin(&self, options: &TransactionOptions) -> Result<Transaction<'_>> {
        self.begin_with(options, &[])
    }

    /// Starts a transaction, and reads `keys` with it. Later reads of these keys need no request.
    pub fn begin_with(&self, options: &TransactionOptions, keys: &[&[u8]]) -> Result<Transaction<'_>> {
        Transaction::new(self, options, keys)
    }
}

/// Error for a condition with a snapshot of another store.
pub(crate) fn foreign_snapshot() -> Error {
    Error::InvalidArgument("the snapshot of the condition belongs to another store".into())
}

/// Checks a batch that is too large to be represented.
pub(crate) fn check_batch(batch: &WriteBatch) -> Result<()> {
    match batch.is_oversized() || batch.is_out_of_memory() {
        true => Err(Error::InvalidArgument("the batch does not fit into memory".into())),
        false => Ok(()),
    }
}
