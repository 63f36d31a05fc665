//! Clocks. Waits use the monotonic clock; the wall clock is only for display.
// This module implements the replacement that the lint names.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fmt::Debug;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use terrace_sync::native_locks::Mutex;

/// Source of time. Every thread may use it.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time since a fixed moment. It never decreases.
    fn monotonic(&self) -> Duration;

    /// Returns the microseconds since 1970-01-01 UTC. They may jump in both directions when the
    /// clock is set.
    fn wall_us(&self) -> u64;

    /// Pauses the calling thread.
    fn sleep(&self, pause: Duration);
}

/// Clocks of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        terrace_sync::get_or_init_for_fork(&START, Instant::now).elapsed()
    }

    /// Returns 0 if the clock is set before 1970.
    fn wall_us(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        micros(since_epoch)
    }

    fn sleep(&self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// Clock that advances only by calls. `sleep` advances it and returns at once.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<ManualTime>,
}

#[derive(Debug, Default)]
struct ManualTime {
    monotonic: Duration,
    wall_us: u64,
}

impl ManualClock {
    /// Creates a clock with wall time `wall_us` and monotonic time zero.
    pub fn new(wall_us: u64) -> ManualClock {
        ManualClock { now: Mutex::new(ManualTime { monotonic: Duration::ZERO, wall_us }) }
    }

    /// Advances both times by `step`.
    pub fn advance(&self, step: Duration) {
        let mut now = self.now.lock();
        now.monotonic = now.monotonic.saturating_add(step);
        now.wall_us = now.wall_us.saturating_add(micros(step));
    }

    /// Sets the wall time, forward or back. The monotonic time does not change.
    pub fn set_wall(&self, wall_us: u64) {
        self.now.lock().wall_us = wall_us;
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        self.now.lock().monotonic
    }

    fn wall_us(&self) -> u64 {
        self.now.lock().wall_us
    }

    fn sleep(&self, pause: Duration) {
        self.advance(pause);
    }
}

/// Returns the whole microseconds of `span`, or the greatest `u64`.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(clock: &ManualClock, monotonic_ms: u64, wall_us: u64) {
        assert_eq!((clock.monotonic(), clock.wall_us()), (Duration::from_millis(monotonic_ms), wall_us));
    }

    #[test]
    fn does_not_advance_by_itself() {
        let clock = ManualClock::new(7_000);
        check(&clock, 0, 7_000);
        clock.advance(Duration::from_millis(3));
        check(&clock, 3, 10_000);
    }

    #[test]
    fn sleep_advances_the_clock() {
        let clock = ManualClock::new(0);
        clock.sleep(Duration::from_millis(2));
        check(&clock, 2, 2_000);
    }

    #[test]
    fn setting_wall_clock_back_keeps_monotonic_time() {
        let clock = ManualClock::new(9_000);
        clock.advance(Duration::from_millis(1));
        clock.set_wall(5);
        check(&clock, 1, 5);
    }

    #[test]
    fn system_clock_is_plausible() {
        assert!(SystemClock.wall_us() > 1_600_000_000_000_000);
        let before = SystemClock.monotonic();
        assert!(SystemClock.monotonic() >= before);
    }
}
