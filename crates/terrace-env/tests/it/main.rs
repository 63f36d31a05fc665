//! The contracts of the traits, held against every implementation; crash images; fault plans.
#![allow(missing_docs, clippy::unwrap_used)] // Clippy knows test functions, not their helpers.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Tests look at the machine from outside.

mod contract;
mod crash;
mod fault;
#[cfg(unix)]
mod locks;
#[cfg(unix)]
mod mapped_log;

use std::path::Path;

use terrace_env::FileSystem;

/// A whole file.
#[track_caller]
fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let mut file = fs.open_sequential(path).unwrap();
    let (mut bytes, mut buf) = (Vec::new(), [0; 1000]);
    loop {
        match file.read(&mut buf).unwrap() {
            0 => return bytes,
            n => bytes.extend_from_slice(&buf[..n]),
        }
    }
}

/// A file with these bytes, closed but not synced.
#[track_caller]
fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

/// The names in a directory, in order.
#[track_caller]
fn names(fs: &dyn FileSystem, dir: &Path) -> String {
    let mut names: Vec<_> =
        fs.list(dir).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names.join(" ")
}
