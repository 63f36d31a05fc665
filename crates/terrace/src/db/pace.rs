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

use super::{Engine, State};
use crate::compaction::policy::{LEVEL_0_SLOW, LEVEL_0_STOP, debt};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::version::{FileMeta, total_size};

/// The longest that a write sleeps.
const LONGEST: Duration = Duration::from_millis(1);
/// Less than this is not worth a sleep: who owes it goes on owing.
const SHORTEST: Duration = Duration::from_micros(200);
/// Nanoseconds below which nobody looks at the clock: that would take as long as a third of a write.
const LITTLE: u64 = 20_000;
/// How far writers get into debt, all together, and how far ahead of it. Values so large that each owes more than a sleep are
/// not made to pay.
const CREDIT: Duration = Duration::from_millis(16);

/// The bytes whose price is told: finer than one nanosecond each.
const UNIT: u64 = 1024;

/// What writers pay.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds for [`UNIT`] bytes. Relaxed: a figure that nothing else depends on.
    price: AtomicU64,
    /// Nanoseconds that writers owe and nobody has looked at yet. Relaxed: who takes them pays for all.
    owed: AtomicU64,
    /// Up to which moment writers have paid.
    paid: Mutex<Duration>,
}

impl Pace {
    /// Lets a write of `bytes` through, after a while perhaps, and says how long that was.
    pub(super) fn admit(&self, bytes: usize, clock: &dyn Clock) -> Option<Duration> {
        let price = self.price.load(Ordering::Relaxed);
        if price == 0 {
            return None;
        }
        let cost = price.saturating_mul(bytes as u64) / UNIT;
        if self.owed.fetch_add(cost, Ordering::Relaxed).saturating_add(cost) < LITTLE {
            return None;
        }
        let cost = Duration::from_nanos(self.owed.swap(0, Ordering::Relaxed));
        let now = clock.monotonic();
        let owed = {
            let mut paid = self.paid.lock();
            // Who was woken late has paid for it: on a busy machine a sleep takes ten times as long as it was meant to.
            *paid = ((*paid).max(now.saturating_sub(CREDIT)) + cost).min(now + CREDIT);
            paid.saturating_sub(now)
        };
        if owed < SHORTEST {
            return None;
        }
        clock.sleep(owed.min(LONGEST));
        Some(clock.monotonic().saturating_sub(now))
    }

    /// The price before.
    fn set(&self, price: u64) -> u64 {
        self.price.swap(price, Ordering::Relaxed)
    }
}

/// Writers go at this part of the speed of merges at least: three fifths. A merge of level 0 takes as long for few files as for
/// many, so that writers may have to go slower than merges do on the whole, until their next one.
const SLOWEST: (u64, u64) = (3, 5);

/// As many files of level 0 leave no room: fewer than those at which writers wait, for what merges will take is a guess.
const FULL: usize = LEVEL_0_STOP - RESERVE;
const RESERVE: usize = 6;

/// A merge is never thought to be nearer to its end than this part of what it has taken: one that is late goes on.
const LATE: u32 = 4;

/// The merge that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    /// Where it takes files from.
    pub(super) level: usize,
    /// What it reads.
    pub(super) bytes: u64,
    pub(super) began: Duration,
}

/// How far merges are behind.
#[derive(Debug, Clone, Copy)]
struct Backlog {
    level_0_files: usize,
    /// How long the merges will take that are needed now.
    work: Duration,
    /// Bytes that may still come before writers have to wait.
    room: u64,
    /// Nanoseconds of merging for [`UNIT`] bytes that come.
    drain: u64,
}

/// That writers begin to pay, or no longer do: for the info log.
#[must_use]
pub(super) struct Turn {
    backlog: Backlog,
    price: u64,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backlog { level_0_files, work, room, .. } = &self.backlog;
        let (begins, us) = (if self.price > 0 { "Pace" } else { "Pace ended" }, work.as_micros());
        write!(
            f,
            "{begins}: ns_per_kib={} level_0={level_0_files} work_us={us} room_bytes={room}",
            self.price
        )
    }
}

impl Backlog {
    /// Nanoseconds for [`UNIT`] bytes.
    fn price(&self) -> u64 {
        if self.level_0_files < LEVEL_0_SLOW {
            return 0;
        }
        let work = u64::try_from(self.work.as_nanos()).unwrap_or(u64::MAX);
        let lasting = (u128::from(work) * u128::from(UNIT) / u128::from(self.room.max(1))) as u64;
        lasting.min(self.drain.saturating_mul(self.slowest()) / SLOWEST.0)
    }

    /// The last files before writers have to wait are dearer, each twice as dear as the one before: merges that take longer
    /// than they ever did make writers slow, and not stop.
    fn slowest(&self) -> u64 {
        SLOWEST.1 << self.level_0_files.saturating_sub(FULL).min(RESERVE)
    }
}

/// What merges took, of late.
#[derive(Debug, Default)]
pub(super) struct Effort {
    time: Duration,
    read: u64,
    flushed: u64,
    /// What was put of it: a table of small records has half as much again as their keys and values, and a packed one of large ones
    /// has less.
    put: u64,
}

/// Bytes of flushes that are remembered.
const MEMORY: u64 = 1 << 30;
/// Nanoseconds for [`UNIT`] bytes, before anything was measured.
const GUESS: u64 = 10 * UNIT;

impl Effort {
    pub(super) fn merged(&mut self, bytes_read: u64, time: Duration) {
        self.time += time;
        self.read = self.read.saturating_add(bytes_read);
    }

    /// Takes note of a table of `bytes`, of keys and values of `put` bytes; or of 0, where all of them came out of a log.
    pub(super) fn flushed(&mut self, bytes: u64, put: u64) {
        self.flushed = self.flushed.saturating_add(bytes);
        self.put = self.put.saturating_add(if put > 0 { put } else { bytes });
        if self.flushed > MEMORY {
            let Effort { time, read, flushed, put } = *self;
            *self = Effort { time: time / 2, read: read / 2, flushed: flushed / 2, put: put / 2 };
        }
    }

    /// The keys and values in so many bytes of tables.
    fn put_in(&self, bytes: u64) -> u64 {
        let put = u128::from(bytes) * u128::from(self.put);
        put.checked_div(u128::from(self.flushed)).map_or(bytes, |put| u64::try_from(put).unwrap_or(u64::MAX))
    }

    /// Nanoseconds of merging for [`UNIT`] of `bytes`.
    fn per_unit(&self, bytes: u64) -> u64 {
        let nanos = self.time.as_nanos() * u128::from(UNIT);
        nanos.checked_div(u128::from(bytes)).map_or(GUESS, |nanos| u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn mean_size(files: &[Arc<FileMeta>]) -> u64 {
    total_size(files) / files.len().max(1) as u64
}

impl Engine {
    /// Sets the pace by what `state` says, and says if that is a turn, to be told when `state` is unlocked.
    pub(super) fn set_pace(&self, state: &State) -> Option<Turn> {
        let version = &state.set.version;
        let level_0_files = version.levels[0].len();
        let time_for = |bytes: u64| {
            Duration::from_nanos(bytes.saturating_mul(state.effort.per_unit(state.effort.read)) / UNIT)
        };
        let left = |running: &Running| {
            let spent = self.options.env.clock.monotonic().saturating_sub(running.began);
            time_for(running.bytes).saturating_sub(spent).max(spent / LATE)
        };
        // A merge that takes files off level 0 makes room when it ends, whatever is to be done then.
        let work = match &state.running {
            Some(running) if running.level == 0 => left(running),
            running => running.as_ref().map_or(Duration::ZERO, left) + time_for(debt(version)),
        };
        // Writers pay for keys and values.
        let tables = FULL.saturating_sub(level_0_files) as u64 * mean_size(&version.levels[0]);
        let backlog = Backlog {
            level_0_files,
            work,
            room: state.effort.put_in(tables),
            drain: state.effort.per_unit(state.effort.put),
        };
        let price = backlog.price();
        let before = self.pace.set(price);
        ((before > 0) != (price > 0)).then_some(Turn { backlog, price })
    }

    pub(super) fn tell_turn(&self, turn: Option<Turn>) {
        if let Some(turn) = turn {
            self.logger.log(format_args!("{turn}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::ManualClock;

    use super::*;

    fn price(level_0_files: usize, work_ms: u64, room: u64) -> u64 {
        let work = Duration::from_millis(work_ms);
        Backlog { level_0_files, work, room, drain: 40_000 }.price()
    }

    #[test]
    fn nothing_while_merges_keep_up() {
        assert_eq!(price(LEVEL_0_SLOW - 1, 60_000, 1), 0);
    }

    #[test]
    fn the_room_lasts_until_the_merges_are_done() {
        assert_eq!(price(LEVEL_0_SLOW, 1_000, 1 << 30), 953, "a second for a gibibyte");
        assert_eq!(price(LEVEL_0_SLOW, 1_000, 1 << 25), 30_517);
    }

    #[test]
    fn never_slower_than_three_fifths_as_fast_as_the_merges_while_there_is_room() {
        assert_eq!(price(FULL - 1, 1_000, 1), 66_666);
        assert_eq!(price(FULL, 1_000, 0), 66_666);
    }

    #[test]
    fn the_last_files_are_dearer_and_dearer() {
        let prices = (FULL..=LEVEL_0_STOP).map(|files| price(files, 1_000, 0) / 66_666);
        assert_eq!(prices.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(price(100, 1_000, 0) / 66_666, 64);
    }

    #[test]
    fn what_merges_take_is_measured_and_old_figures_fade() {
        let mut effort = Effort::default();
        assert_eq!(effort.per_unit(effort.read), GUESS);
        effort.flushed(1 << 30, 1 << 30);
        effort.merged(4 << 30, Duration::from_nanos(20 << 30));
        assert_eq!((effort.per_unit(effort.read), effort.per_unit(effort.flushed)), (5 * UNIT, 20 * UNIT));
        for _ in 0..10 {
            effort.flushed(1 << 30, 1 << 30);
            effort.merged(1 << 30, Duration::from_nanos(1 << 30));
        }
        assert!(effort.per_unit(effort.read) < 2 * UNIT, "{effort:?}");
    }

    /// Writers paid for keys and values as if these were as large as the tables, which are larger: level 0 came to its last files, and
    /// writers nearly stopped.
    #[test]
    fn what_is_put_is_told_from_tables() {
        let mut effort = Effort::default();
        assert_eq!(effort.put_in(700), 700, "nothing is known");
        effort.flushed(1, 0);
        assert_eq!(effort.put_in(700), 700, "nor is what came out of a log");
        let mut effort = Effort::default();
        effort.flushed(3 << 20, 2 << 20);
        assert_eq!(effort.put_in(300), 200);
        effort.merged(1, Duration::from_nanos(2 << 20));
        assert_eq!(effort.per_unit(effort.put), UNIT);
        effort.flushed(1 << 40, 1 << 41);
        assert_eq!(effort.put_in(1000), 1999);
    }

    /// How long writes of `bytes` each take, in microseconds.
    fn times(pace: &Pace, bytes: &[usize]) -> Vec<u128> {
        let clock = ManualClock::default();
        let time = |bytes: &usize| {
            let before = clock.monotonic();
            pace.admit(*bytes, &clock);
            (clock.monotonic() - before).as_micros()
        };
        bytes.iter().map(time).collect()
    }

    #[test]
    fn small_debts_add_up_to_a_sleep() {
        let pace = Pace::default();
        pace.set(100 * UNIT);
        assert_eq!(times(&pace, &[1000, 1000, 1000, 1000]), [0, 200, 0, 200]);
        pace.set(0);
        assert_eq!(times(&pace, &[1 << 30]), [0]);
    }

    /// A clock on which a sleep takes ten milliseconds longer than it was meant to.
    #[derive(Debug, Default)]
    struct Late(ManualClock);

    impl Clock for Late {
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
    fn who_sleeps_too_long_has_paid_for_what_comes() {
        let (pace, clock) = (Pace::default(), Late::default());
        pace.set(100 * UNIT);
        for _ in 0..100_000 {
            pace.admit(10, &clock);
        }
        let millis = clock.monotonic().as_millis();
        assert!((90..=110).contains(&millis), "{millis} ms for what costs 100");
    }

    #[test]
    fn nobody_sleeps_longer_than_a_millisecond() {
        let pace = Pace::default();
        pace.set(100 * UNIT);
        assert_eq!(times(&pace, &[1 << 30, 1 << 30]), [1000, 1000]);
        let rest = times(&pace, &[LITTLE as usize / 100; 100]).iter().sum::<u128>();
        assert!(rest <= CREDIT.as_micros() + 2000, "{rest} us, 2000 of which these cost themselves");
    }
}
