//! Random numbers that a seed repeats: xoshiro256**, seeded with splitmix64.
//!
//! This is not [`terrace_env::Random`], because tests draw millions of numbers without a lock.
//! Also, a change there must not change the operations of a seed.

/// Random number generator. Equal seeds give equal numbers on every machine.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates a generator from any seed.
    pub fn new(seed: u64) -> Rng {
        let mut mix = seed;
        Rng { state: std::array::from_fn(|_| splitmix(&mut mix)) }
    }

    /// Returns the next number, uniform over all `u64`.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let c = c ^ a;
        let d = d ^ b;
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        b.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns true in one of `n` calls.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`, which is not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns a number up to `max`. Small numbers are more likely: it draws a number of bits, then
    /// that many bits.
    pub fn skewed(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(64 - max.leading_zeros()) + 1);
        self.below(1 << bits).min(max)
    }
}

/// Returns the next number of a splitmix64 sequence, which is also useful to derive seeds.
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
    fn seed_determines_numbers() {
        let draw =
            |seed| (0..8).map(|_| 0).scan(Rng::new(seed), |rng, _| Some(rng.next_u64())).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn every_bit_is_both_zero_and_one() {
        let mut rng = Rng::new(0);
        let (ones, zeros) = (0..64).fold((0, 0), |(ones, zeros), _| {
            let n = rng.next_u64();
            (ones | n, zeros | !n)
        });
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }

    #[test]
    fn skewed_covers_range_and_prefers_small_numbers() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..5_000).map(|_| rng.skewed(1_000)).collect();
        assert!(drawn.contains(&0) && drawn.contains(&1_000) && drawn.iter().all(|&n| n <= 1_000));
        assert!(drawn.iter().filter(|&&n| n < 32).count() > 2_000);
    }
}
