//! Execution of one compaction in the background.

use super::manual_compaction::ManualCompactionStep;
use super::read_compaction::READ_COMPACTION_PAUSE_FACTOR;
use crate::compaction::picker::{leveled, tombstones};
use crate::compaction::{self, Compaction, CompactionOutput, CompactionReason};
use crate::db::components::compaction_stats::CompactionStats;
use crate::db::components::write_controller::RunningCompaction;
use crate::db::inner::{CompactionKeyRange, DbInner, DbState};
use crate::db::panic_guard::PoisonOnPanic;
use crate::error::Result;
use crate::stats::Timer;
use crate::sync::{Arc, Ordering};
use crate::version::{CommitError, total_size};

impl DbInner {
    pub(super) fn compaction_job(&self) {
        let clear = |state: &mut DbState| {
            state.is_compaction_scheduled = false;
            (state.compaction_key_range, state.running_compaction) = (None, None);
        };
        let _guard = PoisonOnPanic::new(self, clear);
        let begun = self.read_state.visible_seqno().load(Ordering::Relaxed);
        let job = self.pick_compaction().map(Arc::new);
        let step = job.as_deref().and_then(ManualCompactionStep::from_compaction);
        let merged = job.map_or(Ok(()), |job| self.compact(&job));
        // While the job still counts as running, so that nobody has closed the database and made it anew; and before
        // who waits for the merge goes on, so that he finds the space free.
        self.remove_obsolete_files();
        let mut state = self.state.lock();
        clear(&mut state);
        if let (Ok(()), Some(step)) = (&merged, step) {
            step.record_done(&mut state);
        }
        let merged = match merged {
            // Given up because the database closes.
            Err(_) if self.is_shutting_down.load(Ordering::Relaxed) => Ok(()),
            merged => merged,
        };
        self.finish_job(state, merged);
        self.release_idle_memory(begun);
    }

    fn pick_compaction(&self) -> Option<Compaction> {
        // No flush is between its choice of a level and its edit.
        let _manifest = self.manifest.lock();
        let mut state = self.state.lock();
        if self.is_shutting_down.load(Ordering::Relaxed) {
            return None;
        }
        let job = loop {
            let Some(manual) = state.manual_compactions.front() else {
                let job = leveled::pick(
                    &state.version_set,
                    state.read_compaction.as_ref(),
                    &self.compaction_limits,
                )
                .or_else(|| {
                    tombstones::pick(
                        &state.version_set.version,
                        self.approx_oldest_reader(),
                        &self.compaction_limits,
                    )
                });
                if job.as_ref().is_none_or(|job| {
                    matches!(job.reason, CompactionReason::ReadTriggered | CompactionReason::Tombstones)
                }) {
                    state.read_compaction = None;
                }
                break job;
            };
            let job = leveled::pick_manual(
                &state.version_set.version,
                manual.id,
                manual.level,
                manual.range(),
                &self.compaction_limits,
            );
            if job.is_some() {
                break job;
            }
            state.manual_compactions.pop_front();
            self.notify_state_changed(&mut state);
        };
        let inputs: Vec<_> = job.iter().flat_map(Compaction::input_files).cloned().collect();
        state.compaction_key_range =
            state.version_set.version.key_range(&inputs).map(|(smallest, largest)| CompactionKeyRange {
                smallest: smallest.to_vec(),
                largest: largest.to_vec(),
            });
        state.running_compaction = job.as_ref().map(|job| RunningCompaction {
            level: job.level(),
            input_bytes: total_size(&inputs),
            started_at: self.options.env.clock.monotonic(),
        });
        let turn = self.recalculate_write_delay(&state);
        drop(state);
        self.log_delay_change(turn);
        job
    }

    fn compact(&self, job: &Arc<Compaction>) -> Result<()> {
        // A merge that was asked for rewrites everything, so that deletes and what they hide go.
        if !matches!(job.reason, CompactionReason::Manual(_)) && job.is_trivial_move() {
            return self.install_trivial_move(job);
        }
        let clock = &self.options.env.clock;
        let start = clock.monotonic();
        let level = job.output_level();
        let bytes_read: u64 = job.inputs.iter().map(|(_, files)| total_size(files)).sum();
        self.logger.log(format_args!("Merging: {job} bytes_in={bytes_read}"));
        let outcome = self.run_compaction(job)?;
        let mut edit = job.version_edit();
        edit.new_files.extend(outcome.tables.iter().map(|table| (level, table.file.clone())));
        let CompactionOutput { tables, bytes_written, entries_read, entries_written } = outcome;
        let stats =
            CompactionStats { time: clock.monotonic().saturating_sub(start), bytes_read, bytes_written };
        match self.log_and_apply(
            |_| edit,
            |state| {
                state.compaction_rate.record_compaction(bytes_read, stats.time);
                state.running_compaction = None;
                state.version_set.version.set_table_stats(level, &tables);
            },
        ) {
            Ok(()) => {}
            Err(CommitError::NotApplied(error)) => {
                compaction::remove_tables(&self.options.env, &self.directory, &tables);
                return Err(error);
            }
            Err(CommitError::Indeterminate(error)) => return Err(error),
        }
        let mut state = self.state.lock();
        state.compaction_stats[level].add(stats);
        if job.reason == CompactionReason::ReadTriggered {
            state.read_compactions_paused_until =
                clock.monotonic() + stats.time * READ_COMPACTION_PAUSE_FACTOR;
        }
        drop(state);
        self.table_cache.metrics().timers.record(Timer::Compaction, stats.time);
        self.logger.log(format_args!(
            "Merged: {job} into={level} files_out={} entries_in={entries_read} entries_out={entries_written} \
             bytes_in={bytes_read} bytes_out={bytes_written} us={}",
            tables.len(),
            stats.time.as_micros()
        ));
        Ok(())
    }

    fn install_trivial_move(&self, job: &Compaction) -> Result<()> {
        let level = job.output_level();
        let mut edit = job.version_edit();
        edit.new_files.extend(job.input_files().map(|file| (level, file.to_new_file())));
        let numbers: Vec<u64> = job.input_files().map(|file| file.number).collect();
        self.log_and_apply(|_| edit, |_| ()).map_err(CommitError::into_error)?;
        self.logger.log(format_args!("Moved: {job} into={level} tables={numbers:?}"));
        Ok(())
    }
}
