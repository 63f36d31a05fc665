//! What happens beside the writers: flushes and merges, as jobs on the env's lanes.
//!
//! At most one merge runs at a time, which may have several threads, and two flushes beside it: while one waits for the device, the
//! other has the processor. Their tables count in the order of their memtables.
//!
//! ```text
//!   flush 1    [ table of 1 ][ sync ][ 1 counts ][ table of 3 ][ sync ]              leaves 3 to the other, who is at 2
//!   flush 2          [ table of 2, larger   ][ sync ][ 2 counts ][ 3 counts ]
//! ```
//!
//! A job does one piece of work, says so, and queues the next if there is more. Its failure is the database's: either it
//! refuses writes from then on, or, where nothing became unclear, the next writer who needs the work done causes another attempt.

use std::cell::Cell;

use terrace_env::Priority;
use terrace_format::filename::FileName;
use terrace_format::key::{self, SequenceNumber};
use terrace_format::version_edit::{NUM_LEVELS, VersionEdit};

use super::install::CommitError;
use super::panic_guard::PoisonOnPanic;
use super::properties::CompactionStats;
use super::read_compaction::READ_COMPACTION_PAUSE_FACTOR;
use super::write_controller::RunningCompaction;
use super::{CompactionKeyRange, DbInner, DbState, FlushOutput, FlushState, FlushTarget, ImmutableMemtable};
use crate::compaction::picker::{leveled, tombstones};
use crate::compaction::{self, Compaction, CompactionOutput, CompactionReason, flush};
use crate::error::Result;
use crate::stats::Timer;
use crate::sync::{Arc, Condvar, Mutex, Ordering, Weak};
use crate::table::FinishedTable;
use crate::version::{KeyRange, Version, total_size};

/// So many flushes run at a time.
const MAX_BACKGROUND_FLUSHES: usize = 2;

/// A merge that somebody waits for.
pub(super) struct ManualCompaction {
    id: u64,
    level: usize,
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl ManualCompaction {
    fn range(&self) -> KeyRange<'_> {
        KeyRange { begin: self.begin.as_deref(), end: self.end.as_deref() }
    }
}

/// How many jobs hold the engine. A job says that it is done while it still does: what a closed database shared with its
/// opener, who may take it apart when `close` returns, has to wait for the last one to let go.
#[derive(Default)]
pub(super) struct BackgroundJobs {
    count: Mutex<usize>,
    all_done: Condvar,
}

/// One of them.
struct JobGuard(Arc<BackgroundJobs>);

impl BackgroundJobs {
    fn register(jobs: &Arc<BackgroundJobs>) -> JobGuard {
        *jobs.count.lock() += 1;
        JobGuard(Arc::clone(jobs))
    }

    /// Returns when there is none.
    pub(super) fn wait_until_idle(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.all_done.wait(&mut count);
        }
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.all_done.notify_all();
    }
}

impl DbState {
    /// How many flushes there is work for.
    fn flushes_needed(&self) -> usize {
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
    /// Queues what there is to do and is not queued yet.
    pub(super) fn maybe_schedule_flush_or_compaction(&self, state: &mut DbState) {
        if self.is_read_only
            || state.is_shut_down
            || self.background_error.is_set()
            || !self.owner_process.is_current()
        {
            return;
        }
        while state.scheduled_flushes < state.flushes_needed()
            && self.schedule_job(Priority::Flush, DbInner::flush_job)
        {
            state.scheduled_flushes += 1;
        }
        if !state.is_compaction_scheduled
            && state.is_compaction_enabled
            && !self.is_shutting_down.load(Ordering::Relaxed)
            && self.needs_compaction(state)
        {
            state.is_compaction_scheduled = self.schedule_job(Priority::Compaction, DbInner::compaction_job);
        }
    }

    fn schedule_job(&self, lane: Priority, job: fn(&DbInner)) -> bool {
        // Gone only while the database is being dropped: then nothing is queued any more.
        let Some(engine) = self.weak_self.upgrade() else { return false };
        let hold = BackgroundJobs::register(&self.background_jobs);
        let job = move || {
            let _hold = hold; // Declared first, so that it goes last.
            let engine = engine;
            job(&engine);
        };
        self.options.env.scheduler.schedule(lane, Box::new(job));
        true
    }

    fn needs_compaction(&self, state: &DbState) -> bool {
        let version = &state.version_set.version;
        !state.manual_compactions.is_empty()
            || state.read_compaction.is_some()
            || leveled::highest_score(version).1 >= 1.0
            || self.needs_tombstone_compaction(version)
    }

    /// If there is nothing to do for the space of deletes before a snapshot goes, its going has this asked again. Called with
    /// the state locked, of a database that does not close.
    fn needs_tombstone_compaction(&self, version: &Version) -> bool {
        let readers = self.approx_oldest_reader();
        if tombstones::needs_compaction(version, readers) {
            return true;
        }
        let Some(number) = tombstones::blocked_by_snapshot(version, readers) else { return false };
        // Like a job: who closes waits until a call that was begun has let go of the engine.
        let (hold, engine) = (BackgroundJobs::register(&self.background_jobs), Weak::clone(&self.weak_self));
        let look = move || {
            let _hold = hold; // Declared first, so that it goes last.
            let engine = engine.upgrade();
            engine.iter().for_each(|engine| engine.maybe_schedule_compaction());
        };
        let waits = self.snapshots.on_released_below(number, Box::new(look));
        // If not, the snapshot went meanwhile.
        !waits && tombstones::needs_compaction(version, self.approx_oldest_reader())
    }

    /// Has a job look whether there is a merge to do: who calls has something else to do.
    pub(super) fn maybe_schedule_compaction(&self) {
        let mut state = self.state.lock();
        let can = !self.is_read_only
            && self.owner_process.is_current()
            && !self.background_error.is_set()
            && !self.is_shutting_down.load(Ordering::Relaxed);
        if can && !state.is_compaction_scheduled && state.is_compaction_enabled {
            state.is_compaction_scheduled = self.schedule_job(Priority::Compaction, DbInner::compaction_job);
        }
    }

    /// A number that no reader reads before. The state is locked, so this is no more than a good guess.
    fn approx_oldest_reader(&self) -> SequenceNumber {
        self.snapshots.approx_oldest(self.read_state.visible_seqno())
    }

    fn flush_job(&self) {
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

    fn finish_job(&self, mut state: crate::sync::MutexGuard<'_, DbState>, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.maybe_schedule_flush_or_compaction(&mut state),
            Err(error) if error.is_retryable() => {
                self.logger.log(format_args!("Background work failed, to be tried again: {error}"));
                state.retryable_failures += 1;
                state.last_retryable_error = Some(error);
                state.is_compaction_enabled = false;
            }
            Err(error) => {
                drop(state);
                return self.set_background_error(&error);
            }
        }
        self.notify_state_changed(&mut state);
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
    fn pick_flush_level(&self, set: &crate::version::VersionSet, smallest: &[u8], largest: &[u8]) -> usize {
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

    fn compaction_job(&self) {
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

    /// Gives the memory back that is kept for memtables to come, at the end of a job, if nothing is left to do and nothing was written
    /// since the job began, at number `begun`. (Who writes again soon pays for some hundred microseconds of page faults.)
    fn release_idle_memory(&self, begun: SequenceNumber) {
        let state = self.state.lock();
        let works = state.scheduled_flushes > 0
            || state.is_compaction_scheduled
            || state.stalled_writers > 0
            || !state.immutable_memtables.is_empty();
        drop(state);
        // Relaxed: any write that is not seen yet finds other memory.
        if !works && self.read_state.visible_seqno().load(Ordering::Relaxed) == begun {
            self.chunk_pool.release_all();
        }
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

    pub(super) fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        let range = KeyRange { begin, end };
        // What has nothing to do with the range goes where any flush would put it.
        let touched = self.read_state.current().memtable.overlaps(begin, end);
        self.flush(if touched { FlushTarget::Level0 } else { FlushTarget::AnyLevel })?;
        let version = Arc::clone(&self.read_state.current().version);
        // Level 0 is merged in any case; the last level has nowhere to go.
        let deepest = (1..NUM_LEVELS).rev().find(|&level| version.overlaps_level(level, range)).unwrap_or(1);
        drop(version);
        (0..deepest).try_for_each(|level| self.compact_level(level, range))
    }

    fn compact_level(&self, level: usize, range: KeyRange<'_>) -> Result<()> {
        let id = {
            let mut state = self.state.lock();
            state.last_manual_compaction_id += 1;
            let id = state.last_manual_compaction_id;
            let (begin, end) = (range.begin.map(<[u8]>::to_vec), range.end.map(<[u8]>::to_vec));
            state.manual_compactions.push_back(ManualCompaction { id, level, begin, end });
            id
        };
        let done = self.wait_until(|state| state.manual_compactions.iter().all(|manual| manual.id != id));
        if done.is_err() {
            self.state.lock().manual_compactions.retain(|manual| manual.id != id);
        }
        done
    }
}

/// What a job does of the merge that somebody waits for.
struct ManualCompactionStep {
    id: u64,
    /// Where the rest begins, unless this is all.
    remaining_begin: Option<Vec<u8>>,
}

impl ManualCompactionStep {
    fn from_compaction(job: &Compaction) -> Option<ManualCompactionStep> {
        let CompactionReason::Manual(id) = job.reason else { return None };
        // All of level 0 that was in the range goes at once; what comes meanwhile was not asked for.
        let rest = job.compact_pointer.as_ref().filter(|_| job.level() > 0);
        Some(ManualCompactionStep { id, remaining_begin: rest.map(|pointer| pointer.user_key().to_vec()) })
    }

    /// Notes that the job is done.
    fn record_done(self, state: &mut DbState) {
        // Gone if who asked has given up.
        let Some(manual) = state.manual_compactions.iter_mut().find(|manual| manual.id == self.id) else {
            return;
        };
        match self.remaining_begin {
            Some(rest) => manual.begin = Some(rest),
            None => state.manual_compactions.retain(|manual| manual.id != self.id),
        }
    }
}
