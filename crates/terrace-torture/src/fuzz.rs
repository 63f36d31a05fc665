//! Fuzz targets: every reader of file bytes in Terrace, as a function of those bytes.
//!
//! ```text
//!   target/*       one file per target: the rules that hold for any input
//!   input_format   positions of the checksums in an input, to correct them after a change
//!   mutate         changes inputs
//!   archive        a directory of files as one input
//!   corpus         source of inputs: generated ones, and files in corpora/
//!   minimize       checks an input, and minimizes and reports one that fails
//!   libfuzzer      builds and runs the program in fuzz/
//! ```
//!
//! Three callers use the table of targets: a test over the corpora, the attack `fuzz` with random
//! changes, and libFuzzer with coverage (the crate in `fuzz/`). A target panics when a rule is
//! broken. [`Target::check`] also panics when a target allocates too much memory for its input.

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

/// Test of a reader of untrusted bytes.
#[derive(Debug)]
pub struct Target {
    /// Name on the command line, and of the folder of its corpus.
    pub name: &'static str,
    /// Property that the target tests, in one line.
    pub property: &'static str,
    /// Format of its inputs.
    pub format: InputFormat,
    /// Executions in one case of the attack `fuzz`, which take 0.1 to 0.2 seconds.
    pub executions_per_case: u32,
    /// Returns the first inputs.
    pub seed_inputs: fn() -> Vec<Vec<u8>>,
    /// Reads an input and panics if a rule is broken.
    pub run: fn(&[u8]),
}

/// Memory in bytes that any input may use.
const BASE_MEMORY_LIMIT: usize = 64 << 20;
/// Additional memory in bytes for each byte of the input.
const MEMORY_LIMIT_PER_INPUT_BYTE: usize = 32;

/// Maximum length of an input in bytes. It bounds the memory and time of one execution.
pub const MAX_INPUT_LEN: usize = 64 << 10;

impl Target {
    /// Runs the target on `input`. Panics if a rule is broken or the memory limit is exceeded.
    pub fn check(&self, input: &[u8]) {
        let ((), peak) = allocation_counter::measure_peak(self.name, || (self.run)(input));
        let limit = BASE_MEMORY_LIMIT + MEMORY_LIMIT_PER_INPUT_BYTE * input.len();
        assert!(peak <= limit, "held {peak} bytes for an input of {}, expected at most {limit}", input.len());
    }
}

/// Returns the target with a name.
pub fn by_name(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
