//! Time. Waits use the monotonic clock only; the wall clock is for what people read.

use std::fmt::Debug;
use std::time::Duration;

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

/// A clock that moves only when told to. `sleep` moves it.
#[derive(Debug, Default)]
pub struct ManualClock {}
