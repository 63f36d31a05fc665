//! Delays of writers while compactions lag.
//!
//! ```text
//!   runs of level 0        0 ........... slowdown ............................... stop
//!   delay per byte         none          remaining compaction time / headroom     writers wait
//!                                        (at most 10/3 of the compaction time of a byte, more
//!                                        for the last runs before the stop)
//! ```
//!
//! The headroom is the number of bytes that may still arrive before level 0 has all runs except
//! for those last ones. While compactions keep up, no writer is delayed.
//! Otherwise the delay is such that the headroom lasts until the compactions end. Writers keep at
//! least three tenths of the compaction rate until the headroom is nearly used up. The controller
//! works like a token bucket whose rate follows the backlog. No writer sleeps longer than a
//! millisecond, and none holds a lock while it sleeps.

use std::time::Duration;

use terrace_env::Clock;

use crate::compaction::picker::Level0Limits;
use crate::event::Event;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version::{Version, total_size};

/// Maximum sleep of one write.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(1);
/// Minimum sleep. Shorter delays are carried over to the next write.
const MIN_WRITE_DELAY: Duration = Duration::from_micros(200);
/// Delay in nanoseconds below which a write does not read the clock. A clock read takes a third of
/// the time of a write.
const MIN_DEBT_TO_CHECK_NANOS: u64 = 20_000;
/// Maximum delay that writers may owe together, and maximum delay that they may have paid in
/// advance. Values so large that each of them owes more than one sleep are not delayed further.
const MAX_DELAY_BURST: Duration = Duration::from_millis(16);

/// Unit of the delay in bytes. With it, one nanosecond is a fine enough step.
const DELAY_UNIT_BYTES: u64 = 1024;

/// Delay of writers, as a function of the compaction backlog.
#[derive(Debug, Default)]
pub(crate) struct WriteController {
    /// Nanoseconds per [`DELAY_UNIT_BYTES`]. Relaxed: no other data depends on it.
    delay_per_kib: AtomicU64,
    /// Nanoseconds of delay that no writer has slept yet. Relaxed: the writer that takes them
    /// sleeps for all.
    unpaid_delay_nanos: AtomicU64,
    /// Time up to which writers have slept for their bytes.
    delayed_until: Mutex<Duration>,
}

impl WriteController {
    /// Returns true while writes are delayed.
    pub(crate) fn is_delaying(&self) -> bool {
        self.delay_per_kib.load(Ordering::Relaxed) > 0
    }

    /// Delays a write of `bytes` bytes if necessary. Returns the time that it slept.
    pub(crate) fn delay_write(&self, bytes: usize, clock: &dyn Clock) -> Option<Duration> {
        let price = self.delay_per_kib.load(Ordering::Relaxed);
        if price == 0 {
            return None;
        }
        let cost = price.saturating_mul(bytes as u64) / DELAY_UNIT_BYTES;
        if self.unpaid_delay_nanos.fetch_add(cost, Ordering::Relaxed).saturating_add(cost)
            < MIN_DEBT_TO_CHECK_NANOS
        {
            return None;
        }
        let cost = Duration::from_nanos(self.unpaid_delay_nanos.swap(0, Ordering::Relaxed));
        let now = clock.monotonic();
        let owed = {
            let mut paid = self.delayed_until.lock();
            // Credits an overlong sleep: on a busy machine, a sleep may take ten times its
            // requested time.
            *paid = ((*paid).max(now.saturating_sub(MAX_DELAY_BURST)) + cost).min(now + MAX_DELAY_BURST);
            paid.saturating_sub(now)
        };
        if owed < MIN_WRITE_DELAY {
            return None;
        }
        clock.sleep(owed.min(MAX_WRITE_DELAY));
        Some(clock.monotonic().saturating_sub(now))
    }

    /// Sets the write delay for the backlog of compactions. `pending_bytes` are the bytes that the
    /// compactions after the running one have to read. Returns the change if writers begin or
    /// end to wait.
    pub(crate) fn recalculate(
        &self,
        limits: &Level0Limits,
        version: &Version,
        pending_bytes: u64,
        rate: &CompactionRate,
        running: Option<RunningCompaction>,
        clock: &dyn Clock,
    ) -> Option<DelayChange> {
        let backlog = CompactionBacklog::new(limits, version, pending_bytes, rate, running, clock);
        let delay_per_kib = backlog.delay_per_kib();
        let before = self.set_delay_per_kib(delay_per_kib);
        ((before > 0) != (delay_per_kib > 0)).then_some(DelayChange { backlog, delay_per_kib })
    }

    /// Delay of a put of `bytes` bytes in nanoseconds, which all writers share.
    #[cfg(test)]
    pub(crate) fn delay_per_put(&self, bytes: f64) -> f64 {
        self.delay_per_kib.load(Ordering::Relaxed) as f64 * bytes / DELAY_UNIT_BYTES as f64
    }

    /// Sets the delay and returns the previous one.
    fn set_delay_per_kib(&self, price: u64) -> u64 {
        self.delay_per_kib.swap(price, Ordering::Relaxed)
    }
}

/// Minimum rate of writers as a part of the compaction rate: three tenths. A compaction of level 0
/// takes as long for few files as for many, so writers may need to be slower than compactions on
/// average, until the next compaction.
const MIN_WRITE_RATE_FRACTION: (u64, u64) = (3, 10);

/// The remaining time of a compaction without known progress is at least its elapsed time divided
/// by this. So a compaction that takes longer than expected is not taken for finished.
const OVERDUE_REMAINING_DIVISOR: u32 = 4;
/// After this part of its entries, the own rate of a compaction alone tells its remaining time: a
/// quarter.
const PART_WITH_OWN_RATE: f64 = 0.25;

/// Running compaction, for the estimate of its remaining time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningCompaction {
    /// Input level.
    pub(crate) level: usize,
    /// Output level.
    pub(crate) output_level: usize,
    /// Bytes of all input files.
    pub(crate) input_bytes: u64,
    /// Number of entries of all input files, if it is known.
    pub(crate) input_entries: Option<u64>,
    /// Number of entries that it has read.
    pub(crate) entries_read: u64,
    /// Number of its threads, relative to those of other compactions.
    pub(crate) speedup: f64,
    pub(crate) started_at: Duration,
}

impl RunningCompaction {
    /// Estimates the remaining time. At the rate of recent compactions, all inputs need
    /// `expected`.
    fn remaining_time(&self, expected: Duration, elapsed: Duration) -> Duration {
        let expected = expected.div_f64(self.speedup);
        let Some(entries @ 1..) = self.input_entries else {
            return expected.saturating_sub(elapsed).max(elapsed / OVERDUE_REMAINING_DIVISOR);
        };
        let read = (self.entries_read as f64 / entries as f64).min(1.0);
        let trust = (read / PART_WITH_OWN_RATE).min(1.0);
        // The part of the time at its own rate, `elapsed / read`, that counts.
        let own = elapsed.mul_f64(if trust < 1.0 { 1.0 / PART_WITH_OWN_RATE } else { 1.0 / read });
        (expected.mul_f64(1.0 - trust) + own).mul_f64(1.0 - read)
    }
}

/// Work that the compactions still have to do, and the headroom until then.
#[derive(Debug, Clone, Copy)]
struct CompactionBacklog {
    limits: Level0Limits,
    level_0_runs: usize,
    /// Expected time of the compactions that are needed now.
    remaining_time: Duration,
    /// Bytes that may arrive before writers have to wait.
    headroom_bytes: u64,
    /// Nanoseconds of compaction work per [`DELAY_UNIT_BYTES`] of user data.
    compaction_nanos_per_kib: u64,
}

/// Begin or end of the delay of writers.
#[must_use]
pub(crate) struct DelayChange {
    backlog: CompactionBacklog,
    delay_per_kib: u64,
}

impl DelayChange {
    /// Returns the event that reports the change.
    pub(crate) fn event(&self) -> Event {
        let CompactionBacklog { level_0_runs, remaining_time, headroom_bytes, .. } = self.backlog;
        Event::WriteDelay { nanos_per_kib: self.delay_per_kib, level_0_runs, remaining_time, headroom_bytes }
    }
}

impl CompactionBacklog {
    fn new(
        limits: &Level0Limits,
        version: &Version,
        pending_bytes: u64,
        rate: &CompactionRate,
        running: Option<RunningCompaction>,
        clock: &dyn Clock,
    ) -> CompactionBacklog {
        let level_0 = &version.levels[0];
        let remaining = |running: RunningCompaction| {
            let elapsed = clock.monotonic().saturating_sub(running.started_at);
            running.remaining_time(rate.time_for(running.input_bytes), elapsed)
        };
        // A compaction that takes files from level 0 creates headroom when it ends, whatever
        // compactions follow.
        let remaining_time = match running {
            Some(running) if running.level == 0 => remaining(running),
            running => running.map_or(Duration::ZERO, remaining) + rate.time_for(pending_bytes),
        };
        // Delays are computed for keys and values, not for table bytes.
        let runs = version.level_0_runs();
        let headroom_runs = limits.no_headroom.saturating_sub(runs) as u64;
        let bytes_per_run = total_size(level_0) / runs.max(1) as u64;
        CompactionBacklog {
            limits: *limits,
            level_0_runs: runs,
            remaining_time,
            headroom_bytes: rate.user_bytes_in(headroom_runs.saturating_mul(bytes_per_run)),
            compaction_nanos_per_kib: rate.nanos_per_kib(rate.user_bytes),
        }
    }

    /// Delay in nanoseconds per [`DELAY_UNIT_BYTES`].
    fn delay_per_kib(&self) -> u64 {
        if self.level_0_runs < self.limits.slowdown {
            return 0;
        }
        let work = u64::try_from(self.remaining_time.as_nanos()).unwrap_or(u64::MAX);
        let lasting =
            (u128::from(work) * u128::from(DELAY_UNIT_BYTES) / u128::from(self.headroom_bytes.max(1))) as u64;
        lasting.min(
            self.compaction_nanos_per_kib.saturating_mul(self.max_slowdown()) / MIN_WRITE_RATE_FRACTION.0,
        )
    }

    /// Maximum delay as a multiple of the compaction time, in thirds. It doubles with each of the
    /// last runs before the stop. So writers slow down instead of stopping if compactions take
    /// longer than ever before.
    fn max_slowdown(&self) -> u64 {
        let Level0Limits { no_headroom, stop, .. } = self.limits;
        MIN_WRITE_RATE_FRACTION.1 << self.level_0_runs.clamp(no_headroom, stop).saturating_sub(no_headroom)
    }
}

/// Measured rates of recent compactions and flushes.
#[derive(Debug, Default)]
pub(crate) struct CompactionRate {
    compaction_time: Duration,
    bytes_read: u64,
    bytes_flushed: u64,
    /// Keys and values in the flushed tables. A table of small records takes 1.5 times the bytes of
    /// its keys and values; a compressed table of large records takes fewer.
    user_bytes: u64,
}

/// Bytes of flushed tables after which the measurements are halved.
const RATE_WINDOW_BYTES: u64 = 1 << 30;
/// Nanoseconds per [`DELAY_UNIT_BYTES`] before the first measurement.
const DEFAULT_NANOS_PER_KIB: u64 = 10 * DELAY_UNIT_BYTES;

impl CompactionRate {
    /// Records a compaction that took `time`, or would have taken it without its speedup.
    pub(crate) fn record_compaction(&mut self, bytes_read: u64, time: Duration) {
        self.compaction_time += time;
        self.bytes_read = self.bytes_read.saturating_add(bytes_read);
    }

    /// Records a flush of a table of `bytes` bytes, with keys and values of `user_bytes` bytes. 0
    /// means that the sizes are unknown, because recovery has filled the memtable.
    pub(crate) fn record_flush(&mut self, bytes: u64, user_bytes: u64) {
        self.bytes_flushed = self.bytes_flushed.saturating_add(bytes);
        self.user_bytes = self.user_bytes.saturating_add(if user_bytes > 0 { user_bytes } else { bytes });
        if self.bytes_flushed > RATE_WINDOW_BYTES {
            self.compaction_time /= 2;
            self.bytes_read /= 2;
            self.bytes_flushed /= 2;
            self.user_bytes /= 2;
        }
    }

    /// Expected bytes of keys and values in tables of `bytes` bytes.
    fn user_bytes_in(&self, bytes: u64) -> u64 {
        let put = u128::from(bytes) * u128::from(self.user_bytes);
        put.checked_div(u128::from(self.bytes_flushed))
            .map_or(bytes, |put| u64::try_from(put).unwrap_or(u64::MAX))
    }

    /// Expected time of compactions that read `bytes`, without a speedup.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let nanos = bytes.saturating_mul(self.nanos_per_kib(self.bytes_read)) / DELAY_UNIT_BYTES;
        Duration::from_nanos(nanos)
    }

    /// Nanoseconds of compaction work per [`DELAY_UNIT_BYTES`] of `bytes`.
    fn nanos_per_kib(&self, bytes: u64) -> u64 {
        let nanos = self.compaction_time.as_nanos() * u128::from(DELAY_UNIT_BYTES);
        nanos
            .checked_div(u128::from(bytes))
            .map_or(DEFAULT_NANOS_PER_KIB, |nanos| u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::ManualClock;

    use super::*;

    const LIMITS: Level0Limits = Level0Limits::DEFAULT;

    fn price(level_0_runs: usize, work_ms: u64, room: u64) -> u64 {
        let work = Duration::from_millis(work_ms);
        CompactionBacklog {
            limits: LIMITS,
            level_0_runs,
            remaining_time: work,
            headroom_bytes: room,
            compaction_nanos_per_kib: 40_000,
        }
        .delay_per_kib()
    }

    #[test]
    fn no_delay_while_compactions_keep_up() {
        assert_eq!(price(LIMITS.slowdown - 1, 60_000, 1), 0);
    }

    #[test]
    fn headroom_lasts_until_the_compactions_end() {
        assert_eq!(price(LIMITS.slowdown, 1_000, 1 << 30), 953, "a second for a gibibyte");
        assert_eq!(price(LIMITS.slowdown, 1_000, 1 << 25), 30_517);
    }

    #[test]
    fn writes_keep_three_tenths_of_the_compaction_rate_while_there_is_headroom() {
        assert_eq!(price(LIMITS.no_headroom - 1, 1_000, 1), 133_333);
        assert_eq!(price(LIMITS.no_headroom, 1_000, 0), 133_333);
    }

    #[test]
    fn delay_doubles_with_each_reserved_file() {
        let prices = (LIMITS.no_headroom..=LIMITS.stop).map(|files| price(files, 1_000, 0) / 133_333);
        assert_eq!(prices.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(price(100, 1_000, 0) / 133_333, 64);
    }

    #[test]
    fn remaining_time_of_a_compaction() {
        let remaining = |input_entries, entries_read, speedup, elapsed_s| {
            let running = RunningCompaction {
                level: 0,
                output_level: 1,
                input_bytes: 1,
                input_entries,
                entries_read,
                speedup,
                started_at: Duration::ZERO,
            };
            running.remaining_time(Duration::from_secs(100), Duration::from_secs(elapsed_s)).as_secs()
        };
        assert_eq!(remaining(None, 0, 1.0, 30), 70);
        assert_eq!(remaining(None, 0, 2.0, 80), 20, "overdue");
        assert_eq!(remaining(Some(1000), 0, 1.0, 0), 100);
        assert_eq!(remaining(Some(1000), 0, 2.0, 0), 50);
        assert_eq!(remaining(Some(1000), 125, 1.0, 25), 131, "its own rate says 175, the others 87.5");
        assert_eq!(remaining(Some(1000), 500, 1.0, 70), 70);
        assert_eq!(remaining(Some(1000), 1001, 1.0, 70), 0);
    }

    #[test]
    fn compaction_rate_is_measured_and_decays() {
        let mut rate = CompactionRate::default();
        assert_eq!(rate.nanos_per_kib(rate.bytes_read), DEFAULT_NANOS_PER_KIB);
        rate.record_flush(1 << 30, 1 << 30);
        rate.record_compaction(4 << 30, Duration::from_nanos(20 << 30));
        assert_eq!(
            (rate.nanos_per_kib(rate.bytes_read), rate.nanos_per_kib(rate.bytes_flushed)),
            (5 * DELAY_UNIT_BYTES, 20 * DELAY_UNIT_BYTES)
        );
        for _ in 0..10 {
            rate.record_flush(1 << 30, 1 << 30);
            rate.record_compaction(1 << 30, Duration::from_nanos(1 << 30));
        }
        assert!(rate.nanos_per_kib(rate.bytes_read) < 2 * DELAY_UNIT_BYTES, "{rate:?}");
    }

    /// Delays were once computed as if keys and values took as many bytes as their tables, which
    /// are larger. Level 0 reached its last files, and writers nearly stopped.
    #[test]
    fn user_bytes_are_distinguished_from_table_bytes() {
        let mut rate = CompactionRate::default();
        assert_eq!(rate.user_bytes_in(700), 700, "nothing is known");
        rate.record_flush(1, 0);
        assert_eq!(rate.user_bytes_in(700), 700, "nor is what came out of a log");
        let mut rate = CompactionRate::default();
        rate.record_flush(3 << 20, 2 << 20);
        assert_eq!(rate.user_bytes_in(300), 200);
        rate.record_compaction(1, Duration::from_nanos(2 << 20));
        assert_eq!(rate.nanos_per_kib(rate.user_bytes), DELAY_UNIT_BYTES);
        rate.record_flush(1 << 40, 1 << 41);
        assert_eq!(rate.user_bytes_in(1000), 1999);
    }

    /// Returns the microseconds that writes of `bytes` bytes each take.
    fn times(controller: &WriteController, bytes: &[usize]) -> Vec<u128> {
        let clock = ManualClock::default();
        let times = bytes.iter().map(|bytes| {
            let before = clock.monotonic();
            controller.delay_write(*bytes, &clock);
            (clock.monotonic() - before).as_micros()
        });
        times.collect()
    }

    #[test]
    fn small_delays_accumulate_to_a_sleep() {
        let controller = WriteController::default();
        controller.set_delay_per_kib(100 * DELAY_UNIT_BYTES);
        assert_eq!(times(&controller, &[1000, 1000, 1000, 1000]), [0, 200, 0, 200]);
        controller.set_delay_per_kib(0);
        assert_eq!(times(&controller, &[1 << 30]), [0]);
    }

    /// Clock whose sleeps take ten milliseconds longer than requested.
    #[derive(Debug, Default)]
    struct OversleepingClock(ManualClock);

    impl Clock for OversleepingClock {
        fn monotonic(&self) -> Duration {
            self.0.monotonic()
        }

        fn wall_us(&self) -> u64 {
            self.0.wall_us()
        }

        fn sleep(&self, pause: Duration) {
            self.0.sleep(pause + Duration::from_millis(10));
        }
    }

    #[test]
    fn oversleeping_is_credited() {
        let controller = WriteController::default();
        let clock = OversleepingClock::default();
        controller.set_delay_per_kib(100 * DELAY_UNIT_BYTES);
        for _ in 0..100_000 {
            controller.delay_write(10, &clock);
        }
        let millis = clock.monotonic().as_millis();
        assert!((90..=110).contains(&millis), "{millis} ms for what costs 100");
    }

    #[test]
    fn no_write_sleeps_longer_than_a_millisecond() {
        let controller = WriteController::default();
        controller.set_delay_per_kib(100 * DELAY_UNIT_BYTES);
        assert_eq!(times(&controller, &[1 << 30, 1 << 30]), [1000, 1000]);
        let rest = times(&controller, &[MIN_DEBT_TO_CHECK_NANOS as usize / 100; 100]).iter().sum::<u128>();
        assert!(rest <= MAX_DELAY_BURST.as_micros() + 2000, "{rest} us, 2000 of which these cost themselves");
    }
}
