//! How long things took: what writers waited for, and what the background did.
//!
//! ```text
//!   a wait of 1,500 us for a flush      flush:  times 1, in all 1,500, longest 1,500, and one more in
//!
//!   from    0  2  4  8 .. 1024  2048 .. 2^23 us
//!         [ .  .  .  . ..   1     .  ..   .  ]
//! ```
//!
//! Nothing is counted for what did not wait, and no clock is read for it.

// Not of `sync`, as the counts beside it.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What takes time, so that it is said how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A write slept, because merges are behind.
    WriteDelay,
    /// A write waited for a flush: as many memtables waited for theirs as may.
    FlushStall,
    /// A write waited for a merge: level 0 had as many tables as it may.
    CompactionStall,
    /// A write found no space, and waited for a flush or a merge, which might free some.
    NoSpaceStall,
    /// A write began a new memtable and a new log.
    MemtableSwitch,
    /// A write made room in its log: the next pages of it.
    WalPreallocation,
    /// A write waited for those before it to be visible, whose threads were put aside.
    PublishWait,
    /// A sync write waited for the device.
    SyncWait,
    /// A memtable became a table.
    Flush,
    /// Tables were merged.
    Compaction,
}

/// Every span: whose time it is, and what it is called, in `terrace.stats` and in the info log.
pub(crate) static TIMERS: &[(Timer, &str, &str)] = &[
    (Timer::WriteDelay, "waits", "pace"),
    (Timer::FlushStall, "waits", "flush"),
    (Timer::CompactionStall, "waits", "merge"),
    (Timer::NoSpaceStall, "waits", "space"),
    (Timer::MemtableSwitch, "waits", "new_log"),
    (Timer::WalPreallocation, "waits", "log_room"),
    (Timer::PublishWait, "waits", "writers"),
    (Timer::SyncWait, "waits", "device"),
    (Timer::Flush, "work", "flushes"),
    (Timer::Compaction, "work", "merges"),
];

impl Timer {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        TIMERS[self as usize].2
    }
}

/// Powers of two of microseconds. The last has all that is longer: 8 seconds and more.
const HISTOGRAM_BUCKETS: usize = 24;

/// The times of one kind.
#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; HISTOGRAM_BUCKETS],
    sum_micros: AtomicU64,
    max_micros: AtomicU64,
}

/// The times of all kinds, since the database was opened.
#[derive(Default)]
pub(crate) struct Timers([Histogram; TIMERS.len()]);

/// The times of one kind, at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HistogramData {
    pub(crate) count: u64,
    /// In all.
    pub(crate) sum_micros: u64,
    pub(crate) max_micros: u64,
    /// Where any are: the least microseconds of a bucket, and how many are in it.
    pub(crate) buckets: Vec<(u64, u64)>,
}

impl Timers {
    /// Counts one that took so long.
    #[cold]
    pub(crate) fn record(&self, span: Timer, time: Duration) {
        let (times, micros) = (&self.0[span as usize], u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        times.buckets[bucket_index(micros)].fetch_add(1, Ordering::Relaxed);
        times.sum_micros.fetch_add(micros, Ordering::Relaxed);
        times.max_micros.fetch_max(micros, Ordering::Relaxed);
    }

    /// What was counted. Beside threads that count, some moment's numbers.
    pub(crate) fn get(&self, span: Timer) -> HistogramData {
        let times = &self.0[span as usize];
        let counts = times.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> =
            counts.enumerate().filter(|(_, n)| *n > 0).map(|(at, n)| (bucket_lower_bound(at), n)).collect();
        HistogramData {
            count: buckets.iter().map(|(_, n)| n).sum(),
            sum_micros: times.sum_micros.load(Ordering::Relaxed),
            max_micros: times.max_micros.load(Ordering::Relaxed),
            buckets,
        }
    }
}

fn bucket_index(micros: u64) -> usize {
    (micros.max(1).ilog2() as usize).min(HISTOGRAM_BUCKETS - 1)
}

/// The least microseconds of a bucket.
fn bucket_lower_bound(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << bucket }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: &[u64], expect: &[(u64, u64)]) {
        let spans = Timers::default();
        micros.iter().for_each(|&micros| spans.record(Timer::FlushStall, Duration::from_micros(micros)));
        let taken = spans.get(Timer::FlushStall);
        assert_eq!(taken.buckets, expect);
        assert_eq!((taken.count, taken.sum_micros), (micros.len() as u64, micros.iter().sum()));
        assert_eq!(taken.max_micros, micros.iter().copied().max().unwrap_or(0));
        assert_eq!(spans.get(Timer::CompactionStall).count, 0);
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
        for (at, (span, _, name)) in TIMERS.iter().enumerate() {
            assert_eq!((*span as usize, span.name()), (at, *name));
        }
    }
}
