//! Delays and stalls of writes: timers for all, and a line of the info log for the long ones.
//!
//! ```text
//!   Write stall: cause=flush us=48211 immutable_memtables=2 level_0=7 compaction_level=0
//!     compaction_bytes=201326592 compaction_us=310422
//! ```

use std::time::Duration;

use crate::compaction::picker::{lazy_leveled, pending_compaction_bytes};
use crate::db::components::write_controller::{DelayChange, RunningCompaction};
use crate::db::inner::{DbInner, DbState};
use crate::event::{Event, StallState};
use crate::stats::Timer;
use crate::sync::Ordering;

/// Minimum length of a stall that the info log reports.
const MIN_LOGGED_STALL: Duration = Duration::from_millis(10);

impl DbInner {
    pub(super) fn stall_state(&self, state: &DbState) -> StallState {
        let running_compaction = state.running_compaction.map(|running| {
            let elapsed = self.options.env.clock.monotonic().saturating_sub(running.started_at);
            (running.level, running.input_bytes, elapsed)
        });
        StallState {
            immutable_memtables: state.immutable_memtables.len(),
            level_0_runs: state.version_set.version.level_0_runs(),
            running_compaction,
        }
    }

    /// Executes `wait` and records its time. `state_at_begin` describes the database at
    /// the begin of the stall; without it, the event describes the end.
    #[cold]
    pub(super) fn timed_stall<T>(
        &self,
        timer: Timer,
        state_at_begin: Option<StallState>,
        wait: impl FnOnce() -> T,
    ) -> T {
        let clock = &self.options.env.clock;
        let started_at = clock.monotonic();
        let result = wait();
        self.record_stall(timer, state_at_begin, clock.monotonic().saturating_sub(started_at));
        result
    }

    /// Executes `wait` as [`DbInner::timed_stall`] does. The statistics list the stall meanwhile:
    /// it may take minutes. The caller does not hold `state`.
    #[cold]
    pub(super) fn listed_stall<T>(
        &self,
        timer: Timer,
        state_at_begin: Option<StallState>,
        wait: impl FnOnce() -> T,
    ) -> T {
        let began_at = self.options.env.clock.monotonic();
        self.state.lock().stalls.begin(timer, began_at);
        self.timed_stall(timer, state_at_begin, || {
            let result = wait();
            self.state.lock().stalls.end(timer, began_at);
            result
        })
    }

    /// Records a stall that has ended. The caller does not hold `state`.
    #[cold]
    pub(super) fn record_stall(&self, timer: Timer, state_at_begin: Option<StallState>, time: Duration) {
        self.table_cache.metrics().timers.record(timer, time);
        if time >= MIN_LOGGED_STALL {
            let state = state_at_begin.unwrap_or_else(|| self.stall_state(&self.state.lock()));
            self.report(&Event::WriteStall { cause: timer.name(), time, state });
        }
    }

    /// Sets the write delay for the backlog of `state`. Returns a change that the caller reports
    /// after it has unlocked `state`.
    pub(in crate::db) fn recalculate_write_delay(&self, state: &DbState) -> Option<DelayChange> {
        let version = &state.version_set.version;
        let pending_bytes = if state.load_state.is_load_running() {
            lazy_leveled::pending_bytes(version, &self.compaction_limits)
        } else {
            pending_compaction_bytes(version)
        };
        let running = state.running_compaction.map(|running| RunningCompaction {
            entries_read: self.compaction_progress.entries_read.load(Ordering::Relaxed),
            ..running
        });
        self.write_controller.recalculate(
            &self.compaction_limits.level_0,
            version,
            pending_bytes,
            &state.compaction_rate,
            running,
            &*self.options.env.clock,
        )
    }

    pub(in crate::db) fn report_delay_change(&self, change: Option<DelayChange>) {
        if let Some(change) = change {
            self.report(&change.event());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compaction::picker::leveled::tests::set;
    use crate::{Db, Env, Options};

    /// A stall counted the tables of level 0, and a delay of writes counts flushes. Both lines of
    /// the info log have the word `level_0`.
    #[test]
    fn stall_counts_the_runs_of_level_0() {
        let options = Options { create_if_missing: true, env: Env::in_memory(), ..Options::default() };
        let db = Db::open("db", &options).unwrap();
        let inner = db.inner();
        let mut state = inner.state.lock();
        let tables_of_one_flush = set("0 1 1 a@1 b@1\n 0 2 1 c@1 d@1\n 0 3 1 e@1 f@1");
        let original = std::mem::replace(&mut state.version_set, tables_of_one_flush);
        let stall = inner.stall_state(&state);
        state.version_set = original;
        assert_eq!(stall.level_0_runs, 1, "{stall}");
    }
}
