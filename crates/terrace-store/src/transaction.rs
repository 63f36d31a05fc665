//! Transactions over any store.
//!
//! ```text
//!   begin    snapshot
//!   get      own write, or the snapshot; the key joins the read set
//!   iter     own writes over the snapshot; the range joins the read set
//!   put      write set in memory
//!   commit   one conditional write: the write set, if the read set is unchanged since the snapshot
//! ```
//!
//! A transaction without writes sends nothing at its commit: its snapshot is a state that existed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use terrace::{Isolation, WriteBatch, WriteOptions};
use terrace_env::{Clock, Random, SystemClock, SystemRandom};

use crate::error::{Error, Result};
use crate::key_range::KeyRange;
use crate::store::{Condition, Position, Store, StoreSnapshot};
use crate::transaction_iterator::TransactionIterator;

/// Writes of a transaction. None is a deletion.
pub(crate) type WriteSet = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Options of a transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// Anomalies that the transaction excludes. Default: [`Isolation::Serializable`].
    pub isolation: Isolation,
    /// Maximum number of runs by `transact`, at least 1. Default: 100.
    pub attempts: u32,
    /// Maximum size of the reads and writes in memory, in bytes. Default: 64 MiB.
    pub memory: usize,
    /// Returns from the commit only after the writes are durable. Default: false.
    pub sync: bool,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::Serializable,
            attempts: 100,
            memory: 64 << 20,
            sync: false,
        }
    }
}

impl TransactionOptions {
    /// Sets [`TransactionOptions::isolation`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// Sets [`TransactionOptions::attempts`].
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> TransactionOptions {
        self.attempts = attempts;
        self
    }

    /// Sets [`TransactionOptions::sync`].
    #[must_use]
    pub fn sync(mut self, sync: bool) -> TransactionOptions {
        self.sync = sync;
        self
    }
}

/// Transaction of a store. `begin` and `transact` of `dyn Store` start one. A transaction that is
/// dropped without a commit writes nothing.
///
/// ```
/// use terrace_store::{OpenOptions, open};
///
/// let store = open("memory:", &OpenOptions::default())?;
/// let mut transaction = store.begin(&Default::default())?;
/// if transaction.get(b"CH/Bern")?.is_none() {
///     transaction.put(b"CH/Bern", b"46.95,7.45")?;
/// }
/// transaction.commit()?;
/// # Ok::<(), terrace_store::Error>(())
/// ```
pub struct Transaction<'a> {
    store: &'a dyn Store,
    options: TransactionOptions,
    snapshot: Box<dyn StoreSnapshot>,
    read_keys: BTreeSet<Vec<u8>>,
    read_ranges: Vec<KeyRange>,
    /// Values of the snapshot that were read before their use.
    fetched: WriteSet,
    writes: WriteSet,
    /// Bytes of the reads and writes.
    memory: usize,
}

/// Memory of an element of the read set or write set beside its bytes.
const ELEMENT_OVERHEAD: usize = 64;

impl<'a> Transaction<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        options: &TransactionOptions,
        keys: &[&[u8]],
    ) -> Result<Transaction<'a>> {
        let (snapshot, values) = match keys {
            [] => (store.snapshot()?, Vec::new()),
            keys => store.snapshot_with(keys)?,
        };
        let mut transaction = Transaction {
            store,
            options: options.clone(),
            snapshot,
            read_keys: BTreeSet::new(),
            read_ranges: Vec::new(),
            fetched: WriteSet::new(),
            writes: WriteSet::new(),
            memory: 0,
        };
        transaction.keep_fetched(keys, values)?;
        Ok(transaction)
    }

    /// Reads `keys` with one call, so that later reads of them need no request. The commit depends
    /// only on those that [`Transaction::get`] reads.
    pub fn fetch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let values = self.snapshot.multi_get(keys)?;
        self.keep_fetched(keys, values)
    }

    fn keep_fetched(&mut self, keys: &[&[u8]], values: Vec<Option<Vec<u8>>>) -> Result<()> {
        for (key, value) in keys.iter().zip(values) {
            self.charge(entry_bytes(key, value.as_deref()))?;
            let before = self.fetched.insert(key.to_vec(), value);
            self.release(key, before);
        }
        Ok(())
    }

    /// Returns the value of `key`: the own write, or the value in the snapshot.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.writes.contains_key(key) {
            self.add_read(key)?;
        }
        self.peek(key)
    }

    /// Returns the same value as [`Transaction::get`]. The commit does not depend on `key`: the
    /// caller knows that each writer of `key` also writes another key that this transaction reads.
    pub fn peek(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.writes.get(key).or_else(|| self.fetched.get(key)) {
            Some(known) => Ok(known.clone()),
            None => self.snapshot.get(key),
        }
    }

    /// Returns the values of `keys`, in the order of `keys`.
    pub fn multi_get(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let unwritten: Vec<&[u8]> =
            keys.iter().copied().filter(|key| !self.writes.contains_key(*key)).collect();
        for key in &unwritten {
            self.add_read(key)?;
        }
        let mut found = self.snapshot.multi_get(&unwritten)?.into_iter();
        Ok(keys
            .iter()
            .map(|key| match self.writes.get(*key) {
                Some(written) => written.clone(),
                None => found.next().flatten(),
            })
            .collect())
    }

    /// Returns an iterator over `range`, with the own writes up to this call. A serializable
    /// transaction depends on the whole range, also if the iterator stops early.
    pub fn iter(&mut self, range: &KeyRange) -> Result<TransactionIterator> {
        if self.options.isolation == Isolation::Serializable {
            self.charge(range.start.len() + range.end.as_ref().map_or(0, Vec::len))?;
            self.read_ranges.push(range.clone());
        }
        self.peek_iter(range)
    }

    /// Returns the same iterator as [`Transaction::iter`]. The commit does not depend on the range,
    /// see [`Transaction::peek`].
    pub fn peek_iter(&self, range: &KeyRange) -> Result<TransactionIterator> {
        let written: Vec<_> = self
            .writes
            .range(range.start.clone()..)
            .take_while(|(key, _)| range.is_before_end(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok(TransactionIterator::new(self.snapshot.iter(range)?, written))
    }

    /// Sets the value of `key` at the commit.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Some(value))
    }

    /// Deletes `key` at the commit.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(key, None)
    }

    /// Returns true if the transaction has written `key`.
    pub fn has_written(&self, key: &[u8]) -> bool {
        self.writes.contains_key(key)
    }

    /// Returns true if the transaction has written anything.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Ends the transaction without a commit, and returns its snapshot.
    pub fn into_snapshot(self) -> Box<dyn StoreSnapshot> {
        self.snapshot
    }

    /// Returns the position of the snapshot.
    pub fn snapshot_position(&self) -> Position {
        self.snapshot.position()
    }

    /// Applies all writes, or none, and returns their position. A transaction without writes
    /// returns the position of its snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if another writer changed what the transaction read, or, with snapshot
    /// isolation, a key that it writes. Otherwise those of [`Store::write`].
    pub fn commit(self) -> Result<Position> {
        if self.writes.is_empty() {
            return Ok(self.snapshot.position());
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &self.writes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        let keys: Vec<&[u8]> = match self.options.isolation {
            Isolation::Serializable => self.read_keys.iter().map(Vec::as_slice).collect(),
            Isolation::Snapshot => self.writes.keys().map(Vec::as_slice).collect(),
        };
        let condition = Condition { since: &*self.snapshot, keys: &keys, ranges: &self.read_ranges };
        self.store.write_if(&batch, &condition, &WriteOptions::default().sync(self.options.sync))
    }

    /// Adds `key` to the read set.
    fn add_read(&mut self, key: &[u8]) -> Result<()> {
        if self.options.isolation == Isolation::Serializable && !self.read_keys.contains(key) {
            self.charge(key.len())?;
            self.read_keys.insert(key.to_vec());
        }
        Ok(())
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.charge(entry_bytes(key, value))?;
        let before = self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        self.release(key, before);
        Ok(())
    }

    /// Takes back the charge of an element that another one of the same key has replaced.
    fn release(&mut self, key: &[u8], replaced: Option<Option<Vec<u8>>>) {
        if let Some(value) = replaced {
            self.memory -= entry_bytes(key, value.as_deref()) + ELEMENT_OVERHEAD;
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        let found = self.memory.saturating_add(bytes).saturating_add(ELEMENT_OVERHEAD);
        if found > self.options.memory {
            let limit = self.options.memory;
            return Err(Error::BatchTooLarge { unit: "bytes of reads and writes", found, limit });
        }
        self.memory = found;
        Ok(())
    }
}

fn entry_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len)
}

/// Longest pause after the first conflict. Each further conflict doubles it.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
/// Maximum number of times that the pause doubles.
const MAX_DOUBLINGS: u32 = 8;

impl dyn Store + '_ {
    /// Runs `body` in a transaction and commits it. Runs it again after a conflict, with a new
    /// snapshot and after a random pause that grows.
    ///
    /// `body` may run several times, so it has no other effects than those on the transaction.
    ///
    /// # Errors
    ///
    /// The error of `body`, if it is no conflict. The last conflict after all attempts. The errors
    /// of [`Transaction::commit`].
    pub fn transact<T>(
        &self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut conflicts = 0;
        loop {
            let mut transaction = self.begin(options)?;
            let outcome = body(&mut transaction).and_then(|value| transaction.commit().map(|_| value));
            match outcome {
                Err(error) if error.is_conflict() && conflicts + 1 < options.attempts => conflicts += 1,
                outcome => return outcome,
            }
            SystemClock.sleep(random_pause(conflicts));
        }
    }
}

/// Random pause after a number of conflicts, so that two transactions do not meet again.
fn random_pause(conflicts: u32) -> Duration {
    let longest = FIRST_PAUSE * 2u32.pow(conflicts.min(MAX_DOUBLINGS));
    Duration::from_nanos(SystemRandom::new().uniform(longest.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, open};

    #[test]
    fn memory_counts_each_key_once() {
        let store = open("memory:", &OpenOptions::default()).unwrap();
        let options = TransactionOptions { memory: 1000, ..TransactionOptions::default() };
        let mut transaction = store.begin(&options).unwrap();
        for round in 0..100 {
            transaction.put(b"counter", &[round; 200]).unwrap();
            transaction.delete(b"other").unwrap();
            transaction.fetch(&[b"a", b"b"]).unwrap();
        }
        let refused = transaction.put(b"large", &[1; 800]);
        assert!(matches!(refused, Err(Error::BatchTooLarge { limit: 1000, .. })), "{refused:?}");
        transaction.commit().unwrap();
        assert_eq!(store.get(b"counter").unwrap().unwrap(), [99; 200]);
    }
}
