//! Random numbers that a seed repeats: xoshiro256**, seeded through splitmix64.
//!
//! Not the environment's [`terrace_env::Random`]: tests draw millions of numbers and want them without a lock, and a
//! change there must not change which operations a seed stands for.

/// A generator. Equal seeds give equal numbers on every machine.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// From a seed; any number is a good one.
    pub fn new(seed: u64) -> Rng {
        let mut mix = seed;
        Rng { state: std::array::from_fn(|_| splitmix(&mut mix)) }
    }

    /// The next number, uniform over all `u64`.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        b.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// True in one of `n` calls.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, which is not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A number up to `max`, small ones much more often than large ones: first a number of bits, then that many bits.
    pub fn skewed(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(64 - max.leading_zeros()) + 1);
        self.below(1 << bits).min(max)
    }
}

/// The next number of a splitmix64 sequence: also good for deriving one seed from another.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw =
            |seed| (0..8).map(|_| 0).scan(Rng::new(seed), |rng, _| Some(rng.next_u64())).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn every_bit_moves() {
        let mut rng = Rng::new(0);
        let (ones, zeros) = (0..64).fold((0, 0), |(ones, zeros), _| {
            let n = rng.next_u64();
            (ones | n, zeros | !n)
        });
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }

    #[test]
    fn skewed_reaches_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..5_000).map(|_| rng.skewed(1_000)).collect();
        assert!(drawn.contains(&0) && drawn.contains(&1_000) && drawn.iter().all(|&n| n <= 1_000));
        assert!(drawn.iter().filter(|&&n| n < 32).count() > 2_000);
    }
}
