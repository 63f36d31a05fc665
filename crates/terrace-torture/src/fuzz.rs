//! Hostile bytes: everything in Terrace that reads bytes from a file, as a plain function of those bytes.
//!
//! ```text
//!   target/*   one file a target: what must hold for any input
//!   form       where the checksums are in an input, so that a changed one can be given right ones
//!   mutate     changes inputs
//!   pack       a directory of files as one input
//!   corpus     where inputs come from: made by code, and kept in corpora/
//!   finding    what an input does; one that breaks a target is made smaller, and told
//!   libfuzzer  builds and runs the program in fuzz/
//! ```
//!
//! The same table is run by a plain test over the corpora, by the attack `fuzz` (random changes, counted), and by
//! libFuzzer (the crate in `fuzz/`, led by coverage). A target panics when something does not hold; and [`Target::check`]
//! panics when it took more memory than its input may ask for.

pub mod archive;
pub mod corpus;
pub mod input_format;
pub mod libfuzzer;
mod minimize;
pub mod mutate;
mod target;

pub use minimize::check_and_minimize;
pub use target::TARGETS;

use crate::allocation_counter;
use input_format::InputFormat;

/// Something that reads bytes which may be anything.
#[derive(Debug)]
pub struct Target {
    /// What a command line calls it, and the folder of its corpus.
    pub name: &'static str,
    /// What it shows, in one line.
    pub property: &'static str,
    /// What its inputs look like.
    pub format: InputFormat,
    /// Executions of one case of the attack `fuzz`: a tenth of a second or two.
    pub executions_per_case: u32,
    /// Inputs to begin with.
    pub seed_inputs: fn() -> Vec<Vec<u8>>,
    /// Reads an input, and panics if something does not hold.
    pub run: fn(&[u8]),
}

/// What any input may take.
const BASE_MEMORY_LIMIT: usize = 64 << 20;
/// What it may take more for each of its bytes.
const MEMORY_LIMIT_PER_INPUT_BYTE: usize = 32;

/// No input is longer: what a reader may take grows with it, and time does.
pub const MAX_INPUT_LEN: usize = 64 << 10;

impl Target {
    /// Runs it on `input`; panics if anything is wrong, be it the memory that it took.
    pub fn check(&self, input: &[u8]) {
        let ((), peak) = allocation_counter::measure_peak(self.name, || (self.run)(input));
        let most = BASE_MEMORY_LIMIT + MEMORY_LIMIT_PER_INPUT_BYTE * input.len();
        assert!(peak <= most, "held {peak} bytes for an input of {}, expected at most {most}", input.len());
    }
}

/// The target of that name.
pub fn by_name(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
