//! Every input that the fuzzers begin with, and every one that once broke something, given to its target.

use terrace_torture::fuzz::{self, TARGETS, corpus};

#[test]
fn every_input_is_survived() {
    for target in TARGETS {
        for (at, input) in (target.seeds)().iter().enumerate() {
            fuzz::find(target, input).unwrap_or_else(|what| panic!("seed {at} of {what}"));
        }
        for (name, input) in corpus::kept(target) {
            fuzz::find(target, &input)
                .unwrap_or_else(|what| panic!("corpora/{}/{name}: {what}", target.name));
        }
    }
}
