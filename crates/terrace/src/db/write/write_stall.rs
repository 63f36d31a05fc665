//! What writers wait for, and how long: counted, and told in the info log if it was long.
//!
//! ```text
//!   Waited: for=flush us=48211 frozen=2 level_0=7 merge_level=0 merge_bytes=201326592 merge_us=310422
//! ```

use std::fmt;
use std::time::Duration;

use crate::db::components::write_controller::DelayChange;
use crate::db::inner::{DbInner, DbState};
use crate::stats::Timer;

/// Waits of this length and above have a line of their own in the info log.
const MIN_LOGGED_STALL: Duration = Duration::from_millis(10);

/// What may be the reason of a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct StallContext {
    /// Memtables on their way to a table.
    immutable_memtables: usize,
    level_0_files: usize,
    /// The level from which the running merge takes files, what it reads, and for how long it has run.
    running_compaction: Option<(usize, u64, Duration)>,
}

/// For the info log.
impl fmt::Display for StallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frozen={} level_0={}", self.immutable_memtables, self.level_0_files)?;
        match self.running_compaction {
            Some((level, bytes, time)) => {
                write!(f, " merge_level={level} merge_bytes={bytes} merge_us={}", time.as_micros())
            }
            None => f.write_str(" merge=none"),
        }
    }
}

impl DbInner {
    pub(super) fn stall_context(&self, state: &DbState) -> StallContext {
        let since = |began| self.options.env.clock.monotonic().saturating_sub(began);
        StallContext {
            immutable_memtables: state.immutable_memtables.len(),
            level_0_files: state.version_set.version.levels[0].len(),
            running_compaction: state
                .running_compaction
                .map(|running| (running.level, running.input_bytes, since(running.started_at))),
        }
    }

    /// Does what a writer has to wait for. `scene` is that at the beginning; None where the one at the end says as much.
    #[cold]
    pub(super) fn timed_stall<T>(
        &self,
        span: Timer,
        scene: Option<StallContext>,
        wait: impl FnOnce() -> T,
    ) -> T {
        let clock = &self.options.env.clock;
        let began = clock.monotonic();
        let outcome = wait();
        self.record_stall(span, scene, clock.monotonic().saturating_sub(began));
        outcome
    }

    /// Takes note of a wait that is over. Called without `state`.
    #[cold]
    pub(super) fn record_stall(&self, span: Timer, scene: Option<StallContext>, time: Duration) {
        self.table_cache.metrics().timers.record(span, time);
        if time >= MIN_LOGGED_STALL {
            let scene = scene.unwrap_or_else(|| self.stall_context(&self.state.lock()));
            let (name, micros) = (span.name(), time.as_micros());
            self.logger.log(format_args!("Waited: for={name} us={micros} {scene}"));
        }
    }

    /// Sets the write delay for the backlog of `state`. Returns a change that the caller logs after it
    /// has unlocked `state`.
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
    fn check(merge: Option<(usize, u64, Duration)>, expect: &str) {
        assert_eq!(
            StallContext { immutable_memtables: 2, level_0_files: 7, running_compaction: merge }.to_string(),
            expect
        );
    }

    #[test]
    fn displays_stall_context() {
        check(None, "frozen=2 level_0=7 merge=none");
        let merge = (0, 1 << 20, Duration::from_millis(3));
        check(Some(merge), "frozen=2 level_0=7 merge_level=0 merge_bytes=1048576 merge_us=3000");
    }
}
