//! Operations in each 100 ms of a phase, so that a stall is seen as what it is and not as a slightly lower mean.

use std::time::Duration;

/// The width of a window.
pub const WIDTH: Duration = Duration::from_millis(100);

/// Windows in a second.
const PER_SECOND: usize = 10;

/// Counts of operations by the window in which they ended.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    counts: Vec<u64>,
}

impl Windows {
    /// `ops` operations ended at `ns` after the phase's start.
    #[inline]
    pub fn record(&mut self, ns: u64, ops: u64) {
        let at = (ns / WIDTH.as_nanos() as u64) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += ops;
    }

    /// Counts all of `other` too.
    pub fn add(&mut self, other: &Windows) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Of 100 ms.
    pub fn tenths(&self) -> &[u64] {
        &self.counts
    }

    /// Of a second.
    pub fn seconds(&self) -> Vec<u64> {
        self.counts.chunks(PER_SECOND).map(|tenths| tenths.iter().sum()).collect()
    }

    /// The operations of the slowest whole 100 ms of `length`, as a share of the mean.
    pub fn slowest_tenth(&self, length: Duration) -> Option<f64> {
        slowest(&self.counts, WIDTH, length)
    }

    /// The operations of the slowest whole second of `length`, as a share of the mean.
    pub fn slowest_second(&self, length: Duration) -> Option<f64> {
        slowest(&self.seconds(), WIDTH * PER_SECOND as u32, length)
    }
}

fn slowest(counts: &[u64], width: Duration, length: Duration) -> Option<f64> {
    let whole = (length.as_nanos() / width.as_nanos()) as usize;
    let least = counts.iter().take(whole).min()?;
    let mean = counts.iter().sum::<u64>() as f64 * width.as_secs_f64() / length.as_secs_f64();
    (mean > 0.0).then(|| *least as f64 / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn windows(ops: &[(u64, u64)]) -> Windows {
        let mut windows = Windows::default();
        ops.iter().for_each(|(ms, ops)| windows.record(ms * MS, *ops));
        windows
    }

    #[test]
    fn a_stall_is_seen() {
        let windows = windows(&[(0, 10), (99, 10), (450, 20)]);
        assert_eq!(windows.tenths(), [20, 0, 0, 0, 20]);
        assert_eq!(windows.slowest_tenth(Duration::from_millis(460)), Some(0.0));
    }

    #[test]
    fn windows_cut_short_are_not_judged() {
        let windows = windows(&[(50, 100), (150, 50), (210, 1)]);
        let slowest = windows.slowest_tenth(Duration::from_millis(210));
        assert!(slowest.is_some_and(|share| (share - 50.0 / (151.0 / 2.1)).abs() < 1e-9), "{slowest:?}");
        assert_eq!(windows.slowest_second(Duration::from_millis(210)), None);
    }

    #[test]
    fn seconds_are_ten_windows() {
        let mut sum = windows(&[(0, 1), (999, 2), (1000, 4)]);
        sum.add(&windows(&[(1999, 8), (2000, 16)]));
        assert_eq!(sum.seconds(), [3, 12, 16]);
    }
}
