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

pub mod corpus;
mod finding;
pub mod form;
pub mod libfuzzer;
pub mod mutate;
pub mod pack;
mod target;

pub use finding::find;
pub use target::TARGETS;

use crate::memory;
use form::Form;

/// Something that reads bytes which may be anything.
#[derive(Debug)]
pub struct Target {
    /// What a command line calls it, and the folder of its corpus.
    pub name: &'static str,
    /// What it shows, in one line.
    pub shows: &'static str,
    /// What its inputs look like.
    pub form: Form,
    /// Executions of one case of the attack `fuzz`: a tenth of a second or two.
    pub runs: u32,
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input, and panics if something does not hold.
    pub run: fn(&[u8]),
}

/// What any input may take.
const MEMORY: usize = 64 << 20;
/// What it may take more for each of its bytes.
const MEMORY_PER_BYTE: usize = 32;

/// No input is longer: what a reader may take grows with it, and time does.
pub const INPUT_MAX: usize = 64 << 10;

impl Target {
    /// Runs it on `input`; panics if anything is wrong, be it the memory that it took.
    pub fn check(&self, input: &[u8]) {
        let ((), peak) = memory::peak_of(self.name, || (self.run)(input));
        let most = MEMORY + MEMORY_PER_BYTE * input.len();
        assert!(peak <= most, "held {peak} bytes for an input of {}, expected at most {most}", input.len());
    }
}

/// The target of that name.
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
