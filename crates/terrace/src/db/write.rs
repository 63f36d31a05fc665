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

use terrace_format::batch::{self, BatchOp, MAX_LEN, WriteBatch};
use terrace_format::key::{MAX_SEQUENCE, Sequence};
use terrace_format::log::Framer;
use terrace_sync::mutant;

use super::tail::{Log, LogTail, closed};
use super::unwinding::Unwinding;
use super::{Engine, Frozen, Stage, State, Target};
use crate::compaction::policy::LEVEL_0_STOP;
use crate::error::{Error, Result};
use crate::memtable::{Company, Memtable};
use crate::metrics::Span;
use crate::options::WriteOptions;
use crate::sync::{Arc, AtomicBool, AtomicUsize, MutexGuard, Ordering};

/// The largest record whose memory is kept for the next one.
const KEPT_RECORD: usize = 1 << 20;

/// So many writes go side by side behind one that met another: to try whether it is alone costs a crowd more than it saves.
const BESIDE: usize = 256;

/// Whether writers meet. Hints, all Relaxed: either way of writing is right at any time.
#[derive(Default)]
pub(super) struct Crowd {
    /// True while somebody writes who takes himself for alone.
    inside: AtomicBool,
    /// So many more writes go side by side. Changed by who has the lock, but for its beginning.
    left: AtomicUsize,
}

impl Crowd {
    /// Somebody wants to write.
    #[inline]
    fn come(&self) {
        if self.inside.load(Ordering::Relaxed) {
            self.meet();
        }
    }

    fn meet(&self) {
        self.left.store(BESIDE, Ordering::Relaxed);
    }

    /// True if a write may try whether it is alone.
    #[inline]
    fn is_sparse(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }
}

impl Engine {
    pub(super) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if batch.is_oversized() {
            return Err(oversized());
        }
        if batch.is_empty() {
            return self.write_nothing(options);
        }
        let operations = batch.iter().map(|operation| match operation {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        });
        let encode = |first: Sequence, record: &mut Vec<u8>| {
            record.extend_from_slice(&first.to_le_bytes());
            record.extend_from_slice(&batch.as_bytes()[size_of::<Sequence>()..]);
        };
        self.commit(batch.len() as u64, batch.as_bytes().len(), encode, operations, options)
    }

    /// As `write` of one operation, but without a batch: None for a value removes the key.
    pub(super) fn write_one(&self, key: &[u8], value: Option<&[u8]>, options: &WriteOptions) -> Result<()> {
        if key.len().max(value.map_or(0, <[u8]>::len)) > MAX_LEN {
            return Err(oversized());
        }
        let encode = |first: Sequence, record: &mut Vec<u8>| batch::put_single(record, first, key, value);
        let bytes = key.len() + value.map_or(0, <[u8]>::len);
        self.commit(1, bytes, encode, std::iter::once((key, value)), options)
    }

    /// A log that ends with a batch of nothing counts as closed, so a user's is not written.
    pub(super) fn write_nothing(&self, options: &WriteOptions) -> Result<()> {
        self.check_process()?;
        let commit = self.commit.lock();
        commit.as_ref().ok_or_else(closed)?;
        self.refusal.check()?;
        let write = self.durability.last_write();
        drop(commit);
        if options.sync { self.sync_to(write) } else { Ok(()) }
    }

    /// Writes `count` operations of `bytes` in all, whose record `encode` makes once their first number is known.
    fn commit<'a>(
        &self,
        count: u64,
        bytes: usize,
        encode: impl FnOnce(Sequence, &mut Vec<u8>),
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_process()?;
        if let Some(slept) = self.pace.admit(bytes, &*self.options.env.clock) {
            self.note_wait(Span::Paced, None, slept);
        }
        self.crowd.come();
        let mut commit = self.commit.lock();
        self.make_room(&mut commit)?;
        let tail = commit.as_mut().ok_or_else(closed)?;
        let numbers = tail.sequence + 1..=tail.sequence + count;
        self.store(tail, &numbers, encode)?;
        tail.put += bytes as u64;
        let write = self.durability.last_write();
        if self.is_alone(tail, &numbers) {
            self.insert_alone(&tail.memtable, &numbers, operations);
            drop(commit);
        } else {
            let memtable = Arc::clone(&tail.memtable);
            drop(commit);
            self.insert(&memtable, &numbers, operations)?;
        }
        if !options.sync {
            return Ok(());
        }
        match self.sync_to(write) {
            Err(error) if self.take_back(&numbers) => Err(error),
            _ => Ok(()),
        }
    }

    /// Step 2, of a write that takes the next `numbers`. On an error none was taken.
    fn store(
        &self,
        tail: &mut LogTail,
        numbers: &RangeInclusive<Sequence>,
        encode: impl FnOnce(Sequence, &mut Vec<u8>),
    ) -> Result<()> {
        let (first, last) = (*numbers.start(), *numbers.end());
        if last > MAX_SEQUENCE {
            return Err(Error::NotSupported(format!("a write beyond sequence number {MAX_SEQUENCE}")));
        }
        if !self.present.writes().admit(first) {
            return Err(self.stopped());
        }
        let _guard = Unwinding::new(self, |_| ());
        let mut record = std::mem::take(&mut tail.record);
        record.clear();
        encode(first, &mut record);
        let stored = self.make_log_room(tail, record.len()).and_then(|()| tail.append(&record));
        if record.capacity() <= KEPT_RECORD {
            tail.record = record;
        }
        // Not by `inspect_err`, which moves what there is mostly none of.
        if let Err(error) = &stored {
            self.store_failed(tail, error);
        }
        stored?;
        tail.sequence = last;
        self.durability.count_write();
        Ok(())
    }

    /// True if the write that has these numbers is the only one behind step 1, and remains so while it keeps the lock. Not where
    /// inserting it asks a comparator of somebody else's, who may take his time.
    #[inline]
    fn is_alone(&self, tail: &LogTail, numbers: &RangeInclusive<Sequence>) -> bool {
        if !self.crowd.is_sparse() || !tail.memtable.is_bytewise() {
            return false;
        }
        let is_next = self.present.writes().is_next(*numbers.start());
        if !is_next {
            self.crowd.meet();
        }
        is_next
    }

    /// Steps 3 and 4 of a write that is alone, with the lock kept.
    #[inline]
    fn insert_alone<'a>(
        &self,
        memtable: &Memtable,
        numbers: &RangeInclusive<Sequence>,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let _stop = StopIfPanicking(self); // Declared first: writes are refused before it goes.
        let _guard = Unwinding::new(self, |_| ());
        self.crowd.inside.store(true, Ordering::Relaxed);
        if mutant!(BatchNotAtomic) {
            self.present.writes().complete_alone(*numbers.end());
        }
        memtable.insert_in(Company::Alone, *numbers.start(), operations);
        self.present.writes().complete_alone(*numbers.end());
        self.crowd.inside.store(false, Ordering::Relaxed);
    }

    /// Steps 3 and 4.
    fn insert<'a>(
        &self,
        memtable: &Memtable,
        numbers: &RangeInclusive<Sequence>,
        operations: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        let _stop = StopIfPanicking(self); // Declared first: writes are refused before it goes.
        let _guard = Unwinding::new(self, |_| ());
        let writes = self.present.writes();
        let (first, last) = (*numbers.start(), *numbers.end());
        if mutant!(BatchNotAtomic) {
            writes.complete(first, last);
        }
        memtable.insert(first, operations);
        if !mutant!(BatchNotAtomic) {
            writes.complete(first, last);
        }
        let visible =
            writes.wait_briefly(last) || self.wait_timed(Span::ForOthers, None, || writes.wait(last));
        if visible { Ok(()) } else { Err(self.stopped()) }
    }

    /// Why nothing becomes visible any more.
    fn stopped(&self) -> Error {
        self.refusal.check().err().unwrap_or_else(closed)
    }

    /// Returns when every write up to `number` is in its memtable; an error if one never will be.
    pub(super) fn settle(&self, number: Sequence) -> Result<()> {
        if self.present.writes().wait(number) { Ok(()) } else { Err(self.stopped()) }
    }

    /// Hides a write whose sync failed from reads that start from now on: whoever made it is told that it failed. What
    /// the device has of it is unknown, and writes are refused already. False if it is in a table meanwhile: with all before it, it is
    /// durable there.
    fn take_back(&self, numbers: &RangeInclusive<Sequence>) -> bool {
        let mut commit = self.commit.lock();
        if let Some(tail) = commit.as_ref() {
            // What is not in a memtable yet would be added to one that is replaced. If it never will be, no matter.
            let _ = self.settle(tail.sequence);
        }
        // What is at it is done, and no other table comes to count: see `Engine::install`.
        let _manifest = self.manifest.lock();
        let mut state = self.state.lock();
        if state.set.last_sequence >= *numbers.end() {
            return false;
        }
        state.memtable = state.memtable.without(numbers);
        if let Some(tail) = commit.as_mut() {
            tail.memtable = Arc::clone(&state.memtable);
        }
        for frozen in &mut state.frozen {
            frozen.memtable = frozen.memtable.without(numbers);
        }
        self.publish(&state);
        true
    }

    /// Without space the failed record is not whole, and readers of the log leave it out; the next log goes on with the
    /// same number, so that they miss nothing. After any other error nobody knows.
    fn store_failed(&self, tail: &mut LogTail, error: &Error) {
        if error.is_resumable() {
            tail.broken = !mutant!(TornRecordLeftAfterNoSpace);
        } else {
            self.refuse(error);
        }
    }

    /// Returns when the memtable has room for a write. The lock is given up while it waits.
    fn make_room(&self, commit: &mut MutexGuard<'_, Option<LogTail>>) -> Result<()> {
        loop {
            self.refusal.check()?;
            let tail = commit.as_mut().ok_or_else(closed)?;
            if !tail.broken && tail.memtable.bytes() < tail.full {
                return Ok(());
            }
            let mut state = self.state.lock();
            if let Some(lack) = self.lack(&state) {
                let scene = self.scene(&state);
                state.stopped += 1;
                drop(state);
                let wait = || self.wait_for(|state| self.lack(state).is_none());
                let waited = MutexGuard::unlocked(commit, || self.wait_timed(lack, Some(scene), wait));
                self.state.lock().stopped -= 1;
                waited?;
                continue;
            }
            drop(state);
            match self.wait_timed(Span::Switch, None, || self.switch(tail, Target::AnyLevel)) {
                // What a flush or merge is about to free may be enough.
                Err(error)
                    if error.is_resumable()
                        && MutexGuard::unlocked(commit, || {
                            self.wait_timed(Span::ForSpace, None, || self.wait_for_job())
                        }) => {}
                switched => switched?,
            }
        }
    }

    /// What there is no room for: one more memtable on its way to a table, or that table.
    pub(super) fn lack(&self, state: &State) -> Option<Span> {
        if self.closing.load(Ordering::Relaxed) {
            None
        } else if state.frozen.len() >= self.buffer.frozen_max() {
            Some(Span::ForFlush)
        } else {
            (state.set.version.levels[0].len() >= LEVEL_0_STOP).then_some(Span::ForMerge)
        }
    }

    /// Freezes the memtable and begins a new log and a new memtable. On an error nothing has changed.
    pub(super) fn switch(&self, tail: &mut LogTail, target: Target) -> Result<()> {
        if tail.resumed {
            // Behind the mark of a closed log that was gone on with: without what follows it, a replay would take the
            // log for closed, and the next one for somebody else's.
            tail.wipe_mark()?;
            tail.log.file.sync().map_err(Error::from).inspect_err(|error| self.refuse(error))?;
        }
        let now = self.options.env.clock.monotonic();
        self.buffer.switched(tail.memtable.bytes() >= tail.full / 2, now.saturating_sub(tail.begun));
        let size = self.buffer.size();
        let log = Log::create(&self.options, &self.directory, self.new_file_number(), size)?;
        if self.buffer.fills_fast() {
            log.file.hurry(0);
        }
        let memtable =
            Memtable::in_memory_of(self.comparator.clone(), &self.spare, size, self.buffer.fills_fast());
        let old_log = std::mem::replace(&mut tail.log, log.clone());
        tail.framer = Framer::at(0);
        (tail.broken, tail.resumed, tail.ready) = (false, false, 0);
        tail.looked = None;
        (tail.full, tail.begun) = (self.buffer.full_at(size), now);
        let old = std::mem::replace(&mut tail.memtable, Arc::clone(&memtable));
        let mut state = self.state.lock();
        // Logs from before the manifest's log number are in tables.
        self.durability.go_on_in(log, state.set.log_number);
        state.memtable = memtable;
        let (log, next_log, last_sequence) = (old_log.number, tail.log.number, tail.sequence);
        let before = state.frozen.back().map_or(state.set.last_sequence, |frozen| frozen.last_sequence);
        self.buffer.frozen(old.bytes(), last_sequence.saturating_sub(before));
        let (table, stage, put) = (self.new_file_number(), Stage::Waits, std::mem::take(&mut tail.put));
        state.frozen.push_back(Frozen {
            memtable: old,
            table,
            stage,
            log,
            next_log,
            last_sequence,
            put,
            target,
        });
        self.publish(&state);
        self.schedule(&mut state);
        Ok(())
    }

    /// Turns what is in memory into a table, and returns when that is done.
    pub(super) fn flush(&self, target: Target) -> Result<()> {
        self.check_process()?;
        let mut commit = self.commit.lock();
        let next_log = loop {
            let tail = commit.as_mut().ok_or_else(closed)?;
            self.refusal.check()?;
            if tail.memtable.is_empty() {
                break tail.log.number;
            }
            let has_room = |state: &State| state.frozen.len() < self.buffer.frozen_max();
            if has_room(&self.state.lock()) {
                self.switch(tail, target)?;
                break tail.log.number;
            }
            MutexGuard::unlocked(&mut commit, || self.wait_for(has_room))?;
        };
        drop(commit);
        self.wait_for(|state| state.frozen.iter().all(|frozen| frozen.next_log > next_log))
    }

    /// Returns when `done`, while the background works; an error if the background failed meanwhile, or the database was closed, and
    /// so can't bring it about.
    pub(super) fn wait_for(&self, done: impl Fn(&State) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.failures;
        if !done(&state) {
            // A merge or flush that failed gets another chance, for us.
            state.may_merge = true;
            self.schedule(&mut state);
        }
        while !done(&state) {
            self.refusal.check()?;
            if state.ended {
                return Err(closed());
            }
            if let Some(error) = state.last_failure.as_ref().filter(|_| state.failures != failures) {
                return Err(error.clone());
            }
            self.wait(&mut state);
        }
        Ok(())
    }

    /// If a flush or merge is queued or runs, returns true when one has ended.
    fn wait_for_job(&self) -> bool {
        let mut state = self.state.lock();
        let changes = state.changes;
        let works = state.flushes > 0 || state.merging;
        while (state.flushes > 0 || state.merging) && state.changes == changes {
            self.wait(&mut state);
        }
        works
    }

    /// Waits for a change of `state`: by doing some background work here, where that is the way, else asleep.
    pub(super) fn wait(&self, state: &mut MutexGuard<'_, State>) {
        let changes = state.changes;
        let worked = MutexGuard::unlocked(state, || self.options.env.scheduler.assist());
        if !worked && state.changes == changes {
            self.changed.wait(state);
        }
    }
}

fn oversized() -> Error {
    Error::InvalidArgument(format!("a key or value of more than {MAX_LEN} bytes"))
}

/// Tells those behind a write that panics that it will never be done.
struct StopIfPanicking<'a>(&'a Engine);

impl Drop for StopIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.present.writes().stop();
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
        let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
        let db = Db::open("db", &options).unwrap();
        let engine = db.engine();
        let (size, now) = (engine.buffer.size(), engine.options.env.clock.monotonic());
        let log = || {
            let commit = engine.commit.lock();
            let LogTail { log, framer, .. } = commit.as_ref().unwrap();
            (log.number, framer.offset(), log.file.capacity())
        };
        let (first, _, room) = log();
        engine.buffer.filled(size, u64::MAX, now);
        assert_eq!(engine.buffer.size(), 2 * size);
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
