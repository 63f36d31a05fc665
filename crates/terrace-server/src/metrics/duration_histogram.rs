//! Histogram of durations with four buckets for each power of two.
//!
//! ```text
//!   ns   0 1 2 3 4 5 6 7 8 10 12 14 16 20 24 28 32 ..      a bucket is at most 25 % wide
//! ```

use std::time::Duration;

/// Number of buckets. The last one begins at about 30 minutes.
const BUCKETS: usize = 160;

/// Index of the bucket of a duration in nanoseconds.
pub(super) fn bucket(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let log2 = 63 - ns.leading_zeros() as usize;
    let quarter = (ns >> (log2 - 2)) as usize & 3;
    ((log2 - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// First duration after the bucket `index`, in nanoseconds.
fn bucket_end(index: usize) -> u64 {
    let next = index + 1;
    if next < 4 {
        return next as u64;
    }
    let log2 = next / 4 + 1;
    (4 + (next as u64 & 3)) << (log2 - 2)
}

/// Durations by buckets.
#[derive(Debug, Clone)]
pub(crate) struct DurationHistogram {
    counts: [u64; BUCKETS],
}

impl Default for DurationHistogram {
    fn default() -> DurationHistogram {
        DurationHistogram { counts: [0; BUCKETS] }
    }
}

impl DurationHistogram {
    /// Number of buckets.
    pub(super) const LEN: usize = BUCKETS;

    /// Adds `count` durations to the bucket `index`.
    pub(super) fn add(&mut self, index: usize, count: u64) {
        self.counts[index] += count;
    }

    /// Adds all durations of `other`.
    pub(crate) fn add_all(&mut self, other: &DurationHistogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Durations that were added after `earlier`. After a reset, these are all durations.
    pub(crate) fn since(&self, earlier: &DurationHistogram) -> DurationHistogram {
        let mut later = self.clone();
        for (count, before) in later.counts.iter_mut().zip(&earlier.counts) {
            *count = count.checked_sub(*before).unwrap_or(*count);
        }
        later
    }

    /// Number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of durations up to `limit`, as far as the buckets tell it.
    pub(crate) fn count_until(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let inside = self.counts.iter().enumerate().take_while(|(index, _)| bucket_end(*index) <= limit + 1);
        inside.map(|(_, count)| count).sum()
    }

    /// Returns the end of the bucket in which `percent` percent of the durations are reached.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let wanted = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(bucket_end(index));
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjacent() {
        for ns in (0..2000).chain([1 << 20, (1 << 30) + 77]) {
            let index = bucket(ns);
            assert!(ns < bucket_end(index), "{ns}");
            assert!(index == 0 || ns >= bucket_end(index - 1), "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles() {
        let mut histogram = DurationHistogram::default();
        for us in 1..=100 {
            histogram.add(bucket(us * 1000), 1);
        }
        let within = |percent: f64, low: u64, high: u64| {
            let found = histogram.percentile(percent).as_micros() as u64;
            assert!((low..=high).contains(&found), "{percent}: {found}");
        };
        within(50.0, 50, 63);
        within(99.0, 99, 124);
        assert_eq!(histogram.count_until(Duration::from_secs(1)), 100);
        assert_eq!(histogram.count_until(Duration::ZERO), 0);
    }
}
