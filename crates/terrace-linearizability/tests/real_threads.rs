//! Scenarios on real threads: a small share of the attack `histories`, and what the sanitizers watch.
//!
//! A program of its own, because the usual harness of tests has threads and channels that ThreadSanitizer reports.

use terrace_linearizability::runner::run_scenario;
use terrace_linearizability::scenario::{LARGE_SCENARIO, SMALL_SCENARIO, Scenario, ScenarioSize};

#[track_caller]
fn check(scale: &ScenarioSize, seeds: u64) {
    for seed in 0..seeds {
        if let Err(what) = run_scenario(&Scenario::draw(seed, scale)) {
            panic!("seed {seed}: {what}");
        }
    }
}

fn main() {
    // Built with a model checker, threads run only inside of it.
    if cfg!(not(any(feature = "loom", feature = "shuttle"))) {
        check(&SMALL_SCENARIO, 200);
        check(&LARGE_SCENARIO, 60);
    }
}
