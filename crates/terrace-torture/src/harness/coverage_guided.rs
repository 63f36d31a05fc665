//! The attack `coverage-guided`: the fuzz targets under libFuzzer.

use terrace_testkit::rng::Rng;

use super::Harness;
use crate::counters::{Counter, Counters};
use crate::fuzz::{TARGETS, libfuzzer};

pub(super) const COVERAGE_GUIDED: Harness = Harness {
    id: 51,
    name: "coverage-guided",
    property: "as fuzz, guided by coverage (libFuzzer)",
    // The build needs other compiler flags and takes minutes.
    check_cases: 0,
    time_share: 11,
    run,
};

/// Duration of one case in seconds.
const SECONDS_PER_CASE: u64 = 20;

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let program = libfuzzer::program().ok_or("libFuzzer is not available")?;
    let mut rng = Rng::new(seed);
    let target = &TARGETS[rng.below(TARGETS.len() as u64) as usize];
    // libFuzzer picks a random seed for 0.
    let executed = libfuzzer::run(program, target, SECONDS_PER_CASE, rng.next_u64() as u32 | 1)?;
    counters.add(Counter::FuzzExecutions, executed);
    Ok(())
}
