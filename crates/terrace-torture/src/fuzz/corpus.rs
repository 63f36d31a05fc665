//! Where inputs come from: those that code makes, and those that are kept in `corpora/`.
//!
//! ```text
//!   corpora/<target>/<name>    found by libFuzzer to reach code that no other input reaches, or once a fault
//! ```

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{TARGETS, Target};

/// The folder of a target's kept inputs.
pub fn corpus_dir(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora").join(target.name)
}

/// The kept inputs of a target, by name.
pub fn saved_inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let Ok(listed) = std::fs::read_dir(corpus_dir(target)) else { return Vec::new() };
    let read =
        |path: PathBuf| Some((path.file_name()?.to_string_lossy().into_owned(), std::fs::read(&path).ok()?));
    let mut kept: Vec<_> = listed.filter_map(|entry| read(entry.ok()?.path())).collect();
    kept.sort();
    kept
}

/// Every input that a target begins with, read once.
pub fn all_inputs(target: &Target) -> &'static [Vec<u8>] {
    static INPUTS_BY_TARGET: OnceLock<Vec<OnceLock<Vec<Vec<u8>>>>> = OnceLock::new();
    let all = INPUTS_BY_TARGET.get_or_init(|| TARGETS.iter().map(|_| OnceLock::new()).collect());
    let at = TARGETS.iter().position(|known| known.name == target.name);
    let Some(inputs) = at.and_then(|at| all.get(at)) else { return &[] };
    inputs.get_or_init(|| {
        let mut inputs = (target.seed_inputs)();
        inputs.extend(saved_inputs(target).into_iter().map(|(_, input)| input));
        inputs
    })
}
