//! One program for all targets of `terrace_torture::fuzz`, driven by libFuzzer.
//!
//! The environment variable `TERRACE_FUZZ_TARGET` names the target. Either libFuzzer or our own
//! mutator changes an input. Three of four changed inputs then get valid checksums, because
//! otherwise coverage would end at the first checksum comparison.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use terrace_testkit::rng::Rng;
use terrace_torture::fuzz::{Target, by_name, corpus, mutate};

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("TERRACE_FUZZ_TARGET").unwrap_or_default();
        by_name(&name).unwrap_or_else(|| panic!("unknown fuzz target: TERRACE_FUZZ_TARGET is {name:?}"))
    })
}

fuzz_target!(|input: &[u8]| target().check(input));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut rng = Rng::new(seed.into());
    let mut input = if rng.one_in(2) {
        let size = fuzzer_mutate(data, size, max_size);
        let mut input = data[..size].to_vec();
        if !rng.one_in(4) {
            target().format.fix_checksums(&mut input);
        }
        input
    } else {
        let mut input = data[..size].to_vec();
        mutate::mutate(target().format, &mut input, corpus::all_inputs(target()), &mut rng);
        input
    };
    input.truncate(max_size);
    data[..input.len()].copy_from_slice(&input);
    input.len()
});
