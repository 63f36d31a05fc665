//! Writers that wait at present, by the cause of their stall.
//!
//! The timer of a cause counts a stall when it ends. A long stall is visible here before that.

use std::time::Duration;

use crate::stats::Timer;

/// Writers that wait for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StalledWriters {
    /// Cause of the stall.
    pub cause: Timer,
    /// Number of the writers.
    pub writers: usize,
    /// Time for which they have waited so far, all writers together.
    pub time: Duration,
}

/// Begins of the present stalls.
#[derive(Debug, Default)]
pub(crate) struct PresentStalls(Vec<(Timer, Duration)>);

impl PresentStalls {
    pub(crate) fn begin(&mut self, cause: Timer, now: Duration) {
        self.0.push((cause, now));
    }

    /// Ends a stall that began with the same arguments.
    pub(crate) fn end(&mut self, cause: Timer, began_at: Duration) {
        if let Some(index) = self.0.iter().position(|stall| *stall == (cause, began_at)) {
            self.0.swap_remove(index);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sums for each cause.
    pub(crate) fn by_cause(&self, now: Duration) -> Vec<StalledWriters> {
        let mut sums: Vec<StalledWriters> = Vec::new();
        for (cause, began_at) in &self.0 {
            let time = now.saturating_sub(*began_at);
            match sums.iter_mut().find(|sum| sum.cause == *cause) {
                Some(sum) => {
                    sum.writers += 1;
                    sum.time += time;
                }
                None => sums.push(StalledWriters { cause: *cause, writers: 1, time }),
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_cause() {
        let second = Duration::from_secs;
        let mut stalls = PresentStalls::default();
        stalls.begin(Timer::FlushStall, second(1));
        stalls.begin(Timer::NoSpaceStall, second(2));
        stalls.begin(Timer::FlushStall, second(2));
        let sum = |cause, writers, time| StalledWriters { cause, writers, time: second(time) };
        let expected = [sum(Timer::FlushStall, 2, 7), sum(Timer::NoSpaceStall, 1, 3)];
        assert_eq!(stalls.by_cause(second(5)), expected);
        stalls.end(Timer::FlushStall, second(1));
        stalls.end(Timer::NoSpaceStall, second(2));
        assert_eq!(stalls.by_cause(second(5)), [sum(Timer::FlushStall, 1, 3)]);
        stalls.end(Timer::FlushStall, second(2));
        assert!(stalls.is_empty());
    }
}
