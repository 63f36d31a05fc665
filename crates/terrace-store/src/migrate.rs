//! Copy of a store to another one.
//!
//! ```text
//!   copy              entries of a snapshot in the order of their keys; resumes after the last
//!                     copied key
//!   reconcile         compares a snapshot with the target entry by entry, and corrects the target
//!   transfer_changes  the same with two snapshots of the source, so the target is not read
//!   digest            number and hash of the entries, for the comparison at the end
//! ```
//!
//! The source may change meanwhile. `copy` leaves out later changes, and a `reconcile` transfers
//! those before its snapshot. After the last writer has ended, `transfer_changes` makes the stores
//! equal.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

use terrace::{WriteBatch, WriteOptions};

use crate::error::{Error, Result};
use crate::key_range::{KeyRange, successor};
use crate::store::{Limits, Store, StoreIterator, StoreSnapshot};

/// Maximum number of entries of a batch. Larger batches are hardly faster, and an interrupted one
/// is lost.
const BATCH_OPERATIONS: usize = 1000;
/// Maximum size of a batch in bytes.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of bytes of a key in a message.
const SHOWN_KEY: usize = 64;

/// Number of the entries of a store, and their hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// Number of the entries.
    pub entries: u64,
    /// Hash of all keys and values in their order.
    pub hash: u64,
}

/// Result of [`reconcile`] and [`transfer_changes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconciled {
    /// Entries that the target got.
    pub puts: u64,
    /// Entries that the target lost.
    pub deletes: u64,
    /// Digest of the newest snapshot of the source.
    pub source: Digest,
}

/// Receiver of the number of entries that were read.
pub type MigrateProgress<'a> = &'a mut dyn FnMut(u64);

/// Copies all entries of `from` to `to`, and returns their number.
///
/// # Errors
///
/// [`Error::TargetHasEntries`] if the target has entries and `resume` is false. With `resume`, the
/// copy starts after the last key of the target. [`Error::InvalidArgument`] for an entry that
/// exceeds the limits of the target; it names the key. An error of the source ends the copy, and
/// the target gets no later entry.
pub fn copy(from: &dyn Store, to: &dyn Store, resume: bool, progress: MigrateProgress<'_>) -> Result<u64> {
    let last = last_key(to)?;
    if last.is_some() && !resume {
        return Err(Error::TargetHasEntries);
    }
    let start = last.as_deref().map(successor).unwrap_or_default();
    let mut source = from.iter(&KeyRange { start, end: None })?;
    let mut target = BatchWriter::new(to);
    let mut copied = 0;
    source.seek_to_first();
    while source.valid() {
        if let Err(error) = source.status() {
            // An entry after the error would make the next run begin there, and leave out the
            // entries between the two.
            target.flush()?;
            return Err(error);
        }
        target.put(source.key(), source.value())?;
        copied += 1;
        progress(copied);
        source.next();
    }
    source.status()?;
    target.flush()?;
    Ok(copied)
}

/// Makes `to` equal to the snapshot `from`. No other program writes to `to` meanwhile.
///
/// # Errors
///
/// Those of [`copy`] for an entry that is too large.
pub fn reconcile(
    from: &dyn StoreSnapshot,
    to: &dyn Store,
    progress: MigrateProgress<'_>,
) -> Result<Reconciled> {
    let target = to.iter(&KeyRange::all())?;
    write_differences(from.iter(&KeyRange::all())?, target, to, progress)
}

/// Makes `to` equal to the snapshot `after` of the source. It is equal to the snapshot `before`,
/// and no other program writes to it meanwhile.
///
/// # Errors
///
/// Those of [`copy`] for an entry that is too large.
pub fn transfer_changes(
    before: &dyn StoreSnapshot,
    after: &dyn StoreSnapshot,
    to: &dyn Store,
    progress: MigrateProgress<'_>,
) -> Result<Reconciled> {
    let target = before.iter(&KeyRange::all())?;
    write_differences(after.iter(&KeyRange::all())?, target, to, progress)
}

/// Writes to `to` what changes the entries of `target` into those of `source`.
fn write_differences(
    mut source: Box<dyn StoreIterator>,
    mut target: Box<dyn StoreIterator>,
    to: &dyn Store,
    progress: MigrateProgress<'_>,
) -> Result<Reconciled> {
    let mut writer = BatchWriter::new(to);
    let mut hasher = EntryHasher::default();
    let mut puts = 0;
    let mut deletes = 0;
    source.seek_to_first();
    target.seek_to_first();
    loop {
        let order = match (source.valid(), target.valid()) {
            (false, false) => break,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (true, true) => source.key().cmp(target.key()),
        };
        if order.is_le() {
            hasher.add(source.key(), source.value());
            progress(hasher.entries);
        }
        match order {
            Ordering::Equal if source.value() == target.value() => {}
            Ordering::Less | Ordering::Equal => {
                writer.put(source.key(), source.value())?;
                puts += 1;
            }
            Ordering::Greater => {
                // After an error of the source, its missing entries are no deletions.
                source.status()?;
                writer.delete(target.key())?;
                deletes += 1;
            }
        }
        if order.is_le() {
            source.next();
        }
        if order.is_ge() {
            target.next();
        }
    }
    source.status()?;
    target.status()?;
    writer.flush()?;
    Ok(Reconciled { puts, deletes, source: hasher.digest() })
}

/// Returns the digest of the current state of `store`.
pub fn digest(store: &dyn Store, progress: MigrateProgress<'_>) -> Result<Digest> {
    let mut entries = store.iter(&KeyRange::all())?;
    let mut hasher = EntryHasher::default();
    entries.seek_to_first();
    while entries.valid() {
        hasher.add(entries.key(), entries.value());
        progress(hasher.entries);
        entries.next();
    }
    entries.status()?;
    Ok(hasher.digest())
}

fn last_key(store: &dyn Store) -> Result<Option<Vec<u8>>> {
    let mut entries = store.iter(&KeyRange::all())?;
    entries.seek_to_last();
    entries.status()?;
    Ok(entries.valid().then(|| entries.key().to_vec()))
}

/// Hash of entries. It is equal in all runs of one program version.
#[derive(Default)]
struct EntryHasher {
    hasher: DefaultHasher,
    entries: u64,
}

impl EntryHasher {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value] {
            self.hasher.write_usize(part.len());
            self.hasher.write(part);
        }
        self.entries += 1;
    }

    fn digest(&self) -> Digest {
        Digest { entries: self.entries, hash: self.hasher.finish() }
    }
}

/// Returns an error with the first bytes of `key` if the `part` of its entry exceeds `limit`.
fn check_length(part: &str, key: &[u8], found: usize, limit: usize) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    let name = key[..key.len().min(SHOWN_KEY)].escape_ascii();
    Err(Error::InvalidArgument(format!(
        "the {part} of the entry '{name}' has {found} bytes, the limit of the target is {limit}"
    )))
}

/// Writes entries in batches that the store accepts.
pub struct BatchWriter<'a> {
    store: &'a dyn Store,
    limits: Limits,
    options: WriteOptions,
    batch: WriteBatch,
    bytes: usize,
    written: u64,
}

impl<'a> BatchWriter<'a> {
    /// Creates a writer to `store`.
    pub fn new(store: &'a dyn Store) -> BatchWriter<'a> {
        let mut limits = store.limits();
        limits.batch_operations = limits.batch_operations.min(BATCH_OPERATIONS);
        limits.batch_bytes = limits.batch_bytes.min(BATCH_BYTES);
        BatchWriter {
            store,
            limits,
            options: WriteOptions::DEFAULT,
            batch: WriteBatch::new(),
            bytes: 0,
            written: 0,
        }
    }

    /// Sets the options of all writes.
    #[must_use]
    pub fn options(mut self, options: WriteOptions) -> BatchWriter<'a> {
        self.options = options;
        self
    }

    /// Number of operations that the store has accepted.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Sets the value of `key`, at the latest with the next [`BatchWriter::flush`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an entry that exceeds the limits of the store; it names the
    /// key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_length("key", key, key.len(), self.limits.key_bytes)?;
        check_length("value", key, value.len(), self.limits.value_bytes)?;
        self.make_space(Limits::batch_bytes_of(key, value))?;
        self.batch.put(key, value);
        Ok(())
    }

    /// Deletes `key`, at the latest with the next [`BatchWriter::flush`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.make_space(Limits::batch_bytes_of(key, &[]))?;
        self.batch.delete(key);
        Ok(())
    }

    /// Writes what is left.
    pub fn flush(&mut self) -> Result<()> {
        if !self.batch.is_empty() {
            self.store.write(&self.batch, &self.options)?;
            self.written += self.batch.len() as u64;
            self.batch.clear();
            self.bytes = 0;
        }
        Ok(())
    }

    fn make_space(&mut self, bytes: usize) -> Result<()> {
        let is_full = self.batch.len() >= self.limits.batch_operations;
        if is_full || self.bytes.saturating_add(bytes) > self.limits.batch_bytes {
            self.flush()?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }
}
