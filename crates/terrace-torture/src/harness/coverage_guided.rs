//! Hostile bytes that coverage leads to: the same targets under libFuzzer.

use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::fuzz::{TARGETS, libfuzzer};

pub(super) const COVERAGE_GUIDED: Harness = Harness {
    id: 51,
    name: "coverage-guided",
    property: "as fuzz, guided by coverage (libFuzzer)",
    // It must be built with another compiler's flags, which takes minutes.
    check_cases: 0,
    time_share: 11,
    run,
};

/// Of one case.
const SECONDS_PER_CASE: u64 = 20;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let program = libfuzzer::program().ok_or("libFuzzer is not to be had here")?;
    let mut rng = Rng::new(seed);
    let target = &TARGETS[rng.below(TARGETS.len() as u64) as usize];
    // 0 would mean any.
    let executed = libfuzzer::run(program, target, SECONDS_PER_CASE, rng.next_u64() as u32 | 1)?;
    counters.add(Counter::FuzzExecutions, executed);
    Ok(())
}
