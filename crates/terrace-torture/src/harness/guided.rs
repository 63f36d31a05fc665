//! Hostile bytes that coverage leads to: the same targets under libFuzzer.

use terrace_testkit::rng::Rng;

use super::Harness;
use crate::fuzz::{TARGETS, libfuzzer};
use crate::tally::{Figure, Tally};

pub(super) const GUIDED: Harness = Harness {
    id: 51,
    name: "guided",
    shows: "nor do bytes that were led by what code they reach",
    // It must be built with another compiler's flags, which takes minutes.
    check: 0,
    share: 11,
    run: guided,
};

/// Of one case.
const SECONDS: u64 = 20;

fn guided(seed: u64, tally: &Tally) -> Result<(), String> {
    let program = libfuzzer::program().ok_or("libFuzzer is not to be had here")?;
    let mut rng = Rng::new(seed);
    let target = &TARGETS[rng.below(TARGETS.len() as u64) as usize];
    // 0 would mean any.
    let executed = libfuzzer::run(program, target, SECONDS, rng.next_u64() as u32 | 1)?;
    tally.add(Figure::FuzzRuns, executed);
    Ok(())
}
