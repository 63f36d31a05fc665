//! Random numbers, from a seed or from the system.
//!
//! Both generators are SplitMix64: a counter with an odd step, and a mixing function. The state is
//! one atomic counter, so threads share a generator without a lock, and every seed is equally good.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};

/// Source of random numbers. Every thread may use it. Not for secrets.
pub trait Random: Debug + Send + Sync {
    /// Returns the next number, uniform over all `u64`.
    fn next_u64(&self) -> u64;

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    fn uniform(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }
}

/// Step of the counter: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Generator with the same numbers for the same seed. Several callers share one sequence.
#[derive(Debug)]
pub struct SeededRandom {
    counter: AtomicU64,
}

impl SeededRandom {
    /// Creates a generator from `seed`.
    pub const fn new(seed: u64) -> SeededRandom {
        SeededRandom { counter: AtomicU64::new(seed) }
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        // Relaxed: no other memory access depends on the numbers.
        mix64(self.counter.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA))
    }
}

fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Generator with a random seed for every instance.
pub struct SystemRandom {
    generator: SeededRandom,
}

impl Debug for SystemRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemRandom")
    }
}

impl SystemRandom {
    /// Creates a generator that the system seeds.
    pub fn new() -> SystemRandom {
        SystemRandom { generator: SeededRandom::new(system_seed()) }
    }
}

/// Returns a seed from the system.
///
/// If a sandbox refuses `getrandom`, the seed is a hash of the time, the process and a counter. The
/// numbers are not for secrets, and the hash maps of the standard library would panic.
fn system_seed() -> u64 {
    crate::system::platform::random_seed().unwrap_or_else(fallback_seed)
}

fn fallback_seed() -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let time = crate::clock::Clock::wall_us(&crate::SystemClock);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    mix64(mix64(time ^ call << 48) ^ u64::from(std::process::id()))
}

impl Default for SystemRandom {
    fn default() -> SystemRandom {
        SystemRandom::new()
    }
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        self.generator.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(seed: u64, n: usize) -> Vec<u64> {
        let random = SeededRandom::new(seed);
        (0..n).map(|_| random.next_u64()).collect()
    }

    #[test]
    fn matches_published_splitmix64() {
        assert_eq!(first(1_234_567, 3), [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn same_seed_same_numbers() {
        assert_eq!(first(42, 100), first(42, 100));
        assert_ne!(first(42, 100), first(43, 100));
    }

    #[test]
    fn uniform_stays_below_its_bound() {
        let random = SeededRandom::new(1);
        assert_eq!(random.uniform(0), 0);
        assert_eq!(random.uniform(1), 0);
        assert!((0..1000).all(|_| random.uniform(6) < 6));
        assert!((0..6).all(|face| (0..1000).any(|_| random.uniform(6) == face)));
    }

    #[test]
    fn two_system_generators_differ() {
        assert_ne!(SystemRandom::new().next_u64(), SystemRandom::new().next_u64());
    }
}
