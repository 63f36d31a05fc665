//! The clock of a phase. It is read once for each operation, so it must be much faster than one.
//!
//! ```text
//!   the processor's time stamp counter, if it is the system's clock source   one instruction
//!   otherwise the system's clock                                             one call
//! ```
//!
//! The length of a tick is calibrated once per process, with two samples of both clocks
//! ([`ClockSample`]). Both clocks are compared again at the end of a phase, which fails if they
//! disagree ([`Clock::check_against_system_clock`]).

#![allow(unsafe_code, reason = "reads the processor's counter")]

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::Result;

/// A running clock that threads share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: ClockSample,
    /// Nanoseconds per 2^32 ticks; `None` if the system's clock is used.
    ns_per_tick_q32: Option<u64>,
}

impl Clock {
    /// Starts a clock. The first one of a process calibrates the counter for [`CALIBRATION_TIME`].
    pub(super) fn start() -> Clock {
        static RATE: OnceLock<Option<u64>> = OnceLock::new();
        let rate = *RATE.get_or_init(|| is_tsc_clocksource().then(calibrate));
        Clock { start: ClockSample::now(), ns_per_tick_q32: rate }
    }

    /// Nanoseconds since the start. Readings of different threads may differ by a few ticks.
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        match self.ns_per_tick_q32 {
            Some(rate) => ticks_to_ns(read_tsc().saturating_sub(self.start.ticks), rate),
            None => self.start.time.elapsed().as_nanos() as u64,
        }
    }

    /// Returns an error if the counter and the system's clock disagree by more than 1 % and 1 ms.
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

/// Sample of both clocks at the same moment.
#[derive(Clone, Copy, Debug)]
struct ClockSample {
    time: Instant,
    ticks: u64,
}

impl ClockSample {
    /// Reads both clocks eight times, and returns the sample with the shortest time in between.
    fn now() -> ClockSample {
        let attempts = [(); 8].map(|()| {
            let moment = ClockSample { time: Instant::now(), ticks: read_tsc() };
            (moment.time.elapsed(), moment)
        });
        // The array is not empty, so there is a minimum.
        attempts.into_iter().min_by_key(|(between, _)| *between).expect("eight attempts").1
    }
}

/// Calibration time, long compared with the 0.1 us between the two readings of a sample.
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

/// Whether the kernel uses the counter as its clock source. It does so only after it found that the
/// counter is constant, never stops, and is synchronised between processors.
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
    // SAFETY: every x86-64 processor has the instruction, and it only reads a register.
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

    /// Pause after which a wrong rate is detectable.
    const PAUSE: Duration = Duration::from_millis(30);

    #[track_caller]
    fn check(clock: Clock) {
        let before = clock.ns();
        thread::sleep(PAUSE);
        assert!(before < clock.ns(), "{clock:?} does not advance");
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
