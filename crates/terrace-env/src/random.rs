//! Randomness, seeded or the system's.

use std::fmt::Debug;

/// A source of random numbers. Callable from any thread. Not for secrets.
pub trait Random: Debug + Send + Sync {
    /// The next number, uniform over all `u64`.
    fn next_u64(&self) -> u64;

    /// A number below `bound`; 0 if `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }
}
