//! The clock of a phase. It is read once for each operation, so it must cost less than they do.
//!
//! ```text
//!   the processor's counter, if the system keeps its own time by it      one instruction, a multiplication, a shift
//!   else the system's clock                                               a call of it
//! ```
//!
//! How long a tick is was found once, between two moments that both clocks named ([`Moment`]). Both are asked again
//! when a phase has ended: one that they do not agree about has no figures ([`ClockEviction::check_against_system_clock`]).

#![allow(unsafe_code, reason = "reads the processor's counter")]

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::Result;

/// A running clock. Threads share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: ClockSample,
    /// Nanoseconds of 2^32 ticks; none if the system's clock is read.
    ns_per_tick_q32: Option<u64>,
}

impl Clock {
    /// Begins now. The first of a process takes a few hundredths of a second to learn the counter's rate.
    pub(super) fn start() -> Clock {
        static RATE: OnceLock<Option<u64>> = OnceLock::new();
        let rate = *RATE.get_or_init(|| is_tsc_clocksource().then(calibrate));
        Clock { start: ClockSample::now(), ns_per_tick_q32: rate }
    }

    /// Nanoseconds since the start. Of two threads that know of each other's readings, the later may be less by some.
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        match self.ns_per_tick_q32 {
            Some(rate) => ticks_to_ns(read_tsc().saturating_sub(self.start.ticks), rate),
            None => self.start.time.elapsed().as_nanos() as u64,
        }
    }

    /// Refuses what was measured if the system's clock says something else.
    pub(super) fn check_against_system_clock(&self) -> Result<()> {
        let now = ClockSample::now();
        let system = now.time - self.start.time;
        let counter = match self.ns_per_tick_q32 {
            Some(rate) => Duration::from_nanos(ticks_to_ns(now.ticks.saturating_sub(self.start.ticks), rate)),
            None => system,
        };
        if counter.abs_diff(system) <= system / 100 + Duration::from_millis(1) {
            return Ok(());
        }
        Err(format!("wrong time: the processor's counter says {counter:?}, the system's clock {system:?}"))
    }
}

/// The same moment by both clocks.
#[derive(Clone, Copy, Debug)]
struct ClockSample {
    time: Instant,
    ticks: u64,
}

impl ClockSample {
    /// The clocks are read one after the other; of several attempts the one with the least between them.
    fn now() -> ClockSample {
        let attempts = [(); 8].map(|()| {
            let moment = ClockSample { time: Instant::now(), ticks: read_tsc() };
            (moment.time.elapsed(), moment)
        });
        // Of eight there is a least.
        attempts.into_iter().min_by_key(|(between, _)| *between).expect("eight attempts").1
    }
}

/// Long beside the tenth of a microsecond that may lie between the two readings of a moment.
const CALIBRATION_TIME: Duration = Duration::from_millis(20);

fn calibrate() -> u64 {
    let from = ClockSample::now();
    thread::sleep(CALIBRATION_TIME);
    let to = ClockSample::now();
    let ns = (to.time - from.time).as_nanos() << 32;
    (ns / u128::from(to.ticks.saturating_sub(from.ticks).max(1))) as u64
}

#[inline]
fn ticks_to_ns(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> 32) as u64
}

/// Whether the system takes the counter for its own time: then it has found that it is even, never rests, and is the
/// same for all processors.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_tsc_clocksource() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn is_tsc_clocksource() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_tsc() -> u64 {
    // SAFETY: every processor of this architecture has the instruction; it reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn read_tsc() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for a wrong rate to show.
    const PAUSE: Duration = Duration::from_millis(30);

    #[track_caller]
    fn check(clock: Clock) {
        let before = clock.ns();
        thread::sleep(PAUSE);
        assert!(before < clock.ns(), "{clock:?} rests");
        assert_eq!(clock.check_against_system_clock(), Ok(()));
    }

    #[test]
    fn both_clocks_advance() {
        check(Clock::start());
        check(Clock { ns_per_tick_q32: None, ..Clock::start() });
    }

    #[test]
    fn fast_counter_is_rejected() {
        let clock = Clock { ns_per_tick_q32: Some(1 << 34), ..Clock::start() };
        thread::sleep(PAUSE);
        if cfg!(target_arch = "x86_64") {
            let refused =
                clock.check_against_system_clock().expect_err("four nanoseconds for a tick are too many");
            assert!(refused.starts_with("wrong time: the processor's counter says "), "{refused}");
        }
    }
}
