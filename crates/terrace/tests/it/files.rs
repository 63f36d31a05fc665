//! Access to the files of a database, for damage and inspection.
#![allow(clippy::disallowed_methods, reason = "damages files behind the engine's back")]

use std::path::{Path, PathBuf};

use terrace_env::{FileSystem, SystemFs};

/// Returns the files whose name begins or ends with `part`, by name.
pub(crate) fn files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = names(dir)
        .iter()
        .filter(|name| name.starts_with(part) || name.ends_with(part))
        .map(|name| dir.join(name))
        .collect();
    files.sort();
    files
}

/// Returns the names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns every file with its bytes.
pub(crate) fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    names(dir).into_iter().map(|name| (name.clone(), read(&dir.join(name)))).collect()
}

/// Returns the tables.
pub(crate) fn tables(dir: &Path) -> Vec<PathBuf> {
    files(dir, ".ldb")
}

/// Returns the only file that matches `part`.
#[track_caller]
pub(crate) fn only(dir: &Path, part: &str) -> PathBuf {
    let mut found = files(dir, part);
    assert_eq!(found.len(), 1, "{part} in {dir:?}: {found:?}");
    found.remove(0)
}

/// Returns the contents of a file.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Replaces the contents of a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

/// Removes a file. Its name is free at once on each system, also if a database has it open.
pub(crate) fn remove(path: &Path) {
    SystemFs::new().remove(path).unwrap();
}

/// Changes the permission bits of a file or directory.
#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

/// Creates a directory and its parents.
pub(crate) fn create_directory(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
}

/// Copies a file with its permission bits.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
}

/// Removes the files of a directory, which has no subdirectories.
pub(crate) fn remove_all(directory: &Path) {
    std::fs::read_dir(directory).unwrap().for_each(|entry| remove(&entry.unwrap().path()));
}

/// Copies the files of a directory, without its subdirectories.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    }
}

/// Changes `len` bytes at `offset`; a negative offset counts from the end.
pub(crate) fn damage(path: &Path, offset: i64, len: usize) {
    let mut bytes = read(path);
    let start =
        if offset < 0 { bytes.len().saturating_sub(offset.unsigned_abs() as usize) } else { offset as usize };
    let end = (start + len).min(bytes.len());
    bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0x80);
    write(path, &bytes);
}
