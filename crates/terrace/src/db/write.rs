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

use std::ops::RangeInclusive;

use terrace_format::batch::{self, BatchOp, MAX_KEY_OR_VALUE_LEN, WriteBatch};
use terrace_format::key::{MAX_SEQUENCE_NUMBER, SequenceNumber};
use terrace_format::log::RecordWriter;
use terrace_sync::mutant;

use super::panic_guard::PoisonOnPanic;
use super::wal::{WalFile, WalWriter, closed_error};
use super::{DbInner, DbState, FlushState, FlushTarget, ImmutableMemtable};
use crate::compaction::picker::L0_STOP_WRITES_TRIGGER;
use crate::error::{Error, Result};
use crate::memtable::{InsertMode, Memtable};
use crate::options::WriteOptions;
use crate::stats::Timer;
use crate::sync::{Arc, AtomicBool, AtomicUsize, MutexGuard, Ordering};

/// The largest record whose memory is kept for the next one.
const MAX_REUSED_RECORD_BUFFER: usize = 1 << 20;

/// So many writes go side by side behind one that met another: to try whether it is alone costs a crowd more than it saves.
const CONCURRENT_WRITES_AFTER_CONTENTION: usize = 256;

/// Whether writers meet. Hints, all Relaxed: either way of writing is right at any time.
#[derive(Default)]
pub(super) struct WriteContention {
    /// True while somebody writes who takes himself for alone.
    has_exclusive_writer: AtomicBool,
    /// So many more writes go side by side. Changed by who has the lock, but for its beginning.
    concurrent_writes_left: AtomicUsize,
}

impl WriteContention {
    /// Somebody wants to write.
    #[inline]
    fn arrive(&self) {
        if self.has_exclusive_writer.load(Ordering::Relaxed) {
            self.record_contention();
        }
    }

    fn record_contention(&self) {
        self.concurrent_writes_left.store(CONCURRENT_WRITES_AFTER_CONTENTION, Ordering::Relaxed);
    }

    /// True if a write may try whether it is alone.
    #[inline]
    fn try_exclusive(&self) -> bool {
        let left = self.concurrent_writes_left.load(Ordering::Relaxed);
        if left > 0 {
            self.concurrent_writes_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }
}

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

    /// Returns when the memtable has room for a write. The lock is given up while it waits.
    fn make_room_for_write(&self, commit: &mut MutexGuard<'_, Option<WalWriter>>) -> Result<()> {
        loop {
            self.background_error.check()?;
            let tail = commit.as_mut().ok_or_else(closed_error)?;
            if !tail.is_torn && tail.memtable.memory_usage() < tail.memtable_full_at {
                return Ok(());
            }
            let mut state = self.state.lock();
            if let Some(lack) = self.stall_cause(&state) {
                let scene = self.stall_context(&state);
                state.stalled_writers += 1;
                drop(state);
                let wait = || self.wait_until(|state| self.stall_cause(state).is_none());
                let waited = MutexGuard::unlocked(commit, || self.timed_stall(lack, Some(scene), wait));
                self.state.lock().stalled_writers -= 1;
                waited?;
                continue;
            }
            drop(state);
            match self.timed_stall(Timer::MemtableSwitch, None, || {
                self.switch_memtable(tail, FlushTarget::AnyLevel)
            }) {
                // What a flush or merge is about to free may be enough.
                Err(error)
                    if error.is_retryable()
                        && MutexGuard::unlocked(commit, || {
                            self.timed_stall(Timer::NoSpaceStall, None, || self.wait_for_background_job())
                        }) => {}
                switched => switched?,
            }
        }
    }

    /// What there is no room for: one more memtable on its way to a table, or that table.
    pub(super) fn stall_cause(&self, state: &DbState) -> Option<Timer> {
        if self.is_shutting_down.load(Ordering::Relaxed) {
            None
        } else if state.immutable_memtables.len() >= self.memtable_sizer.max_immutable_memtables() {
            Some(Timer::FlushStall)
        } else {
            (state.version_set.version.levels[0].len() >= L0_STOP_WRITES_TRIGGER)
                .then_some(Timer::CompactionStall)
        }
    }

    /// Freezes the memtable and begins a new log and a new memtable. On an error nothing has changed.
    pub(super) fn switch_memtable(&self, tail: &mut WalWriter, target: FlushTarget) -> Result<()> {
        if tail.is_reused {
            // Behind the mark of a closed log that was gone on with: without what follows it, a replay would take the
            // log for closed, and the next one for somebody else's.
            tail.invalidate_close_marker()?;
            tail.wal
                .file
                .sync()
                .map_err(Error::from)
                .inspect_err(|error| self.set_background_error(error))?;
        }
        let now = self.options.env.clock.monotonic();
        self.memtable_sizer.record_switch(
            tail.memtable.memory_usage() >= tail.memtable_full_at / 2,
            now.saturating_sub(tail.memtable_created_at),
        );
        let size = self.memtable_sizer.size();
        let log = WalFile::create(&self.options, &self.directory, self.new_file_number(), size)?;
        if self.memtable_sizer.fills_fast() {
            log.file.expect_fast_fill(0);
        }
        let memtable = Memtable::with_pool(
            self.comparator.clone(),
            &self.chunk_pool,
            size,
            self.memtable_sizer.fills_fast(),
        );
        let old_log = std::mem::replace(&mut tail.wal, log.clone());
        tail.record_writer = RecordWriter::resume_at(0);
        (tail.is_torn, tail.is_reused, tail.preallocated_to) = (false, false, 0);
        tail.fill_rate_checked_at = None;
        (tail.memtable_full_at, tail.memtable_created_at) = (self.memtable_sizer.full_threshold(size), now);
        let old = std::mem::replace(&mut tail.memtable, Arc::clone(&memtable));
        let mut state = self.state.lock();
        // Logs from before the manifest's log number are in tables.
        self.wal_sync.add_log(log, state.version_set.log_number);
        state.memtable = memtable;
        let (log, next_log, last_sequence) = (old_log.number, tail.wal.number, tail.last_sequence);
        let before = state
            .immutable_memtables
            .back()
            .map_or(state.version_set.last_sequence, |frozen| frozen.last_sequence);
        self.memtable_sizer.record_freeze(old.memory_usage(), last_sequence.saturating_sub(before));
        let (table, stage, put) =
            (self.new_file_number(), FlushState::Pending, std::mem::take(&mut tail.user_bytes));
        state.immutable_memtables.push_back(ImmutableMemtable {
            memtable: old,
            table_number: table,
            flush_state: stage,
            log_number: log,
            next_log_number: next_log,
            last_sequence,
            user_bytes: put,
            target,
        });
        self.install_read_state(&state);
        self.maybe_schedule_flush_or_compaction(&mut state);
        Ok(())
    }

    /// Turns what is in memory into a table, and returns when that is done.
    pub(super) fn flush(&self, target: FlushTarget) -> Result<()> {
        self.check_owner_process()?;
        let mut commit = self.commit.lock();
        let next_log = loop {
            let tail = commit.as_mut().ok_or_else(closed_error)?;
            self.background_error.check()?;
            if tail.memtable.is_empty() {
                break tail.wal.number;
            }
            let has_room = |state: &DbState| {
                state.immutable_memtables.len() < self.memtable_sizer.max_immutable_memtables()
            };
            if has_room(&self.state.lock()) {
                self.switch_memtable(tail, target)?;
                break tail.wal.number;
            }
            MutexGuard::unlocked(&mut commit, || self.wait_until(has_room))?;
        };
        drop(commit);
        self.wait_until(|state| {
            state.immutable_memtables.iter().all(|frozen| frozen.next_log_number > next_log)
        })
    }

    /// Returns when `done`, while the background works; an error if the background failed meanwhile, or the database was closed, and
    /// so can't bring it about.
    pub(super) fn wait_until(&self, done: impl Fn(&DbState) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.retryable_failures;
        if !done(&state) {
            // A merge or flush that failed gets another chance, for us.
            state.is_compaction_enabled = true;
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
        while !done(&state) {
            self.background_error.check()?;
            if state.is_shut_down {
                return Err(closed_error());
            }
            if let Some(error) =
                state.last_retryable_error.as_ref().filter(|_| state.retryable_failures != failures)
            {
                return Err(error.clone());
            }
            self.wait_for_state_change(&mut state);
        }
        Ok(())
    }

    /// If a flush or merge is queued or runs, returns true when one has ended.
    fn wait_for_background_job(&self) -> bool {
        let mut state = self.state.lock();
        let changes = state.change_count;
        let works = state.scheduled_flushes > 0 || state.is_compaction_scheduled;
        while (state.scheduled_flushes > 0 || state.is_compaction_scheduled) && state.change_count == changes
        {
            self.wait_for_state_change(&mut state);
        }
        works
    }

    /// Waits for a change of `state`: by doing some background work here, where that is the way, else asleep.
    pub(super) fn wait_for_state_change(&self, state: &mut MutexGuard<'_, DbState>) {
        let changes = state.change_count;
        let worked = MutexGuard::unlocked(state, || self.options.env.scheduler.run_one_here());
        if !worked && state.change_count == changes {
            self.state_changed.wait(state);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Options};

    /// Memtables were full when they had the size of those to come. One that was begun before these became larger outgrew the
    /// room of its log, and each of the rest of its writes cost two system calls.
    #[test]
    fn a_memtable_does_not_outgrow_its_log() {
        let options = Options { create_if_missing: true, env: Env::in_memory(), ..Options::default() };
        let db = Db::open("db", &options).unwrap();
        let engine = db.inner();
        let (size, now) = (engine.memtable_sizer.size(), engine.options.env.clock.monotonic());
        let log = || {
            let commit = engine.commit.lock();
            let WalWriter { wal: log, record_writer: framer, .. } = commit.as_ref().unwrap();
            (log.number, framer.end_offset(), log.file.capacity())
        };
        let (first, _, room) = log();
        engine.memtable_sizer.record_flush(size, u64::MAX, now);
        assert_eq!(engine.memtable_sizer.size(), 2 * size);
        for key in 0u32.. {
            db.put(&key.to_be_bytes(), &[0; 100]).unwrap();
            let (number, end, room_now) = log();
            if number > first {
                assert!(room_now >= 2 * size as u64, "{room_now}");
                break;
            }
            assert!(end <= room, "{end} of {room}");
        }
    }
}
