//! Updates the tables of `docs/benchmarks.md`: `cargo xtask benchmarks [--measure] [NAME ...]`.
//!
//! Without `--measure`, it renders the result files of `target/benchmarks`. With it, it first
//! measures the runs that are named, or all runs of the page.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "starts measurements, and rewrites a page of the repository"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use terrace_bench::report::json;
use terrace_bench::report::markdown::{self, PageRun};

const PAGE: &str = "docs/benchmarks.md";
const RESULTS: &str = "target/benchmarks";

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<String>, Vec<String>) =
        arguments.into_iter().partition(|argument| argument.starts_with("--"));
    let page = fs::read_to_string(PAGE).map_err(|e| format!("{PAGE}: {e}"))?;
    let runs = markdown::runs(&page)?;
    if let Some(unknown) = names.iter().find(|name| runs.iter().all(|run| run.name != **name)) {
        return Err(format!("{PAGE} has no run {unknown}"));
    }
    match flags.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {}
        ["--measure"] => {
            fs::create_dir_all(RESULTS).map_err(|e| format!("{RESULTS}: {e}"))?;
            runs.iter().filter(|run| names.is_empty() || names.contains(&run.name)).try_for_each(measure)?;
        }
        _ => return Err(format!("{}: the only flag is --measure", flags.join(" "))),
    }
    let updated = markdown::update(&page, &|name| json::load(&result_file(name)).ok())?;
    fs::write(PAGE, updated).map_err(|e| format!("{PAGE}: {e}"))
}

fn result_file(name: &str) -> PathBuf {
    Path::new(RESULTS).join(name).with_extension("json")
}

/// Measures a run. Its phases that failed stay in its result file, so the exit code is ignored.
fn measure(run: &PageRun) -> Result<(), String> {
    eprintln!("{}: terrace bench {}", run.name, run.arguments);
    let mut cargo = Command::new("cargo");
    cargo.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "terrace-cli",
        "--features",
        "peers",
        "--",
        "bench",
    ]);
    cargo.args(run.arguments.split(' ')).arg("--json").arg(result_file(&run.name));
    cargo.status().map(drop).map_err(|e| format!("cargo: {e}"))
}
