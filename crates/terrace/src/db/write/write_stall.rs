//! Delays and stalls of writes: timers for all, and a line of the info log for the long ones.
//!
//! ```text
//!   Write stall: cause=flush us=48211 immutable_memtables=2 level_0=7 compaction_level=0
//!     compaction_bytes=201326592 compaction_us=310422
//! ```

use std::fmt;
use std::time::Duration;

use crate::db::components::write_controller::DelayChange;
use crate::db::inner::{DbInner, DbState};
use crate::stats::Timer;

/// Minimum length of a stall that the info log reports.
const MIN_LOGGED_STALL: Duration = Duration::from_millis(10);

/// Possible causes of a stall, for the info log.
#[derive(Debug, Clone, Copy)]
pub(super) struct StallContext {
    immutable_memtables: usize,
    level_0_files: usize,
    /// Input level of the running compaction, its input bytes, and its time so far.
    running_compaction: Option<(usize, u64, Duration)>,
}

impl fmt::Display for StallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "immutable_memtables={} level_0={}", self.immutable_memtables, self.level_0_files)?;
        match self.running_compaction {
            Some((level, bytes, time)) => {
                let micros = time.as_micros();
                write!(f, " compaction_level={level} compaction_bytes={bytes} compaction_us={micros}")
            }
            None => f.write_str(" compaction=none"),
        }
    }
}

impl DbInner {
    pub(super) fn stall_context(&self, state: &DbState) -> StallContext {
        let running_compaction = state.running_compaction.map(|running| {
            let elapsed = self.options.env.clock.monotonic().saturating_sub(running.started_at);
            (running.level, running.input_bytes, elapsed)
        });
        StallContext {
            immutable_memtables: state.immutable_memtables.len(),
            level_0_files: state.version_set.version.levels[0].len(),
            running_compaction,
        }
    }

    /// Executes `wait` and records its time. `context` describes the begin of the stall; without
    /// it, the log describes its end.
    #[cold]
    pub(super) fn timed_stall<T>(
        &self,
        timer: Timer,
        context: Option<StallContext>,
        wait: impl FnOnce() -> T,
    ) -> T {
        let clock = &self.options.env.clock;
        let started_at = clock.monotonic();
        let result = wait();
        self.record_stall(timer, context, clock.monotonic().saturating_sub(started_at));
        result
    }

    /// Records a stall that has ended. The caller does not hold `state`.
    #[cold]
    pub(super) fn record_stall(&self, timer: Timer, context: Option<StallContext>, time: Duration) {
        self.table_cache.metrics().timers.record(timer, time);
        if time >= MIN_LOGGED_STALL {
            let context = context.unwrap_or_else(|| self.stall_context(&self.state.lock()));
            let cause = timer.name();
            let micros = time.as_micros();
            self.logger.log(format_args!("Write stall: cause={cause} us={micros} {context}"));
        }
    }

    /// Sets the write delay for the backlog of `state`. Returns a change that the caller logs after
    /// it has unlocked `state`.
    pub(in crate::db) fn recalculate_write_delay(&self, state: &DbState) -> Option<DelayChange> {
        self.write_controller.recalculate(
            &state.version_set.version,
            &state.compaction_rate,
            state.running_compaction.as_ref(),
            &*self.options.env.clock,
        )
    }

    pub(in crate::db) fn log_delay_change(&self, change: Option<DelayChange>) {
        if let Some(change) = change {
            self.logger.log(format_args!("{change}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(running_compaction: Option<(usize, u64, Duration)>, expected: &str) {
        let context = StallContext { immutable_memtables: 2, level_0_files: 7, running_compaction };
        assert_eq!(context.to_string(), expected);
    }

    #[test]
    fn displays_stall_context() {
        check(None, "immutable_memtables=2 level_0=7 compaction=none");
        check(
            Some((0, 1 << 20, Duration::from_millis(3))),
            "immutable_memtables=2 level_0=7 compaction_level=0 compaction_bytes=1048576 compaction_us=3000",
        );
    }
}
