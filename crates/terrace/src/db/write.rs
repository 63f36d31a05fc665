//! Writing: room, log, memtable, visibility, and durability if asked for.
//!
//! ```text
//!   1. lock commit; see that there is room (else freeze the memtable, begin a new log, wait if need be)
//!   2. number the batch and store it in the log          -> survives the death of the process
//!   3. insert it into the memtable
//!   4. publish its last number                           -> visible, all at once
//!   5. unlock; with sync, wait until the device has it   -> survives a power cut
//! ```
//!
//! The lock is a barging one: a writer that runs need not hand over to one that sleeps.

use std::ops::RangeInclusive;

use terrace_format::batch::{BatchOp, MAX_LEN, WriteBatch};
use terrace_format::key::{MAX_SEQUENCE, Sequence};
use terrace_format::log::Framer;
use terrace_mutants::mutant;

use super::tail::{Log, LogTail, closed};
use super::unwinding::Unwinding;
use super::{Engine, Frozen, State, Target};
use crate::compaction::policy::LEVEL_0_STOP;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::options::WriteOptions;
use crate::sync::{Arc, MutexGuard, Ordering};

impl Engine {
    pub(super) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if batch.is_oversized() {
            return Err(Error::InvalidArgument(format!("a key or value of more than {MAX_LEN} bytes")));
        }
        self.pace.admit(batch.as_bytes().len(), &*self.options.env.clock);
        let mut commit = self.commit.lock();
        // A log that ends with a batch of nothing counts as closed, so a user's is not written.
        if batch.is_empty() {
            self.refusal.check()?;
        } else {
            self.make_room(&mut commit)?;
        }
        let tail = commit.as_mut().ok_or_else(closed)?;
        let first = tail.sequence + 1;
        if !batch.is_empty() {
            self.append(tail, batch)?;
        }
        let (last, write) = (tail.sequence, self.durability.last_write());
        drop(commit);
        if !options.sync {
            return Ok(());
        }
        self.sync_to(write).inspect_err(|_| self.take_back(first..=last))
    }

    /// Hides a write whose sync failed from reads that start from now on: whoever made it is told that it failed. What
    /// the device has of it is unknown, and writes are refused already.
    fn take_back(&self, numbers: RangeInclusive<Sequence>) {
        let mut commit = self.commit.lock();
        let mut state = self.state.lock();
        state.memtable = state.memtable.without(&numbers);
        if let Some(tail) = commit.as_mut() {
            tail.memtable = Arc::clone(&state.memtable);
        }
        for frozen in &mut state.frozen {
            frozen.memtable = frozen.memtable.without(&numbers);
        }
        self.publish(&state);
    }

    /// Steps 2 to 4.
    fn append(&self, tail: &mut LogTail, batch: &WriteBatch) -> Result<()> {
        let first = tail.sequence + 1;
        let last = tail.sequence + batch.len() as u64;
        if last > MAX_SEQUENCE {
            return Err(Error::NotSupported(format!("a write beyond sequence number {MAX_SEQUENCE}")));
        }
        let _guard = Unwinding::new(self, |_| ());
        let mut record = std::mem::take(&mut tail.record);
        record.clear();
        record.extend_from_slice(&first.to_le_bytes());
        record.extend_from_slice(&batch.as_bytes()[size_of::<Sequence>()..]);
        let stored = tail.append(&record);
        tail.record = record;
        if let Err(error) = stored {
            self.store_failed(tail, &error);
            return Err(error);
        }
        let operations = batch.iter().map(|operation| match operation {
            BatchOp::Put { key, value } => (key, Some(value)),
            BatchOp::Delete { key } => (key, None),
        });
        if mutant!(BatchInParts) {
            for (number, operation) in (first..).zip(operations) {
                tail.memtable.insert(number, std::iter::once(operation));
                self.present.reveal(number);
            }
        } else {
            tail.memtable.insert(first, operations);
        }
        tail.sequence = last;
        self.durability.count_write();
        self.present.reveal(last);
        Ok(())
    }

    /// Without space the failed record is not whole, and readers of the log leave it out; the next log goes on with the
    /// same number, so that they miss nothing. After any other error nobody knows.
    fn store_failed(&self, tail: &mut LogTail, error: &Error) {
        if error.is_resumable() {
            tail.broken = !mutant!(NoSpaceTearsLog);
        } else {
            self.refuse(error);
        }
    }

    /// Returns when the memtable has room for a write. The lock is given up while it waits.
    fn make_room(&self, commit: &mut MutexGuard<'_, Option<LogTail>>) -> Result<()> {
        loop {
            self.refusal.check()?;
            let tail = commit.as_mut().ok_or_else(closed)?;
            if !tail.broken && tail.memtable.bytes() < self.buffer.size() {
                return Ok(());
            }
            if !self.may_freeze(&self.state.lock()) {
                self.note_wait();
                MutexGuard::unlocked(commit, || self.wait_for(|state| self.may_freeze(state)))?;
                continue;
            }
            match self.switch(tail, Target::AnyLevel) {
                // What a flush or merge is about to free may be enough.
                Err(error)
                    if error.is_resumable() && MutexGuard::unlocked(commit, || self.wait_for_job()) => {}
                switched => switched?,
            }
        }
    }

    /// True if there is room for one more memtable on its way to a table, and for that table.
    fn may_freeze(&self, state: &State) -> bool {
        state.frozen.len() < self.buffer.frozen_max() && state.set.version.levels[0].len() < LEVEL_0_STOP
            || self.closing.load(Ordering::Relaxed)
    }

    /// Freezes the memtable and begins a new log and a new memtable. On an error nothing has changed.
    pub(super) fn switch(&self, tail: &mut LogTail, target: Target) -> Result<()> {
        if tail.resumed {
            // Behind the mark of a closed log that was gone on with: without what follows it, a replay would take the
            // log for closed, and the next one for somebody else's.
            tail.log.file.sync().map_err(Error::from).inspect_err(|error| self.refuse(error))?;
        }
        let log = Log::create(&self.options, &self.directory, self.new_file_number(), self.buffer.size())?;
        let memtable = Memtable::new(self.comparator.clone());
        let old_log = std::mem::replace(&mut tail.log, log.clone());
        tail.framer = Framer::at(0);
        (tail.broken, tail.resumed) = (false, false);
        let old = std::mem::replace(&mut tail.memtable, Arc::clone(&memtable));
        let mut state = self.state.lock();
        // Logs from before the manifest's log number are in tables.
        self.durability.go_on_in(log, state.set.log_number);
        state.memtable = memtable;
        let (log, next_log, last_sequence) = (old_log.number, tail.log.number, tail.sequence);
        state.frozen.push_back(Frozen { memtable: old, log, next_log, last_sequence, target });
        self.publish(&state);
        self.schedule(&mut state);
        Ok(())
    }

    /// Turns what is in memory into a table, and returns when that is done.
    pub(super) fn flush(&self, target: Target) -> Result<()> {
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

    /// Returns when `done`, while the background works; an error if the background failed meanwhile and so can't
    /// bring it about.
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
        let works = state.flushing || state.merging;
        while (state.flushing || state.merging) && state.changes == changes {
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
