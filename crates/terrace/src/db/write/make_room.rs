//! Space for the next write: switches to a new memtable, or waits for a flush or a compaction.

use terrace_format::log::RecordWriter;

use crate::compaction::picker::L0_STOP_WRITES_TRIGGER;
use crate::db::components::background_error::closed_error;
use crate::db::components::wal::{WalFile, WalWriter};
use crate::db::inner::{DbInner, DbState, FlushState, FlushTarget, ImmutableMemtable};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::stats::Timer;
use crate::sync::{Arc, MutexGuard, Ordering};

impl DbInner {
    /// Returns when the memtable has room for a write. The lock is given up while it waits.
    pub(super) fn make_room_for_write(&self, commit: &mut MutexGuard<'_, Option<WalWriter>>) -> Result<()> {
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
    pub(in crate::db) fn stall_cause(&self, state: &DbState) -> Option<Timer> {
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
    pub(in crate::db) fn switch_memtable(&self, tail: &mut WalWriter, target: FlushTarget) -> Result<()> {
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
