//! Flush of an immutable memtable to tables.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use terrace_format::filename::FileName;
use terrace_format::key;
use terrace_format::version_edit::{NewFile, VersionEdit};
use terrace_sync::mutant;

use crate::compaction;
use crate::compaction::flush::{self, FlushGaps, FlushPlace};
use crate::compaction::flush_partitioner::{FlushPartitioner, FlushSample};
use crate::compaction::picker::leveled;
use crate::db::components::compaction_stats::CompactionStats;
use crate::db::inner::{DbInner, DbState, FlushOutput, FlushState, FlushTarget, ImmutableMemtable};
use crate::db::panic_guard::PoisonOnPanic;
use crate::error::{Error, Result};
use crate::event::{Event, FlushedTable, TableChangeCause};
use crate::stats::Timer;
use crate::sync::{Arc, MutexGuard, Ordering};
use crate::table::FinishedTable;
use crate::version::{CommitError, Version, VersionSet, total_size};

/// Maximum number of flush jobs that run at the same time.
const MAX_BACKGROUND_FLUSHES: usize = 2;

impl DbState {
    /// Number of flush jobs that would find work.
    pub(super) fn flushes_needed(&self) -> usize {
        let immutable_memtables = self.immutable_memtables.iter();
        let unfinished = immutable_memtables.filter(|immutable| !immutable.is_flushed()).count();
        // Tables whose install failed are installed again.
        let can_install = self.immutable_memtables.front().is_some_and(ImmutableMemtable::is_flushed)
            && !self.is_installing_flush;
        (unfinished + usize::from(can_install)).min(MAX_BACKGROUND_FLUSHES)
    }

    /// Takes the finished tables that will never be installed.
    fn take_uninstalled_tables(&mut self) -> Vec<FinishedTable> {
        let mut tables = Vec::new();
        for immutable in &mut self.immutable_memtables {
            if let FlushState::Done(output) = &mut immutable.flush_state
                && !output.is_indeterminate
            {
                tables.append(&mut output.tables);
            }
        }
        tables
    }

    /// Records the finished tables of `immutable`. Returns false if its flush was restarted
    /// meanwhile, with other table numbers.
    fn record_flush_output(&mut self, immutable: &ImmutableMemtable, output: FlushOutput) -> bool {
        let mut memtables = self.immutable_memtables.iter_mut();
        let current = memtables.find(|other| other.table_numbers == immutable.table_numbers);
        current.map(|current| current.flush_state = FlushState::Done(output)).is_some()
    }
}

impl ImmutableMemtable {
    fn is_flushed(&self) -> bool {
        matches!(self.flush_state, FlushState::Done(_))
    }
}

impl DbInner {
    pub(super) fn flush_job(&self) {
        let _guard = PoisonOnPanic::new(self, |_| ());
        let count_guard = PoisonOnPanic::new(self, |state| state.scheduled_flushes -= 1);
        let sequence_at_start = self.read_state.visible_seqno().load(Ordering::Relaxed);
        let flushed = match self.pick_memtable_to_flush() {
            Some(immutable) => self.flush_immutable_memtable(&immutable),
            None => Ok(()),
        };
        let outcome = flushed.and_then(|()| self.install_flush_outputs());
        let mut state = self.state.lock();
        state.scheduled_flushes -= 1;
        // A logger that panics in `finish_job` must not decrement the count again.
        drop(count_guard);
        self.finish_job(state, outcome);
        self.release_idle_memory(sequence_at_start);
    }

    /// Claims the oldest memtable whose flush has not started.
    fn pick_memtable_to_flush(&self) -> Option<ImmutableMemtable> {
        let mut state = self.state.lock();
        let mut immutable_memtables = state.immutable_memtables.iter_mut();
        let pending =
            immutable_memtables.find(|immutable| matches!(immutable.flush_state, FlushState::Pending))?;
        pending.flush_state = FlushState::Running;
        Some(pending.clone())
    }

    fn flush_immutable_memtable(&self, immutable: &ImmutableMemtable) -> Result<()> {
        self.report(&Event::FlushBegin {
            table: immutable.table_numbers.start,
            log: immutable.log_number,
            memtable_bytes: immutable.memtable.memory_usage(),
        });
        let output =
            self.build_flush_tables(immutable).inspect_err(|_| self.restart_flushes_from(immutable))?;
        let tables = output.tables.clone();
        let is_needed = self.state.lock().record_flush_output(immutable, output);
        if !is_needed {
            compaction::remove_tables(&self.options.env, &self.directory, &tables);
        }
        Ok(())
    }

    /// Restarts the flushes of `immutable` and of all newer memtables, with new table numbers. A
    /// number of a file that may exist is never used again, and newer memtables need greater
    /// numbers.
    fn restart_flushes_from(&self, immutable: &ImmutableMemtable) {
        let mut discarded_tables = Vec::new();
        let mut state = self.state.lock();
        let first = &immutable.table_numbers;
        for restarted in
            state.immutable_memtables.iter_mut().skip_while(|other| other.table_numbers != *first)
        {
            let Range { start, end } = restarted.table_numbers;
            restarted.table_numbers = self.new_file_numbers(end - start);
            let flush_state = std::mem::replace(&mut restarted.flush_state, FlushState::Pending);
            if let FlushState::Done(output) = flush_state {
                discarded_tables.extend(output.tables);
            }
        }
        drop(state);
        compaction::remove_tables(&self.options.env, &self.directory, &discarded_tables);
    }

    fn build_flush_tables(&self, immutable: &ImmutableMemtable) -> Result<FlushOutput> {
        self.wait_until_applied(immutable.last_sequence)?;
        let env = &self.options.env;
        let started_at = env.clock.monotonic();
        let is_last_level = self.flushes_to_last_level(immutable);
        let options = compaction::table_options_for_level(is_last_level, &self.table_options);
        // All writes of the memtable are visible. So a snapshot that is taken from now on sees the
        // newest version of each key.
        let smallest_snapshot = if mutant!(FlushDropsSnapshotVersion) {
            key::MAX_SEQUENCE_NUMBER
        } else {
            self.snapshots.oldest(self.read_state.visible_seqno())
        };
        let ImmutableMemtable { memtable, table_numbers: Range { start: number, end }, .. } = immutable;
        let place = FlushPlace { env, directory: &self.directory, number: *number, options: &options };
        let comparator = &**self.comparator.user_comparator();
        let sample = FlushSample::new(memtable);
        let mut earlier_keys = self.state.lock().flush_history.add(sample);
        earlier_keys.sort(comparator);
        let gaps = FlushGaps {
            partitioner: FlushPartitioner::new(comparator, &earlier_keys),
            numbers: number + 1..*end,
        };
        let gaps = (immutable.target == FlushTarget::AnyLevel && !gaps.numbers.is_empty()).then_some(gaps);
        let tables = flush::build_tables(memtable, smallest_snapshot, place, gaps)?;
        let properties = || tables.iter().map(|table| table.stats.properties);
        let entries = properties().map(|properties| properties.num_entries).sum();
        let tombstones = properties().map(|properties| properties.num_deletions).sum();
        self.state.lock().flush_history.record_tombstones(tombstones, entries);
        Ok(FlushOutput { tables, started_at, is_indeterminate: false })
    }

    /// Installs finished tables in memtable order. Returns at once if another thread is installing.
    fn install_flush_outputs(&self) -> Result<()> {
        while let Some((immutable, output)) = self.start_flush_install() {
            let installed = self.install_flush_output(&immutable, &output);
            // Set before another thread may install.
            if let Err(error) = &installed
                && !error.is_retryable()
            {
                self.set_background_error(error);
            }
            self.state.lock().is_installing_flush = false;
            installed?;
        }
        Ok(())
    }

    /// Returns the oldest memtable and its tables, if they are finished and no other thread
    /// installs tables.
    fn start_flush_install(&self) -> Option<(ImmutableMemtable, FlushOutput)> {
        let mut state = self.state.lock();
        if state.is_installing_flush {
            return None;
        }
        if self.background_error.is_set() {
            // The tables may contain a write whose sync failed.
            let tables = state.take_uninstalled_tables();
            drop(state);
            compaction::remove_tables(&self.options.env, &self.directory, &tables);
            return None;
        }
        let immutable = state.immutable_memtables.front()?.clone();
        let FlushState::Done(output) = immutable.flush_state.clone() else { return None };
        state.is_installing_flush = true;
        Some((immutable, output))
    }

    fn install_flush_output(&self, immutable: &ImmutableMemtable, output: &FlushOutput) -> Result<()> {
        let tables = &output.tables;
        let size = tables.iter().map(|table| table.file.size).sum();
        let mut entries = 0;
        let levels = RefCell::new(Vec::new());
        let mut time = Duration::ZERO;
        let installed = self.log_and_apply(
            Some(TableChangeCause::Flush),
            tables,
            |version_set| {
                entries = immutable.last_sequence.saturating_sub(version_set.last_sequence);
                let mut edit =
                    VersionEdit { log_number: Some(immutable.next_log_number), ..VersionEdit::default() };
                edit.last_sequence = Some(immutable.last_sequence);
                edit.new_files = self.flushed_files(version_set, immutable.target, tables);
                levels.borrow_mut().extend(edit.new_files.iter().map(|(level, _)| *level));
                edit
            },
            |state| {
                state.immutable_memtables.pop_front();
                state.compaction_rate.record_flush(size, immutable.user_bytes);
                // Before a caller that waits for the flush can read the statistics.
                time = self.options.env.clock.monotonic().saturating_sub(output.started_at);
                for (table, &level) in tables.iter().zip(&*levels.borrow()) {
                    state.version_set.version.set_table_stats(level, std::slice::from_ref(table));
                    let time = time.mul_f64(table.file.size as f64 / size as f64);
                    let stats = CompactionStats { time, bytes_read: 0, bytes_written: table.file.size };
                    state.compaction_stats[level].add(stats);
                }
                self.table_cache.metrics().timers.record(Timer::Flush, time);
                state.obsolete_tables.add_unreported(tables);
            },
        );
        installed.map_err(|error| self.handle_flush_error(error, immutable, output))?;
        self.remove_flushed_log(immutable);
        self.record_memtable_flush(immutable);
        let numbers_and_sizes = tables.iter().map(|table| (table.file.number, table.file.size));
        self.report(&Event::FlushEnd {
            table: immutable.table_numbers.start,
            log: immutable.log_number,
            tables: numbers_and_sizes
                .zip(levels.into_inner())
                .map(|((number, bytes), level)| FlushedTable { number, level, bytes })
                .collect(),
            entries,
            memtable_bytes: immutable.memtable.memory_usage(),
            time,
        });
        self.end_report_of_tables(tables);
        // Gets may have released tables since the last installation.
        self.schedule_obsolete_file_removal();
        Ok(())
    }

    /// Returns the files of flushed tables with their levels.
    fn flushed_files(
        &self,
        version_set: &VersionSet,
        target: FlushTarget,
        tables: &[FinishedTable],
    ) -> Vec<(usize, NewFile)> {
        let files = tables.iter().map(|table| &table.file);
        let with_level = files.map(|file| {
            let smallest = file.smallest.user_key();
            let largest = file.largest.user_key();
            let level = match target {
                FlushTarget::Level0 => 0,
                FlushTarget::AnyLevel => self.pick_flush_level(&version_set.version, smallest, largest),
            };
            (level, file.clone())
        });
        with_level.collect()
    }

    /// Prepares the retry of a failed install.
    fn handle_flush_error(
        &self,
        error: CommitError,
        immutable: &ImmutableMemtable,
        output: &FlushOutput,
    ) -> Error {
        match error {
            CommitError::NotApplied(error) => {
                if !output.is_indeterminate {
                    self.restart_flushes_from(immutable);
                }
                error
            }
            CommitError::Indeterminate(error) => {
                let output = FlushOutput { is_indeterminate: true, ..output.clone() };
                self.state.lock().record_flush_output(immutable, output);
                error
            }
        }
    }

    /// Removes the log of an installed memtable. Closes the file first: some file systems keep an
    /// open file, or count its space, after its removal.
    fn remove_flushed_log(&self, immutable: &ImmutableMemtable) {
        self.wal_sync.release_logs(immutable.next_log_number);
        // The next open removes a leftover.
        let _ = self.options.env.fs.remove(&self.file_path(FileName::Log(immutable.log_number)));
    }

    /// Records a flush for the size of later memtables.
    fn record_memtable_flush(&self, immutable: &ImmutableMemtable) {
        let stored_bytes = total_size(self.read_state.current().version.levels.iter().flatten());
        let memtable_bytes = immutable.memtable.memory_usage();
        self.memtable_sizer.record_flush(memtable_bytes, stored_bytes, self.options.env.clock.monotonic());
    }

    /// Predicts whether the table of `immutable` goes to the last level and stays there. The result
    /// only selects the compression, so a wrong prediction costs time or space.
    fn flushes_to_last_level(&self, immutable: &ImmutableMemtable) -> bool {
        let bounds = immutable.memtable.key_bounds();
        let Some((first, last)) = bounds.filter(|_| immutable.target == FlushTarget::AnyLevel) else {
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

    /// Returns the level of a flushed table. The caller holds `manifest`, so that no compaction
    /// starts before the install.
    ///
    /// The table is newer than all inputs of a running compaction. Above its output level, the
    /// table may lie between inputs. An output table may span the same keys.
    fn pick_flush_level(&self, version: &Version, smallest: &[u8], largest: &[u8]) -> usize {
        let level =
            leveled::pick_level_for_memtable_output(version, smallest, largest, &self.compaction_limits);
        match self.output_level_of_compaction(smallest, largest) {
            Some(output_level) if !mutant!(FlushBesideCompactionOutput) => {
                level.min(output_level.saturating_sub(1))
            }
            _ => level,
        }
    }

    /// Returns the output level of the running compaction if it may write keys from `smallest` to
    /// `largest`.
    pub(in crate::db) fn output_level_of_compaction(&self, smallest: &[u8], largest: &[u8]) -> Option<usize> {
        let comparator = self.comparator.user_comparator();
        let state = self.state.lock();
        let range = state.compaction_key_range.as_ref().filter(|range| {
            comparator.compare(smallest, &range.largest).is_le()
                && comparator.compare(largest, &range.smallest).is_ge()
        });
        range.map(|range| range.output_level)
    }

    /// Writes the memtables to tables. Returns when these are installed.
    pub(in crate::db) fn flush(&self, target: FlushTarget) -> Result<()> {
        self.check_owner_process()?;
        let can_switch =
            |state: &DbState| state.immutable_memtables.len() < self.memtable_sizer.max_immutable_memtables();
        let mut commit = self.commit.lock();
        let next_log = loop {
            let writer = commit.as_mut().ok_or_else(|| self.closed_error())?;
            self.background_error.check()?;
            if writer.memtable.is_empty() {
                break writer.wal.number;
            }
            if can_switch(&self.state.lock()) {
                self.switch_memtable(writer, target)?;
                break writer.wal.number;
            }
            MutexGuard::unlocked(&mut commit, || self.wait_until(can_switch))?;
        };
        drop(commit);
        self.wait_until(|state| {
            state.immutable_memtables.iter().all(|immutable| immutable.next_log_number > next_log)
        })
    }
}
