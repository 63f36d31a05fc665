//! Counts and durations of commands, by thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::duration_histogram::{DurationHistogram, bucket};

/// Counts of one command on one thread.
#[derive(Debug)]
struct ThreadCounts {
    failed: AtomicU64,
    rejected: AtomicU64,
    sum_ns: AtomicU64,
    buckets: [AtomicU64; DurationHistogram::LEN],
}

impl ThreadCounts {
    fn new() -> Box<ThreadCounts> {
        Box::new(ThreadCounts {
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; DurationHistogram::LEN],
        })
    }
}

/// Counts of one command on all threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandTotals {
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    pub(crate) time: Duration,
    pub(crate) durations: DurationHistogram,
}

impl CommandTotals {
    /// Number of executions.
    pub(crate) fn calls(&self) -> u64 {
        self.durations.count()
    }
}

/// Counts of all commands. A command is known by its slot in the table of commands.
#[derive(Debug)]
pub(crate) struct CommandTimes {
    /// Counts by thread and slot. A thread creates the counts of a command at its first execution.
    threads: Vec<Vec<OnceLock<Box<ThreadCounts>>>>,
}

impl CommandTimes {
    /// Creates the counts of `threads` threads and `commands` slots.
    pub(crate) fn new(threads: usize, commands: usize) -> CommandTimes {
        let threads = (0..threads.max(1)).map(|_| (0..commands).map(|_| OnceLock::new()).collect());
        CommandTimes { threads: threads.collect() }
    }

    fn counts(&self, thread: usize, slot: usize) -> &ThreadCounts {
        // A remainder would cost more than the comparison. Threads without counts share the first.
        let thread = self.threads.get(thread).unwrap_or(&self.threads[0]);
        thread[slot].get_or_init(ThreadCounts::new)
    }

    /// Counts an execution.
    pub(crate) fn record(&self, thread: usize, slot: usize, time: Duration, is_failed: bool) {
        let counts = self.counts(thread, slot);
        let ns = time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into());
        add(&counts.buckets[bucket(ns)], 1);
        add(&counts.sum_ns, ns);
        if is_failed {
            add(&counts.failed, 1);
        }
    }

    /// Counts a failure of an execution that is counted already.
    pub(crate) fn record_failed(&self, thread: usize, slot: usize) {
        add(&self.counts(thread, slot).failed, 1);
    }

    /// Counts a command that was not executed.
    pub(crate) fn record_rejected(&self, thread: usize, slot: usize) {
        add(&self.counts(thread, slot).rejected, 1);
    }

    /// Returns the sums of all threads for the command in `slot`, or None if it was never used.
    pub(crate) fn totals(&self, slot: usize) -> Option<CommandTotals> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut totals = CommandTotals::default();
        for counts in self.threads.iter().filter_map(|thread| thread[slot].get()) {
            totals.failed += load(&counts.failed);
            totals.rejected += load(&counts.rejected);
            totals.time += Duration::from_nanos(load(&counts.sum_ns));
            for (index, count) in counts.buckets.iter().enumerate() {
                totals.durations.add(index, load(count));
            }
        }
        (totals.calls() + totals.rejected > 0).then_some(totals)
    }

    /// Sets all counts to zero.
    pub(crate) fn reset(&self) {
        for counts in self.threads.iter().flatten().filter_map(OnceLock::get) {
            for counter in
                [&counts.failed, &counts.rejected, &counts.sum_ns].into_iter().chain(&counts.buckets)
            {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Adds to a counter that only the current thread changes, apart from a reset.
fn add(counter: &AtomicU64, number: u64) {
    // A plain addition: a locked one would cost more than the rest. Only reports read the number.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_threads() {
        let times = CommandTimes::new(2, 4);
        assert!(times.totals(3).is_none());
        times.record(0, 3, Duration::from_micros(2), false);
        times.record(1, 3, Duration::from_micros(4), true);
        times.record_rejected(1, 2);
        let totals = times.totals(3).unwrap();
        assert_eq!((totals.calls(), totals.failed, totals.time), (2, 1, Duration::from_micros(6)));
        assert_eq!(times.totals(2).unwrap().rejected, 1);
        times.reset();
        assert!(times.totals(3).is_none());
    }
}
