//! How fast writers go while merges are behind.
//!
//! ```text
//!   files of level 0       0 ........... slow ................................... stop
//!   a byte costs           nothing       time that the merges need / room that is left       writers wait
//!                                        (at most 5/3 of what merging a byte takes; more for the last six files)
//! ```
//!
//! Room is what may still come before level 0 has so many files that writers have to wait for a merge. So when merges
//! keep up, nobody is slowed; when they do not, writers go at a speed at which the room lasts until the merges are done,
//! and at worst at three fifths of that of the merges themselves, until hardly any room is left. Nobody sleeps for more than a millisecond, and nobody while he holds
//! a lock.

use std::fmt;
use std::time::Duration;

use terrace_env::Clock;

use crate::compaction::picker::{
    L0_SLOWDOWN_WRITES_TRIGGER, L0_STOP_WRITES_TRIGGER, pending_compaction_bytes,
};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::version::{FileMeta, Version, total_size};

/// The longest that a write sleeps.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(1);
/// Less than this is not worth a sleep: who owes it goes on owing.
const MIN_WRITE_DELAY: Duration = Duration::from_micros(200);
/// Nanoseconds below which nobody looks at the clock: that would take as long as a third of a write.
const MIN_DEBT_TO_CHECK_NANOS: u64 = 20_000;
/// How far writers get into debt, all together, and how far ahead of it. Values so large that each owes more than a sleep are
/// not made to pay.
const MAX_DELAY_BURST: Duration = Duration::from_millis(16);

/// The bytes whose price is told: finer than one nanosecond each.
const DELAY_UNIT_BYTES: u64 = 1024;

/// What writers pay.
#[derive(Debug, Default)]
pub(crate) struct WriteController {
    /// Nanoseconds for [`UNIT`] bytes. Relaxed: a figure that nothing else depends on.
    delay_per_kib: AtomicU64,
    /// Nanoseconds that writers owe and nobody has looked at yet. Relaxed: who takes them pays for all.
    unpaid_delay_nanos: AtomicU64,
    /// Up to which moment writers have paid.
    delayed_until: Mutex<Duration>,
}

impl WriteController {
    /// Lets a write of `bytes` through, after a while perhaps, and says how long that was.
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
            // Who was woken late has paid for it: on a busy machine a sleep takes ten times as long as it was meant to.
            *paid = ((*paid).max(now.saturating_sub(MAX_DELAY_BURST)) + cost).min(now + MAX_DELAY_BURST);
            paid.saturating_sub(now)
        };
        if owed < MIN_WRITE_DELAY {
            return None;
        }
        clock.sleep(owed.min(MAX_WRITE_DELAY));
        Some(clock.monotonic().saturating_sub(now))
    }

    /// Sets the write delay for the backlog of compactions. Returns the change if writers begin or
    /// end to wait.
    pub(crate) fn recalculate(
        &self,
        version: &Version,
        rate: &CompactionRate,
        running: Option<&RunningCompaction>,
        clock: &dyn Clock,
    ) -> Option<DelayChange> {
        let backlog = CompactionBacklog::new(version, rate, running, clock);
        let delay_per_kib = backlog.delay_per_kib();
        let before = self.set_delay_per_kib(delay_per_kib);
        ((before > 0) != (delay_per_kib > 0)).then_some(DelayChange { backlog, delay_per_kib })
    }

    /// The price before.
    fn set_delay_per_kib(&self, price: u64) -> u64 {
        self.delay_per_kib.swap(price, Ordering::Relaxed)
    }
}

/// Writers go at this part of the speed of merges at least: three fifths. A merge of level 0 takes as long for few files as for
/// many, so that writers may have to go slower than merges do on the whole, until their next one.
const MIN_WRITE_RATE_FRACTION: (u64, u64) = (3, 5);

/// As many files of level 0 leave no room: fewer than those at which writers wait, for what merges will take is a guess.
const LEVEL_0_NO_HEADROOM: usize = L0_STOP_WRITES_TRIGGER - LEVEL_0_RESERVED_FILES;
const LEVEL_0_RESERVED_FILES: usize = 6;

/// A merge is never thought to be nearer to its end than this part of what it has taken: one that is late goes on.
const OVERDUE_REMAINING_DIVISOR: u32 = 4;

/// The merge that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningCompaction {
    /// Where it takes files from.
    pub(crate) level: usize,
    /// What it reads.
    pub(crate) input_bytes: u64,
    pub(crate) started_at: Duration,
}

/// How far merges are behind.
#[derive(Debug, Clone, Copy)]
struct CompactionBacklog {
    level_0_files: usize,
    /// How long the merges will take that are needed now.
    remaining_time: Duration,
    /// Bytes that may still come before writers have to wait.
    headroom_bytes: u64,
    /// Nanoseconds of merging for [`UNIT`] bytes that come.
    compaction_nanos_per_kib: u64,
}

/// That writers begin to pay, or no longer do: for the info log.
#[must_use]
pub(crate) struct DelayChange {
    backlog: CompactionBacklog,
    delay_per_kib: u64,
}

impl fmt::Display for DelayChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CompactionBacklog { level_0_files, remaining_time: work, headroom_bytes: room, .. } =
            &self.backlog;
        let (begins, us) = (if self.delay_per_kib > 0 { "Pace" } else { "Pace ended" }, work.as_micros());
        write!(
            f,
            "{begins}: ns_per_kib={} level_0={level_0_files} work_us={us} room_bytes={room}",
            self.delay_per_kib
        )
    }
}

impl CompactionBacklog {
    fn new(
        version: &Version,
        rate: &CompactionRate,
        running: Option<&RunningCompaction>,
        clock: &dyn Clock,
    ) -> CompactionBacklog {
        let level_0 = &version.levels[0];
        let remaining = |running: &RunningCompaction| {
            let elapsed = clock.monotonic().saturating_sub(running.started_at);
            let expected = rate.time_for(running.input_bytes).saturating_sub(elapsed);
            expected.max(elapsed / OVERDUE_REMAINING_DIVISOR)
        };
        // A compaction that takes files from level 0 creates headroom when it ends, whatever
        // compactions follow.
        let remaining_time = match running {
            Some(running) if running.level == 0 => remaining(running),
            running => {
                running.map_or(Duration::ZERO, remaining) + rate.time_for(pending_compaction_bytes(version))
            }
        };
        // Writers pay for keys and values.
        let headroom_files = LEVEL_0_NO_HEADROOM.saturating_sub(level_0.len()) as u64;
        CompactionBacklog {
            level_0_files: level_0.len(),
            remaining_time,
            headroom_bytes: rate.user_bytes_in(headroom_files * mean_file_size(level_0)),
            compaction_nanos_per_kib: rate.nanos_per_kib(rate.user_bytes),
        }
    }

    /// Nanoseconds for [`UNIT`] bytes.
    fn delay_per_kib(&self) -> u64 {
        if self.level_0_files < L0_SLOWDOWN_WRITES_TRIGGER {
            return 0;
        }
        let work = u64::try_from(self.remaining_time.as_nanos()).unwrap_or(u64::MAX);
        let lasting =
            (u128::from(work) * u128::from(DELAY_UNIT_BYTES) / u128::from(self.headroom_bytes.max(1))) as u64;
        lasting.min(
            self.compaction_nanos_per_kib.saturating_mul(self.max_slowdown()) / MIN_WRITE_RATE_FRACTION.0,
        )
    }

    /// The last files before writers have to wait are dearer, each twice as dear as the one before: merges that take longer
    /// than they ever did make writers slow, and not stop.
    fn max_slowdown(&self) -> u64 {
        MIN_WRITE_RATE_FRACTION.1
            << self.level_0_files.saturating_sub(LEVEL_0_NO_HEADROOM).min(LEVEL_0_RESERVED_FILES)
    }
}

/// What merges took, of late.
#[derive(Debug, Default)]
pub(crate) struct CompactionRate {
    compaction_time: Duration,
    bytes_read: u64,
    bytes_flushed: u64,
    /// What was put of it: a table of small records has half as much again as their keys and values, and a packed one of large ones
    /// has less.
    user_bytes: u64,
}

/// Bytes of flushes that are remembered.
const RATE_WINDOW_BYTES: u64 = 1 << 30;
/// Nanoseconds for [`UNIT`] bytes, before anything was measured.
const DEFAULT_NANOS_PER_KIB: u64 = 10 * DELAY_UNIT_BYTES;

impl CompactionRate {
    pub(crate) fn record_compaction(&mut self, bytes_read: u64, time: Duration) {
        self.compaction_time += time;
        self.bytes_read = self.bytes_read.saturating_add(bytes_read);
    }

    /// Takes note of a table of `bytes`, of keys and values of `put` bytes; or of 0, where all of them came out of a log.
    pub(crate) fn record_flush(&mut self, bytes: u64, put: u64) {
        self.bytes_flushed = self.bytes_flushed.saturating_add(bytes);
        self.user_bytes = self.user_bytes.saturating_add(if put > 0 { put } else { bytes });
        if self.bytes_flushed > RATE_WINDOW_BYTES {
            let CompactionRate {
                compaction_time: time,
                bytes_read: read,
                bytes_flushed: flushed,
                user_bytes: put,
            } = *self;
            *self = CompactionRate {
                compaction_time: time / 2,
                bytes_read: read / 2,
                bytes_flushed: flushed / 2,
                user_bytes: put / 2,
            };
        }
    }

    /// The keys and values in so many bytes of tables.
    fn user_bytes_in(&self, bytes: u64) -> u64 {
        let put = u128::from(bytes) * u128::from(self.user_bytes);
        put.checked_div(u128::from(self.bytes_flushed))
            .map_or(bytes, |put| u64::try_from(put).unwrap_or(u64::MAX))
    }

    /// Expected time of compactions that read `bytes`.
    fn time_for(&self, bytes: u64) -> Duration {
        let nanos = bytes.saturating_mul(self.nanos_per_kib(self.bytes_read)) / DELAY_UNIT_BYTES;
        Duration::from_nanos(nanos)
    }

    /// Nanoseconds of merging for [`UNIT`] of `bytes`.
    fn nanos_per_kib(&self, bytes: u64) -> u64 {
        let nanos = self.compaction_time.as_nanos() * u128::from(DELAY_UNIT_BYTES);
        nanos
            .checked_div(u128::from(bytes))
            .map_or(DEFAULT_NANOS_PER_KIB, |nanos| u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn mean_file_size(files: &[Arc<FileMeta>]) -> u64 {
    total_size(files) / files.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use terrace_env::ManualClock;

    use super::*;

    fn price(level_0_files: usize, work_ms: u64, room: u64) -> u64 {
        let work = Duration::from_millis(work_ms);
        CompactionBacklog {
            level_0_files,
            remaining_time: work,
            headroom_bytes: room,
            compaction_nanos_per_kib: 40_000,
        }
        .delay_per_kib()
    }

    #[test]
    fn no_delay_while_compactions_keep_up() {
        assert_eq!(price(L0_SLOWDOWN_WRITES_TRIGGER - 1, 60_000, 1), 0);
    }

    #[test]
    fn headroom_lasts_until_the_compactions_end() {
        assert_eq!(price(L0_SLOWDOWN_WRITES_TRIGGER, 1_000, 1 << 30), 953, "a second for a gibibyte");
        assert_eq!(price(L0_SLOWDOWN_WRITES_TRIGGER, 1_000, 1 << 25), 30_517);
    }

    #[test]
    fn writes_keep_three_fifths_of_the_compaction_rate_while_there_is_headroom() {
        assert_eq!(price(LEVEL_0_NO_HEADROOM - 1, 1_000, 1), 66_666);
        assert_eq!(price(LEVEL_0_NO_HEADROOM, 1_000, 0), 66_666);
    }

    #[test]
    fn delay_doubles_with_each_reserved_file() {
        let prices =
            (LEVEL_0_NO_HEADROOM..=L0_STOP_WRITES_TRIGGER).map(|files| price(files, 1_000, 0) / 66_666);
        assert_eq!(prices.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(price(100, 1_000, 0) / 66_666, 64);
    }

    #[test]
    fn compaction_rate_is_measured_and_decays() {
        let mut effort = CompactionRate::default();
        assert_eq!(effort.nanos_per_kib(effort.bytes_read), DEFAULT_NANOS_PER_KIB);
        effort.record_flush(1 << 30, 1 << 30);
        effort.record_compaction(4 << 30, Duration::from_nanos(20 << 30));
        assert_eq!(
            (effort.nanos_per_kib(effort.bytes_read), effort.nanos_per_kib(effort.bytes_flushed)),
            (5 * DELAY_UNIT_BYTES, 20 * DELAY_UNIT_BYTES)
        );
        for _ in 0..10 {
            effort.record_flush(1 << 30, 1 << 30);
            effort.record_compaction(1 << 30, Duration::from_nanos(1 << 30));
        }
        assert!(effort.nanos_per_kib(effort.bytes_read) < 2 * DELAY_UNIT_BYTES, "{effort:?}");
    }

    /// Writers paid for keys and values as if these were as large as the tables, which are larger: level 0 came to its last files, and
    /// writers nearly stopped.
    #[test]
    fn user_bytes_are_distinguished_from_table_bytes() {
        let mut effort = CompactionRate::default();
        assert_eq!(effort.user_bytes_in(700), 700, "nothing is known");
        effort.record_flush(1, 0);
        assert_eq!(effort.user_bytes_in(700), 700, "nor is what came out of a log");
        let mut effort = CompactionRate::default();
        effort.record_flush(3 << 20, 2 << 20);
        assert_eq!(effort.user_bytes_in(300), 200);
        effort.record_compaction(1, Duration::from_nanos(2 << 20));
        assert_eq!(effort.nanos_per_kib(effort.user_bytes), DELAY_UNIT_BYTES);
        effort.record_flush(1 << 40, 1 << 41);
        assert_eq!(effort.user_bytes_in(1000), 1999);
    }

    /// How long writes of `bytes` each take, in microseconds.
    fn times(pace: &WriteController, bytes: &[usize]) -> Vec<u128> {
        let clock = ManualClock::default();
        let time = |bytes: &usize| {
            let before = clock.monotonic();
            pace.delay_write(*bytes, &clock);
            (clock.monotonic() - before).as_micros()
        };
        bytes.iter().map(time).collect()
    }

    #[test]
    fn small_delays_accumulate_to_a_sleep() {
        let pace = WriteController::default();
        pace.set_delay_per_kib(100 * DELAY_UNIT_BYTES);
        assert_eq!(times(&pace, &[1000, 1000, 1000, 1000]), [0, 200, 0, 200]);
        pace.set_delay_per_kib(0);
        assert_eq!(times(&pace, &[1 << 30]), [0]);
    }

    /// A clock on which a sleep takes ten milliseconds longer than it was meant to.
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
        let (pace, clock) = (WriteController::default(), OversleepingClock::default());
        pace.set_delay_per_kib(100 * DELAY_UNIT_BYTES);
        for _ in 0..100_000 {
            pace.delay_write(10, &clock);
        }
        let millis = clock.monotonic().as_millis();
        assert!((90..=110).contains(&millis), "{millis} ms for what costs 100");
    }

    #[test]
    fn no_write_sleeps_longer_than_a_millisecond() {
        let pace = WriteController::default();
        pace.set_delay_per_kib(100 * DELAY_UNIT_BYTES);
        assert_eq!(times(&pace, &[1 << 30, 1 << 30]), [1000, 1000]);
        let rest = times(&pace, &[MIN_DEBT_TO_CHECK_NANOS as usize / 100; 100]).iter().sum::<u128>();
        assert!(rest <= MAX_DELAY_BURST.as_micros() + 2000, "{rest} us, 2000 of which these cost themselves");
    }
}
