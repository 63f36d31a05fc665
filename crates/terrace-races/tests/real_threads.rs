//! Scenarios on real threads: a small share of the attack `histories`, which is also what the sanitizers watch.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

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

#[test]
fn small() {
    check(&SMALL, 200);
}

#[test]
fn large() {
    check(&LARGE, 60);
}
