//! Flush of an immutable memtable to a table.

use std::cell::Cell;

use terrace_format::filename::FileName;
use terrace_format::key;
use terrace_format::version_edit::VersionEdit;

use crate::compaction::picker::leveled;
use crate::compaction::{self, flush};
use crate::db::components::background_error::closed_error;
use crate::db::components::compaction_stats::CompactionStats;
use crate::db::inner::{DbInner, DbState, FlushOutput, FlushState, FlushTarget, ImmutableMemtable};
use crate::db::panic_guard::PoisonOnPanic;
use crate::error::Result;
use crate::stats::Timer;
use crate::sync::{Arc, MutexGuard, Ordering};
use crate::table::FinishedTable;
use crate::version::{CommitError, VersionSet, total_size};

/// So many flushes run at a time.
const MAX_BACKGROUND_FLUSHES: usize = 2;

impl DbState {
    /// How many flushes there is work for.
    pub(super) fn flushes_needed(&self) -> usize {
        let is_made = |frozen: &ImmutableMemtable| matches!(frozen.flush_state, FlushState::Done(_));
        let unmade = self.immutable_memtables.iter().filter(|frozen| !is_made(frozen)).count();
        // An edit that failed is tried again.
        let counts = self.immutable_memtables.front().is_some_and(is_made) && !self.is_installing_flush;
        (unmade + usize::from(counts)).min(MAX_BACKGROUND_FLUSHES)
    }

    /// Takes what is made and does not count, and can't.
    fn take_uninstalled_tables(&mut self) -> Vec<FinishedTable> {
        let take = |frozen: &mut ImmutableMemtable| match &mut frozen.flush_state {
            FlushState::Done(made) if !made.is_indeterminate => made.table.take(),
            _ => None,
        };
        self.immutable_memtables.iter_mut().filter_map(take).collect()
    }

    /// Notes that the table of `frozen` is made. False if another one is to be made.
    fn record_flush_output(&mut self, frozen: &ImmutableMemtable, made: FlushOutput) -> bool {
        let same =
            self.immutable_memtables.iter_mut().find(|other| other.table_number == frozen.table_number);
        same.map(|same| same.flush_state = FlushState::Done(made)).is_some()
    }
}

impl DbInner {
    pub(super) fn flush_job(&self) {
        let _guard = PoisonOnPanic::new(self, |_| ());
        let counted = PoisonOnPanic::new(self, |state| state.scheduled_flushes -= 1);
        let begun = self.read_state.visible_seqno().load(Ordering::Relaxed);
        let made =
            self.pick_memtable_to_flush().map_or(Ok(()), |frozen| self.flush_immutable_memtable(&frozen));
        let flushed = made.and_then(|()| self.install_flush_outputs());
        let mut state = self.state.lock();
        state.scheduled_flushes -= 1;
        // Told of a failure, a logger may panic, too: this flush has been counted.
        drop(counted);
        self.finish_job(state, flushed);
        self.release_idle_memory(begun);
    }

    /// The oldest memtable that nobody makes a table of, for who does.
    fn pick_memtable_to_flush(&self) -> Option<ImmutableMemtable> {
        let mut state = self.state.lock();
        let frozen = state
            .immutable_memtables
            .iter_mut()
            .find(|frozen| matches!(frozen.flush_state, FlushState::Pending))?;
        frozen.flush_state = FlushState::Running;
        Some(frozen.clone())
    }
    fn flush_immutable_memtable(&self, frozen: &ImmutableMemtable) -> Result<()> {
        let made = self.build_flush_table(frozen).inspect_err(|_| self.restart_flushes_from(frozen))?;
        let table = made.table.clone();
        let is_needed = self.state.lock().record_flush_output(frozen, made);
        if !is_needed {
            compaction::remove_tables(&self.options.env, &self.directory, table.as_slice());
        }
        Ok(())
    }

    /// Has the tables of `frozen` and of the memtables behind it made anew, by other numbers: a number that a file may have is not
    /// used for another, and they have to rise.
    fn restart_flushes_from(&self, frozen: &ImmutableMemtable) {
        let mut scrap = Vec::new();
        let mut state = self.state.lock();
        for other in
            state.immutable_memtables.iter_mut().skip_while(|other| other.table_number != frozen.table_number)
        {
            other.table_number = self.new_file_number();
            if let FlushState::Done(made) = std::mem::replace(&mut other.flush_state, FlushState::Pending) {
                scrap.extend(made.table);
            }
        }
        drop(state);
        compaction::remove_tables(&self.options.env, &self.directory, &scrap);
    }

    fn build_flush_table(&self, frozen: &ImmutableMemtable) -> Result<FlushOutput> {
        self.wait_until_applied(frozen.last_sequence)?;
        let start = self.options.env.clock.monotonic();
        let packed =
            compaction::table_options_for_level(self.flushes_to_last_level(frozen), &self.table_options);
        let env = &self.options.env;
        let table = flush::build_table(&frozen.memtable, env, &self.directory, frozen.table_number, &packed)?;
        Ok(FlushOutput { table, started_at: start, is_indeterminate: false })
    }

    /// Makes the tables count that are made, in the order of their memtables. Who finds another thread at it leaves it to that one.
    fn install_flush_outputs(&self) -> Result<()> {
        loop {
            let (frozen, made) = {
                let mut state = self.state.lock();
                if state.is_installing_flush {
                    return Ok(());
                }
                if self.background_error.is_set() {
                    // A table may hold a write whose sync failed while it was made.
                    let made = state.take_uninstalled_tables();
                    drop(state);
                    compaction::remove_tables(&self.options.env, &self.directory, &made);
                    return Ok(());
                }
                let Some(frozen) = state.immutable_memtables.front().cloned() else { return Ok(()) };
                let FlushState::Done(made) = frozen.flush_state.clone() else { return Ok(()) };
                state.is_installing_flush = true;
                (frozen, made)
            };
            let installed = self.install_flush_output(&frozen, &made);
            // Before another thread tries.
            if let Err(error) = &installed
                && !error.is_retryable()
            {
                self.set_background_error(error);
            }
            self.state.lock().is_installing_flush = false;
            installed?;
        }
    }

    fn install_flush_output(&self, frozen: &ImmutableMemtable, made: &FlushOutput) -> Result<()> {
        let (clock, env) = (&self.options.env.clock, &self.options.env);
        let FlushOutput { table, started_at: start, .. } = made;
        let size = table.as_ref().map_or(0, |table| table.file.size);
        let mut entries = 0;
        let level = Cell::new(0);
        let installed = self.log_and_apply(
            |set| {
                entries = frozen.last_sequence.saturating_sub(set.last_sequence);
                let mut edit =
                    VersionEdit { log_number: Some(frozen.next_log_number), ..VersionEdit::default() };
                edit.last_sequence = Some(frozen.last_sequence);
                if let Some(FinishedTable { file, .. }) = table {
                    level.set(match frozen.target {
                        FlushTarget::Level0 => 0,
                        FlushTarget::AnyLevel => {
                            self.pick_flush_level(set, file.smallest.user_key(), file.largest.user_key())
                        }
                    });
                    edit.new_files.push((level.get(), file.clone()));
                }
                edit
            },
            |state| {
                state.immutable_memtables.pop_front();
                state.compaction_rate.record_flush(size, frozen.user_bytes);
                state.version_set.version.set_table_stats(level.get(), table.as_slice());
            },
        );
        let level = level.get();
        match installed {
            Ok(()) => {}
            Err(CommitError::NotApplied(error)) => {
                if !made.is_indeterminate {
                    self.restart_flushes_from(frozen);
                }
                return Err(error);
            }
            Err(CommitError::Indeterminate(error)) => {
                let made = FlushOutput { is_indeterminate: true, ..made.clone() };
                self.state.lock().record_flush_output(frozen, made);
                return Err(error);
            }
        }
        // Its contents are in a durable table. Closed first: some file systems keep, or count, what is removed open.
        self.wal_sync.release_logs(frozen.next_log_number);
        // A leftover is removed at the next open.
        let _ = env.fs.remove(&self.file_path(FileName::Log(frozen.log_number)));
        let time = clock.monotonic().saturating_sub(*start);
        let stats = CompactionStats { time, bytes_read: 0, bytes_written: size };
        self.state.lock().compaction_stats[level].add(stats);
        let stored = self.read_state.current().version.levels.iter().map(|files| total_size(files)).sum();
        self.memtable_sizer.record_flush(frozen.memtable.memory_usage(), stored, clock.monotonic());
        self.table_cache.metrics().timers.record(Timer::Flush, stats.time);
        self.logger.log(format_args!(
            "Memtable flushed: table={} level={level} log={} entries={entries} bytes_in={} bytes_out={size} us={}",
            frozen.table_number,
            frozen.log_number,
            frozen.memtable.memory_usage(),
            stats.time.as_micros()
        ));
        Ok(())
    }

    /// True if the table of `frozen` will likely go to the last level, where it stays: that it is packed, or not, is no
    /// more than a matter of time and space.
    fn flushes_to_last_level(&self, frozen: &ImmutableMemtable) -> bool {
        let Some((first, last)) =
            frozen.memtable.key_bounds().filter(|_| frozen.target == FlushTarget::AnyLevel)
        else {
            return false;
        };
        let version = Arc::clone(&self.read_state.current().version);
        let level = leveled::pick_level_for_memtable_output(
            &version,
            key::user_key(&first),
            key::user_key(&last),
            &self.compaction_limits,
        );
        level > 0 && version.is_bottommost_level(level)
    }

    /// Called with the manifest locked, so that no merge begins between this and the edit.
    fn pick_flush_level(&self, set: &VersionSet, smallest: &[u8], largest: &[u8]) -> usize {
        let user = self.comparator.user_comparator();
        let state = self.state.lock();
        let meets_merge = state.compaction_key_range.as_ref().is_some_and(|merge| {
            user.compare(smallest, &merge.largest).is_le() && user.compare(largest, &merge.smallest).is_ge()
        });
        if meets_merge {
            0
        } else {
            leveled::pick_level_for_memtable_output(&set.version, smallest, largest, &self.compaction_limits)
        }
    }

    /// Turns what is in memory into a table, and returns when that is done.
    pub(in crate::db) fn flush(&self, target: FlushTarget) -> Result<()> {
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
}
