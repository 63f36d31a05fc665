//! Update of `docs/benchmarks.md` from result files, and the measurements of the page.

use std::process::{Command, ExitCode};

use crate::tidy::root;
use crate::torture::wait;

/// Runs the example that renders the page. It measures the engine, so it is optimised.
pub(crate) fn run() -> ExitCode {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--release", "--package", "terrace-bench", "--example", "benchmarks_page"]);
    cargo.arg("--").args(std::env::args().skip(2)).current_dir(root());
    wait(cargo)
}
