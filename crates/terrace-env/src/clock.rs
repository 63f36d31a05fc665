//! Time. Waits use the monotonic clock only; the wall clock is for what people read.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // This is the room the lint points to.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// A source of time. Callable from any thread.
pub trait Clock: Debug + Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// Microseconds since 1970-01-01 UTC. May jump either way when somebody sets the clock.
    fn wall_us(&self) -> u64;

    /// Pauses the calling thread.
    fn sleep(&self, pause: Duration);
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    /// A clock set before 1970 reads 0.
    fn wall_us(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        micros(since_epoch)
    }

    fn sleep(&self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// A clock that moves only when told to. `sleep` moves it and returns at once.
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
    /// A clock whose wall time starts at `wall_us`; its monotonic time starts at zero.
    pub fn new(wall_us: u64) -> ManualClock {
        ManualClock { now: Mutex::new(ManualTime { monotonic: Duration::ZERO, wall_us }) }
    }

    /// Moves both times forward by `step`.
    pub fn advance(&self, step: Duration) {
        let mut now = self.now.lock();
        now.monotonic = now.monotonic.saturating_add(step);
        now.wall_us = now.wall_us.saturating_add(micros(step));
    }

    /// Sets the wall time, forward or back. The monotonic time goes on as if nothing had happened.
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

/// The whole microseconds of `span`, or the most a `u64` holds.
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
