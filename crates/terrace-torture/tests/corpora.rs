//! Every input that the fuzzers begin with, and every one that once broke something, given to its target.

use terrace_torture::fuzz::{self, TARGETS, corpus};

#[test]
fn every_corpus_input_passes() {
    for target in TARGETS {
        for (at, input) in (target.seed_inputs)().iter().enumerate() {
            fuzz::check_and_minimize(target, input).unwrap_or_else(|what| panic!("seed {at} of {what}"));
        }
        for (name, input) in corpus::saved_inputs(target) {
            fuzz::check_and_minimize(target, &input)
                .unwrap_or_else(|what| panic!("corpora/{}/{name}: {what}", target.name));
        }
    }
}
