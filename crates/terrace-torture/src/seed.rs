//! Seeds of cases: the first byte identifies the attack, the other bytes the case.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use terrace_testkit::rng::splitmix;

use crate::harness::{HARNESSES, Harness};

const CASE_BITS: u32 = 56;

/// One case of one attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Returns the seed of case number `index` of a run with `base_seed`.
    pub fn nth(harness: &Harness, base_seed: u64, index: u64) -> Seed {
        let mut state = base_seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Seed(u64::from(harness.id) << CASE_BITS | splitmix(&mut state) >> (u64::BITS - CASE_BITS))
    }

    /// Returns the attack, or None if no attack has this first byte.
    pub fn harness(self) -> Option<&'static Harness> {
        HARNESSES.iter().find(|harness| u64::from(harness.id) == self.0 >> CASE_BITS)
    }

    /// Returns the number that [`Harness::run`] receives.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Seed, String> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let seed = Seed(number.map_err(|error| format!("{text:?} is not a seed: {error}"))?);
        seed.harness()
            .map(|_| seed)
            .ok_or_else(|| format!("the first byte of seed {text} is not the number of an attack"))
    }
}

/// Returns a base seed from the clock, so that each run has a new one.
pub fn from_clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 gives the base seed 0.
    now.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_round_trips_and_names_its_harness() {
        for harness in HARNESSES {
            let seed = Seed::nth(harness, 7, 3);
            assert_eq!(seed.to_string().parse(), Ok(seed));
            assert_eq!(seed.harness().map(|found| found.name), Some(harness.name));
        }
    }

    #[test]
    fn harness_ids_are_unique() {
        for (index, harness) in HARNESSES.iter().enumerate() {
            assert!(
                HARNESSES[..index].iter().all(|other| (other.id, other.name) != (harness.id, harness.name))
            );
            assert_eq!(HARNESSES.iter().filter(|other| other.id == harness.id).count(), 1);
        }
    }

    #[test]
    fn invalid_seeds_are_rejected() {
        for text in ["", "x", "0x", "0xff00000000000000", "-1"] {
            assert!(text.parse::<Seed>().is_err(), "{text}");
        }
    }
}
