//! Durations of slow events: write stalls and background jobs.
//!
//! ```text
//!   a stall of 1,500 us for a flush      timer `flush`:  count 1, sum 1,500, max 1,500
//!
//!   its histogram   from    0  2  4  8 .. 1024  2048 .. 2^23 us
//!                         [ .  .  .  . ..   1     .  ..   .  ]
//! ```
//!
//! A write that does not stall reads no clock and records nothing.

// Atomics of the standard library instead of `sync`, as in the parent module: no other access
// depends on their order.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Event whose durations the database records since its open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Timer {
    /// Write delay: the write controller delayed a write because compactions cannot keep up.
    WriteDelay,
    /// A write waited for a flush, because the maximum number of immutable memtables was reached.
    FlushStall,
    /// A write waited for a compaction, because level 0 had the maximum number of sorted runs.
    CompactionStall,
    /// A write found no disk space and waited for a flush or a compaction, which may free some.
    NoSpaceStall,
    /// A write created a new memtable and a new WAL.
    MemtableSwitch,
    /// A write waited until earlier writes were visible, whose threads were preempted.
    PublishWait,
    /// A sync write waited for the storage.
    SyncWait,
    /// Flush of a memtable to a table.
    Flush,
    /// Compaction of tables.
    Compaction,
}

/// All timers with their group and their name in `terrace.stats` and in the info log.
pub(crate) static TIMERS: &[(Timer, &str, &str)] = &[
    (Timer::WriteDelay, "stall", "delayed"),
    (Timer::FlushStall, "stall", "flush"),
    (Timer::CompactionStall, "stall", "compaction"),
    (Timer::NoSpaceStall, "stall", "no_space"),
    (Timer::MemtableSwitch, "stall", "new_log"),
    (Timer::PublishWait, "stall", "publish"),
    (Timer::SyncWait, "stall", "sync"),
    (Timer::Flush, "work", "flushes"),
    (Timer::Compaction, "work", "compactions"),
];

impl Timer {
    /// Returns all timers.
    pub fn all() -> impl Iterator<Item = Timer> {
        TIMERS.iter().map(|(timer, ..)| *timer)
    }

    /// Returns the name of the timer in `terrace.stats` and in the info log.
    pub fn name(self) -> &'static str {
        TIMERS[self as usize].2
    }

    /// Returns true for a delay or a stall of a write, false for background work.
    pub fn is_stall(self) -> bool {
        TIMERS[self as usize].1 == "stall"
    }
}

/// Number of buckets, for powers of two of microseconds. The last bucket holds all durations of 8
/// seconds and more.
const HISTOGRAM_BUCKETS: usize = 24;

/// Durations of one timer.
#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; HISTOGRAM_BUCKETS],
    sum_micros: AtomicU64,
    max_micros: AtomicU64,
}

/// Durations of all timers since the open of the database. They are on the heap, because an open
/// may run on a small stack.
pub(crate) struct Timers(Box<[Histogram]>);

impl Default for Timers {
    fn default() -> Timers {
        Timers(TIMERS.iter().map(|_| Histogram::default()).collect())
    }
}

/// Durations of one timer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistogramData {
    /// Number of durations.
    pub count: u64,
    /// Sum of all durations in microseconds.
    pub sum_micros: u64,
    /// Longest duration in microseconds.
    pub max_micros: u64,
    /// Nonempty buckets: smallest duration of the bucket in microseconds, and number of durations.
    /// A bucket ends at twice its smallest duration. The last one begins at 8 s and has no end.
    pub buckets: Vec<(u64, u64)>,
}

impl Timers {
    /// Records one duration.
    #[cold]
    pub(crate) fn record(&self, timer: Timer, duration: Duration) {
        let histogram = &self.0[timer as usize];
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        histogram.buckets[bucket_index(micros)].fetch_add(1, Ordering::Relaxed);
        histogram.sum_micros.fetch_add(micros, Ordering::Relaxed);
        histogram.max_micros.fetch_max(micros, Ordering::Relaxed);
    }

    /// Returns the recorded durations. While other threads record, each number is that of some
    /// recent moment.
    pub(crate) fn get(&self, timer: Timer) -> HistogramData {
        let histogram = &self.0[timer as usize];
        let counts = histogram.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> = counts
            .enumerate()
            .filter(|(_, n)| *n > 0)
            .map(|(bucket, n)| (bucket_lower_bound(bucket), n))
            .collect();
        HistogramData {
            count: buckets.iter().map(|(_, n)| n).sum(),
            sum_micros: histogram.sum_micros.load(Ordering::Relaxed),
            max_micros: histogram.max_micros.load(Ordering::Relaxed),
            buckets,
        }
    }
}

fn bucket_index(micros: u64) -> usize {
    (micros.max(1).ilog2() as usize).min(HISTOGRAM_BUCKETS - 1)
}

/// Returns the smallest duration of a bucket in microseconds.
fn bucket_lower_bound(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << bucket }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: &[u64], expected: &[(u64, u64)]) {
        let timers = Timers::default();
        micros.iter().for_each(|&micros| timers.record(Timer::FlushStall, Duration::from_micros(micros)));
        let data = timers.get(Timer::FlushStall);
        assert_eq!(data.buckets, expected);
        assert_eq!((data.count, data.sum_micros), (micros.len() as u64, micros.iter().sum()));
        assert_eq!(data.max_micros, micros.iter().copied().max().unwrap_or(0));
        assert_eq!(timers.get(Timer::CompactionStall).count, 0);
    }

    #[test]
    fn empty_histogram() {
        check(&[], &[]);
    }

    #[test]
    fn buckets_are_powers_of_two() {
        check(&[0, 1, 2, 3, 4, 1023, 1024, 2047], &[(0, 2), (2, 2), (4, 1), (512, 1), (1024, 2)]);
    }

    #[test]
    fn last_bucket_is_unbounded() {
        check(&[8_388_607, 8_388_608, 1 << 40], &[(4_194_304, 1), (8_388_608, 2)]);
    }

    #[test]
    fn table_is_in_the_order_of_the_enum() {
        for (index, (timer, _, name)) in TIMERS.iter().enumerate() {
            assert_eq!((*timer as usize, timer.name()), (index, *name));
        }
    }
}
