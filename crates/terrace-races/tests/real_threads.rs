//! Scenarios on real threads: a small share of the attack `histories`, and what the sanitizers watch.
//!
//! A program of its own, because the usual harness of tests has threads and channels that ThreadSanitizer reports.

use terrace_races::play::play;
use terrace_races::scenario::{LARGE, SMALL, Scale, Scenario};

#[track_caller]
fn check(scale: &Scale, seeds: u64) {
    for seed in 0..seeds {
        if let Err(what) = play(&Scenario::draw(seed, scale)) {
            panic!("seed {seed}: {what}");
        }
    }
}

fn main() {
    // Built with a model checker, threads run only inside of it.
    if cfg!(not(any(feature = "loom", feature = "shuttle"))) {
        check(&SMALL, 200);
        check(&LARGE, 60);
    }
}
