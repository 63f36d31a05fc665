//! Execution of one compaction in the background.

use std::time::Duration;

use super::manual_compaction::ManualCompactionStep;
use super::read_compaction::READ_COMPACTION_PAUSE_FACTOR;
use crate::compaction::picker::{lazy_leveled, leveled, settling, tombstones};
use crate::compaction::{self, Compaction, CompactionOutput};
use crate::db::components::compaction_stats::CompactionStats;
use crate::db::components::write_controller::RunningCompaction;
use crate::db::inner::{CompactionKeyRange, DbInner, DbState};
use crate::db::panic_guard::PoisonOnPanic;
use crate::error::Result;
use crate::event::{CompactionReason, Event, TableChangeCause};
use crate::stats::Timer;
use crate::sync::{Arc, Ordering};
use crate::version::{CommitError, total_size};

impl DbInner {
    pub(super) fn compaction_job(&self) {
        let _guard = PoisonOnPanic::new(self, clear_running_compaction);
        let sequence_at_start = self.read_state.visible_seqno().load(Ordering::Relaxed);
        let compaction = self.pick_compaction().map(Arc::new);
        let step = compaction.as_deref().and_then(ManualCompactionStep::from_compaction);
        let mut outcome = compaction.map_or(Ok(()), |compaction| self.compact(&compaction));
        // The job still counts as running, so no other thread can close the database and no other
        // process can open it. A caller that waits for the compaction finds the space free.
        self.remove_obsolete_files();
        let mut state = self.state.lock();
        clear_running_compaction(&mut state);
        if outcome.is_ok()
            && let Some(step) = step
        {
            step.record_done(&mut state);
        }
        if self.is_shutting_down.load(Ordering::Relaxed) {
            // The shutdown cancelled the compaction.
            outcome = Ok(());
        }
        self.finish_job(state, outcome);
        self.release_idle_memory(sequence_at_start);
    }

    fn pick_compaction(&self) -> Option<Compaction> {
        // Waits for a flush that has picked the level of its table and installs it.
        let _manifest = self.manifest.lock();
        let mut state = self.state.lock();
        if self.is_shutting_down.load(Ordering::Relaxed) {
            return None;
        }
        let compaction = match self.pick_manual_compaction(&mut state) {
            Some(compaction) => Some(compaction),
            None => self.pick_automatic_compaction(&mut state),
        };
        let inputs: Vec<_> = compaction.iter().flat_map(Compaction::input_files).cloned().collect();
        let key_range = state.version_set.version.key_range(&inputs);
        let output_level = compaction.as_ref().map_or(0, Compaction::output_level);
        state.compaction_key_range = key_range.map(|(smallest, largest)| CompactionKeyRange {
            output_level,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
        });
        self.compaction_progress.bytes_written.store(0, Ordering::Relaxed);
        self.compaction_progress.entries_read.store(0, Ordering::Relaxed);
        self.compaction_progress.bytes_read.store(0, Ordering::Relaxed);
        let running = compaction.as_ref().map(|compaction| RunningCompaction {
            level: compaction.level(),
            output_level,
            input_bytes: total_size(&inputs),
            input_entries: inputs
                .iter()
                .try_fold(0u64, |sum, file| Some(sum.saturating_add(file.entries()?))),
            entries_read: 0,
            speedup: self.compaction_speedup(&state, compaction),
            started_at: self.options.env.clock.monotonic(),
        });
        state.running_compaction = running;
        let change = self.recalculate_write_delay(&state);
        drop(state);
        self.report_delay_change(change);
        compaction
    }

    /// Picks the next step of the first manual compaction that has one. Ends those without tables
    /// in their range.
    fn pick_manual_compaction(&self, state: &mut DbState) -> Option<Compaction> {
        while let Some(manual) = state.manual_compactions.front() {
            let version = &state.version_set.version;
            let limits = &self.compaction_limits;
            let compaction = match manual.rewrites_below {
                None => leveled::pick_manual(version, manual.id, manual.level, manual.range(), limits),
                Some(number) => {
                    leveled::pick_rewrite(version, manual.id, manual.level, manual.range(), number, limits)
                }
            };
            if compaction.is_some() {
                return compaction;
            }
            state.manual_compactions.pop_front();
            self.notify_state_changed(state);
        }
        None
    }

    fn pick_automatic_compaction(&self, state: &mut DbState) -> Option<Compaction> {
        let limits = &self.compaction_limits;
        let version = &state.version_set.version;
        let hint = state.read_compaction.as_ref();
        let picked = if state.load_state.is_load_running() {
            state.settling = None;
            state.sliced_compaction = lazy_leveled::continue_sliced(version, state.sliced_compaction, limits);
            lazy_leveled::pick(version, state.sliced_compaction, limits)
                .or_else(|| leveled::pick_read_triggered(version, hint?, limits))
        } else {
            state.sliced_compaction = None;
            state.settling = match state.load_state.is_unsettled() {
                true => settling::continue_settling(version, state.settling, limits),
                false => None,
            };
            settling::pick(version, state.settling, limits)
                .or_else(|| leveled::pick(&state.version_set, hint, limits))
        };
        let compaction = picked.or_else(|| tombstones::pick(version, self.approx_oldest_reader(), limits));
        // The picker has used or rejected the hint, unless it picked a level above its target size.
        let reason = compaction.as_ref().map(|compaction| compaction.reason);
        if matches!(reason, None | Some(CompactionReason::ReadTriggered | CompactionReason::Tombstones)) {
            state.read_compaction = None;
        }
        compaction
    }

    fn compact(&self, compaction: &Arc<Compaction>) -> Result<()> {
        // A manual compaction rewrites all tables, to drop tombstones and the entries that they
        // hide.
        if !matches!(compaction.reason, CompactionReason::Manual(_)) && compaction.is_trivial_move() {
            return self.install_trivial_move(compaction);
        }
        let clock = &self.options.env.clock;
        let started_at = clock.monotonic();
        let level = compaction.output_level();
        let inputs = compaction.describe();
        let bytes_read = inputs.bytes;
        self.report(&Event::CompactionBegin(inputs.clone()));
        let output = self.run_compaction(compaction)?;
        let time = clock.monotonic().saturating_sub(started_at);
        self.install_compaction(compaction, &output, bytes_read, time)?;
        let CompactionOutput { tables, bytes_written, entries_read, entries_written } = output;
        let mut state = self.state.lock();
        state.compaction_stats[level].add(CompactionStats { time, bytes_read, bytes_written });
        if compaction.reason == CompactionReason::ReadTriggered {
            let now = clock.monotonic();
            state.read_compactions_paused_until = now + time * READ_COMPACTION_PAUSE_FACTOR;
            state.seek_compactions_paused_until = now + time;
        }
        drop(state);
        self.table_cache.metrics().timers.record(Timer::Compaction, time);
        let sizes = tables.iter().map(|table| (table.file.number, table.file.size)).collect();
        self.report(&Event::CompactionEnd { inputs, tables: sizes, entries_read, entries_written, time });
        self.end_report_of_tables(&tables);
        Ok(())
    }

    /// Installs the output tables. Removes them if the version edit was certainly not written.
    fn install_compaction(
        &self,
        compaction: &Compaction,
        output: &CompactionOutput,
        bytes_read: u64,
        time: Duration,
    ) -> Result<()> {
        let level = compaction.output_level();
        let mut edit = compaction.version_edit();
        edit.new_files.extend(output.tables.iter().map(|table| (level, table.file.clone())));
        let installed = self.log_and_apply(
            Some(TableChangeCause::Compaction),
            &output.tables,
            |_| edit,
            |state| {
                let speedup = state.running_compaction.take().map_or(1.0, |running| running.speedup);
                state.compaction_rate.record_compaction(bytes_read, time.mul_f64(speedup));
                state.version_set.version.set_table_stats(level, &output.tables);
                state.obsolete_tables.add_unreported(&output.tables);
            },
        );
        installed.map_err(|error| {
            match error {
                CommitError::NotApplied(_) => {
                    compaction::remove_tables(&self.options.env, &self.directory, &output.tables);
                }
                CommitError::Indeterminate(_) => {
                    let numbers = output.tables.iter().map(|table| table.file.number);
                    self.manifest.lock().add_undecided_tables(numbers);
                }
            }
            error.into_error()
        })
    }

    fn install_trivial_move(&self, compaction: &Compaction) -> Result<()> {
        let level = compaction.output_level();
        let mut edit = compaction.version_edit();
        edit.new_files.extend(compaction.input_files().map(|file| (level, file.to_new_file())));
        let numbers: Vec<u64> = compaction.input_files().map(|file| file.number).collect();
        self.log_and_apply(Some(TableChangeCause::Move), &[], |_| edit, |_| ())
            .map_err(CommitError::into_error)?;
        self.report(&Event::TablesMoved { inputs: compaction.describe(), tables: numbers });
        Ok(())
    }
}

fn clear_running_compaction(state: &mut DbState) {
    state.is_compaction_scheduled = false;
    state.compaction_key_range = None;
    state.running_compaction = None;
}
