//! The command line: `check`, `torture`, `fuzz`, `mutants` and `replay`.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use crate::counters::Counters;
use crate::fuzz::{self, TARGETS, Target, libfuzzer};
#[cfg(target_os = "linux")]
use crate::harness::alternate::terrace_turn::{self, TurnArgs};
#[cfg(target_os = "linux")]
use crate::harness::file_systems::{self, DiskJob};
use crate::harness::followers::followed_writer::{self, FollowedWriterArgs};
use crate::harness::fork::forker::{self, ForkerArgs};
#[cfg(target_os = "linux")]
use crate::harness::power_cuts::{self, RecordedJob, RecorderArgs};
use crate::harness::process_kill::concurrent_open::{self, OpenerArgs};
use crate::harness::process_kill::writer::{self, WriterJob};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::harness::refusals;
use crate::harness::{self, HARNESSES, Harness};
use crate::mutants::{self, Mutant};
use crate::runner::{self, StopCondition};
use crate::scoreboard::Scoreboard;
use crate::seed::{self, Seed};

/// Test Terrace with crashes, faults, random operations and hostile files
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run a fixed number of cases of every attack
    Check(HarnessSelection),
    /// Run every attack for a time and print a scoreboard
    Torture {
        /// Total time, such as 90s, 10m or 8h
        #[arg(long, value_parser = parse_duration, default_value = "10m")]
        budget: Duration,
        /// Stop at the first violation and do not shrink it
        #[arg(long)]
        fail_fast: bool,
        #[command(flatten)]
        selection: HarnessSelection,
    },
    /// Run the fuzz targets under libFuzzer, which is guided by coverage
    Fuzz {
        /// Only this target
        #[arg(value_parser = parse_target)]
        target: Option<&'static Target>,
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Then keep the smallest inputs with the same coverage in corpora/
        #[arg(long)]
        minimize_corpus: bool,
        /// Change inputs at random, without libFuzzer and its build, for this number of executions
        #[arg(long, requires = "target", conflicts_with_all = ["seconds", "minimize_corpus"])]
        executions: Option<u64>,
    },
    /// Check that the attacks find each deliberate bug
    Mutants {
        /// Only these mutants
        #[arg(value_parser = mutants::by_name)]
        names: Vec<&'static Mutant>,
    },
    /// Writes until it is killed; `process-kill` runs this
    #[command(hide = true)]
    Write {
        #[arg(value_parser = parse_writer_job)]
        job: WriterJob,
        ledger: std::path::PathBuf,
    },
    /// Opens a database that another process also opens; `concurrent-open` runs this
    #[command(hide = true)]
    Open(OpenerArgs),
    /// Runs Terrace for one turn; `alternate` runs this
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Turn(TurnArgs),
    /// Works while the system refuses calls; `refusals` runs this
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[command(hide = true)]
    Refused(refusals::ChildArgs),
    /// Forks while its threads use a database; `fork` and `daemon` run this
    #[command(hide = true)]
    Fork(ForkerArgs),
    /// Writes while followers read; `followers` runs this
    #[command(hide = true)]
    FollowedWriter(FollowedWriterArgs),
    /// Works on a disk that is full most of the time; `file-systems` runs this
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    FillDisk {
        #[arg(value_parser = parse_disk_job)]
        job: DiskJob,
    },
    /// Serves a disk and records its writes; `power-cuts` runs this
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    RecordDisk(RecorderArgs),
    /// Writes to a recorded disk; `power-cuts` runs this
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    WriteRecorded {
        #[arg(value_parser = parse_recorded_job)]
        job: RecordedJob,
    },
    /// Repeat one case
    Replay {
        /// Seed that a violation printed
        #[arg(long)]
        seed: Seed,
    },
}

#[derive(clap::Args)]
struct HarnessSelection {
    /// Only these attacks
    #[arg(value_parser = parse_harness)]
    attacks: Vec<&'static Harness>,
    /// Draw all seeds from this number (check: always 1; torture: the clock)
    #[arg(long)]
    base_seed: Option<u64>,
    /// Also write the scoreboard to this file, as JSON
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        CliCommand::Check(mut selection) => {
            selection.base_seed.get_or_insert(CHECK_BASE_SEED);
            run_harnesses(&selection, &Counters::default(), |harness, _| {
                StopCondition::Cases(harness.check_cases)
            })
        }
        CliCommand::Torture { budget, fail_fast, selection } => {
            let counters = if fail_fast { Counters::fail_fast() } else { Counters::default() };
            run_harnesses(&selection, &counters, |harness, shares| match harness.time_share {
                0 => StopCondition::Cases(harness.check_cases),
                share => StopCondition::Elapsed(budget * share / shares),
            })
        }
        CliCommand::Fuzz { target: Some(target), executions: Some(executions), .. } => {
            run_random_changes(target, executions)
        }
        CliCommand::Fuzz { target, seconds, minimize_corpus, .. } => {
            run_libfuzzer(target, seconds, minimize_corpus)
        }
        CliCommand::Mutants { names } => mutants::run_mutants(&names),
        CliCommand::Write { job, ledger } => writer::run_writer(&job, &ledger),
        #[cfg(target_os = "linux")]
        CliCommand::Turn(turn) => terrace_turn::run_turn(&turn),
        CliCommand::Open(opener) => concurrent_open::run_opener(&opener),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        CliCommand::Refused(child) => refusals::run_child(&child),
        CliCommand::FollowedWriter(arguments) => followed_writer::run_followed_writer(&arguments),
        CliCommand::Fork(arguments) => forker::run_forker(&arguments),
        #[cfg(target_os = "linux")]
        CliCommand::FillDisk { job } => file_systems::run_child(&job),
        #[cfg(target_os = "linux")]
        CliCommand::RecordDisk(recorder) => power_cuts::run_recorder(&recorder),
        #[cfg(target_os = "linux")]
        CliCommand::WriteRecorded { job } => power_cuts::run_workload(&job),
        CliCommand::Replay { seed } => replay_case(seed),
    }
}

/// Base seed of `check`. It is constant, so only thread schedules and kill times differ between
/// runs.
const CHECK_BASE_SEED: u64 = 1;

/// Runs the attacks in sequence, each on all cores. `until` receives an attack and the sum of all
/// time shares.
fn run_harnesses(
    selection: &HarnessSelection,
    counters: &Counters,
    until: impl Fn(&Harness, u32) -> StopCondition,
) -> ExitCode {
    let started = Instant::now();
    let attacks =
        if selection.attacks.is_empty() { default_harnesses(&until) } else { selection.attacks.clone() };
    let shares = attacks.iter().map(|harness| harness.time_share).sum::<u32>().max(1);
    let base_seed = selection.base_seed.unwrap_or_else(seed::from_clock);
    let mut board = Scoreboard::new(base_seed, describe_commit());
    for harness in attacks {
        eprint!("{:<24} ", harness.name);
        let stop = until(harness, shares);
        let outcome = runner::run_harness(harness, base_seed, stop, thread_count(), counters);
        eprintln!("{} cases, {:.1} s", outcome.cases, outcome.elapsed.as_secs_f64());
        board.add_outcome(harness, &outcome);
    }
    board.finish(counters, started.elapsed());
    println!("{board}");
    if let Some(path) = &selection.json
        && let Err(error) = save_scoreboard(&board, path)
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::from(2);
    }
    if board.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the attacks that have cases under `until` and can run on this machine.
fn default_harnesses(until: impl Fn(&Harness, u32) -> StopCondition) -> Vec<&'static Harness> {
    HARNESSES
        .iter()
        .filter(|harness| !matches!(until(harness, 1), StopCondition::Cases(0)))
        .filter(|harness| !harness::needs_libfuzzer(harness) || libfuzzer::program().is_some())
        .collect()
}

fn save_scoreboard(board: &Scoreboard, path: &std::path::Path) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_string_pretty(board)? + "\n")
}

fn replay_case(seed: Seed) -> ExitCode {
    // A parsed seed always names an attack.
    let Some(harness) = seed.harness() else { return ExitCode::from(2) };
    match runner::run_case(harness, seed, &Counters::default()) {
        None => println!("{}: seed {seed} passes", harness.name),
        Some(violation) => {
            println!("VIOLATION in {}\n{}", harness.name, violation.message);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parse_writer_job(text: &str) -> Result<WriterJob, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(target_os = "linux")]
fn parse_disk_job(text: &str) -> Result<DiskJob, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(target_os = "linux")]
fn parse_recorded_job(text: &str) -> Result<RecordedJob, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs libFuzzer on each target, with one target per core at a time.
fn run_libfuzzer(only: Option<&'static Target>, seconds: u64, minimize: bool) -> ExitCode {
    let Some(program) = libfuzzer::program() else { return ExitCode::from(2) };
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| only.is_none_or(|only| only.name == target.name)).collect();
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread_count().min(targets.len()) {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !fuzz_and_report(program, target, seconds, minimize) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    if failed.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs cases of the attack `fuzz` with one target, up to at least this number of executions.
fn run_random_changes(target: &'static Target, executions: u64) -> ExitCode {
    let counters = Counters::default();
    let first = seed::from_clock();
    let cases = executions.div_ceil(target.executions_per_case.into());
    for case in 0..cases {
        if let Err(message) = harness::fuzz::run_target(target, first.wrapping_add(case), &counters) {
            println!("VIOLATION in {}\n{message}", target.name);
            return ExitCode::FAILURE;
        }
    }
    println!("{:<12} {:>12} executions", target.name, cases * u64::from(target.executions_per_case));
    ExitCode::SUCCESS
}

/// Fuzzes a target and prints the result. Returns false after a violation.
fn fuzz_and_report(program: &Path, target: &Target, seconds: u64, minimize: bool) -> bool {
    let fuzzed = fuzz_target(program, target, seconds, minimize);
    match &fuzzed {
        Ok(text) => println!("{:<12} {text}", target.name),
        Err(message) => println!("VIOLATION in {}\n{message}", target.name),
    }
    fuzzed.is_ok()
}

fn fuzz_target(program: &Path, target: &Target, seconds: u64, minimize: bool) -> Result<String, String> {
    let executed = libfuzzer::run(program, target, seconds, seed::from_clock() as u32 | 1)?;
    if !minimize {
        return Ok(format!("{executed:>12} executions"));
    }
    let kept = libfuzzer::minimize_corpus(program, target).map_err(|error| error.to_string())?;
    Ok(format!("{executed:>12} executions, {kept} inputs kept"))
}

fn thread_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn parse_target(name: &str) -> Result<&'static Target, String> {
    fuzz::by_name(name).ok_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("unknown fuzz target; known targets: {}", names.join(", "))
    })
}

fn parse_harness(name: &str) -> Result<&'static Harness, String> {
    harness::by_name(name).ok_or_else(|| {
        let names: Vec<_> = HARNESSES.iter().map(|harness| harness.name).collect();
        format!("unknown attack; known attacks: {}", names.join(", "))
    })
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.len().saturating_sub(1);
    let unit = match text.get(split..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        _ => return Err("expected a number followed by s, m or h".into()),
    };
    let count: u32 = text[..split].parse().map_err(|error| format!("{text}: {error}"))?;
    Ok(Duration::from_secs(u64::from(count) * unit))
}

/// Returns the checked-out commit, marked if the working tree differs from it.
fn describe_commit() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
