//! Space for the next write: a switch to a new memtable, or a wait for a flush or a compaction.

use std::time::Duration;

use terrace_format::log::RecordWriter;
use terrace_format::version_edit::VersionEdit;
use terrace_sync::mutant;

use crate::compaction::flush_partitioner;
use crate::db::components::wal::{WalFile, WalWriter};
use crate::db::inner::{DbInner, DbState, FlushState, FlushTarget, ImmutableMemtable};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::stats::Timer;
use crate::sync::{Arc, MutexGuard, Ordering};
use crate::version::total_size;

impl DbInner {
    /// Returns when the memtable has space for a write. Releases the lock while it waits.
    pub(super) fn make_room_for_write(&self, commit: &mut MutexGuard<'_, Option<WalWriter>>) -> Result<()> {
        loop {
            self.background_error.check()?;
            let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
            if self.has_room(writer) {
                return Ok(());
            }
            let state = self.state.lock();
            if let Some(cause) = self.stall_cause(&state) {
                let state_at_begin = self.stall_state(&state);
                drop(state);
                MutexGuard::unlocked(commit, || {
                    self.listed_stall(cause, Some(state_at_begin), || {
                        self.wait_until(|state| self.stall_cause(state).is_none())
                    })
                })?;
                continue;
            }
            drop(state);
            let switched = self.timed_stall(Timer::MemtableSwitch, None, || {
                self.switch_memtable(writer, FlushTarget::AnyLevel)
            });
            if let Err(error) = switched {
                // A flush or a compaction may be about to free enough space.
                let may_retry = error.is_retryable() && self.wait_for_space(commit);
                if !may_retry {
                    return Err(error);
                }
            }
        }
    }

    /// Returns true if the log and the memtable of `writer` take the next write.
    pub(super) fn has_room(&self, writer: &WalWriter) -> bool {
        !writer.is_torn
            && writer.memtable.memory_usage() < writer.memtable_full_at
            && !self.must_flush_early(writer)
    }

    /// Waits without `commit` until a background job ends. Returns false if none is scheduled.
    fn wait_for_space(&self, commit: &mut MutexGuard<'_, Option<WalWriter>>) -> bool {
        MutexGuard::unlocked(commit, || {
            self.listed_stall(Timer::NoSpaceStall, None, || self.wait_for_background_job())
        })
    }

    /// Returns the timer of the stall if a write has to wait before the next switch of the
    /// memtable: for a flush or for a compaction of level 0.
    pub(in crate::db) fn stall_cause(&self, state: &DbState) -> Option<Timer> {
        if self.is_shutting_down.load(Ordering::Relaxed) {
            None
        } else if state.immutable_memtables.len() >= self.max_immutable_memtables() {
            Some(Timer::FlushStall)
        } else {
            let runs = state.version_set.version.level_0_runs() + state.immutable_memtables.len();
            (runs >= self.compaction_limits.level_0.stop).then_some(Timer::CompactionStall)
        }
    }

    /// Makes the memtable immutable and starts a new log and a new memtable. An error changes
    /// nothing.
    pub(in crate::db) fn switch_memtable(&self, writer: &mut WalWriter, target: FlushTarget) -> Result<()> {
        if writer.reused_len.is_some() && !mutant!(ReusedLogNotEnded) {
            self.end_reused_log(writer)?;
        }
        let now = self.options.env.clock.monotonic();
        self.memtable_sizer.record_switch(
            writer.memtable.memory_usage() >= writer.memtable_full_at / 2,
            now.saturating_sub(writer.memtable_created_at),
        );
        let size = self.memtable_sizer.size();
        let wal = WalFile::create(&self.options, &self.directory, self.new_file_number(), size)?;
        let fills_fast = self.memtable_sizer.fills_fast();
        if fills_fast {
            wal.file.expect_fast_fill();
        }
        let memtable = Memtable::with_pool(self.comparator.clone(), &self.chunk_pool, size, fills_fast);
        let immutable = self.restart_writer(writer, wal, memtable, size, now);
        let mut state = self.state.lock();
        // Tables hold the writes of all logs before the manifest's log number.
        self.wal_sync.add_log(writer.wal.clone(), state.version_set.log_number);
        state.memtable = Arc::clone(&writer.memtable);
        let previous = state.immutable_memtables.back();
        let sequence_before =
            previous.map_or(state.version_set.last_sequence, |previous| previous.last_sequence);
        let records = immutable.last_sequence.saturating_sub(sequence_before);
        let bytes = immutable.memtable.memory_usage();
        self.memtable_sizer.record_freeze(bytes, records);
        let stored_bytes = total_size(state.version_set.version.levels.iter().flatten());
        let max_tables = flush_partitioner::max_tables(bytes, stored_bytes);
        let table_numbers = self.new_file_numbers(max_tables);
        state.immutable_memtables.push_back(ImmutableMemtable { table_numbers, target, ..immutable });
        self.install_read_state(&state);
        self.detect_load(&mut state, bytes);
        self.maybe_schedule_flush_or_compaction(&mut state);
        Ok(())
    }

    /// Makes a reused log durable, and replaces the close mark of the MANIFEST by that of this run.
    /// Otherwise a replay after a power cut could take the end of the reused log and the next log
    /// for those of another program, and accept missing writes.
    fn end_reused_log(&self, writer: &mut WalWriter) -> Result<()> {
        writer.wal.sync().inspect_err(|error| self.set_background_error(error))?;
        let replaced = self.log_and_apply(None, &[], |_| VersionEdit::default(), |_| ());
        replaced.map_err(|error| self.refuse_writes_after(error).into_error())
    }

    /// Points `writer` to a new log and a new memtable of `size` bytes. Returns the old memtable,
    /// without table numbers.
    fn restart_writer(
        &self,
        writer: &mut WalWriter,
        wal: WalFile,
        memtable: Arc<Memtable>,
        size: usize,
        now: Duration,
    ) -> ImmutableMemtable {
        let next_log_number = wal.number;
        let old_wal = std::mem::replace(&mut writer.wal, wal);
        let old_memtable = std::mem::replace(&mut writer.memtable, memtable);
        let log_len = std::mem::replace(&mut writer.record_writer, RecordWriter::resume_at(0)).end_offset();
        writer.is_torn = false;
        writer.reused_len = None;
        writer.next_fill_check = if self.memtable_sizer.fills_fast() { u64::MAX } else { 0 };
        writer.fill_rate_checked_at = None;
        writer.memtable_full_at = self.memtable_sizer.full_threshold(size);
        writer.memtable_created_at = now;
        ImmutableMemtable {
            memtable: old_memtable,
            table_numbers: 0..0,
            flush_state: FlushState::Pending,
            log_number: old_wal.number,
            log_len,
            next_log_number,
            last_sequence: writer.last_sequence,
            user_bytes: std::mem::take(&mut writer.user_bytes),
            target: FlushTarget::AnyLevel,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, Env, Options};

    /// A memtable was once full at the current size instead of the size at its creation. It outgrew
    /// the preallocated log, and each further write needed two system calls.
    #[test]
    fn memtable_does_not_outgrow_its_log() {
        let options = Options { create_if_missing: true, env: Env::in_memory(), ..Options::default() };
        let db = Db::open("db", &options).unwrap();
        let inner = db.inner();
        let size = inner.memtable_sizer.size();
        let now = inner.options.env.clock.monotonic();
        let current_log = || {
            let commit = inner.commit.lock();
            let writer = commit.as_ref().unwrap();
            (writer.wal.number, writer.record_writer.end_offset(), writer.wal.file.capacity())
        };
        let (first, _, capacity) = current_log();
        inner.memtable_sizer.record_flush(size, u64::MAX, now);
        assert_eq!(inner.memtable_sizer.size(), 2 * size);
        for key in 0u32.. {
            db.put(key.to_be_bytes(), [0; 100]).unwrap();
            let (number, end, current_capacity) = current_log();
            if number > first {
                assert!(current_capacity >= 2 * size as u64, "{current_capacity}");
                break;
            }
            assert!(end <= capacity, "{end} of {capacity}");
        }
    }
}
