//! Latency histogram with buckets of proportional width: the error is at most 1.6 %.
//!
//! ```text
//!   0 1 2 ... 63 | 64 65 ... 127 | 128 130 ... 254 | 256 260 ... 508 | ...   lower bound, ns
//!     exact          64 of 1          64 of 2           64 of 4
//! ```
//!
//! The mean and the maximum are exact. Histograms of several threads can be merged.

use crate::report::model::Latency;

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BUCKET_BITS;
const BUCKET_COUNT: usize = ((64 - SUB_BUCKET_BITS as usize) + 1) << SUB_BUCKET_BITS;

/// Counts of latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKET_COUNT], count: 0, sum: 0, max: 0 }
    }
}

#[inline]
fn bucket_index(ns: u64) -> usize {
    if ns < SUB_BUCKETS {
        return ns as usize;
    }
    let shift = 63 - SUB_BUCKET_BITS - ns.leading_zeros();
    ((u64::from(shift + 1) << SUB_BUCKET_BITS) + (ns >> shift) - SUB_BUCKETS) as usize
}

/// Largest latency of bucket `bucket`.
fn bucket_upper_bound(bucket: usize) -> u64 {
    let shift = (bucket as u64) >> SUB_BUCKET_BITS;
    let place = bucket as u64 % SUB_BUCKETS;
    match shift {
        0 => place,
        // The upper bound of the last bucket is `u64::MAX`, so the shift needs 128 bits.
        _ => ((u128::from(SUB_BUCKETS + place + 1) << (shift - 1)) - 1) as u64,
    }
}

impl Histogram {
    /// Records `times` operations that took `ns` each.
    #[inline]
    pub fn record(&mut self, ns: u64, times: u64) {
        self.counts[bucket_index(ns)] += times;
        self.count += times;
        self.sum += u128::from(ns) * u128::from(times);
        self.max = self.max.max(ns);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Latency that the fraction `share` of the operations did not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        reached.map_or(self.max, |bucket| bucket_upper_bound(bucket).min(self.max))
    }

    /// Summary for the result file.
    pub fn summary(&self) -> Latency {
        let nonempty = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Latency {
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p99_9: self.percentile(0.999),
            p99_99: self.percentile(0.9999),
            max: self.max,
            mean: (self.sum / u128::from(self.count.max(1))) as u64,
            histogram: nonempty.map(|(bucket, count)| (bucket_upper_bound(bucket), *count)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_and_are_narrow() {
        assert_eq!(bucket_index(u64::MAX), BUCKET_COUNT - 1);
        assert_eq!(bucket_upper_bound(BUCKET_COUNT - 1), u64::MAX);
        for at in 1..BUCKET_COUNT {
            let below = bucket_upper_bound(at - 1);
            let here = bucket_upper_bound(at);
            assert_eq!((bucket_index(below), bucket_index(below + 1), bucket_index(here)), (at - 1, at, at));
            assert!(here - below <= (here / SUB_BUCKETS).max(1), "bucket {at}");
        }
    }

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        (1..=10_000u64).for_each(|i| histogram.record(i * 1000, 1));
        let found = histogram.summary();
        for (share, ns) in [
            (found.p50, 5_000_000),
            (found.p99, 9_900_000),
            (found.p99_9, 9_990_000),
            (found.max, 10_000_000),
        ] {
            assert!(share >= ns && share <= ns + ns / 60, "{share} for {ns}");
        }
        assert_eq!((found.mean, found.max), (5_000_500, 10_000_000));
        assert_eq!(found.histogram.iter().map(|(_, count)| count).sum::<u64>(), 10_000);
    }

    #[test]
    fn one_slow_operation_among_many() {
        let mut all = Histogram::default();
        let mut slow = Histogram::default();
        all.record(100, 999);
        slow.record(1_000_000, 1);
        all.merge(&slow);
        assert_eq!((all.percentile(0.99), all.percentile(0.9999), all.max), (100, 1_000_000, 1_000_000));
    }

    #[test]
    fn empty_histogram() {
        assert_eq!(Histogram::default().summary(), Latency::default());
    }
}
