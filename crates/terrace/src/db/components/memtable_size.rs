//! How large a memtable becomes before it is made a table.
//!
//! Larger ones divide the work of the merges, and cost memory. Who says nothing gets small ones, that double while they
//! fill fast and halve when they fill slowly; but a small database has small ones, as its tables and merges are.

use std::time::Duration;

use super::memory_budget::{
    MAX_ADAPTIVE_MEMTABLE_SIZE, MAX_IMMUTABLE_MEMTABLES, MemoryBudget, immutable_memtables_that_fit,
    max_memtable_footprint,
};
use crate::options::Options;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// One that is filled within this time was too small.
const FAST_FILL_TIME: Duration = Duration::from_secs(1);
/// One grows only if so many of them are stored: else merges have little to do, and larger ones are dearer to fill ...
const MIN_STORED_MEMTABLES_TO_GROW: u64 = 16;
/// ... or so many bytes are.
const MIN_STORED_BYTES_TO_GROW: u64 = 128 << 20;
/// One that takes longer than this might be smaller.
const SLOW_FILL_TIME: Duration = Duration::from_secs(60);
/// This part of a size is left free, where it is ours to choose: most records fit.
const FULL_SLACK_DIVISOR: usize = 256;
/// ... or so many, where records are large: their copies take a look-up longer than the question.
const MAX_IMMUTABLE_MEMTABLES_LARGE_RECORDS: usize = 8;
/// The mean size of such records, in bytes.
const LARGE_RECORD_SIZE: u64 = 4 << 10;

/// The size for the memtables of one database.
#[derive(Debug)]
pub(crate) struct MemtableSizer {
    /// Relaxed: a figure that nothing else depends on.
    size: AtomicUsize,
    /// True if the last one filled fast. Relaxed, as the size.
    fills_fast: AtomicBool,
    /// True if the records of the last one were large. Relaxed, as the size.
    has_large_records: AtomicBool,
    min_size: usize,
    max_size: usize,
    /// What all of them may take, in bytes.
    total_limit: usize,
    /// True if nobody asked for a size.
    is_adaptive: bool,
    /// When the last one became a table.
    last_flush: Mutex<Duration>,
}

impl MemtableSizer {
    pub(crate) fn new(options: &Options) -> MemtableSizer {
        let largest = MemtableSizer::max_size(options);
        let least = options.initial_memtable_size().min(largest);
        let room = MemoryBudget::from_options(options).map_or(usize::MAX, |budget| budget.memtables);
        let last = Mutex::new(options.env.clock.monotonic());
        let (size, fast, large) = (AtomicUsize::new(least), AtomicBool::new(false), AtomicBool::new(false));
        let free = options.write_buffer_size.is_none();
        MemtableSizer {
            size,
            fills_fast: fast,
            has_large_records: large,
            min_size: least,
            max_size: largest,
            total_limit: room,
            is_adaptive: free,
            last_flush: last,
        }
    }

    /// The size that one has at most.
    pub(crate) fn max_size(options: &Options) -> usize {
        let unasked = || {
            MemoryBudget::from_options(options)
                .map_or(MAX_ADAPTIVE_MEMTABLE_SIZE, |budget| budget.max_memtable_size())
        };
        options.write_buffer_size.unwrap_or_else(unasked)
    }

    /// The size at present, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// One of `size` is full when it takes so many bytes. A size that is ours to choose is that of whole chunks of memory:
    /// the next one is not begun for a last record.
    pub(crate) fn full_threshold(&self, size: usize) -> usize {
        if self.is_adaptive { size - size / FULL_SLACK_DIVISOR } else { size }
    }

    /// True if the last one filled within a second.
    pub(crate) fn fills_fast(&self) -> bool {
        self.fills_fast.load(Ordering::Relaxed)
    }

    /// True if one fills within a second, of whose log `bytes` took so long.
    pub(crate) fn is_fast_fill_rate(&self, bytes: u64, lasted: Duration) -> bool {
        let size = self.size() as u128;
        lasted.as_nanos() * size < FAST_FILL_TIME.as_nanos() * u128::from(bytes)
    }

    /// Takes note that the next one is begun. The last one was `full`, or else says nothing, and was written to for so long.
    pub(crate) fn record_switch(&self, full: bool, lasted: Duration) {
        self.fills_fast.store(full && lasted < FAST_FILL_TIME, Ordering::Relaxed);
    }

    /// Takes note that one of `bytes` was frozen, with so many records.
    pub(crate) fn record_freeze(&self, bytes: usize, records: u64) {
        self.has_large_records
            .store(bytes as u64 >= records.saturating_mul(LARGE_RECORD_SIZE), Ordering::Relaxed);
    }

    /// Memtables that may wait for their flush before writers do.
    pub(crate) fn max_immutable_memtables(&self) -> usize {
        let size = self.size();
        // The one that is written to takes its part.
        let fit = (self.total_limit / max_memtable_footprint(size).max(1)).saturating_sub(1);
        let most = if self.has_large_records.load(Ordering::Relaxed) {
            MAX_IMMUTABLE_MEMTABLES_LARGE_RECORDS
        } else {
            MAX_IMMUTABLE_MEMTABLES
        };
        immutable_memtables_that_fit(size, most).min(fit.max(1))
    }

    /// Takes note that one of `bytes` has become a table, of a database that now has `stored` bytes of them.
    pub(crate) fn record_flush(&self, bytes: usize, stored: u64, now: Duration) {
        let mut last = self.last_flush.lock();
        let size = self.size();
        let lasted = now.saturating_sub(std::mem::replace(&mut *last, now));
        // One that was flushed before it was full says nothing.
        let full = bytes >= size / 2;
        let next = if !full {
            size
        } else if lasted < FAST_FILL_TIME
            && stored
                >= MIN_STORED_BYTES_TO_GROW.min(MIN_STORED_MEMTABLES_TO_GROW.saturating_mul(size as u64))
        {
            size.saturating_mul(2)
        } else if lasted > SLOW_FILL_TIME {
            size / 2
        } else {
            size
        };
        self.size.store(next.clamp(self.min_size, self.max_size), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    /// The sizes after one was filled in each of so many seconds, in MiB.
    fn sizes(buffer: &MemtableSizer, seconds: &[u64]) -> Vec<usize> {
        let mut now = *buffer.last_flush.lock();
        let size = |seconds: &u64| {
            now += Duration::from_secs(*seconds);
            buffer.record_flush(buffer.size(), MIN_STORED_BYTES_TO_GROW, now);
            buffer.size() / MB
        };
        seconds.iter().map(size).collect()
    }

    #[test]
    fn grows_when_filled_fast_and_shrinks_when_filled_slowly() {
        let buffer = MemtableSizer::new(&Options::default());
        assert_eq!(buffer.size(), 4 * MB);
        assert_eq!(sizes(&buffer, &[0, 0, 30, 0, 0, 0]), [8, 16, 16, 32, 32, 32]);
        assert_eq!(sizes(&buffer, &[30, 61, 61, 61, 61]), [32, 16, 8, 4, 4]);
    }

    #[test]
    fn fills_fast_within_a_second() {
        let buffer = MemtableSizer::new(&Options::default());
        assert!(!buffer.fills_fast());
        for (full, millis) in [(true, 999), (true, 1000), (false, 1)] {
            buffer.record_switch(full, Duration::from_millis(millis));
            assert_eq!(buffer.fills_fast(), full && millis < 1000);
        }
    }

    #[test]
    fn fill_rate_of_part_of_a_log() {
        let buffer = MemtableSizer::new(&Options::default());
        let fast = |bytes, micros| buffer.is_fast_fill_rate(bytes, Duration::from_micros(micros));
        assert_eq!([fast(MB as u64, 249_999), fast(MB as u64, 250_000), fast(1, 1)], [true, false, false]);
    }

    #[test]
    fn last_record_does_not_allocate_a_chunk() {
        let full_at = |asked: Option<usize>| {
            let buffer = MemtableSizer::new(&Options { write_buffer_size: asked, ..Options::default() });
            buffer.full_threshold(buffer.size())
        };
        assert_eq!([full_at(None), full_at(Some(MB))], [4 * MB - 16_384, MB]);
    }

    #[test]
    fn explicit_size_does_not_change() {
        let buffer = MemtableSizer::new(&Options { write_buffer_size: Some(100 * MB), ..Options::default() });
        assert_eq!(sizes(&buffer, &[0, 0, 100]), [100, 100, 100]);
        assert_eq!(buffer.max_immutable_memtables(), 1);
    }

    #[test]
    fn memtables_fit_their_share_of_the_budget() {
        let buffer = MemtableSizer::new(&Options { memory_budget: Some(64 * MB), ..Options::default() });
        assert_eq!((buffer.size() / MB, buffer.max_immutable_memtables()), (4, 2));
        assert_eq!(sizes(&buffer, &[0, 0, 0]), [5, 5, 5]);
        assert_eq!(buffer.max_immutable_memtables(), 2);
        let buffer = MemtableSizer::new(&Options { memory_budget: Some(2 * MB), ..Options::default() });
        assert_eq!((buffer.size() >> 10, buffer.max_immutable_memtables()), (126, 2));
    }

    #[test]
    fn large_records_allow_more_immutable_memtables() {
        let frozen_max = |size: Option<usize>, budget: Option<usize>, records: u64| {
            let options = Options { write_buffer_size: size, memory_budget: budget, ..Options::default() };
            let buffer = MemtableSizer::new(&options);
            buffer.record_freeze(4 * MB, records);
            buffer.max_immutable_memtables()
        };
        assert_eq!([1024, 1025].map(|records| frozen_max(None, None, records)), [8, 4]);
        assert_eq!([4, 16, 64].map(|size| frozen_max(Some(size * MB), None, 1)), [8, 4, 1]);
        assert_eq!(frozen_max(Some(4 * MB), Some(256 * MB), 1), 4, "a budget is kept");
    }

    #[test]
    fn small_database_keeps_small_memtables() {
        let buffer = MemtableSizer::new(&Options::default());
        let now = *buffer.last_flush.lock();
        let size_at = |stored: u64| {
            buffer.record_flush(buffer.size(), stored, now);
            buffer.size() / MB
        };
        assert_eq!([64 * MB - 1, 64 * MB, 128 * MB - 1, 128 * MB].map(|n| size_at(n as u64)), [4, 8, 8, 16]);
    }

    #[test]
    fn partial_memtable_does_not_change_the_size() {
        let buffer = MemtableSizer::new(&Options::default());
        let now = *buffer.last_flush.lock();
        buffer.record_flush(MB, MIN_STORED_BYTES_TO_GROW, now);
        assert_eq!(buffer.size(), 4 * MB);
    }
}
