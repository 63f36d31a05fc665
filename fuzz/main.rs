//! One program for every target of `terrace_torture::fuzz`, driven by libFuzzer.
//!
//! The environment variable `TERRACE_FUZZ_TARGET` names the target. Inputs are changed by libFuzzer or by our own mutator, in
//! turn, and then get right checksums, three times of four: else coverage would end where checksums are looked at.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use terrace_testkit::rng::Rng;
use terrace_torture::fuzz::{Target, corpus, mutate, named};

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("TERRACE_FUZZ_TARGET").unwrap_or_default();
        named(&name).unwrap_or_else(|| panic!("TERRACE_FUZZ_TARGET is {name:?}, which is no target"))
    })
}

fuzz_target!(|input: &[u8]| target().check(input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut rng = Rng::new(seed.into());
    let mut input = if rng.one_in(2) {
        let size = fuzzer_mutate(data, size, max_size);
        let mut input = data[..size].to_vec();
        if !rng.one_in(4) {
            target().form.mend(&mut input);
        }
        input
    } else {
        let mut input = data[..size].to_vec();
        mutate::mutate(target().form, &mut input, corpus::inputs(target()), &mut rng);
        input
    };
    input.truncate(max_size);
    data[..input.len()].copy_from_slice(&input);
    input.len()
});
