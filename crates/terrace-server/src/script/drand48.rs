//! Random numbers of scripts: the generator of POSIX' `lrand48`, as in Redis.

/// State of the generator: 48 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drand48(u64);

impl Drand48 {
    /// State before the first seed.
    pub(super) const UNSEEDED: Drand48 = Drand48(0x1234_abcd_330e);

    /// Creates the generator that `srand48(seed)` creates.
    pub(super) fn new(seed: i32) -> Drand48 {
        Drand48(u64::from(seed as u32) << 16 | 0x330e)
    }

    /// Returns the next number from 0 to 2^31 - 1.
    fn next_u31(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(11) & ((1 << 48) - 1);
        self.0 >> 17
    }

    /// Returns the next number from 0 to 1, without 1.
    pub(super) fn next_unit(&mut self) -> f64 {
        const MAX: u64 = i32::MAX as u64;
        (self.next_u31() % MAX) as f64 / MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Drand48;

    #[test]
    fn sequence_of_posix() {
        // lrand48() after srand48(0).
        let mut generator = Drand48::new(0);
        assert_eq!([generator.next_u31(), generator.next_u31()], [366_850_414, 1_610_402_240]);
    }
}
