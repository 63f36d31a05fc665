//! Passes the commit and the lock file of the build to the crate.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    println!("cargo:rustc-env=TERRACE_COMMIT={commit}");
    // Every commit and checkout adds a line to this file.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    lock_file();
    println!("cargo:rerun-if-changed=build.rs");
}

/// Tells the crate where the versions of its dependencies are: a package has its own lock file, a
/// clone one for all.
fn lock_file() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let found =
        [here.join("Cargo.lock"), here.join("../../Cargo.lock")].into_iter().find(|path| path.exists());
    let path = found.unwrap_or_else(|| here.join("Cargo.toml"));
    println!("cargo:rustc-env=TERRACE_CARGO_LOCK={}", path.display());
    println!("cargo:rerun-if-changed={}", path.display());
}

/// Output of a git command, if git is installed and this is a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
