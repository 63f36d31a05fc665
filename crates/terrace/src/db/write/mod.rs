//! Writing: room, log, memtable, visibility, and durability if asked for.
//!
//! ```text
//!   1. lock commit; see that there is room (else freeze the memtable, begin a new log, wait if need be)
//!   2. number the write and store it in the log, unlock  -> survives the death of the process
//!   3. insert it into the memtable
//!   4. publish it behind those before it                 -> visible, all at once
//!   5. with sync, wait until the device has it           -> survives a power cut
//! ```
//!
//! The lock is a barging one: a writer that runs need not hand over to one that sleeps. Writers insert side by side.
//!
//! A writer who meets nobody keeps the lock until the end of step 4. As all writes before his are done, he is then the only
//! one anywhere behind step 1, and needs none of the instructions that are there to meet others ([`Crowd`]).

mod make_room;
mod write_stall;

use std::ops::RangeInclusive;

use terrace_format::batch::{self, BatchOp, MAX_KEY_OR_VALUE_LEN, WriteBatch};
use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::log::LOG_BLOCK_SIZE;
use terrace_sync::mutant;

use super::components::background_error::closed_error;
use super::components::wal::WalWriter;
use super::inner::DbInner;
use super::panic_guard::PoisonOnPanic;
use crate::error::{Error, Result};
use crate::memtable::{InsertMode, Memtable};
use crate::options::WriteOptions;
use crate::stats::Timer;
use crate::sync::{Arc, Ordering};

/// The largest record whose memory is kept for the next one.
const MAX_REUSED_RECORD_BUFFER: usize = 1 << 20;

/// Bytes of a log that is not known to fill fast, between two looks at the clock.
const FILL_RATE_CHECK_BYTES: u64 = 128 << 10;

impl DbInner {
    pub(super) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if batch.is_oversized() {
            return Err(oversized_error());
        }
        if batch.is_empty() {
            return self.write_empty_batch(options);
        }
        let operations = batch.iter().map(|operation| match operation {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        });
        let encode = |first: SequenceNumber, record: &mut Vec<u8>| {
            record.extend_from_slice(&first.to_le_bytes());
            record.extend_from_slice(&batch.as_bytes()[size_of::<SequenceNumber>()..]);
        };
        self.commit(batch.len() as u64, batch.as_bytes().len(), encode, operations, options)
    }

    /// As `write` of one operation, but without a batch: None for a value removes the key.
    pub(super) fn write_one(&self, key: &[u8], value: Option<&[u8]>, options: &WriteOptions) -> Result<()> {
        if key.len().max(value.map_or(0, <[u8]>::len)) > MAX_KEY_OR_VALUE_LEN {
            return Err(oversized_error());
        }
        let encode =
            |first: SequenceNumber, record: &mut Vec<u8>| batch::encode_single_op(record, first, key, value);
        let bytes = key.len() + value.map_or(0, <[u8]>::len);
        self.commit(1, bytes, encode, std::iter::once((key, value)), options)
    }

    /// A log that ends with a batch of nothing counts as closed, so a user's is not written.
    pub(super) fn write_empty_batch(&self, options: &WriteOptions) -> Result<()> {
        self.check_owner_process()?;
        let commit = self.commit.lock();
        commit.as_ref().ok_or_else(closed_error)?;
        self.background_error.check()?;
        let write = self.wal_sync.last_write();
        drop(commit);
        if options.sync { self.sync_wal_to(write) } else { Ok(()) }
    }

    /// Writes `count` operations of `bytes` in all, whose record `encode` makes once their first number is known.
    fn commit<'a>(
        &self,
        count: u64,
        bytes: usize,
        encode: impl FnOnce(SequenceNumber, &mut Vec<u8>),
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_owner_process()?;
        if let Some(slept) = self.write_controller.delay_write(bytes, &*self.options.env.clock) {
            self.record_stall(Timer::WriteDelay, None, slept);
        }
        self.write_contention.arrive();
        let mut commit = self.commit.lock();
        self.make_room_for_write(&mut commit)?;
        let tail = commit.as_mut().ok_or_else(closed_error)?;
        let numbers = tail.last_sequence + 1..=tail.last_sequence + count;
        self.append_to_wal(tail, &numbers, encode)?;
        tail.user_bytes += bytes as u64;
        let write = self.wal_sync.last_write();
        if self.is_exclusive_writer(tail, &numbers) {
            self.insert_exclusive(&tail.memtable, &numbers, operations);
            drop(commit);
        } else {
            let memtable = Arc::clone(&tail.memtable);
            drop(commit);
            self.insert_concurrent(&memtable, &numbers, operations)?;
        }
        if !options.sync {
            return Ok(());
        }
        match self.sync_wal_to(write) {
            Err(error) if self.retract(&numbers) => Err(error),
            _ => Ok(()),
        }
    }

    /// Step 2, of a write that takes the next `numbers`. On an error none was taken.
    fn append_to_wal(
        &self,
        tail: &mut WalWriter,
        numbers: &RangeInclusive<SequenceNumber>,
        encode: impl FnOnce(SequenceNumber, &mut Vec<u8>),
    ) -> Result<()> {
        let (first, last) = (*numbers.start(), *numbers.end());
        if last > MAX_SEQUENCE_NUMBER {
            return Err(Error::NotSupported(format!("a write beyond sequence number {MAX_SEQUENCE_NUMBER}")));
        }
        if !self.read_state.publisher().reserve_slot(first) {
            return Err(self.commit_poisoned());
        }
        let _guard = PoisonOnPanic::new(self, |_| ());
        let mut record = std::mem::take(&mut tail.record_buffer);
        record.clear();
        encode(first, &mut record);
        let stored = self.preallocate_wal(tail, record.len()).and_then(|()| tail.append(&record));
        if record.capacity() <= MAX_REUSED_RECORD_BUFFER {
            tail.record_buffer = record;
        }
        // Not by `inspect_err`, which moves what there is mostly none of.
        if let Err(error) = &stored {
            self.handle_append_error(tail, error);
        }
        stored?;
        tail.last_sequence = last;
        self.wal_sync.record_write();
        Ok(())
    }

    /// True if the write that has these numbers is the only one behind step 1, and remains so while it keeps the lock. Not where
    /// inserting it asks a comparator of somebody else's, who may take his time.
    #[inline]
    fn is_exclusive_writer(&self, tail: &WalWriter, numbers: &RangeInclusive<SequenceNumber>) -> bool {
        if !self.write_contention.try_exclusive() || !tail.memtable.is_bytewise() {
            return false;
        }
        let is_next = self.read_state.publisher().is_next(*numbers.start());
        if !is_next {
            self.write_contention.record_contention();
        }
        is_next
    }

    /// Steps 3 and 4 of a write that is alone, with the lock kept.
    #[inline]
    fn insert_exclusive<'a>(
        &self,
        memtable: &Memtable,
        numbers: &RangeInclusive<SequenceNumber>,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let _stop = PoisonPublisherOnPanic(self); // Declared first: writes are refused before it goes.
        let _guard = PoisonOnPanic::new(self, |_| ());
        self.write_contention.has_exclusive_writer.store(true, Ordering::Relaxed);
        if mutant!(BatchNotAtomic) {
            self.read_state.publisher().publish_exclusive(*numbers.end());
        }
        memtable.insert_with_mode(InsertMode::Exclusive, *numbers.start(), operations);
        self.read_state.publisher().publish_exclusive(*numbers.end());
        self.write_contention.has_exclusive_writer.store(false, Ordering::Relaxed);
    }

    /// Steps 3 and 4.
    fn insert_concurrent<'a>(
        &self,
        memtable: &Memtable,
        numbers: &RangeInclusive<SequenceNumber>,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        let _stop = PoisonPublisherOnPanic(self); // Declared first: writes are refused before it goes.
        let _guard = PoisonOnPanic::new(self, |_| ());
        let writes = self.read_state.publisher();
        let (first, last) = (*numbers.start(), *numbers.end());
        if mutant!(BatchNotAtomic) {
            writes.publish(first, last);
        }
        memtable.insert(first, operations);
        if !mutant!(BatchNotAtomic) {
            writes.publish(first, last);
        }
        let visible = writes.spin_until_visible(last)
            || self.timed_stall(Timer::PublishWait, None, || writes.wait_until_visible(last));
        if visible { Ok(()) } else { Err(self.commit_poisoned()) }
    }

    /// Why nothing becomes visible any more.
    fn commit_poisoned(&self) -> Error {
        self.background_error.check().err().unwrap_or_else(closed_error)
    }

    /// Returns when every write up to `number` is in its memtable; an error if one never will be.
    pub(super) fn wait_until_applied(&self, number: SequenceNumber) -> Result<()> {
        if self.read_state.publisher().wait_until_visible(number) {
            Ok(())
        } else {
            Err(self.commit_poisoned())
        }
    }

    /// Hides a write whose sync failed from reads that start from now on: whoever made it is told that it failed. What
    /// the device has of it is unknown, and writes are refused already. False if it is in a table meanwhile: with all before it, it is
    /// durable there.
    fn retract(&self, numbers: &RangeInclusive<SequenceNumber>) -> bool {
        let mut commit = self.commit.lock();
        if let Some(tail) = commit.as_ref() {
            // What is not in a memtable yet would be added to one that is replaced. If it never will be, no matter.
            let _ = self.wait_until_applied(tail.last_sequence);
        }
        // What is at it is done, and no other table comes to count: see `Engine::log_and_apply`.
        let _manifest = self.manifest.lock();
        let mut state = self.state.lock();
        if state.version_set.last_sequence >= *numbers.end() {
            return false;
        }
        state.memtable = state.memtable.copy_excluding(numbers);
        if let Some(tail) = commit.as_mut() {
            tail.memtable = Arc::clone(&state.memtable);
        }
        for frozen in &mut state.immutable_memtables {
            frozen.memtable = frozen.memtable.copy_excluding(numbers);
        }
        self.install_read_state(&state);
        true
    }

    /// Without space the failed record is not whole, and readers of the log leave it out; the next log goes on with the
    /// same number, so that they miss nothing. After any other error nobody knows.
    fn handle_append_error(&self, tail: &mut WalWriter, error: &Error) {
        if error.is_retryable() {
            tail.is_torn = !mutant!(TornRecordLeftAfterNoSpace);
        } else {
            self.set_background_error(error);
        }
    }

    /// Has the log make room that is ready for a record of `len` bytes. [`WalWriter::append`] does not need it, and would
    /// meet the same errors; so it is known how long it took.
    #[inline]
    pub(super) fn preallocate_wal(&self, tail: &mut WalWriter, len: usize) -> Result<()> {
        // The next block, and a header for each begun block of it: never less than what the record takes.
        let end = tail.record_writer.end_offset() + (len + len / 1024) as u64 + LOG_BLOCK_SIZE as u64;
        if end <= tail.preallocated_to {
            return Ok(());
        }
        let ready = self.timed_stall(Timer::WalPreallocation, None, || tail.wal.file.preallocate(end))?;
        tail.preallocated_to = if ready == u64::MAX { self.check_fill_rate(tail) } else { ready };
        Ok(())
    }

    /// Finds out whether a log that was begun at leisure fills fast by now. Says where to look next.
    fn check_fill_rate(&self, tail: &mut WalWriter) -> u64 {
        let here = tail.record_writer.end_offset();
        if tail.wal.file.capacity().saturating_sub(here) < FILL_RATE_CHECK_BYTES {
            return u64::MAX;
        }
        let now = self.options.env.clock.monotonic();
        if let Some(looked) = tail.fill_rate_checked_at.replace(now)
            && self.memtable_sizer.is_fast_fill_rate(FILL_RATE_CHECK_BYTES, now.saturating_sub(looked))
        {
            tail.wal.file.expect_fast_fill(here);
            return here;
        }
        here + FILL_RATE_CHECK_BYTES
    }

    /// Returns when write number `write` is durable.
    pub(super) fn sync_wal_to(&self, write: u64) -> Result<()> {
        let flush = || {
            let _guard = PoisonOnPanic::new(self, |_| ());
            let synced = self.sync_wal();
            let synced = if mutant!(FsyncErrorIgnored) { synced.or(Ok(write)) } else { synced };
            // What the device has is unknown for good, so nobody may believe a later success; nor that an error for
            // want of space had no effect.
            synced.map_err(|error| {
                self.set_background_error(&error);
                Error::BackgroundError(Arc::new(error))
            })
        };
        let wait = || self.wal_sync.wait_until_durable(write, || self.background_error.check(), flush);
        self.timed_stall(Timer::SyncWait, None, wait)
    }

    /// Makes all that has been written durable, and says up to which write that is.
    pub(super) fn sync_wal(&self) -> Result<u64> {
        self.wal_sync.sync_logs(|| Ok(self.options.env.fs.sync_dir(&self.directory)?))
    }
}

fn oversized_error() -> Error {
    Error::InvalidArgument(format!("a key or value of more than {MAX_KEY_OR_VALUE_LEN} bytes"))
}

/// Tells those behind a write that panics that it will never be done.
struct PoisonPublisherOnPanic<'a>(&'a DbInner);

impl Drop for PoisonPublisherOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.read_state.publisher().poison();
        }
    }
}
