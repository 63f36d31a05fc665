//! Transaction: its reads, its writes and its commit.

use std::fmt;

use terrace_format::batch::MAX_KEY_OR_VALUE_LEN;
use terrace_format::key::SequenceNumber;
use terrace_sync::mutant;

use super::key_locks::KeyLocks;
use super::lock_manager::KeyLockMode;
use super::read_set::ReadSet;
use super::transaction_context::TransactionContext;
use super::transaction_options::{Isolation, TransactionOptions};
use super::wait_for_graph::TransactionId;
use super::write_set::{OwnWrite, SharedWriteSet, WriteSetLength, key_of};
use crate::db::{Db, Unchanged, UnchangedKey};
use crate::error::{Error, Result};
use crate::file_io::{extend_copy, try_copy};
use crate::options::{ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use crate::sync::Arc;

/// Transaction: reads of one state, and writes that become visible together at its commit.
///
/// [`Db::transact`] runs a closure in a transaction and repeats it after a conflict. [`Db::begin`]
/// starts a transaction that the caller commits. Drop rolls back. One thread at a time can use a
/// transaction; it may move to another thread. Plain writers need not know of transactions: their
/// writes count as those of other transactions.
///
/// The first read takes the snapshot. The snapshot keeps old versions on disk until the end of the
/// transaction, so it should be short.
///
/// ```
/// # let env = terrace::Env::in_memory();
/// # let options = terrace::Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// let mut transaction = db.begin(&terrace::TransactionOptions::default());
/// if transaction.get("CH/Bern")?.is_none() {
///     transaction.put("CH/Bern", "46.95,7.45")?;
/// }
/// assert!(db.get("CH/Bern")?.is_none(), "nobody sees the write before the commit");
/// transaction.commit()?;
/// assert!(db.get("CH/Bern")?.is_some());
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Transaction {
    pub(super) db: Db,
    pub(super) options: TransactionOptions,
    /// Options of all reads, with the snapshot after the first read.
    read_options: ReadOptions,
    pub(super) reads: ReadSet,
    pub(super) writes: SharedWriteSet,
    savepoints: Vec<(u64, WriteSetLength)>,
    last_savepoint: u64,
    locks: Option<KeyLocks>,
    /// Kind of the lock for reads.
    read_lock: KeyLockMode,
    /// Deadlock or lock timeout with which the transaction has lost its locks.
    lost_locks: Option<Error>,
}

/// Moment in a transaction to which [`Transaction::rollback_to`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    transaction: TransactionId,
    number: u64,
}

impl Transaction {
    pub(super) fn new(db: &Db, options: &TransactionOptions) -> Transaction {
        Transaction {
            db: db.clone(),
            options: options.clone(),
            read_options: ReadOptions::DEFAULT,
            reads: ReadSet::default(),
            writes: SharedWriteSet::new(),
            savepoints: Vec::new(),
            last_savepoint: 0,
            locks: None,
            read_lock: KeyLockMode::Shared,
            lost_locks: None,
        }
    }

    /// Locks every key from now on. Reads take locks of the kind `read_lock`.
    pub(super) fn lock_keys(&mut self, read_lock: KeyLockMode) {
        self.options.locking = true;
        self.read_lock = read_lock;
    }

    /// Returns the value of `key`, or None if the key does not exist for this transaction.
    ///
    /// Sees the transaction's own writes, and otherwise the snapshot. The commit of a serializable
    /// transaction fails if another writer writes the key before.
    ///
    /// # Errors
    ///
    /// The errors of [`Db::get`], [`Error::TransactionTooLarge`], and with locks
    /// [`Error::Deadlock`] and [`Error::LockTimeout`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// assert!(transaction.get("CH/Bern")?.is_some(), "a transaction sees its own writes");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        if let Some(own) = self.copy_own_write(key)? {
            return Ok(own);
        }
        self.read_tracked(key, |db, options| db.get_with(key, options))
    }

    /// Reads like [`Transaction::get`], into memory of the caller. Returns false, and empties
    /// `value`, if the key does not exist.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut place = Vec::new();
    /// assert!(!db.begin(&Default::default()).get_into("CH/Bern", &mut place)?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_into(&mut self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_ref();
        if self.prepare_own_writes()
            && let Some(own) = self.writes.get(key, &**self.db.comparator())
        {
            value.clear();
            extend_copy(value, own.unwrap_or_default(), self.db.path())?;
            return Ok(own.is_some());
        }
        self.read_tracked(key, |db, options| db.get_into_with(key, value, options))
    }

    /// Returns the value of `key` like [`Transaction::get`], for a key that the transaction will
    /// probably write. The commit fails if another writer writes the key before, at every isolation
    /// level. With [`TransactionOptions::locking`], locks the key exclusively.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// # use terrace::{Isolation, TransactionOptions};
    /// let options = TransactionOptions::default().isolation(Isolation::Snapshot);
    /// let mut transaction = db.begin(&options);
    /// let visits = transaction.get_for_update("visits")?;
    /// db.put("visits", "7")?; // another writer
    /// transaction.put("last visit", "today")?;
    /// assert!(transaction.commit().is_err_and(|error| error.is_retryable()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        // The lock or the check covers later writes, even if the own value is known.
        if self.options.locking {
            self.lock(key, KeyLockMode::Exclusive)?;
        } else {
            self.start_reading();
            self.track_read(key, 0)?;
        }
        if let Some(own) = self.copy_own_write(key)? {
            return Ok(own);
        }
        if self.options.locking {
            return self.read_locked(key, KeyLockMode::Exclusive, |db, options| db.get_with(key, options));
        }
        self.db.get_with(key, &self.read_options)
    }

    /// Returns the value of `key` at the snapshot, or its own write, without a check at commit.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// let hint = transaction.get_untracked("statistics")?;
    /// db.put("statistics", "changed")?; // no conflict
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// transaction.commit()?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_untracked(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        if let Some(own) = self.copy_own_write(key)? {
            return Ok(own);
        }
        self.start_reading();
        self.db.get_with(key, &self.read_options)
    }

    /// Returns the values of `keys` in their order, like one [`Transaction::get`] for each.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// let places = transaction.multi_get(&["CH/Chur", "CH/Bern"])?;
    /// assert_eq!(places, [None, Some(b"46.95,7.45".to_vec())]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get(&mut self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        if self.options.locking {
            return keys.iter().map(|key| self.get(key)).collect();
        }
        self.start_reading();
        let own_writes: Vec<_> =
            keys.iter().map(|key| self.copy_own_write(key.as_ref())).collect::<Result<_>>()?;
        if self.options.isolation == Isolation::Serializable {
            for (key, _) in keys.iter().zip(&own_writes).filter(|(_, own)| own.is_none()) {
                self.track_read(key.as_ref(), 0)?;
            }
        }
        let mut values = self.db.multi_get_with(keys, &self.read_options)?;
        for (value, own) in values.iter_mut().zip(own_writes) {
            *value = own.unwrap_or_else(|| value.take());
        }
        Ok(values)
    }

    /// Returns true if `key` exists for this transaction. Same as [`Transaction::get`], without a
    /// copy of the value.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.delete("CH/Bern")?;
    /// assert!(!transaction.contains("CH/Bern")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn contains(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if let Some(own) = self.own_write(key) {
            return Ok(own.is_some());
        }
        self.read_tracked(key, |db, options| db.contains_with(key, options))
    }

    /// Sets the value of `key` at the commit.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionTooLarge`], `InvalidArgument` for a key or value that is too long, and
    /// [`Error::Io`] if there is no memory for them: the put is not part of the transaction. With
    /// locks, [`Error::Deadlock`] and [`Error::LockTimeout`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// transaction.put("CH/Chur", "46.85,9.53")?;
    /// transaction.commit()?; // both or none
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        let value = value.as_ref();
        self.prepare_write(key, value.len())?;
        let is_added = self.writes.make_mut().put(key, value);
        if is_added { Ok(()) } else { Err(self.missing_write_error(key.len(), value.len())) }
    }

    /// Deletes `key` at the commit. The key need not exist. The errors are those of
    /// [`Transaction::put`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut rename = db.begin(&Default::default());
    /// rename.delete("CH/Berne")?;
    /// rename.put("CH/Bern", "46.95,7.45")?;
    /// rename.commit()?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.prepare_write(key, 0)?;
        let is_added = self.writes.make_mut().delete(key);
        if is_added { Ok(()) } else { Err(self.missing_write_error(key.len(), 0)) }
    }

    /// Marks the current moment. [`Transaction::rollback_to`] removes the writes that follow it.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// let savepoint = transaction.savepoint();
    /// transaction.delete("CH/Bern")?;
    /// transaction.rollback_to(savepoint)?;
    /// assert!(transaction.contains("CH/Bern")?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        self.last_savepoint += 1;
        self.savepoints.push((self.last_savepoint, self.writes.length()));
        Savepoint { transaction: self.locks_mut().id(), number: self.last_savepoint }
    }

    /// Removes all writes since `savepoint`, and all later savepoints. `savepoint` stays valid. The
    /// transaction keeps its reads: the commit still checks them. It also keeps its locks.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a savepoint of another transaction, or one that a rollback has
    /// removed.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// let first = transaction.savepoint();
    /// let second = transaction.savepoint();
    /// transaction.rollback_to(first)?;
    /// assert!(transaction.rollback_to(second).is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let is_own = self.locks.as_ref().is_some_and(|locks| locks.id() == savepoint.transaction);
        let index = self.savepoints.binary_search_by_key(&savepoint.number, |(number, _)| *number);
        let Some(index) = index.ok().filter(|_| is_own) else {
            let message = "savepoint of another transaction, or removed by an earlier rollback";
            return Err(Error::InvalidArgument(message.into()));
        };
        self.savepoints.truncate(index + 1);
        let (_, length) = self.savepoints[index];
        self.writes.make_mut().truncate(length);
        if mutant!(SavepointForgetsReads) {
            self.reads = ReadSet::default();
        }
        Ok(())
    }

    /// Writes everything, if no other writer interfered. Returns the sequence number of the last
    /// operation, or that of the state that a transaction without writes saw.
    ///
    /// # Errors
    ///
    /// - [`Error::Conflict`] with a key on which the transaction depends. Nothing is written. The
    ///   caller repeats the whole transaction, reads included; [`Db::transact`] does that.
    /// - [`Error::Deadlock`] or [`Error::LockTimeout`], if an earlier call returned it.
    /// - The errors of [`Db::write`].
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// let sequence = transaction.commit()?;
    /// assert_eq!(db.snapshot().sequence(), sequence);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn commit(self) -> Result<SequenceNumber> {
        self.commit_writes()
    }

    /// Same as [`Transaction::commit`], for a caller that then drops the transaction. A move of it
    /// takes a few percent of a put.
    pub(super) fn commit_writes(&self) -> Result<SequenceNumber> {
        self.check_locks()?;
        let batch = self.writes.batch();
        let options = WriteOptions { sync: self.options.sync };
        let Some(snapshot) = &self.read_options.snapshot else {
            return self.db.write_numbered(batch, &options);
        };
        if batch.is_empty() && !self.reads.has_later_reads() {
            return Ok(snapshot.sequence());
        }
        let mut keys: Vec<UnchangedKey<'_>> = self.reads.keys().collect();
        if self.options.isolation == Isolation::Snapshot {
            let written = batch.iter().map(key_of).filter(|key| !self.reads.contains_key(key));
            keys.extend(written.map(UnchangedKey::from));
        }
        let ranges = self.reads.ranges().map(|ranges| ranges.lock());
        let ranges = ranges.as_ref().map(|ranges| ranges.as_unchanged()).unwrap_or_default();
        let condition = Unchanged { since: snapshot, keys: &keys, ranges: &ranges };
        self.db.write_if_with(batch, &condition, &options)
    }

    /// Ends the transaction without a write. Drop does the same.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// let mut transaction = db.begin(&Default::default());
    /// transaction.put("CH/Bern", "46.95,7.45")?;
    /// transaction.rollback();
    /// assert!(db.get("CH/Bern")?.is_none());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn rollback(self) {}

    /// Returns the last own write of `key`: a value, or None for a tombstone.
    fn own_write(&mut self, key: &[u8]) -> Option<OwnWrite<'_>> {
        self.prepare_own_writes().then(|| self.writes.get(key, &**self.db.comparator())).flatten()
    }

    /// Builds the index of the own writes if a search needs it. Returns false without own writes.
    fn prepare_own_writes(&mut self) -> bool {
        if self.writes.batch().is_empty() || mutant!(OwnWriteHidden) {
            return false;
        }
        if self.writes.needs_index() {
            self.writes.make_mut().build_index(self.db.comparator());
        }
        true
    }

    /// Returns a copy of the value of an own put, or `Some(None)` for an own delete.
    fn copy_own_write(&mut self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        if !self.prepare_own_writes() {
            return Ok(None);
        }
        let own = self.writes.get(key, &**self.db.comparator());
        own.map(|own| own.map(|value| try_copy(value, self.db.path())).transpose()).transpose()
    }

    /// Takes the snapshot at the first read.
    pub(super) fn start_reading(&mut self) -> Snapshot {
        self.read_options.snapshot.get_or_insert_with(|| self.db.snapshot()).clone()
    }

    /// Records that the transaction depends on `key`, unless the record would exceed its memory.
    fn track_read(&mut self, key: &[u8], since: SequenceNumber) -> Result<()> {
        self.check_memory(key.len())?;
        self.reads.add_key(key, since);
        Ok(())
    }

    fn prepare_write(&mut self, key: &[u8], value_len: usize) -> Result<()> {
        self.check_memory(key.len().saturating_add(value_len))?;
        if self.options.locking { self.lock(key, KeyLockMode::Exclusive) } else { Ok(()) }
    }

    /// Returns the error of a write that the batch could not take.
    #[cold]
    fn missing_write_error(&self, key_len: usize, value_len: usize) -> Error {
        match key_len.max(value_len) > MAX_KEY_OR_VALUE_LEN {
            true => Error::oversized_entry(),
            false => Error::out_of_memory(self.db.path(), key_len + value_len),
        }
    }

    fn check_memory(&self, more: usize) -> Result<()> {
        let savepoints = size_of_val(self.savepoints.as_slice());
        let used = self.writes.memory_usage() + self.reads.memory_usage() + savepoints;
        let bytes = used.saturating_add(more);
        match bytes > self.options.memory {
            true => Err(Error::TransactionTooLarge { bytes, limit: self.options.memory }),
            false => Ok(()),
        }
    }

    /// Runs `read` for `key`, which the commit checks at the isolation level of the transaction.
    fn read_tracked<T>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(&Db, &ReadOptions) -> Result<T>,
    ) -> Result<T> {
        if self.options.locking {
            return self.read_locked(key, self.read_lock, read);
        }
        self.start_reading();
        if self.options.isolation == Isolation::Serializable {
            self.track_read(key, 0)?;
        }
        read(&self.db, &self.read_options)
    }

    /// Locks `key` and runs `read` for its newest value. The commit checks the key from there on.
    fn read_locked<T>(
        &mut self,
        key: &[u8],
        mode: KeyLockMode,
        read: impl FnOnce(&Db, &ReadOptions) -> Result<T>,
    ) -> Result<T> {
        self.lock(key, mode)?;
        let newest = self.db.snapshot();
        self.read_options.snapshot.get_or_insert_with(|| newest.clone());
        let since = newest.sequence();
        self.track_read(key, since)?;
        read(&self.db, &ReadOptions { snapshot: Some(newest), ..ReadOptions::DEFAULT })
    }

    fn locks_mut(&mut self) -> &mut KeyLocks {
        let context = TransactionContext::of(&self.db);
        self.locks.get_or_insert_with(|| KeyLocks::new(Arc::clone(&context.locks)))
    }

    fn lock(&mut self, key: &[u8], mode: KeyLockMode) -> Result<()> {
        self.check_locks()?;
        let timeout = self.options.lock_timeout;
        let clock = Arc::clone(self.db.clock());
        let locked = self.locks_mut().lock(key, mode, timeout, &*clock);
        self.lost_locks = locked.as_ref().err().cloned();
        locked
    }

    /// Returns the deadlock or lock timeout after which the transaction can only roll back.
    fn check_locks(&self) -> Result<()> {
        self.lost_locks.clone().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.read_options.snapshot.as_ref().map(Snapshot::sequence);
        write!(f, "Transaction(snapshot {snapshot:?}, {} writes)", self.writes.batch().len())
    }
}
