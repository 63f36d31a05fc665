//! Counts of what happens often: exact, and cheap to take from any thread.
//!
//! ```text
//!   thread  0  1  2 ... 15   16 ... 24 ...       each thread counts in a shard, on cache lines that no others write to, or
//!           |  |  |     |     |      |           few; who asks adds the shards up
//!   shard   0  1  2 ... 15   16 ... 16
//! ```
//!
//! What happens seldom and takes long is in [`spans`].

pub(crate) mod histograms;

// Not of `sync`: nothing depends on the order in which threads see a count.
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use histograms::Timer;
use histograms::Timers;

use crate::sync::thread_slot;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ticker {
    /// A block was wanted and in the cache.
    BlockCacheHit,
    /// A block was wanted and had to be read from its file.
    BlockCacheMiss,
    /// A filter said that a key is not there.
    FilterNegative,
    /// A filter said that a key may be there, and it was not.
    FilterFalsePositive,
    /// A look-up searched a block of a file in vain that is in the way of other files.
    WastedProbe,
}

const TICKER_COUNT: usize = 5;
/// So many shards have one thread each, which adds without a locked operation; and so many others share the rest.
const EXCLUSIVE_SHARDS: usize = 16;
const SHARED_SHARDS: usize = 8;

/// One in so many stands for all, where counting each is too dear.
pub(crate) const TICKER_SAMPLE_WEIGHT: i64 = 1 << TICKER_SAMPLE_WEIGHT_LOG2;
const TICKER_SAMPLE_WEIGHT_LOG2: u32 = 4;

/// The counts of one database since it was opened.
pub(crate) struct Statistics {
    shards: [TickerShard; EXCLUSIVE_SHARDS + SHARED_SHARDS],
    pub(crate) timers: Timers,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics { shards: std::array::from_fn(|_| TickerShard::default()), timers: Timers::default() }
    }
}

/// Two cache lines: processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct TickerShard([AtomicU64; TICKER_COUNT]);

impl Statistics {
    /// Counts one more.
    #[inline]
    pub(crate) fn count(&self, event: Ticker) {
        self.add(event, 1);
    }

    /// Counts one more, and says whether it is one of those that stand for [`SAMPLED`].
    ///
    /// Not each so-manieth: of look-ups that come in turns it would be the same one every time. The number of the event is
    /// mixed until it is in step with nothing (the end of SplitMix64).
    pub(crate) fn count_sampled(&self, event: Ticker) -> bool {
        let before = self.add(event, 1);
        let mixed = (before ^ before >> 30).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed >> (u64::BITS - TICKER_SAMPLE_WEIGHT_LOG2) == 0
    }

    /// Counts so many more, and gives what this shard had counted.
    #[inline]
    pub(crate) fn add(&self, event: Ticker, count: u64) -> u64 {
        let number = thread_slot().unwrap_or(EXCLUSIVE_SHARDS);
        match self.shards[..EXCLUSIVE_SHARDS].get(number) {
            // Nobody else writes there as long as this thread lives, and who did has ended before.
            Some(TickerShard(own)) => {
                let before = own[event as usize].load(Ordering::Relaxed);
                own[event as usize].store(before.wrapping_add(count), Ordering::Relaxed);
                before
            }
            None => {
                let TickerShard(shared) = &self.shards[EXCLUSIVE_SHARDS + number % SHARED_SHARDS];
                shared[event as usize].fetch_add(count, Ordering::Relaxed)
            }
        }
    }

    /// How often it happened. Beside threads that count, some moment's number.
    pub(crate) fn get(&self, event: Ticker) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.0[event as usize].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use terrace_sync::thread;

    use super::*;

    #[test]
    fn samples_are_representative_of_periodic_accesses() {
        for turns in 1..40 {
            let metrics = Statistics::default();
            let mut counted = vec![0; turns];
            for event in 0..100_000 {
                counted[event % turns] +=
                    if metrics.count_sampled(Ticker::WastedProbe) { TICKER_SAMPLE_WEIGHT } else { 0 };
            }
            let exact = 100_000 / turns as i64;
            assert!(
                counted.iter().all(|count| count.abs_diff(exact) < exact as u64 / 3),
                "{turns}: {counted:?}"
            );
            assert_eq!(metrics.get(Ticker::WastedProbe), 100_000);
        }
    }

    #[test]
    fn no_count_of_any_thread_is_lost() {
        let metrics = Statistics::default();
        thread::scope(|scope| {
            for _ in 0..EXCLUSIVE_SHARDS + 8 {
                scope.spawn(|| (0..1000).for_each(|_| metrics.count(Ticker::BlockCacheHit)));
            }
        });
        metrics.count(Ticker::FilterNegative);
        let all = [
            Ticker::BlockCacheHit,
            Ticker::BlockCacheMiss,
            Ticker::FilterNegative,
            Ticker::FilterFalsePositive,
        ];
        assert_eq!(all.map(|event| metrics.get(event)), [1000 * (EXCLUSIVE_SHARDS as u64 + 8), 0, 1, 0]);
    }
}
