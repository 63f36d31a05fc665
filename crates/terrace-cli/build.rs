//! Links the C++ library of the Lua interpreter into the program for Windows. Few systems have its
//! shared form.

#![allow(clippy::disallowed_methods, reason = "a build script opens no database")]

use std::path::{Path, PathBuf};

const LIBRARY: &str = "libstdc++.a";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "windows") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    let Some(directory) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // The linker prefers a shared library in the same directory, so the directory has none.
    if static_library().is_some_and(|library| std::fs::copy(library, directory.join(LIBRARY)).is_ok()) {
        println!("cargo:rustc-link-search=native={}", directory.display());
    }
}

/// Asks the compiler for the path of the static library.
fn static_library() -> Option<PathBuf> {
    let compiler = cc::Build::new().cpp(true).try_get_compiler().ok()?;
    let output = compiler.to_command().arg(format!("-print-file-name={LIBRARY}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    // Without one, the compiler prints the bare name.
    Some(Path::new(path.trim()).to_path_buf()).filter(|path| path.is_absolute())
}
