//! Background work: flush and compaction jobs on the env's scheduler.
//!
//! At most one compaction runs at a time, on one or more threads. Two flushes may run beside it:
//! one of them uses the processor while the other waits for the disk. The tables are installed in
//! the order of their memtables. A third kind of job removes obsolete tables
//! (`db/obsolete_files.rs`).
//!
//! ```text
//!   flush 1   [ table of 1 ][ sync ][ install 1 ][ table of 3 ][ sync ]       2 installs 3
//!   flush 2        [ table of 2, larger   ][ sync ][ install 2 ][ install 3 ]
//! ```
//!
//! A job does one piece of work, notifies the waiting threads, and schedules the next job if there
//! is more work. A failed job either sets the background error, or is retried when the next writer
//! needs its work.

mod compaction_job;
mod early_flush;
mod flush_job;
mod load_check;
mod manual_compaction;
mod parallel_compaction;
mod read_compaction;

use terrace_env::Priority;
use terrace_format::key::SequenceNumber;

use super::components::background_jobs::BackgroundJobs;
use super::inner::{DbInner, DbState};
use crate::compaction::picker::{lazy_leveled, leveled, settling, tombstones};
use crate::error::Result;
use crate::event::Event;
use crate::sync::{MutexGuard, Ordering, Weak};
use crate::version::Version;

impl DbInner {
    /// Schedules the flushes and the compaction that are needed and not scheduled yet.
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
            && state.may_schedule_compaction()
            && !self.is_shutting_down.load(Ordering::Relaxed)
            && self.needs_compaction(state)
        {
            state.is_compaction_scheduled = self.schedule_job(Priority::Compaction, DbInner::compaction_job);
        }
    }

    /// Schedules `job`. Returns false if the database is being dropped.
    pub(super) fn schedule_job(&self, priority: Priority, job: fn(&DbInner)) -> bool {
        let Some(inner) = self.weak_self.upgrade() else { return false };
        let job_guard = BackgroundJobs::register(&self.background_jobs);
        self.options.env.scheduler.schedule(
            priority,
            Box::new(move || {
                let _job_guard = job_guard; // dropped after `inner`
                let inner = inner;
                job(&inner);
            }),
        );
        true
    }

    fn needs_compaction(&self, state: &DbState) -> bool {
        let version = &state.version_set.version;
        !state.manual_compactions.is_empty()
            || state.read_compaction.is_some()
            || self.is_picker_due(state)
            || self.needs_tombstone_compaction(version)
    }

    fn is_picker_due(&self, state: &DbState) -> bool {
        let version = &state.version_set.version;
        if state.load_state.is_load_running() {
            lazy_leveled::is_due(version, state.sliced_compaction, &self.compaction_limits)
        } else {
            leveled::highest_score(version).1 >= 1.0
                || state.load_state.is_unsettled()
                    && settling::continue_settling(version, state.settling, &self.compaction_limits).is_some()
        }
    }

    /// Returns true if a compaction would remove enough tombstones. If only a snapshot prevents
    /// that, registers a callback that asks again when the snapshot is dropped. The caller holds
    /// `state`, and the database is not closing.
    fn needs_tombstone_compaction(&self, version: &Version) -> bool {
        let oldest_reader = self.approx_oldest_reader();
        if tombstones::needs_compaction(version, oldest_reader) {
            return true;
        }
        let Some(sequence) = tombstones::blocked_by_snapshot(version, oldest_reader) else { return false };
        // A thread that closes the database waits for a running callback, as for a job.
        let job_guard = BackgroundJobs::register(&self.background_jobs);
        let inner = Weak::clone(&self.weak_self);
        let is_waiting = self.snapshots.on_released_below(
            sequence,
            Box::new(move || {
                let _job_guard = job_guard; // dropped after `inner`
                if let Some(inner) = inner.upgrade() {
                    inner.maybe_schedule_compaction();
                }
            }),
        );
        // Otherwise the snapshot was dropped in between.
        !is_waiting && tombstones::needs_compaction(version, self.approx_oldest_reader())
    }

    /// Schedules a compaction job, which checks whether a compaction is needed. For callers that
    /// cannot spend the time for the check.
    pub(super) fn maybe_schedule_compaction(&self) {
        let mut state = self.state.lock();
        let can_schedule = !self.is_read_only
            && self.owner_process.is_current()
            && !self.background_error.is_set()
            && !self.is_shutting_down.load(Ordering::Relaxed);
        if can_schedule && !state.is_compaction_scheduled && state.may_schedule_compaction() {
            state.is_compaction_scheduled = self.schedule_job(Priority::Compaction, DbInner::compaction_job);
        }
    }

    /// Returns an estimate of the oldest sequence number that a reader uses. Takes no lock, because
    /// the callers hold `state`.
    fn approx_oldest_reader(&self) -> SequenceNumber {
        self.snapshots.approx_oldest(self.read_state.visible_seqno())
    }

    /// Ends a job: schedules the next one, or records the failure.
    fn finish_job(&self, mut state: MutexGuard<'_, DbState>, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.maybe_schedule_flush_or_compaction(&mut state);
                self.report_settled(&mut state);
            }
            Err(error) if error.is_retryable() => {
                self.report(&Event::BackgroundRetry { error: error.clone() });
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

    /// Frees the pooled chunks of flushed memtables if no background work is left and no write
    /// became visible since `sequence_at_start`. A write that follows soon pays some hundred
    /// microseconds for page faults.
    fn release_idle_memory(&self, sequence_at_start: SequenceNumber) {
        let state = self.state.lock();
        let is_busy = state.scheduled_flushes > 0
            || state.is_compaction_scheduled
            || !state.stalls.is_empty()
            || !state.immutable_memtables.is_empty();
        drop(state);
        // Relaxed: a write that this load misses only allocates new memory.
        if !is_busy && self.read_state.visible_seqno().load(Ordering::Relaxed) == sequence_at_start {
            self.chunk_pool.release_all();
        }
    }

    /// Waits for background work until `done` returns true. Returns an error if a job failed
    /// meanwhile or the database was closed.
    pub(super) fn wait_until(&self, done: impl Fn(&DbState) -> bool) -> Result<()> {
        self.wait_until_with_progress(done, |_| 0, &mut |_| ())
    }

    /// Waits as [`DbInner::wait_until`] does. Calls `report` with each greater result of `measure`,
    /// without the lock of the state.
    pub(super) fn wait_until_with_progress(
        &self,
        done: impl Fn(&DbState) -> bool,
        measure: impl Fn(&DbState) -> u64,
        report: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut reported = 0;
        let mut state = self.state.lock();
        let failures = state.retryable_failures;
        if !done(&state) {
            // Retries a failed flush or compaction.
            state.is_compaction_enabled = true;
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
        while !done(&state) {
            self.background_error.check()?;
            if state.is_shut_down {
                return Err(self.closed_error());
            }
            if state.retryable_failures != failures
                && let Some(error) = &state.last_retryable_error
            {
                return Err(error.clone());
            }
            let measured = measure(&state);
            if measured > reported {
                reported = measured;
                MutexGuard::unlocked(&mut state, || report(measured));
            } else {
                self.wait_for_state_change(&mut state);
            }
        }
        Ok(())
    }

    /// Waits until a scheduled job ends. Returns false if none is scheduled.
    pub(super) fn wait_for_background_job(&self) -> bool {
        let mut state = self.state.lock();
        let changes = state.change_count;
        let is_scheduled = state.has_scheduled_job();
        while state.has_scheduled_job() && state.change_count == changes {
            self.wait_for_state_change(&mut state);
        }
        is_scheduled
    }

    /// Waits for a change of `state`. Runs a background job on this thread instead if the scheduler
    /// allows it.
    pub(super) fn wait_for_state_change(&self, state: &mut MutexGuard<'_, DbState>) {
        let changes = state.change_count;
        let has_run_job = MutexGuard::unlocked(state, || self.options.env.scheduler.run_one_here());
        if !has_run_job && state.change_count == changes {
            self.state_changed.wait(state);
        }
    }
}
