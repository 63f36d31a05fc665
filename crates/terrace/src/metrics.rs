//! Counts of what happens often: exact, and cheap to take from any thread.
//!
//! ```text
//!   thread  0  1  2 ... 15   16 ... 24 ...       each thread counts in a shard, on cache lines that no others write to, or
//!           |  |  |     |     |      |           few; who asks adds the shards up
//!   shard   0  1  2 ... 15   16 ... 16
//! ```
//!
//! What happens seldom and takes long is in [`spans`].

pub(crate) mod spans;

// Not of `sync`: nothing depends on the order in which threads see a count.
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use spans::Span;
use spans::Spans;

use crate::sync::thread_number;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A block was wanted and in the cache.
    BlockHit,
    /// A block was wanted and had to be read from its file.
    BlockMiss,
    /// A filter said that a key is not there.
    FilterNegative,
    /// A filter said that a key may be there, and it was not.
    FilterFalsePositive,
    /// A look-up searched a block of a file in vain that is in the way of other files.
    InVain,
}

const EVENTS: usize = 5;
/// So many shards have one thread each, which adds without a locked operation; and so many others share the rest.
const OWN: usize = 16;
const SHARED: usize = 8;

/// One in so many stands for all, where counting each is too dear.
pub(crate) const SAMPLED: i64 = 1 << SAMPLED_LOG2;
const SAMPLED_LOG2: u32 = 4;

/// The counts of one database since it was opened.
pub(crate) struct Metrics {
    shards: [Shard; OWN + SHARED],
    pub(crate) spans: Spans,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics { shards: std::array::from_fn(|_| Shard::default()), spans: Spans::default() }
    }
}

/// Two cache lines: processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard([AtomicU64; EVENTS]);

impl Metrics {
    /// Counts one more.
    #[inline]
    pub(crate) fn count(&self, event: Event) {
        self.add(event, 1);
    }

    /// Counts one more, and says whether it is one of those that stand for [`SAMPLED`].
    ///
    /// Not each so-manieth: of look-ups that come in turns it would be the same one every time. The number of the event is
    /// mixed until it is in step with nothing (the end of SplitMix64).
    pub(crate) fn sample(&self, event: Event) -> bool {
        let before = self.add(event, 1);
        let mixed = (before ^ before >> 30).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed >> (u64::BITS - SAMPLED_LOG2) == 0
    }

    /// Counts so many more, and gives what this shard had counted.
    #[inline]
    pub(crate) fn add(&self, event: Event, count: u64) -> u64 {
        let number = thread_number().unwrap_or(OWN);
        match self.shards[..OWN].get(number) {
            // Nobody else writes there as long as this thread lives, and who did has ended before.
            Some(Shard(own)) => {
                let before = own[event as usize].load(Ordering::Relaxed);
                own[event as usize].store(before.wrapping_add(count), Ordering::Relaxed);
                before
            }
            None => {
                let Shard(shared) = &self.shards[OWN + number % SHARED];
                shared[event as usize].fetch_add(count, Ordering::Relaxed)
            }
        }
    }

    /// How often it happened. Beside threads that count, some moment's number.
    pub(crate) fn of(&self, event: Event) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.0[event as usize].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use terrace_sync::thread;

    use super::*;

    #[test]
    fn samples_stand_for_all_whatever_turns_they_come_in() {
        for turns in 1..40 {
            let metrics = Metrics::default();
            let mut counted = vec![0; turns];
            for event in 0..100_000 {
                counted[event % turns] += if metrics.sample(Event::InVain) { SAMPLED } else { 0 };
            }
            let exact = 100_000 / turns as i64;
            assert!(
                counted.iter().all(|count| count.abs_diff(exact) < exact as u64 / 3),
                "{turns}: {counted:?}"
            );
            assert_eq!(metrics.of(Event::InVain), 100_000);
        }
    }

    #[test]
    fn threads_lose_no_count() {
        let metrics = Metrics::default();
        thread::scope(|scope| {
            for _ in 0..OWN + 8 {
                scope.spawn(|| (0..1000).for_each(|_| metrics.count(Event::BlockHit)));
            }
        });
        metrics.count(Event::FilterNegative);
        let all = [Event::BlockHit, Event::BlockMiss, Event::FilterNegative, Event::FilterFalsePositive];
        assert_eq!(all.map(|event| metrics.of(event)), [1000 * (OWN as u64 + 8), 0, 1, 0]);
    }
}
