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
pub(crate) enum Span {
    /// A write slept, because merges are behind.
    Paced,
    /// A write waited for a flush: as many memtables waited for theirs as may.
    ForFlush,
    /// A write waited for a merge: level 0 had as many tables as it may.
    ForMerge,
    /// A write found no space, and waited for a flush or a merge, which might free some.
    ForSpace,
    /// A write began a new memtable and a new log.
    Switch,
    /// A write made room in its log: the next pages of it.
    Room,
    /// A write waited for those before it to be visible, whose threads were put aside.
    ForOthers,
    /// A sync write waited for the device.
    ForDevice,
    /// A memtable became a table.
    Flush,
    /// Tables were merged.
    Merge,
}

/// Every span: whose time it is, and what it is called, in `terrace.stats` and in the info log.
pub(crate) static SPANS: &[(Span, &str, &str)] = &[
    (Span::Paced, "waits", "pace"),
    (Span::ForFlush, "waits", "flush"),
    (Span::ForMerge, "waits", "merge"),
    (Span::ForSpace, "waits", "space"),
    (Span::Switch, "waits", "new_log"),
    (Span::Room, "waits", "log_room"),
    (Span::ForOthers, "waits", "writers"),
    (Span::ForDevice, "waits", "device"),
    (Span::Flush, "work", "flushes"),
    (Span::Merge, "work", "merges"),
];

impl Span {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        SPANS[self as usize].2
    }
}

/// Powers of two of microseconds. The last has all that is longer: 8 seconds and more.
const BUCKETS: usize = 24;

/// The times of one kind.
#[derive(Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
    longest: AtomicU64,
}

/// The times of all kinds, since the database was opened.
#[derive(Default)]
pub(crate) struct Spans([Times; SPANS.len()]);

/// The times of one kind, at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) times: u64,
    /// In all.
    pub(crate) micros: u64,
    pub(crate) longest: u64,
    /// Where any are: the least microseconds of a bucket, and how many are in it.
    pub(crate) buckets: Vec<(u64, u64)>,
}

impl Spans {
    /// Counts one that took so long.
    #[cold]
    pub(crate) fn count(&self, span: Span, time: Duration) {
        let (times, micros) = (&self.0[span as usize], u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        times.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        times.micros.fetch_add(micros, Ordering::Relaxed);
        times.longest.fetch_max(micros, Ordering::Relaxed);
    }

    /// What was counted. Beside threads that count, some moment's numbers.
    pub(crate) fn of(&self, span: Span) -> Taken {
        let times = &self.0[span as usize];
        let counts = times.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> =
            counts.enumerate().filter(|(_, n)| *n > 0).map(|(at, n)| (least(at), n)).collect();
        Taken {
            times: buckets.iter().map(|(_, n)| n).sum(),
            micros: times.micros.load(Ordering::Relaxed),
            longest: times.longest.load(Ordering::Relaxed),
            buckets,
        }
    }
}

fn bucket(micros: u64) -> usize {
    (micros.max(1).ilog2() as usize).min(BUCKETS - 1)
}

/// The least microseconds of a bucket.
fn least(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << bucket }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(micros: &[u64], expect: &[(u64, u64)]) {
        let spans = Spans::default();
        micros.iter().for_each(|&micros| spans.count(Span::ForFlush, Duration::from_micros(micros)));
        let taken = spans.of(Span::ForFlush);
        assert_eq!(taken.buckets, expect);
        assert_eq!((taken.times, taken.micros), (micros.len() as u64, micros.iter().sum()));
        assert_eq!(taken.longest, micros.iter().copied().max().unwrap_or(0));
        assert_eq!(spans.of(Span::ForMerge).times, 0);
    }

    #[test]
    fn nothing() {
        check(&[], &[]);
    }

    #[test]
    fn each_has_its_power_of_two() {
        check(&[0, 1, 2, 3, 4, 1023, 1024, 2047], &[(0, 2), (2, 2), (4, 1), (512, 1), (1024, 2)]);
    }

    #[test]
    fn the_last_has_all_that_is_longer() {
        check(&[8_388_607, 8_388_608, 1 << 40], &[(4_194_304, 1), (8_388_608, 2)]);
    }

    #[test]
    fn the_table_is_in_order() {
        for (at, (span, _, name)) in SPANS.iter().enumerate() {
            assert_eq!((*span as usize, span.name()), (at, *name));
        }
    }
}
