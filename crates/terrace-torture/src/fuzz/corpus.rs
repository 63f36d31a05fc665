//! Sources of inputs: generated seeds, and files in `corpora/`.
//!
//! ```text
//!   corpora/<target>/<name>    inputs that add coverage under libFuzzer, or that once found a bug
//! ```

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{TARGETS, Target};

/// Returns the directory of a target's saved inputs.
pub fn corpus_dir(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora").join(target.name)
}

/// Returns the saved inputs of a target with their names, in order.
pub fn saved_inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let Ok(listed) = std::fs::read_dir(corpus_dir(target)) else { return Vec::new() };
    let mut inputs: Vec<_> = listed.filter_map(|entry| read_input(&entry.ok()?.path())).collect();
    inputs.sort();
    inputs
}

fn read_input(path: &Path) -> Option<(String, Vec<u8>)> {
    Some((path.file_name()?.to_string_lossy().into_owned(), std::fs::read(path).ok()?))
}

/// Returns the seeds and saved inputs of a target. They are read once.
pub fn all_inputs(target: &Target) -> &'static [Vec<u8>] {
    static INPUTS_BY_TARGET: OnceLock<Vec<OnceLock<Vec<Vec<u8>>>>> = OnceLock::new();
    let all = INPUTS_BY_TARGET.get_or_init(|| TARGETS.iter().map(|_| OnceLock::new()).collect());
    let index = TARGETS.iter().position(|other| other.name == target.name);
    let Some(inputs) = index.and_then(|index| all.get(index)) else { return &[] };
    inputs.get_or_init(|| {
        let mut inputs = (target.seed_inputs)();
        inputs.extend(saved_inputs(target).into_iter().map(|(_, input)| input));
        inputs
    })
}
