//! Statistics of a database: counters of frequent events, exact and cheap in every thread.
//!
//! ```text
//!   thread  0  1  2 ... 15   16  17 ...     each thread counts in a shard, on cache lines that
//!           |  |  |     |     |   |         no other thread writes, or only a few; a query
//!   shard   0  1  2 ... 15    0   1 ...     adds all shards
//! ```
//!
//! Durations of rare and slow events are in [`histograms`].

pub(crate) mod histograms;

// Atomics of the standard library instead of `sync`: no other access depends on their order, so a
// model checker would only lose time.
use std::sync::atomic::{AtomicU64, Ordering};

use histograms::Timers;
pub use histograms::{HistogramData, Timer};

use crate::sync::thread_slot;

/// Event that the database counts since its open. The counts of all threads are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ticker {
    /// A read found a block in the block cache.
    BlockCacheHit,
    /// A read had to read a block from its file.
    BlockCacheMiss,
    /// A read searched an uncompressed block in the mapping of its table.
    BlockReadInPlace,
    /// A filter proved the absence of a key.
    FilterNegative,
    /// A filter did not exclude a key that the table lacks.
    FilterFalsePositive,
    /// A get searched a block of a table that lacks the key, and then another table.
    WastedProbe,
    /// A seek of an iterator merged several sorted runs.
    MergedSeek,
}

/// All tickers, in the order of the enum, with their names for metrics.
static TICKERS: [(Ticker, &str); TICKER_COUNT] = [
    (Ticker::BlockCacheHit, "block_cache_hits"),
    (Ticker::BlockCacheMiss, "block_cache_misses"),
    (Ticker::BlockReadInPlace, "blocks_read_in_place"),
    (Ticker::FilterNegative, "filter_negatives"),
    (Ticker::FilterFalsePositive, "filter_false_positives"),
    (Ticker::WastedProbe, "wasted_probes"),
    (Ticker::MergedSeek, "merged_seeks"),
];

const TICKER_COUNT: usize = 7;

impl Ticker {
    /// Returns all tickers.
    pub fn all() -> impl Iterator<Item = Ticker> {
        TICKERS.iter().map(|(ticker, _)| *ticker)
    }

    /// Returns the name of the ticker for metrics, in lower case with underscores.
    pub fn name(self) -> &'static str {
        TICKERS[self as usize].1
    }
}

/// Number of shards. Up to this number of threads count without a cache miss.
const SHARD_COUNT: usize = 16;

/// Number of events that one sample stands for, where recording each event costs too much.
pub(crate) const TICKER_SAMPLE_WEIGHT: i64 = 1 << TICKER_SAMPLE_WEIGHT_LOG2;
const TICKER_SAMPLE_WEIGHT_LOG2: u32 = 4;

/// Counters and timers of one database since its open.
pub(crate) struct Statistics {
    shards: [TickerShard; SHARD_COUNT],
    pub(crate) timers: Timers,
}

impl Default for Statistics {
    fn default() -> Statistics {
        // A constant array is initialised in place, without a copy on the stack.
        let shards = [const { TickerShard([const { AtomicU64::new(0) }; TICKER_COUNT]) }; SHARD_COUNT];
        Statistics { shards, timers: Timers::default() }
    }
}

/// Counters of a shard. Two cache lines, because processors prefetch lines in pairs.
#[repr(align(128))]
struct TickerShard([AtomicU64; TICKER_COUNT]);

impl Statistics {
    /// Counts one event.
    #[inline]
    pub(crate) fn count(&self, ticker: Ticker) {
        self.add(ticker, 1);
    }

    /// Counts one event and returns true if it is a sample, which stands for
    /// [`TICKER_SAMPLE_WEIGHT`] events.
    ///
    /// Not every Nth event: periodic access patterns would always sample the same one. The final
    /// mix of SplitMix64 makes the choice independent of any period.
    pub(crate) fn count_sampled(&self, ticker: Ticker) -> bool {
        let before = self.add(ticker, 1);
        let mixed = (before ^ before >> 30).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed >> (u64::BITS - TICKER_SAMPLE_WEIGHT_LOG2) == 0
    }

    /// Counts `count` events and returns the previous count of this thread's shard.
    #[inline]
    pub(crate) fn add(&self, ticker: Ticker, count: u64) -> u64 {
        let TickerShard(counters) = &self.shards[thread_slot().unwrap_or(0) % SHARD_COUNT];
        counters[ticker as usize].fetch_add(count, Ordering::Relaxed)
    }

    /// Returns the number of events. While other threads count, this is the number at some recent
    /// moment.
    pub(crate) fn get(&self, ticker: Ticker) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.0[ticker as usize].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use terrace_sync::thread;

    use super::*;

    #[test]
    fn samples_are_representative_of_periodic_accesses() {
        for period in 1..40 {
            let statistics = Statistics::default();
            let mut estimates = vec![0; period];
            for event in 0..100_000 {
                estimates[event % period] +=
                    if statistics.count_sampled(Ticker::WastedProbe) { TICKER_SAMPLE_WEIGHT } else { 0 };
            }
            let exact = 100_000 / period as i64;
            assert!(
                estimates.iter().all(|estimate| estimate.abs_diff(exact) < exact as u64 / 3),
                "period {period}: {estimates:?}"
            );
            assert_eq!(statistics.get(Ticker::WastedProbe), 100_000);
        }
    }

    #[test]
    fn table_is_in_the_order_of_the_enum() {
        assert!(Ticker::all().enumerate().all(|(index, ticker)| ticker as usize == index));
    }

    #[test]
    fn counts_of_all_threads_are_kept() {
        let statistics = Statistics::default();
        thread::scope(|scope| {
            for _ in 0..2 * SHARD_COUNT {
                scope.spawn(|| (0..1000).for_each(|_| statistics.count(Ticker::BlockCacheHit)));
            }
        });
        statistics.count(Ticker::FilterNegative);
        let all = [
            Ticker::BlockCacheHit,
            Ticker::BlockCacheMiss,
            Ticker::FilterNegative,
            Ticker::FilterFalsePositive,
        ];
        assert_eq!(all.map(|ticker| statistics.get(ticker)), [1000 * 2 * SHARD_COUNT as u64, 0, 1, 0]);
    }
}
