//! Operations in each 100 ms of a phase, which show stalls that hardly change the mean.

use std::time::Duration;

/// Width of a window.
pub const WINDOW_WIDTH: Duration = Duration::from_millis(100);

/// Number of windows in a second.
const WINDOWS_PER_SECOND: usize = 10;

/// Number of operations that ended in each window.
#[derive(Clone, Debug, Default)]
pub struct ThroughputWindows {
    counts: Vec<u64>,
}

impl ThroughputWindows {
    /// Records that `ops` operations ended `ns` after the start of the phase.
    #[inline]
    pub fn record(&mut self, ns: u64, ops: u64) {
        let window = (ns / WINDOW_WIDTH.as_nanos() as u64) as usize;
        if window >= self.counts.len() {
            self.counts.resize(window + 1, 0);
        }
        self.counts[window] += ops;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &ThroughputWindows) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Operations in each 100 ms.
    pub fn per_100ms(&self) -> &[u64] {
        &self.counts
    }

    /// Operations in each second.
    pub fn per_second(&self) -> Vec<u64> {
        self.counts.chunks(WINDOWS_PER_SECOND).map(|tenths| tenths.iter().sum()).collect()
    }

    /// Operations in the slowest full 100 ms of `length`, relative to the mean.
    pub fn slowest_100ms_to_mean(&self, length: Duration) -> Option<f64> {
        slowest_to_mean(&self.counts, WINDOW_WIDTH, length)
    }

    /// Operations in the slowest full second of `length`, relative to the mean.
    pub fn slowest_1s_to_mean(&self, length: Duration) -> Option<f64> {
        slowest_to_mean(&self.per_second(), WINDOW_WIDTH * WINDOWS_PER_SECOND as u32, length)
    }
}

fn slowest_to_mean(counts: &[u64], width: Duration, length: Duration) -> Option<f64> {
    let whole = (length.as_nanos() / width.as_nanos()) as usize;
    let least = counts.iter().take(whole).min()?;
    let mean = counts.iter().sum::<u64>() as f64 * width.as_secs_f64() / length.as_secs_f64();
    (mean > 0.0).then(|| *least as f64 / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn windows(ops: &[(u64, u64)]) -> ThroughputWindows {
        let mut windows = ThroughputWindows::default();
        ops.iter().for_each(|(ms, ops)| windows.record(ms * MS, *ops));
        windows
    }

    #[test]
    fn stall() {
        let windows = windows(&[(0, 10), (99, 10), (450, 20)]);
        assert_eq!(windows.per_100ms(), [20, 0, 0, 0, 20]);
        assert_eq!(windows.slowest_100ms_to_mean(Duration::from_millis(460)), Some(0.0));
    }

    #[test]
    fn partial_windows_are_ignored() {
        let windows = windows(&[(50, 100), (150, 50), (210, 1)]);
        let slowest = windows.slowest_100ms_to_mean(Duration::from_millis(210));
        assert!(slowest.is_some_and(|share| (share - 50.0 / (151.0 / 2.1)).abs() < 1e-9), "{slowest:?}");
        assert_eq!(windows.slowest_1s_to_mean(Duration::from_millis(210)), None);
    }

    #[test]
    fn seconds_are_ten_windows() {
        let mut sum = windows(&[(0, 1), (999, 2), (1000, 4)]);
        sum.merge(&windows(&[(1999, 8), (2000, 16)]));
        assert_eq!(sum.per_second(), [3, 12, 16]);
    }
}
