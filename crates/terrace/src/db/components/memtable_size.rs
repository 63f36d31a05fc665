//! Size at which a memtable is flushed.
//!
//! Large memtables save compaction work and cost memory. Without the option `write_buffer_size`,
//! memtables start small. The size doubles while they fill fast, and halves when they fill slowly.
//! A small database keeps small memtables, in proportion to its tables and compactions.

use std::time::Duration;

use super::memory_budget::{
    MAX_ADAPTIVE_MEMTABLE_SIZE, MAX_IMMUTABLE_MEMTABLES, MemoryBudget, immutable_memtables_that_fit,
    max_memtable_footprint,
};
use crate::options::Options;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// A memtable that fills within this time was too small.
const FAST_FILL_TIME: Duration = Duration::from_secs(1);
/// The size grows only if the database stores at least this number of memtables. Otherwise
/// compactions have little work, and larger memtables are slower to fill.
const MIN_STORED_MEMTABLES_TO_GROW: u64 = 16;
/// The size also grows if the database stores at least this number of bytes.
const MIN_STORED_BYTES_TO_GROW: u64 = 128 << 20;
/// Memtables of this size are only for a large database. They exceed the cache of the processor, so
/// their writes are slower, and only a large database saves more by fewer rewrites.
const LARGE_MEMTABLE_SIZE: usize = 64 << 20;
/// Bytes that a large database stores at least.
const MIN_STORED_BYTES_FOR_LARGE_MEMTABLES: u64 = 1 << 30;
/// A memtable that takes longer than this to fill may be smaller.
const SLOW_FILL_TIME: Duration = Duration::from_secs(60);
/// Part of an adaptive size that stays free, so that most last records fit.
const FULL_SLACK_DIVISOR: usize = 256;
/// Number of immutable memtables of an adaptive size that may always wait, if the memory budget
/// allows it. With one, all writers wait for each flush that takes a little longer than the fill of
/// the next memtable.
const MIN_IMMUTABLE_MEMTABLES: usize = 2;
/// Minimum mean size of large records in bytes, and the maximum number of immutable memtables with
/// them. A get copies its value for longer than it searches the memtables. Writers of large records
/// fill a memtable in the time of a few syncs, so they need more memtables between them and the
/// disk.
const MAX_IMMUTABLE_MEMTABLES_LARGE_RECORDS: [(u64, usize); 2] = [(64 << 10, 16), (4 << 10, 8)];

/// Size of the memtables of one database.
#[derive(Debug)]
pub(crate) struct MemtableSizer {
    /// Current size in bytes. Relaxed: no other data depends on it.
    size: AtomicUsize,
    /// True if the last memtable filled fast. Relaxed: no other data depends on it.
    fills_fast: AtomicBool,
    /// Maximum number of immutable memtables for the records of the last memtable. Relaxed: no
    /// other data depends on it.
    max_immutable: AtomicUsize,
    min_size: usize,
    max_size: usize,
    /// Maximum bytes of all memtables together.
    total_limit: usize,
    /// True if the options set no size.
    is_adaptive: bool,
    /// Time of the last flush.
    last_flush: Mutex<Duration>,
}

impl MemtableSizer {
    pub(crate) fn new(options: &Options) -> MemtableSizer {
        let max_size = MemtableSizer::max_size(options);
        let min_size = options.initial_memtable_size().min(max_size);
        let budget = MemoryBudget::from_options(options);
        MemtableSizer {
            size: AtomicUsize::new(min_size),
            fills_fast: AtomicBool::new(false),
            max_immutable: AtomicUsize::new(MAX_IMMUTABLE_MEMTABLES),
            min_size,
            max_size,
            total_limit: budget.map_or(usize::MAX, |budget| budget.memtables),
            is_adaptive: options.write_buffer_size.is_none(),
            last_flush: Mutex::new(options.env.clock.monotonic()),
        }
    }

    /// Maximum size of a memtable with these options.
    pub(crate) fn max_size(options: &Options) -> usize {
        options.write_buffer_size.unwrap_or_else(|| {
            let budget = MemoryBudget::from_options(options);
            budget.map_or(MAX_ADAPTIVE_MEMTABLE_SIZE, |budget| budget.max_memtable_size())
        })
    }

    /// Current size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Bytes at which a memtable of `size` bytes is full. An adaptive size is a multiple of the
    /// chunk size, so a memtable is full a little earlier: no new chunk is allocated for a last
    /// record.
    pub(crate) fn full_threshold(&self, size: usize) -> usize {
        if self.is_adaptive { size - size / FULL_SLACK_DIVISOR } else { size }
    }

    /// Returns true if the last memtable filled within a second.
    pub(crate) fn fills_fast(&self) -> bool {
        self.fills_fast.load(Ordering::Relaxed)
    }

    /// Returns true if a memtable would fill within a second, given that `bytes` of its log took
    /// `elapsed`.
    pub(crate) fn is_fast_fill_rate(&self, bytes: u64, elapsed: Duration) -> bool {
        let size = self.size() as u128;
        elapsed.as_nanos() * size < FAST_FILL_TIME.as_nanos() * u128::from(bytes)
    }

    /// Records a switch to a new memtable. `is_full` tells whether the old one was full; otherwise
    /// its time means nothing.
    pub(crate) fn record_switch(&self, is_full: bool, elapsed: Duration) {
        self.fills_fast.store(is_full && elapsed < FAST_FILL_TIME, Ordering::Relaxed);
    }

    /// Records the bytes and the number of records of a new immutable memtable.
    pub(crate) fn record_freeze(&self, bytes: usize, records: u64) {
        let large = MAX_IMMUTABLE_MEMTABLES_LARGE_RECORDS
            .into_iter()
            .find(|(min_size, _)| bytes as u64 >= records.saturating_mul(*min_size));
        self.max_immutable.store(large.map_or(MAX_IMMUTABLE_MEMTABLES, |(_, most)| most), Ordering::Relaxed);
    }

    /// Number of immutable memtables at which writers wait for a flush.
    pub(crate) fn max_immutable_memtables(&self) -> usize {
        let size = self.size();
        // One of the memtables is the current one.
        let fit = (self.total_limit / max_memtable_footprint(size).max(1)).saturating_sub(1);
        let most = immutable_memtables_that_fit(size, self.max_immutable.load(Ordering::Relaxed));
        let least = if self.is_adaptive { MIN_IMMUTABLE_MEMTABLES } else { 1 };
        most.max(least).min(fit.max(1))
    }

    /// Records a flush of a memtable of `bytes` bytes. `stored` is the size of all tables of the
    /// database.
    pub(crate) fn record_flush(&self, bytes: usize, stored: u64, now: Duration) {
        let mut last = self.last_flush.lock();
        let size = self.size();
        let lasted = now.saturating_sub(std::mem::replace(&mut *last, now));
        // A memtable that was flushed early means nothing.
        let full = bytes >= size / 2;
        let next = if !full {
            size
        } else if lasted < FAST_FILL_TIME && stored >= min_stored_bytes_to_grow(size) {
            size.saturating_mul(2)
        } else if lasted > SLOW_FILL_TIME {
            size / 2
        } else {
            size
        };
        self.size.store(next.clamp(self.min_size, self.max_size), Ordering::Relaxed);
    }
}

/// Bytes that a database stores at least before memtables of `size` bytes grow.
fn min_stored_bytes_to_grow(size: usize) -> u64 {
    if size.saturating_mul(2) >= LARGE_MEMTABLE_SIZE {
        return MIN_STORED_BYTES_FOR_LARGE_MEMTABLES;
    }
    MIN_STORED_BYTES_TO_GROW.min(MIN_STORED_MEMTABLES_TO_GROW.saturating_mul(size as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    /// Returns the sizes in MiB after memtables that fill in `seconds` each.
    fn sizes(sizer: &MemtableSizer, seconds: &[u64]) -> Vec<usize> {
        let mut now = *sizer.last_flush.lock();
        let sizes = seconds.iter().map(|seconds| {
            now += Duration::from_secs(*seconds);
            sizer.record_flush(sizer.size(), MIN_STORED_BYTES_TO_GROW, now);
            sizer.size() / MB
        });
        sizes.collect()
    }

    #[test]
    fn grows_when_filled_fast_and_shrinks_when_filled_slowly() {
        let sizer = MemtableSizer::new(&Options::default());
        assert_eq!(sizer.size(), 4 * MB);
        assert_eq!(sizes(&sizer, &[0, 0, 30, 0, 0, 0]), [8, 16, 16, 32, 32, 32]);
        assert_eq!(sizes(&sizer, &[30, 61, 61, 61, 61]), [32, 16, 8, 4, 4]);
    }

    #[test]
    fn fills_fast_within_a_second() {
        let sizer = MemtableSizer::new(&Options::default());
        assert!(!sizer.fills_fast());
        for (full, millis) in [(true, 999), (true, 1000), (false, 1)] {
            sizer.record_switch(full, Duration::from_millis(millis));
            assert_eq!(sizer.fills_fast(), full && millis < 1000);
        }
    }

    #[test]
    fn fill_rate_of_part_of_a_log() {
        let sizer = MemtableSizer::new(&Options::default());
        let fast = |bytes, micros| sizer.is_fast_fill_rate(bytes, Duration::from_micros(micros));
        assert_eq!([fast(MB as u64, 249_999), fast(MB as u64, 250_000), fast(1, 1)], [true, false, false]);
    }

    #[test]
    fn last_record_does_not_allocate_a_chunk() {
        let full_at = |asked: Option<usize>| {
            let sizer = MemtableSizer::new(&Options { write_buffer_size: asked, ..Options::default() });
            sizer.full_threshold(sizer.size())
        };
        assert_eq!([full_at(None), full_at(Some(MB))], [4 * MB - 16_384, MB]);
    }

    #[test]
    fn explicit_size_does_not_change() {
        let sizer = MemtableSizer::new(&Options { write_buffer_size: Some(100 * MB), ..Options::default() });
        assert_eq!(sizes(&sizer, &[0, 0, 100]), [100, 100, 100]);
        assert_eq!(sizer.max_immutable_memtables(), 1);
    }

    #[test]
    fn memtables_fit_their_share_of_the_budget() {
        let sizer = MemtableSizer::new(&Options { memory_budget: Some(64 * MB), ..Options::default() });
        assert_eq!((sizer.size() / MB, sizer.max_immutable_memtables()), (4, 2));
        assert_eq!(sizes(&sizer, &[0, 0, 0]), [5, 5, 5]);
        assert_eq!(sizer.max_immutable_memtables(), 2);
        let sizer = MemtableSizer::new(&Options { memory_budget: Some(2 * MB), ..Options::default() });
        assert_eq!((sizer.size() >> 10, sizer.max_immutable_memtables()), (126, 2));
    }

    #[test]
    fn large_records_allow_more_immutable_memtables() {
        let immutable_max = |size: Option<usize>, budget: Option<usize>, records: u64| {
            let options = Options { write_buffer_size: size, memory_budget: budget, ..Options::default() };
            let sizer = MemtableSizer::new(&options);
            sizer.record_freeze(4 * MB, records);
            sizer.max_immutable_memtables()
        };
        assert_eq!([1024, 1025].map(|records| immutable_max(None, None, records)), [8, 4]);
        assert_eq!([64, 65].map(|records| immutable_max(None, None, records)), [16, 8]);
        assert_eq!([4, 16, 64].map(|size| immutable_max(Some(size * MB), None, 1)), [16, 4, 1]);
        assert_eq!(immutable_max(Some(4 * MB), Some(256 * MB), 1), 4, "a budget is kept");
        let sizer = MemtableSizer::new(&Options::default());
        sizer.size.store(64 * MB, Ordering::Relaxed);
        assert_eq!(sizer.max_immutable_memtables(), 2, "no wait for the flush of the memtable before");
    }

    #[test]
    fn small_database_keeps_small_memtables() {
        let sizer = MemtableSizer::new(&Options::default());
        let now = *sizer.last_flush.lock();
        let stored = [64 * MB - 1, 64 * MB, 128 * MB - 1, 128 * MB, 128 * MB, 1024 * MB - 1, 1024 * MB];
        let sizes = stored.map(|stored| {
            sizer.record_flush(sizer.size(), stored as u64, now);
            sizer.size() / MB
        });
        assert_eq!(sizes, [4, 8, 8, 16, 32, 32, 64]);
    }

    #[test]
    fn partial_memtable_does_not_change_the_size() {
        let sizer = MemtableSizer::new(&Options::default());
        let now = *sizer.last_flush.lock();
        sizer.record_flush(MB, MIN_STORED_BYTES_TO_GROW, now);
        assert_eq!(sizer.size(), 4 * MB);
    }
}
