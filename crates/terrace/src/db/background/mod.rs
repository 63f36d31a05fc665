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

mod compaction_job;
mod flush_job;
mod manual_compaction;
mod parallel_compaction;
mod read_compaction;

use terrace_env::Priority;
use terrace_format::key::SequenceNumber;

use super::components::background_error::closed_error;
use super::components::background_jobs::BackgroundJobs;
use super::inner::{DbInner, DbState};
use crate::compaction::picker::{leveled, tombstones};
use crate::error::Result;
use crate::sync::{MutexGuard, Ordering, Weak};
use crate::version::Version;

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

    fn finish_job(&self, mut state: MutexGuard<'_, DbState>, outcome: Result<()>) {
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

    /// Returns when `done`, while the background works; an error if the background failed meanwhile, or the database was closed, and
    /// so can't bring it about.
    pub(super) fn wait_until(&self, done: impl Fn(&DbState) -> bool) -> Result<()> {
        let mut state = self.state.lock();
        let failures = state.retryable_failures;
        if !done(&state) {
            // A merge or flush that failed gets another chance, for us.
            state.is_compaction_enabled = true;
            self.maybe_schedule_flush_or_compaction(&mut state);
        }
        while !done(&state) {
            self.background_error.check()?;
            if state.is_shut_down {
                return Err(closed_error());
            }
            if let Some(error) =
                state.last_retryable_error.as_ref().filter(|_| state.retryable_failures != failures)
            {
                return Err(error.clone());
            }
            self.wait_for_state_change(&mut state);
        }
        Ok(())
    }

    /// If a flush or merge is queued or runs, returns true when one has ended.
    pub(super) fn wait_for_background_job(&self) -> bool {
        let mut state = self.state.lock();
        let changes = state.change_count;
        let works = state.scheduled_flushes > 0 || state.is_compaction_scheduled;
        while (state.scheduled_flushes > 0 || state.is_compaction_scheduled) && state.change_count == changes
        {
            self.wait_for_state_change(&mut state);
        }
        works
    }

    /// Waits for a change of `state`: by doing some background work here, where that is the way, else asleep.
    pub(super) fn wait_for_state_change(&self, state: &mut MutexGuard<'_, DbState>) {
        let changes = state.change_count;
        let worked = MutexGuard::unlocked(state, || self.options.env.scheduler.run_one_here());
        if !worked && state.change_count == changes {
            self.state_changed.wait(state);
        }
    }
}
