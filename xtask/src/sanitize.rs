//! The tests of the crates where threads meet, built with a sanitizer of the compiler.
//!
//! Works with a stable compiler, which is asked to take the flags of an unstable one. The standard library comes without
//! instrumentation, so the thread sanitizer does not see what its parts order among threads; the file of suppressions
//! names those of them that we use.

use std::process::{Command, ExitCode};

use crate::tidy::root;

/// A sanitizer, and what it is to watch.
struct Sanitizer {
    name: &'static str,
    flags: &'static str,
    /// What `cargo test` is told to build and run.
    tests: &'static [&'static str],
    /// The sanitizer's own options: a variable, and its value.
    options: (&'static str, &'static str),
}

static SANITIZERS: &[Sanitizer] = &[
    Sanitizer {
        name: "thread",
        flags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        tests: &["--package=terrace-linearizability", "--test=real_threads"],
        options: ("TSAN_OPTIONS", "halt_on_error=1 suppressions=xtask/src/sanitize/thread.txt"),
    },
    Sanitizer {
        name: "address",
        flags: "-Zsanitizer=address",
        tests: &[
            "--package=terrace-linearizability",
            "--package=terrace-env",
            "--package=terrace-format",
            "--package=terrace",
            "--tests",
        ],
        options: ("ASAN_OPTIONS", "detect_leaks=1"),
    },
];

/// Sanitized code needs a target of its own: what runs in the build itself stays as it is.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// `cargo xtask sanitize NAME`.
pub(crate) fn run() -> ExitCode {
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let Some(sanitizer) = SANITIZERS.iter().find(|sanitizer| sanitizer.name == wanted) else {
        eprintln!("usage: cargo xtask sanitize thread|address");
        return ExitCode::from(2);
    };
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["test", "--profile", "ci", "--target", TARGET]).args(sanitizer.tests);
    cargo.arg("--target-dir").arg(root().join("target").join(format!("sanitize-{}", sanitizer.name)));
    cargo.args(["--", "--quiet"]);
    let (variable, options) = sanitizer.options;
    let options = options.replace("suppressions=", &format!("suppressions={}/", root().display()));
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", sanitizer.flags).env(variable, options);
    crate::torture::wait(cargo)
}
