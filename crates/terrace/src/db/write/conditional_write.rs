//! Conditional writes: a batch that is applied only if no other writer changed certain keys.
//!
//! ```text
//!   1. n1 = last visible sequence number; check all keys and ranges            no lock
//!        n1 = that of the snapshot        -> nothing to check
//!   2. lock `commit`; n2 = last assigned sequence number
//!        n2 = n1                          -> 4
//!        few keys, and no flush since 1   -> check the memtables again -> 4
//!        otherwise                        -> watch the keys; unlock -> 3
//!   3. check up to n2; lock `commit`; another writer wrote a watched key -> conflict
//!   4. write, like any other batch
//! ```
//!
//! A write has its sequence number before its entries are in the memtable. So the check waits until
//! all writes up to n2 are applied. This delays no other writer: a later write becomes visible
//! after them anyway.
//!
//! The check is exact, whatever the age of the snapshot. The snapshot is registered, so no
//! compaction drops a tombstone that is newer than it, and no compaction ever drops the newest
//! version of a key. `delete_range` drops tables only while no snapshot exists.

use std::ops::{Bound, RangeBounds, RangeInclusive};

use terrace_format::batch::WriteBatch;
use terrace_format::key::{self, MAX_SEQUENCE_NUMBER, SequenceNumber, with_seek_key};
use terrace_sync::mutant;

use super::{PendingWrite, WalWriter};
use crate::db::Db;
use crate::db::components::watched_keys::WatchedKeys;
use crate::db::inner::{DbInner, ReadState};
use crate::error::{Error, Result};
use crate::internal_iterator::InternalIterator;
use crate::iterator::{ChildIter, is_after_begin, is_before_end};
use crate::options::{DEFAULT_READ_OPTIONS, WriteOptions};
use crate::snapshot::Snapshot;
use crate::sync::{Arc, MutexGuard, Ordering};
use crate::table::BlockReadOptions;
use crate::version::KeyRange;

/// Maximum number of keys that a conditional write checks again while it holds `commit`: a few
/// microseconds.
const MAX_KEYS_UNDER_LOCK: usize = 32;

/// Condition of [`Db::write_if`]: no other writer wrote these keys and ranges since a snapshot.
///
/// A put, a deletion and a [`Db::delete_range`] are writes of a key, even if the value stays the
/// same.
///
/// ```
/// # let env = terrace::Env::in_memory();
/// # let options = terrace::Options::default().create_if_missing(true).env(env);
/// # let db = terrace::Db::open("cities", &options)?;
/// use terrace::Unchanged;
///
/// let snapshot = db.snapshot();
/// let swiss = (b"CH/".as_slice()..b"CH0").into();
/// let condition = Unchanged { since: &snapshot, keys: &[b"AT/Wien".into()], ranges: &[swiss] };
/// # let mut batch = terrace::WriteBatch::new();
/// # batch.put("a", "");
/// # db.write_if(&batch, &condition)?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Unchanged<'a> {
    /// State after which a write is a conflict. It is a snapshot of the same database.
    pub since: &'a Snapshot,
    /// Keys in any order. They may repeat.
    pub keys: &'a [UnchangedKey<'a>],
    /// Ranges in any order. They may overlap.
    pub ranges: &'a [UnchangedRange<'a>],
}

/// Key of [`Unchanged`].
#[derive(Debug, Clone, Copy)]
pub struct UnchangedKey<'a> {
    /// User key.
    pub key: &'a [u8],
    /// Sequence number after which a write of this key is a conflict, if it is greater than that of
    /// the snapshot. It is 0 by default.
    pub since: SequenceNumber,
}

impl<'a> From<&'a [u8]> for UnchangedKey<'a> {
    fn from(key: &'a [u8]) -> UnchangedKey<'a> {
        UnchangedKey { key, since: 0 }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for UnchangedKey<'a> {
    fn from(key: &'a [u8; N]) -> UnchangedKey<'a> {
        UnchangedKey { key, since: 0 }
    }
}

/// Range of keys of [`Unchanged`]. It covers keys that do not exist, too.
///
/// ```
/// use terrace::UnchangedRange;
///
/// let swiss = UnchangedRange::from(b"CH/".as_slice()..b"CH0");
/// let all = UnchangedRange::from(..);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct UnchangedRange<'a> {
    /// First key.
    pub begin: Bound<&'a [u8]>,
    /// Last key.
    pub end: Bound<&'a [u8]>,
}

impl<'a, R: RangeBounds<&'a [u8]>> From<R> for UnchangedRange<'a> {
    fn from(range: R) -> UnchangedRange<'a> {
        UnchangedRange { begin: range.start_bound().cloned(), end: range.end_bound().cloned() }
    }
}

impl UnchangedKey<'_> {
    /// Returns the sequence number after which a write is a conflict.
    fn since(&self, condition: &Unchanged<'_>) -> SequenceNumber {
        self.since.max(condition.since.sequence())
    }
}

impl UnchangedRange<'_> {
    /// Returns a range that contains this one, with both ends included.
    fn key_range(&self) -> KeyRange<'_> {
        KeyRange { begin: bound_key(self.begin), end: bound_key(self.end) }
    }
}

fn bound_key(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// Removes a watch, also if the check fails or panics.
pub(in crate::db) struct WatchGuard<'a> {
    db: &'a DbInner,
    /// Identifier of the watch. None after its removal.
    id: Option<u64>,
    /// Last sequence number before the watch.
    last_sequence: SequenceNumber,
    /// Number of ingests before the watch.
    ingests: u64,
}

impl WatchGuard<'_> {
    /// Returns the last sequence number before the watch.
    pub(in crate::db) fn last_sequence(&self) -> SequenceNumber {
        self.last_sequence
    }

    /// Returns the number of ingests before the watch.
    pub(in crate::db) fn ingests(&self) -> u64 {
        self.ingests
    }

    /// Ends the watch. Returns the key that another writer wrote meanwhile, if one did.
    pub(in crate::db) fn end(&mut self, writer: &mut WalWriter) -> Option<Vec<u8>> {
        self.id.take().and_then(|id| writer.watches.remove(id))
    }
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id
            && let Some(writer) = self.db.commit.lock().as_mut()
        {
            writer.watches.remove(id);
        }
    }
}

impl DbInner {
    /// Writes `batch` if `condition` holds. Returns the sequence number of its last operation.
    fn write_if(
        &self,
        batch: &WriteBatch,
        condition: &Unchanged<'_>,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.check_batch(batch)?;
        self.check_owner_process()?;
        if !condition.since.belongs_to(&self.snapshots) {
            return Err(Error::InvalidArgument("snapshot belongs to another database".into()));
        }
        self.delay_write(batch.as_bytes().len());
        let install_count = self.read_state.install_count();
        let written = self.check_and_write(batch, condition, options);
        self.release_replaced_tables(install_count);
        written
    }

    /// Executes steps 1 to 4.
    fn check_and_write(
        &self,
        batch: &WriteBatch,
        condition: &Unchanged<'_>,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        // Loaded before the read state: a switch of the memtable in between only adds writes to the
        // second check. In the order of readers, it would hide writes from both checks.
        let checked = self.read_state.visible_seqno().load(Ordering::Acquire);
        if checked > condition.since.sequence() {
            self.check_condition(condition)?;
        }
        self.write_contention.arrive();
        let mut commit = self.lock_commit();
        self.make_room_for_write(&mut commit)?;
        let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
        if writer.last_sequence != checked && !mutant!(ConditionCheckedTooEarly) {
            let last = writer.last_sequence;
            commit = self.check_later_writes(commit, condition, checked..=last)?;
        }
        if batch.is_empty() {
            return self.finish_empty_batch(commit, options);
        }
        let (sequences, number) = self.append_and_insert(commit, PendingWrite::from_batch(batch))?;
        self.finish_write(&sequences, number, options)
    }

    /// Checks the writes after the first and up to the last of `sequences`. Returns the lock of
    /// `commit`, under which `condition` holds.
    fn check_later_writes<'a>(
        &'a self,
        commit: MutexGuard<'a, Option<WalWriter>>,
        condition: &Unchanged<'_>,
        sequences: RangeInclusive<SequenceNumber>,
    ) -> Result<MutexGuard<'a, Option<WalWriter>>> {
        // Loaded once: a flush may finish at any time, and its read state lacks the memtable.
        let read_state = Arc::clone(&self.read_state.current());
        if !is_short_check(condition) || read_state.flushed_sequence > *sequences.start() {
            return self.check_with_watch(commit, condition);
        }
        if !mutant!(InsertInFlightUnseen) {
            self.wait_until_applied(*sequences.end())?;
        }
        if mutant!(ConditionInTwoReadStates) {
            let later = Arc::clone(&self.read_state.current());
            check_memtables(&later, condition, *sequences.end())?;
            return Ok(commit);
        }
        check_memtables(&read_state, condition, *sequences.end())?;
        Ok(commit)
    }

    /// Executes step 3. Returns the lock of `commit`, under which `condition` holds.
    fn check_with_watch(
        &self,
        commit: MutexGuard<'_, Option<WalWriter>>,
        condition: &Unchanged<'_>,
    ) -> Result<MutexGuard<'_, Option<WalWriter>>> {
        drop(commit);
        // The copies of a large set would delay other writers.
        let keys = condition.keys.iter().map(|key| key.key.to_vec()).collect();
        let ranges = condition
            .ranges
            .iter()
            .map(|range| (range.begin.map(<[u8]>::to_vec), range.end.map(<[u8]>::to_vec)));
        let watched = WatchedKeys::new(self.comparator.user_comparator(), keys, ranges.collect());
        let mut guard = self.watch(watched)?;
        self.wait_until_applied(guard.last_sequence)?;
        self.check_condition(condition)?;
        // Declared after `guard`: an error releases `commit` before the guard locks it.
        let mut commit = self.commit.lock();
        self.make_room_for_write(&mut commit)?;
        let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
        match guard.end(writer) {
            Some(key) if !mutant!(WatchIgnored) => Err(Error::Conflict { key }),
            _ => Ok(commit),
        }
    }

    /// Starts to watch `keys`.
    pub(in crate::db) fn watch(&self, keys: WatchedKeys) -> Result<WatchGuard<'_>> {
        let mut commit = self.commit.lock();
        let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
        let id = writer.watches.add(keys);
        let ingests = writer.watches.ingests();
        Ok(WatchGuard { db: self, id: Some(id), last_sequence: writer.last_sequence, ingests })
    }

    /// Returns a conflict if a write that is visible now does not fit `condition`.
    fn check_condition(&self, condition: &Unchanged<'_>) -> Result<()> {
        // A flush in between may have hidden a version only by a later one. The read state is
        // loaded first, so this sequence number sees the later one.
        let (read_state, visible) = self.read_state.load();
        for key in condition.keys {
            let since = key.since(condition);
            let newest = match newest_in_memtables(&read_state, key.key, visible) {
                None if since < read_state.flushed_sequence => {
                    self.newest_in_tables(&read_state, key.key, visible)?
                }
                newest => newest,
            };
            check_sequence(newest, since, key.key)?;
        }
        for range in condition.ranges {
            self.check_range(&read_state, range, condition.since.sequence(), visible)?;
        }
        Ok(())
    }

    /// Returns the sequence number of the newest version of `user_key` in a table up to `visible`.
    fn newest_in_tables(
        &self,
        read_state: &ReadState,
        user_key: &[u8],
        visible: SequenceNumber,
    ) -> Result<Option<SequenceNumber>> {
        let mut found = None;
        with_seek_key(user_key, visible, |target| {
            read_state.version.get(
                target,
                &self.table_cache,
                BlockReadOptions::from_read_options(&DEFAULT_READ_OPTIONS),
                &mut found,
            )
        })?;
        Ok(found.map(|entry| entry.trailer >> 8))
    }

    /// Returns a conflict if `range` holds a version after `since` and up to `visible`.
    fn check_range(
        &self,
        read_state: &ReadState,
        range: &UnchangedRange<'_>,
        since: SequenceNumber,
        visible: SequenceNumber,
    ) -> Result<()> {
        let memtables = read_state.non_empty_memtables().map(|memtable| ChildIter::Memtable(memtable.iter()));
        let newer_tables = read_state.version.child_iters_newer_than(
            since,
            range.key_range(),
            &self.table_cache,
            BlockReadOptions::from_read_options(&DEFAULT_READ_OPTIONS),
        );
        for mut entries in memtables.chain(newer_tables) {
            match bound_key(range.begin) {
                None => entries.seek_to_first(),
                Some(begin) => with_seek_key(begin, MAX_SEQUENCE_NUMBER, |target| entries.seek(target)),
            }
            while entries.valid() {
                let user_key = key::user_key(entries.key());
                let order = self.comparator.user_comparator();
                if !is_before_end(&**order, user_key, range.end) {
                    break;
                }
                let sequence = key::trailer(entries.key()) >> 8;
                if sequence <= visible && is_after_begin(&**order, user_key, range.begin) {
                    check_sequence(Some(sequence), since, user_key)?;
                }
                entries.next();
            }
            entries.status()?;
        }
        Ok(())
    }

    fn last_change(&self, user_key: &[u8]) -> Result<Option<SequenceNumber>> {
        let install_count = self.read_state.install_count();
        let (read_state, visible) = self.pin_read_state(&DEFAULT_READ_OPTIONS)?;
        let newest = match newest_in_memtables(&read_state, user_key, visible) {
            None => self.newest_in_tables(&read_state, user_key, visible),
            newest => Ok(newest),
        };
        drop(read_state);
        self.release_replaced_tables(install_count);
        newest
    }
}

/// Returns the sequence number of the newest version of `user_key` in a memtable up to `visible`.
fn newest_in_memtables(
    read_state: &ReadState,
    user_key: &[u8],
    visible: SequenceNumber,
) -> Option<SequenceNumber> {
    read_state
        .non_empty_memtables()
        .find_map(|memtable| memtable.get(user_key, visible))
        .map(|found| found.sequence)
}

/// Returns true if the check is short enough for a thread that holds `commit`.
fn is_short_check(condition: &Unchanged<'_>) -> bool {
    condition.ranges.is_empty() && condition.keys.len() <= MAX_KEYS_UNDER_LOCK
}

/// Returns a conflict if a write up to `last`, in a memtable of `read_state`, does not fit the keys
/// of `condition`.
fn check_memtables(read_state: &ReadState, condition: &Unchanged<'_>, last: SequenceNumber) -> Result<()> {
    for key in condition.keys {
        let newest = newest_in_memtables(read_state, key.key, last);
        check_sequence(newest, key.since(condition), key.key)?;
    }
    Ok(())
}

fn check_sequence(newest: Option<SequenceNumber>, since: SequenceNumber, key: &[u8]) -> Result<()> {
    if newest.is_some_and(|newest| newest > since) {
        return Err(Error::Conflict { key: key.to_vec() });
    }
    Ok(())
}

/// Conditional writes.
impl Db {
    /// Applies all operations of `batch` if `condition` holds at this moment, or none of them.
    /// Returns the sequence number of the last operation.
    ///
    /// The check and the write are one step: no other write happens in between. Other writers need
    /// not know of it: plain puts and batches count, too. The check is exact for a snapshot of any
    /// age. A call holds the writers' lock no longer than [`Db::write`] does, whatever the size of
    /// the condition. The cost is about one get for each key, and one scan for each range of the
    /// entries in memory and of the tables that are newer than the snapshot.
    ///
    /// An empty batch only checks, and returns the last sequence number.
    ///
    /// # Errors
    ///
    /// - [`Error::Conflict`] with the key that another writer wrote. Nothing is written. The caller
    ///   takes a new snapshot, reads again, and tries again.
    /// - [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the snapshot belongs to
    ///   another database.
    /// - The errors of [`Db::write`], and those of a get: a table that the check needs is damaged.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// use terrace::{Error, ReadOptions, Unchanged, WriteBatch};
    ///
    /// db.put("visits", "41")?;
    /// let snapshot = db.snapshot();
    /// let condition = Unchanged { since: &snapshot, keys: &[b"visits".into()], ranges: &[] };
    /// let mut batch = WriteBatch::new();
    /// batch.put("visits", "42");
    /// db.write_if(&batch, &condition)?;
    /// assert!(matches!(db.write_if(&batch, &condition), Err(Error::Conflict { .. })));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write_if(&self, batch: &WriteBatch, condition: &Unchanged<'_>) -> Result<SequenceNumber> {
        self.write_if_with(batch, condition, &WriteOptions::default())
    }

    /// Same as [`Db::write_if`], with write options.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// use terrace::{Unchanged, WriteBatch, WriteOptions};
    ///
    /// let snapshot = db.snapshot();
    /// let condition = Unchanged { since: &snapshot, keys: &[b"CH/Bern".into()], ranges: &[] };
    /// let mut batch = WriteBatch::new();
    /// batch.put("CH/Bern", "46.95,7.45");
    /// db.write_if_with(&batch, &condition, &WriteOptions::default().sync(true))?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write_if_with(
        &self,
        batch: &WriteBatch,
        condition: &Unchanged<'_>,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.writer()?.write_if(batch, condition, options)
    }

    /// Returns the sequence number of the last write of `key`, a put or a delete. Returns None if
    /// no write is known: the key never existed, or compactions have dropped its tombstone.
    ///
    /// ```
    /// # let env = terrace::Env::in_memory();
    /// # let options = terrace::Options::default().create_if_missing(true).env(env);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// db.put("CH/Bern", "46.95,7.45")?;
    /// let written = db.last_change("CH/Bern")?;
    /// db.put("CH/Chur", "46.85,9.53")?;
    /// assert_eq!(db.last_change("CH/Bern")?, written);
    /// assert_eq!(db.last_change("CH/Thun")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn last_change(&self, key: impl AsRef<[u8]>) -> Result<Option<SequenceNumber>> {
        self.reader(&DEFAULT_READ_OPTIONS).inner.last_change(key.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::Env;

    use super::*;
    use crate::options::Options;

    /// An error after the check once locked `commit` twice.
    #[test]
    fn refused_write_with_a_watch_releases_its_lock() {
        let options = Options::default().create_if_missing(true).env(Env::in_memory());
        let db = Db::open("db", &options).unwrap();
        let since = db.snapshot();
        let condition = Unchanged { since: &since, keys: &[b"a".into()], ranges: &[] };
        let inner = db.inner();
        inner.set_background_error(&Error::NotFound("test".into()));
        assert!(inner.check_with_watch(inner.commit.lock(), &condition).is_err());
        assert!(inner.commit.lock().as_ref().unwrap().watches.is_empty());
        assert!(db.shutdown().is_err());
        assert!(inner.check_with_watch(inner.commit.lock(), &condition).is_err());
    }
}
