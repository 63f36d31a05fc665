//! Writes: memtable space, WAL, memtable, visibility, and durability if the caller asks for it.
//!
//! ```text
//!   1. lock `commit`; ensure space, otherwise switch to a new log and memtable, or wait
//!   2. take sequence numbers, append to the WAL, unlock   -> survives the end of the process
//!   3. insert into the memtable
//!   4. publish, after all earlier writes                  -> visible, atomically
//!   5. with `sync`, wait until the WAL is durable         -> survives a power cut
//! ```
//!
//! `commit` is not fair: a running writer need not hand it over to a sleeping one. Writers insert
//! concurrently.
//!
//! A writer without contention holds the lock until the end of step 4. All earlier writes have
//! ended by then, so it is the only thread in steps 2 to 4, and needs no synchronisation with other
//! writers ([`WriteContention`]).
//!
//! With an appended log and contention, one writer does steps 1 to 4 for a group of writers
//! ([`WriteQueue`]).
//!
//! [`WriteQueue`]: super::components::write_queue::WriteQueue
//! [`WriteContention`]: super::components::write_contention::WriteContention

mod conditional_write;
mod group;
mod make_room;
mod nonblocking_write;
mod write_stall;

pub use conditional_write::{Unchanged, UnchangedKey, UnchangedRange};

use std::ops::RangeInclusive;

use terrace_format::batch::{self, BatchOp, MAX_KEY_OR_VALUE_LEN, WriteBatch};
use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::log::FRAGMENT_HEADER_SIZE;
use terrace_sync::mutant;

use super::components::wal::WalWriter;
use super::inner::DbInner;
use super::panic_guard::{PanicDetector, PoisonOnPanic};
use crate::error::{Error, Result};
use crate::memtable::{InsertMode, Memtable};
use crate::options::WriteOptions;
use crate::stats::Timer;
use crate::sync::{Arc, MutexGuard, Ordering};

/// Maximum bytes of a record buffer that the next write reuses.
const MAX_REUSED_RECORD_BUFFER: usize = 1 << 20;

/// Size of a write in bytes for which memory is reserved before it is in the WAL. The allocator has
/// spare memory for smaller ones.
const LARGE_WRITE: usize = 64 << 10;

/// Bytes of a record beyond the keys and values of one operation, or beyond the bytes of a batch.
const WAL_RECORD_OVERHEAD: usize = 64;

/// Memory of a large write in the memtable beyond its bytes: lengths, nodes, and the memory that
/// the allocator needs itself.
const MEMTABLE_OVERHEAD: usize = 64 << 10;

/// Bytes that a log grows between two measurements of its fill rate.
const FILL_RATE_CHECK_BYTES: u64 = 128 << 10;

/// Key of an operation, and its value or None for a deletion.
type Operation<'a> = (&'a [u8], Option<&'a [u8]>);

/// Write without sequence numbers.
struct PendingWrite<'a, H, O> {
    /// Number of operations, at least 1.
    count: u64,
    /// Bytes of all keys and values, or more.
    bytes: usize,
    /// Appends the WAL record for a first sequence number, without `tail`, to a buffer.
    encode_head: H,
    /// End of the record.
    tail: &'a [u8],
    operations: O,
}

impl<H: Fn(SequenceNumber, &mut Vec<u8>), O> PendingWrite<'_, H, O> {
    /// Appends the WAL record for a first sequence number to a buffer.
    #[inline]
    fn encode(&self, first: SequenceNumber, record: &mut Vec<u8>) {
        (self.encode_head)(first, record);
        record.extend_from_slice(self.tail);
    }
}

impl PendingWrite<'_, (), ()> {
    /// Returns the write of `batch`, which is not empty.
    fn from_batch<'a>(
        batch: &'a WriteBatch,
    ) -> PendingWrite<'a, impl Fn(SequenceNumber, &mut Vec<u8>), impl Iterator<Item = Operation<'a>> + Clone>
    {
        let tail = &batch.as_bytes()[size_of::<SequenceNumber>()..];
        PendingWrite {
            count: batch.len() as u64,
            bytes: batch.as_bytes().len(),
            encode_head: |first: SequenceNumber, record: &mut Vec<u8>| {
                record.extend_from_slice(&first.to_le_bytes());
            },
            tail,
            operations: batch.iter().map(|operation| match operation {
                BatchOp::Put { key, value } => (key, Some(value)),
                BatchOp::Delete { key } => (key, None),
            }),
        }
    }
}

impl DbInner {
    /// Writes `batch`. Returns the sequence number of its last operation.
    pub(super) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<SequenceNumber> {
        self.check_batch(batch)?;
        if batch.is_empty() {
            return self.write_empty_batch(options);
        }
        self.commit(PendingWrite::from_batch(batch), options)
    }

    /// Returns an error for a batch that lacks an operation.
    fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        if batch.is_oversized() {
            return Err(Error::oversized_entry());
        }
        self.check_batch_memory(batch)
    }

    /// Writes one operation without a batch. `value` is None for a deletion.
    pub(super) fn write_one(&self, key: &[u8], value: Option<&[u8]>, options: &WriteOptions) -> Result<()> {
        let value_len = value.map_or(0, <[u8]>::len);
        if key.len().max(value_len) > MAX_KEY_OR_VALUE_LEN {
            return Err(Error::oversized_entry());
        }
        let write = PendingWrite {
            count: 1,
            bytes: key.len() + value_len,
            encode_head: |first, record: &mut Vec<u8>| {
                batch::encode_single_op_head(record, first, key, value);
            },
            tail: value.unwrap_or_default(),
            operations: std::iter::once((key, value)),
        };
        self.commit(write, options)?;
        Ok(())
    }

    /// Executes a write without operations. It adds no record, because some readers of the format
    /// refuse a log with an empty batch. Returns the last sequence number.
    pub(super) fn write_empty_batch(&self, options: &WriteOptions) -> Result<SequenceNumber> {
        self.check_owner_process()?;
        self.finish_empty_batch(self.commit.lock(), options)
    }

    /// Executes a write without operations, for a caller that has locked `commit`. Returns the last
    /// sequence number.
    fn finish_empty_batch(
        &self,
        commit: MutexGuard<'_, Option<WalWriter>>,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        let last = commit.as_ref().ok_or_else(|| self.closed_error())?.last_sequence;
        self.background_error.check()?;
        let write = self.wal_sync.last_write();
        drop(commit);
        if options.sync {
            self.sync_wal_to(write)?;
        }
        Ok(last)
    }

    /// Delays a write of `bytes` bytes while compactions lag.
    #[inline]
    fn delay_write(&self, bytes: usize) {
        if let Some(slept) = self.write_controller.delay_write(bytes, &*self.options.env.clock) {
            self.record_stall(Timer::WriteDelay, None, slept);
        }
    }

    fn commit<'a>(
        &self,
        write: PendingWrite<
            'a,
            impl Fn(SequenceNumber, &mut Vec<u8>),
            impl Iterator<Item = Operation<'a>> + Clone,
        >,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        self.check_owner_process()?;
        self.delay_write(write.bytes);
        if self.should_queue()
            && let Ok(queued) = self.write_queue.push(write.count, write.bytes, |first, record| {
                write.encode(first, record);
            })
        {
            let (first, number) = self.commit_queued(&queued)?;
            return self.finish_write(&(first..=first + write.count - 1), number, options);
        }
        self.write_contention.arrive();
        let mut commit = self.lock_commit();
        self.make_room_for_write(&mut commit)?;
        let (sequences, number) = self.append_and_insert(commit, write)?;
        self.finish_write(&sequences, number, options)
    }

    /// Executes steps 2 to 4 for a caller that has locked `commit` and made room. Returns the
    /// sequence numbers of the write, and its number for the sync.
    #[inline]
    fn append_and_insert<'a>(
        &self,
        mut commit: MutexGuard<'_, Option<WalWriter>>,
        write: PendingWrite<
            'a,
            impl Fn(SequenceNumber, &mut Vec<u8>),
            impl Iterator<Item = Operation<'a>> + Clone,
        >,
    ) -> Result<(RangeInclusive<SequenceNumber>, u64)> {
        let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
        let sequences = writer.last_sequence + 1..=writer.last_sequence + write.count;
        let first = *sequences.start();
        let is_split = writer.should_split(write.tail.len());
        let copied_bytes = if is_split { write.bytes - write.tail.len() } else { write.bytes };
        let reservation = self.reserve_memory(writer, write.bytes, copied_bytes)?;
        self.append_to_wal(writer, &sequences, |writer| {
            let mut record = std::mem::take(&mut writer.record_buffer);
            record.clear();
            let appended = if is_split {
                (write.encode_head)(first, &mut record);
                writer.append_split([&record, write.tail])
            } else {
                record.extend_from_slice(&[0; FRAGMENT_HEADER_SIZE]);
                write.encode(first, &mut record);
                writer.append(&mut record)
            };
            if record.capacity() <= MAX_REUSED_RECORD_BUFFER {
                writer.record_buffer = record;
            }
            appended
        })?;
        // The memtable gets this memory.
        drop(reservation);
        writer.user_bytes += write.bytes as u64;
        if !writer.watches.is_empty() {
            writer.watches.note_written(write.operations.clone().map(|(key, _)| key));
        }
        let number = self.wal_sync.last_write();
        if self.is_exclusive_writer(writer, &sequences) {
            self.insert_exclusive(&writer.memtable, &sequences, write.operations);
            drop(commit);
        } else {
            let memtable = Arc::clone(&writer.memtable);
            drop(commit);
            self.insert_concurrent(&memtable, &sequences, write.operations)?;
        }
        Ok((sequences, number))
    }

    /// Executes step 5 for the write number `write`. Returns its last sequence number.
    #[inline]
    fn finish_write(
        &self,
        sequences: &RangeInclusive<SequenceNumber>,
        write: u64,
        options: &WriteOptions,
    ) -> Result<SequenceNumber> {
        if options.sync
            && let Err(error) = self.sync_wal_to(write)
            && self.retract(sequences)
        {
            return Err(error);
        }
        Ok(*sequences.end())
    }

    /// Ensures that the record and the memtable have memory for a write of `bytes` bytes. A write
    /// that is in the WAL must not fail for lack of memory. The record buffer gets `copied_bytes`
    /// of them. The result is memory that the memtable will need soon.
    #[inline]
    fn reserve_memory(
        &self,
        writer: &mut WalWriter,
        bytes: usize,
        copied_bytes: usize,
    ) -> Result<Option<Vec<u8>>> {
        let has_memory = writer.memtable.try_reserve(bytes);
        if bytes < LARGE_WRITE && has_memory {
            return Ok(None);
        }
        self.reserve_large(writer, bytes, copied_bytes)
            .filter(|_| has_memory)
            .map(Some)
            .ok_or_else(|| Error::out_of_memory(&self.directory, bytes))
    }

    #[cold]
    fn reserve_large(&self, writer: &mut WalWriter, bytes: usize, copied_bytes: usize) -> Option<Vec<u8>> {
        // The record has a header, and up to two lengths for each operation.
        let record = &mut writer.record_buffer;
        record.clear();
        let record_len = copied_bytes.checked_add(WAL_RECORD_OVERHEAD)?;
        record.try_reserve_exact(record_len).ok()?;
        writer.try_reserve_fragments(bytes.checked_add(WAL_RECORD_OVERHEAD)?).then_some(())?;
        let mut memtable = Vec::new();
        memtable.try_reserve_exact(bytes.checked_add(MEMTABLE_OVERHEAD)?).ok()?;
        Some(memtable)
    }

    /// Executes step 2 for the next `sequences`, by `append`. An error takes no sequence number.
    #[inline]
    fn append_to_wal(
        &self,
        writer: &mut WalWriter,
        sequences: &RangeInclusive<SequenceNumber>,
        append: impl FnOnce(&mut WalWriter) -> Result<()>,
    ) -> Result<()> {
        let last = *sequences.end();
        if last > MAX_SEQUENCE_NUMBER {
            let message = format!("sequence numbers are exhausted: the largest is {MAX_SEQUENCE_NUMBER}");
            return Err(Error::NotSupported(message));
        }
        if !self.read_state.publisher().reserve_slot(*sequences.start()) {
            return Err(self.commit_poisoned());
        }
        let _guard = PoisonOnPanic::new(self, |_| ());
        let appended = append(writer);
        // `inspect_err` would move the result, which is rarely an error.
        if let Err(error) = &appended {
            self.handle_append_error(writer, error);
        }
        appended?;
        self.check_fill_rate(writer);
        writer.last_sequence = last;
        self.wal_sync.record_write();
        Ok(())
    }

    /// Returns true if the write with `sequences` is the only one in steps 2 to 4. It stays the
    /// only one while it holds `commit`. Returns false for a custom comparator, which may be slow.
    #[inline]
    fn is_exclusive_writer(&self, writer: &WalWriter, sequences: &RangeInclusive<SequenceNumber>) -> bool {
        if !self.write_contention.try_exclusive() || !writer.memtable.is_bytewise() {
            return false;
        }
        let is_next = self.read_state.publisher().is_next(*sequences.start());
        if !is_next {
            self.write_contention.record_contention();
        }
        is_next
    }

    /// Executes steps 3 and 4 of an exclusive write. The caller holds `commit`.
    #[inline]
    fn insert_exclusive<'a>(
        &self,
        memtable: &Memtable,
        sequences: &RangeInclusive<SequenceNumber>,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        // Dropped after `_guard`, so that the database already refuses writes.
        let _poison = PoisonPublisherOnPanic(self, PanicDetector::new());
        let _guard = PoisonOnPanic::new(self, |_| ());
        self.write_contention.has_exclusive_writer.store(true, Ordering::Relaxed);
        if mutant!(BatchNotAtomic) {
            self.read_state.publisher().publish_exclusive(*sequences.end());
        }
        memtable.insert_with_mode(InsertMode::Exclusive, *sequences.start(), operations);
        self.read_state.publisher().publish_exclusive(*sequences.end());
        self.write_contention.has_exclusive_writer.store(false, Ordering::Relaxed);
    }

    /// Executes steps 3 and 4 without `commit`, concurrently with other writers.
    fn insert_concurrent<'a>(
        &self,
        memtable: &Memtable,
        sequences: &RangeInclusive<SequenceNumber>,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        // Dropped after `_guard`, so that the database already refuses writes.
        let _poison = PoisonPublisherOnPanic(self, PanicDetector::new());
        let _guard = PoisonOnPanic::new(self, |_| ());
        let publisher = self.read_state.publisher();
        let first = *sequences.start();
        let last = *sequences.end();
        if mutant!(BatchNotAtomic) {
            publisher.publish(first, last);
        }
        memtable.insert(first, operations);
        if !mutant!(BatchNotAtomic) {
            publisher.publish(first, last);
        }
        let is_visible = publisher.spin_until_visible(last)
            || self.timed_stall(Timer::PublishWait, None, || publisher.wait_until_visible(last));
        if is_visible { Ok(()) } else { Err(self.commit_poisoned()) }
    }

    /// Error of a write that can never become visible, because an earlier write panicked.
    fn commit_poisoned(&self) -> Error {
        self.background_error.check().err().unwrap_or_else(|| self.closed_error())
    }

    /// Waits until all writes up to `sequence` are in their memtables. Returns an error if one of
    /// them never will be.
    pub(super) fn wait_until_applied(&self, sequence: SequenceNumber) -> Result<()> {
        if self.read_state.publisher().wait_until_visible(sequence) {
            Ok(())
        } else {
            Err(self.commit_poisoned())
        }
    }

    /// Hides a write whose sync failed from reads that start from now on, because its caller gets
    /// an error. The write may or may not be on disk, and later writes are refused already. Returns
    /// false if a flush has written it to a table meanwhile: there it is durable.
    fn retract(&self, sequences: &RangeInclusive<SequenceNumber>) -> bool {
        let mut commit = self.commit.lock();
        if let Some(writer) = commit.as_ref() {
            // A later insert would go to a memtable that is replaced below. A write that never
            // becomes visible does not matter.
            let _ = self.wait_until_applied(writer.last_sequence);
        }
        // Any install in progress has finished, and no other can start: see
        // `DbInner::log_and_apply`.
        let _manifest = self.manifest.lock();
        let mut state = self.state.lock();
        if state.version_set.last_sequence >= *sequences.end() {
            return false;
        }
        state.memtable = state.memtable.copy_excluding(sequences);
        if let Some(writer) = commit.as_mut() {
            writer.memtable = Arc::clone(&state.memtable);
        }
        for immutable in &mut state.immutable_memtables {
            immutable.memtable = immutable.memtable.copy_excluding(sequences);
        }
        self.install_read_state(&state);
        true
    }

    /// Handles a failed append. Without disk space, the log is as before, or it ends with an
    /// incomplete record. Then the next log continues with the same sequence number, so no gap
    /// results. After any other error, the content of the log is unknown.
    fn handle_append_error(&self, writer: &mut WalWriter, error: &Error) {
        if !error.is_retryable() {
            self.set_background_error(error);
        }
        writer.is_torn &= !mutant!(TornRecordLeftAfterNoSpace);
    }

    /// Measures from time to time whether a log that started slowly is filled fast by now.
    #[inline]
    fn check_fill_rate(&self, writer: &mut WalWriter) {
        let end = writer.record_writer.end_offset();
        if end >= writer.next_fill_check {
            writer.next_fill_check = end + FILL_RATE_CHECK_BYTES;
            self.measure_fill_rate(writer);
        }
    }

    fn measure_fill_rate(&self, writer: &mut WalWriter) {
        let now = self.options.env.clock.monotonic();
        if let Some(checked_at) = writer.fill_rate_checked_at.replace(now)
            && self.memtable_sizer.is_fast_fill_rate(FILL_RATE_CHECK_BYTES, now.saturating_sub(checked_at))
        {
            writer.wal.file.expect_fast_fill();
            writer.next_fill_check = u64::MAX;
        }
    }

    /// Waits until write number `write` is durable, and syncs the logs if no other thread does.
    pub(super) fn sync_wal_to(&self, write: u64) -> Result<()> {
        self.timed_stall(Timer::SyncWait, None, || {
            self.wal_sync.wait_until_durable(
                write,
                || self.background_error.check(),
                || self.sync_wal_or_poison(write),
            )
        })
    }

    /// Syncs the logs. Sets the background error if that fails.
    fn sync_wal_or_poison(&self, write: u64) -> Result<u64> {
        let _guard = PoisonOnPanic::new(self, |_| ());
        let synced = self.sync_wal();
        let synced = if mutant!(FsyncErrorIgnored) { synced.or(Ok(write)) } else { synced };
        // The durable content of the logs is unknown from now on. A later successful sync proves
        // nothing, and even an error for lack of space may have lost writes.
        synced.map_err(|error| {
            self.set_background_error(&error);
            Error::BackgroundError(Arc::new(error))
        })
    }

    /// Makes all writes so far durable. Returns the number of the last of them.
    pub(super) fn sync_wal(&self) -> Result<u64> {
        self.wal_sync.sync_logs(|| Ok(self.options.env.fs.sync_dir(&self.directory)?))
    }
}

/// Poisons the commit publisher if a write panics, so that later writes do not wait for it.
struct PoisonPublisherOnPanic<'a>(&'a DbInner, PanicDetector);

impl Drop for PoisonPublisherOnPanic<'_> {
    #[inline]
    fn drop(&mut self) {
        let PoisonPublisherOnPanic(inner, detector) = self;
        if detector.has_panicked() {
            inner.read_state.publisher().poison();
        }
    }
}
