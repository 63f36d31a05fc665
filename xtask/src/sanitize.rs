//! Tests of concurrent crates under a sanitizer of the compiler.
//!
//! `RUSTC_BOOTSTRAP` makes a stable compiler accept the unstable flags. The standard library has no
//! instrumentation, so the thread sanitizer does not see its synchronisation. The file of
//! suppressions names the affected functions.

use std::process::{Command, ExitCode};

use crate::tidy::root;

/// A sanitizer and its tests.
struct Sanitizer {
    name: &'static str,
    flags: &'static str,
    /// Arguments of `cargo test` that select the tests.
    tests: &'static [&'static str],
    /// Environment variable of the sanitizer's options, and its value.
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

/// Explicit target, so that build scripts and macros stay without instrumentation.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// `cargo xtask sanitize NAME`.
pub(crate) fn run() -> ExitCode {
    let name = std::env::args().nth(2).unwrap_or_default();
    let Some(sanitizer) = SANITIZERS.iter().find(|sanitizer| sanitizer.name == name) else {
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
