//! Contract tests of the traits for every implementation, crash images, and fault plans.
#![allow(missing_docs, clippy::unwrap_used)] // Clippy exempts tests, but not their helpers.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Tests check the real system.

mod contract;
mod crash;
mod fault;
#[cfg(unix)]
mod hostile_files;
#[cfg(unix)]
mod locks;
#[cfg(unix)]
mod mapped_log;
#[cfg(windows)]
mod windows_files;
#[cfg(windows)]
mod windows_locks;

use std::path::Path;

use terrace_env::FileSystem;

/// Reads a file to its end.
#[track_caller]
fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let mut file = fs.open_sequential(path).unwrap();
    let mut bytes = Vec::new();
    let mut buf = [0; 1000];
    loop {
        match file.read(&mut buf).unwrap() {
            0 => return bytes,
            n => bytes.extend_from_slice(&buf[..n]),
        }
    }
}

/// Writes a file and closes it without a sync.
#[track_caller]
fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

/// Returns the sorted names in a directory.
#[track_caller]
fn names(fs: &dyn FileSystem, dir: &Path) -> String {
    let mut names: Vec<_> =
        fs.list(dir).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names.join(" ")
}
