//! How large a memtable becomes before it is made a table.
//!
//! Larger ones divide the work of the merges, and cost memory. Who says nothing gets small ones, that double while they
//! fill fast and halve when they fill slowly; but a small database has small ones, as its tables and merges are.

use std::time::Duration;

use super::budget::{Budget, weight};
use crate::options::Options;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// The largest that nobody asked for, in bytes.
pub(super) const LARGEST: usize = 32 << 20;
/// One that is filled within this time was too small.
const FAST: Duration = Duration::from_secs(1);
/// One grows only if so many of them are stored: else merges have little to do, and larger ones are dearer to fill ...
const MANY: u64 = 16;
/// ... or so many bytes are.
const SMALL: u64 = 128 << 20;
/// One that takes longer than this might be smaller.
const SLOW: Duration = Duration::from_secs(60);
/// This part of a size is left free, where it is ours to choose: most records fit.
const REST: usize = 256;
/// What may wait for its flush in all, in bytes: a merge that takes the processor for a moment delays flushes, and writers
/// need not feel it ...
const WAITING: usize = 64 << 20;
/// ... but not more than so many memtables, each of which a look-up asks ...
const WAITING_MAX: usize = 4;
/// ... or so many, where records are large: their copies take a look-up longer than the question.
const WAITING_MAX_LARGE: usize = 8;
/// The mean size of such records, in bytes.
const LARGE: u64 = 4 << 10;

/// The size for the memtables of one database.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Relaxed: a figure that nothing else depends on.
    size: AtomicUsize,
    /// True if the last one filled fast. Relaxed, as the size.
    fast: AtomicBool,
    /// True if the records of the last one were large. Relaxed, as the size.
    large: AtomicBool,
    least: usize,
    largest: usize,
    /// What all of them may take, in bytes.
    room: usize,
    /// True if nobody asked for a size.
    free: bool,
    /// When the last one became a table.
    last: Mutex<Duration>,
}

impl Buffer {
    pub(super) fn new(options: &Options) -> Buffer {
        let largest = Buffer::largest(options);
        let least = options.memtable_size().min(largest);
        let room = Budget::of(options).map_or(usize::MAX, |budget| budget.memtables);
        let last = Mutex::new(options.env.clock.monotonic());
        let (size, fast, large) = (AtomicUsize::new(least), AtomicBool::new(false), AtomicBool::new(false));
        let free = options.write_buffer_size.is_none();
        Buffer { size, fast, large, least, largest, room, free, last }
    }

    /// The size that one has at most.
    pub(super) fn largest(options: &Options) -> usize {
        let unasked = || Budget::of(options).map_or(LARGEST, |budget| budget.memtable());
        options.write_buffer_size.unwrap_or_else(unasked)
    }

    /// The size at present, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// One of `size` is full when it takes so many bytes. A size that is ours to choose is that of whole chunks of memory:
    /// the next one is not begun for a last record.
    pub(super) fn full_at(&self, size: usize) -> usize {
        if self.free { size - size / REST } else { size }
    }

    /// True if the last one filled within a second.
    pub(super) fn fills_fast(&self) -> bool {
        self.fast.load(Ordering::Relaxed)
    }

    /// True if one fills within a second, of whose log `bytes` took so long.
    pub(super) fn fills_fast_at(&self, bytes: u64, lasted: Duration) -> bool {
        let size = self.size() as u128;
        lasted.as_nanos() * size < FAST.as_nanos() * u128::from(bytes)
    }

    /// Takes note that the next one is begun. The last one was `full`, or else says nothing, and was written to for so long.
    pub(super) fn switched(&self, full: bool, lasted: Duration) {
        self.fast.store(full && lasted < FAST, Ordering::Relaxed);
    }

    /// Takes note that one of `bytes` was frozen, with so many records.
    pub(super) fn frozen(&self, bytes: usize, records: u64) {
        self.large.store(bytes as u64 >= records.saturating_mul(LARGE), Ordering::Relaxed);
    }

    /// Memtables that may wait for their flush before writers do.
    pub(super) fn frozen_max(&self) -> usize {
        let size = self.size();
        // The one that is written to takes its part.
        let fit = (self.room / weight(size).max(1)).saturating_sub(1);
        let most = if self.large.load(Ordering::Relaxed) { WAITING_MAX_LARGE } else { WAITING_MAX };
        waiting(size, most).min(fit.max(1))
    }

    /// Takes note that one of `bytes` has become a table, of a database that now has `stored` bytes of them.
    pub(super) fn filled(&self, bytes: usize, stored: u64, now: Duration) {
        let mut last = self.last.lock();
        let size = self.size();
        let lasted = now.saturating_sub(std::mem::replace(&mut *last, now));
        // One that was flushed before it was full says nothing.
        let full = bytes >= size / 2;
        let next = if !full {
            size
        } else if lasted < FAST && stored >= SMALL.min(MANY.saturating_mul(size as u64)) {
            size.saturating_mul(2)
        } else if lasted > SLOW {
            size / 2
        } else {
            size
        };
        self.size.store(next.clamp(self.least, self.largest), Ordering::Relaxed);
    }
}

/// Memtables of `size` bytes that may wait for their flush, if there is memory for all.
pub(super) fn waiting_max(size: usize) -> usize {
    waiting(size, WAITING_MAX)
}

fn waiting(size: usize, most: usize) -> usize {
    (WAITING / size.max(1)).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    /// The sizes after one was filled in each of so many seconds, in MiB.
    fn sizes(buffer: &Buffer, seconds: &[u64]) -> Vec<usize> {
        let mut now = *buffer.last.lock();
        let size = |seconds: &u64| {
            now += Duration::from_secs(*seconds);
            buffer.filled(buffer.size(), SMALL, now);
            buffer.size() / MB
        };
        seconds.iter().map(size).collect()
    }

    #[test]
    fn grows_with_haste_and_shrinks_with_leisure() {
        let buffer = Buffer::new(&Options::default());
        assert_eq!(buffer.size(), 4 * MB);
        assert_eq!(sizes(&buffer, &[0, 0, 30, 0, 0, 0]), [8, 16, 16, 32, 32, 32]);
        assert_eq!(sizes(&buffer, &[30, 61, 61, 61, 61]), [32, 16, 8, 4, 4]);
    }

    #[test]
    fn fast_is_who_fills_one_within_a_second() {
        let buffer = Buffer::new(&Options::default());
        assert!(!buffer.fills_fast());
        for (full, millis) in [(true, 999), (true, 1000), (false, 1)] {
            buffer.switched(full, Duration::from_millis(millis));
            assert_eq!(buffer.fills_fast(), full && millis < 1000);
        }
    }

    #[test]
    fn a_part_of_a_log_tells() {
        let buffer = Buffer::new(&Options::default());
        let fast = |bytes, micros| buffer.fills_fast_at(bytes, Duration::from_micros(micros));
        assert_eq!([fast(MB as u64, 249_999), fast(MB as u64, 250_000), fast(1, 1)], [true, false, false]);
    }

    #[test]
    fn the_last_record_begins_no_chunk() {
        let full_at = |asked: Option<usize>| {
            let buffer = Buffer::new(&Options { write_buffer_size: asked, ..Options::default() });
            buffer.full_at(buffer.size())
        };
        assert_eq!([full_at(None), full_at(Some(MB))], [4 * MB - 16_384, MB]);
    }

    #[test]
    fn stays_what_somebody_asked_for() {
        let buffer = Buffer::new(&Options { write_buffer_size: Some(100 * MB), ..Options::default() });
        assert_eq!(sizes(&buffer, &[0, 0, 100]), [100, 100, 100]);
        assert_eq!(buffer.frozen_max(), 1);
    }

    #[test]
    fn all_of_them_fit_in_their_part_of_a_budget() {
        let buffer = Buffer::new(&Options { memory_budget: Some(64 * MB), ..Options::default() });
        assert_eq!((buffer.size() / MB, buffer.frozen_max()), (4, 2));
        assert_eq!(sizes(&buffer, &[0, 0, 0]), [5, 5, 5]);
        assert_eq!(buffer.frozen_max(), 2);
        let buffer = Buffer::new(&Options { memory_budget: Some(2 * MB), ..Options::default() });
        assert_eq!((buffer.size() >> 10, buffer.frozen_max()), (126, 2));
    }

    #[test]
    fn more_wait_where_records_are_large() {
        let frozen_max = |size: Option<usize>, budget: Option<usize>, records: u64| {
            let options = Options { write_buffer_size: size, memory_budget: budget, ..Options::default() };
            let buffer = Buffer::new(&options);
            buffer.frozen(4 * MB, records);
            buffer.frozen_max()
        };
        assert_eq!([1024, 1025].map(|records| frozen_max(None, None, records)), [8, 4]);
        assert_eq!([4, 16, 64].map(|size| frozen_max(Some(size * MB), None, 1)), [8, 4, 1]);
        assert_eq!(frozen_max(Some(4 * MB), Some(256 * MB), 1), 4, "a budget is kept");
    }

    #[test]
    fn a_small_database_has_small_ones() {
        let buffer = Buffer::new(&Options::default());
        let now = *buffer.last.lock();
        let size_at = |stored: u64| {
            buffer.filled(buffer.size(), stored, now);
            buffer.size() / MB
        };
        assert_eq!([64 * MB - 1, 64 * MB, 128 * MB - 1, 128 * MB].map(|n| size_at(n as u64)), [4, 8, 8, 16]);
    }

    #[test]
    fn one_that_was_not_full_says_nothing() {
        let buffer = Buffer::new(&Options::default());
        let now = *buffer.last.lock();
        buffer.filled(MB, SMALL, now);
        assert_eq!(buffer.size(), 4 * MB);
    }
}
