//! Compiles the C++ classes of `shim/` into the crate.

#![allow(clippy::disallowed_methods, reason = "a build script opens no database")]

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=build.rs");
    // The library for Windows has no C++ interface.
    if std::env::var_os("CARGO_CFG_WINDOWS").is_some() {
        return;
    }
    let sources = sources(Path::new("shim"));
    if sources.is_empty() {
        return;
    }
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include("include")
        .include("shim")
        .files(sources)
        // No later tool can make unique symbols local, and the static library must not define
        // those of the C++ library a second time.
        .flag_if_supported("-fno-gnu-unique")
        .compile("terrace_shim");
}

/// Returns the C++ files of `folder`, sorted.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sources: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "cc"))
        .collect();
    sources.sort();
    sources
}
