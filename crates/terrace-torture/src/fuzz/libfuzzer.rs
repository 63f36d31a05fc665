//! Fuzz targets under libFuzzer, which keeps and changes inputs that reach new code.
//!
//! ```text
//!   fuzz/                          the program, with coverage instrumentation and AddressSanitizer
//!   target/fuzz/corpus/<target>    inputs of all runs so far, which start from the seeds
//!   target/fuzz/found/<target>     inputs that crashed the program or were slow
//! ```
//!
//! The program runs the same targets as the attack `fuzz`. This process checks the found inputs
//! again, with processor time instead of elapsed time, and minimizes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use terrace_format::crc;

use super::{MAX_INPUT_LEN, Target, check_and_minimize, corpus};

/// The stable compiler accepts the unstable flags only with this environment variable.
const NIGHTLY_FLAGS_ENV: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");
const TARGET_TRIPLE: &str = "x86_64-unknown-linux-gnu";
const COVERAGE_RUSTFLAGS: &[&str] = &[
    "-Zsanitizer=address",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn build_dir() -> PathBuf {
    workspace_root().join("target/fuzz")
}

/// Returns the path of the program, which the first call builds. Prints an error and returns None
/// if the build fails.
pub fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| match build_program() {
        Ok(program) => Some(program),
        Err(reason) => {
            eprintln!("libFuzzer is not available: {reason}");
            None
        }
    });
    program.as_deref()
}

fn build_program() -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--target", TARGET_TRIPLE, "--manifest-path"]);
    cargo.arg(workspace_root().join("fuzz/Cargo.toml")).arg("--target-dir").arg(build_dir());
    cargo.env(NIGHTLY_FLAGS_ENV.0, NIGHTLY_FLAGS_ENV.1).env("RUSTFLAGS", COVERAGE_RUSTFLAGS.join(" "));
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    let program = build_dir().join(TARGET_TRIPLE).join("release/terrace-fuzz");
    if status.success() { Ok(program) } else { Err(format!("cargo build of fuzz/: {status}")) }
}

/// Runs `target` for `seconds` seconds. Returns the number of executions, or an error with the
/// finding.
pub fn run(program: &Path, target: &Target, seconds: u64, seed: u32) -> Result<u64, String> {
    let io = |error: std::io::Error| format!("{}: {error}", target.name);
    let inputs = build_dir().join("corpus").join(target.name);
    let found =
        build_dir().join("found").join(target.name).join(format!("{seed:08x}-{}", std::process::id()));
    prepare_corpus(target, &inputs).map_err(io)?;
    std::fs::create_dir_all(&found).map_err(io)?;
    let mut command = Command::new(program);
    command.env("TERRACE_FUZZ_TARGET", target.name).env("ASAN_OPTIONS", "detect_leaks=0");
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-seed={seed}"));
    command.arg(format!("-max_len={MAX_INPUT_LEN}")).arg(format!("-artifact_prefix={}/", found.display()));
    // Slow inputs by elapsed time are only candidates. The timeout ends an input that hangs.
    command.args(["-report_slow_units=1", "-timeout=60", "-rss_limit_mb=4096", "-detect_leaks=0"]);
    command.args(["-print_final_stats=1", "-reload=0"]).arg(&inputs).arg(corpus::corpus_dir(target));
    let output = command.stdin(Stdio::null()).output().map_err(io)?;
    let result = check_output(target, &found, &output);
    if result.is_ok() {
        std::fs::remove_dir_all(&found).map_err(io)?;
    }
    result
}

/// Creates the input directories and writes the seeds.
fn prepare_corpus(target: &Target, inputs: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(inputs)?;
    std::fs::create_dir_all(corpus::corpus_dir(target))?;
    for (index, seed) in (target.seed_inputs)().iter().enumerate() {
        std::fs::write(inputs.join(format!("seed-{index}")), seed)?;
    }
    Ok(())
}

/// Maximum size in bytes of the generated inputs of a target in the repository. Inputs that people
/// named do not count.
const MAX_SAVED_CORPUS_BYTES: usize = 80 << 10;
/// Maximum length in bytes of a saved input. Longer inputs add little coverage.
const MAX_SAVED_INPUT_LEN: usize = 8 << 10;

/// Replaces the generated saved inputs of `target` with the smallest known inputs of the same
/// coverage. Returns their number.
pub fn minimize_corpus(program: &Path, target: &Target) -> std::io::Result<usize> {
    let saved = corpus::corpus_dir(target);
    let merged = build_dir().join("merged").join(target.name);
    if merged.exists() {
        std::fs::remove_dir_all(&merged)?;
    }
    std::fs::create_dir_all(&merged)?;
    let mut command = Command::new(program);
    command.env("TERRACE_FUZZ_TARGET", target.name).env("ASAN_OPTIONS", "detect_leaks=0");
    command
        .args(["-merge=1", "-rss_limit_mb=4096", "-detect_leaks=0"])
        .arg(format!("-max_len={MAX_SAVED_INPUT_LEN}"));
    command.arg(&merged).arg(build_dir().join("corpus").join(target.name)).arg(&saved);
    command.stdin(Stdio::null()).output()?;
    for (name, _) in corpus::saved_inputs(target).iter().filter(|(name, _)| is_generated_name(name)) {
        std::fs::remove_file(saved.join(name))?;
    }
    let mut inputs = std::fs::read_dir(&merged)?
        .map(|entry| std::fs::read(entry?.path()))
        .collect::<std::io::Result<Vec<Vec<u8>>>>()?;
    inputs.sort_by_key(Vec::len);
    let mut remaining = MAX_SAVED_CORPUS_BYTES;
    inputs.retain(|input| remaining.checked_sub(input.len()).inspect(|rest| remaining = *rest).is_some());
    for input in &inputs {
        std::fs::write(saved.join(format!("{:08x}", crc::value(input))), input)?;
    }
    Ok(inputs.len())
}

/// Returns true for the name of a generated input, and false for a name that a person chose.
fn is_generated_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn check_output(target: &Target, found: &Path, output: &Output) -> Result<u64, String> {
    for entry in std::fs::read_dir(found).into_iter().flatten().flatten() {
        if let Ok(input) = std::fs::read(entry.path()) {
            check_and_minimize(target, &input)
                .map_err(|message| format!("libFuzzer's {}: {message}", entry.path().display()))?;
        }
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let mut last: Vec<&str> = text.lines().rev().take(60).collect();
        last.reverse();
        return Err(format!("{} under libFuzzer, {}:\n{}", target.name, output.status, last.join("\n")));
    }
    let executed = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    executed
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| format!("{}: libFuzzer printed no number of executions", target.name))
}
