//! Runs each fuzz target on all of its seeds and saved inputs.
#![cfg(unix)] // The attacks need a system of the POSIX family.

use terrace_torture::fuzz::{self, TARGETS, corpus};

#[test]
fn every_corpus_input_passes() {
    for target in TARGETS {
        for (index, input) in (target.seed_inputs)().iter().enumerate() {
            fuzz::check_and_minimize(target, input)
                .unwrap_or_else(|message| panic!("seed {index} of {message}"));
        }
        for (name, input) in corpus::saved_inputs(target) {
            fuzz::check_and_minimize(target, &input)
                .unwrap_or_else(|message| panic!("corpora/{}/{name}: {message}", target.name));
        }
    }
}
