//! Scenarios on real threads: a small share of the harness `histories`, and the program that the
//! sanitizers run.
//!
//! The program has no test harness, because ThreadSanitizer reports threads and channels of the
//! usual one.

use terrace_linearizability::runner::run_scenario;
use terrace_linearizability::scenario::{LARGE_SCENARIO, SMALL_SCENARIO, Scenario, ScenarioSize};

#[track_caller]
fn check(size: &ScenarioSize, seeds: u64) {
    for seed in 0..seeds {
        if let Err(violation) = run_scenario(&Scenario::draw(seed, size)) {
            panic!("seed {seed}: {violation}");
        }
    }
}

fn main() {
    // In a build for a model checker, threads run only inside the checker.
    if cfg!(not(any(feature = "loom", feature = "shuttle"))) {
        check(&SMALL_SCENARIO, 200);
        check(&LARGE_SCENARIO, 60);
    }
}
