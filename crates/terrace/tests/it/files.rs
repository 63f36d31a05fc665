//! The files of a database, as a hostile world sees them.
#![allow(clippy::disallowed_methods, reason = "damages files behind the engine's back")]

use std::path::{Path, PathBuf};

/// The files whose name begins or ends so, by name.
pub(crate) fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let matches = |name: &str| name.starts_with(part) || name.ends_with(part);
    let mut files: Vec<PathBuf> =
        names(dir).iter().filter(|name| matches(name)).map(|name| dir.join(name)).collect();
    files.sort();
    files
}

/// The names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Every file with its bytes.
pub(crate) fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    names(dir).into_iter().map(|name| (name.clone(), read(&dir.join(name)))).collect()
}

/// The tables.
pub(crate) fn tables(dir: &Path) -> Vec<PathBuf> {
    files(dir, ".ldb")
}

/// The only file of its kind.
#[track_caller]
pub(crate) fn only(dir: &Path, part: &str) -> PathBuf {
    let mut found = files(dir, part);
    assert_eq!(found.len(), 1, "{part} in {dir:?}: {found:?}");
    found.remove(0)
}

/// The whole file.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Gives a file other contents.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

/// Removes a file.
pub(crate) fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
}

/// Changes `len` bytes at `at`; a negative `at` counts from the end.
pub(crate) fn damage(path: &Path, at: i64, len: usize) {
    let mut bytes = read(path);
    let start = if at < 0 { bytes.len() - at.unsigned_abs() as usize } else { at as usize };
    let end = (start + len).min(bytes.len());
    bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0x80);
    write(path, &bytes);
}
