//! The commands: run the attacks, repeat a case.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use crate::counters::Counters;
use crate::fuzz::{self, TARGETS, Target, libfuzzer};
use crate::harness::process_kill::concurrent_open::{self, OpenerArgs};
use crate::harness::process_kill::writer::{self, WriterJob};
use crate::harness::{self, HARNESSES, Harness};
use crate::mutants::{self, Mutant};
use crate::runner::{self, StopCondition};
use crate::scoreboard::Scoreboard;
use crate::seed::{self, Seed};

/// Attack Terrace and say what was found
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
        /// In all: 90s, 10m, 8h
        #[arg(long, value_parser = parse_duration, default_value = "10m")]
        budget: Duration,
        /// Stop at the first violation, and show it as it came: for who only wants to know whether there is one
        #[arg(long)]
        fail_fast: bool,
        #[command(flatten)]
        selection: HarnessSelection,
    },
    /// Run the targets of hostile bytes under libFuzzer, which is led by what code they reach
    Fuzz {
        /// Only this one
        #[arg(value_parser = parse_target)]
        target: Option<&'static Target>,
        /// For each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Then keep the smallest inputs that reach all that was reached, in corpora/
        #[arg(long)]
        minimize_corpus: bool,
    },
    /// See that every deliberate bug is found
    Mutants {
        /// Only these
        #[arg(value_parser = mutants::by_name)]
        names: Vec<&'static Mutant>,
    },
    /// What a process does that will be killed
    #[command(hide = true)]
    Write {
        #[arg(value_parser = parse_writer_job)]
        job: WriterJob,
        ledger: std::path::PathBuf,
    },
    /// What a process does that races with another
    #[command(hide = true)]
    Open(OpenerArgs),
    /// Repeat one case
    Replay {
        /// As it was printed
        #[arg(long)]
        seed: Seed,
    },
}

#[derive(clap::Args)]
struct HarnessSelection {
    /// Only these attacks
    #[arg(value_parser = parse_harness)]
    attacks: Vec<&'static Harness>,
    /// Draw the seeds from this number; if it is absent a check always draws the same, a torture others each time
    #[arg(long)]
    base_seed: Option<u64>,
    /// Write the scoreboard there as JSON, too
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        CliCommand::Check(mut which) => {
            which.base_seed.get_or_insert(CHECK_BASE_SEED);
            run_harnesses(&which, &Counters::default(), |harness, _| {
                StopCondition::Cases(harness.check_cases)
            })
        }
        CliCommand::Torture { budget, fail_fast: brief, selection: which } => {
            let tally = if brief { Counters::fail_fast() } else { Counters::default() };
            run_harnesses(&which, &tally, |harness, shares| match harness.time_share {
                0 => StopCondition::Cases(harness.check_cases),
                share => StopCondition::Elapsed(budget * share / shares),
            })
        }
        CliCommand::Fuzz { target, seconds, minimize_corpus: keep } => run_libfuzzer(target, seconds, keep),
        CliCommand::Mutants { names } => mutants::run_mutants(&names),
        CliCommand::Write { job, ledger } => writer::run_writer(&job, &ledger),
        CliCommand::Open(opener) => concurrent_open::run_opener(&opener),
        CliCommand::Replay { seed } => replay_case(seed),
    }
}

/// A check is the same for the same code, but for the moments of kills and what threads do; new seeds are for a torture.
const CHECK_BASE_SEED: u64 = 1;

/// Runs the attacks one after the other, each on all cores; `until` gets an attack and the sum of all shares.
fn run_harnesses(
    which: &HarnessSelection,
    tally: &Counters,
    until: impl Fn(&Harness, u32) -> StopCondition,
) -> ExitCode {
    let began = Instant::now();
    let attacks = if which.attacks.is_empty() { default_harnesses(&until) } else { which.attacks.clone() };
    let shares = attacks.iter().map(|harness| harness.time_share).sum::<u32>().max(1);
    let start = which.base_seed.unwrap_or_else(seed::from_clock);
    let mut board = Scoreboard::new(start, describe_commit());
    for harness in attacks {
        eprint!("{:<14} ", harness.name);
        let outcome = runner::run_harness(harness, start, until(harness, shares), thread_count(), tally);
        eprintln!("{} cases, {:.1} s", outcome.cases, outcome.elapsed.as_secs_f64());
        board.add_outcome(harness, &outcome);
    }
    board.finish(tally, began.elapsed());
    println!("{board}");
    if let Some(path) = &which.json
        && let Err(error) = save_scoreboard(&board, path)
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::from(2);
    }
    if board.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every attack that is wanted, and can be run here.
fn default_harnesses(until: impl Fn(&Harness, u32) -> StopCondition) -> Vec<&'static Harness> {
    let is_wanted = |harness: &&Harness| !matches!(until(harness, 1), StopCondition::Cases(0));
    let can_run = |harness: &&Harness| !harness::needs_libfuzzer(harness) || libfuzzer::program().is_some();
    HARNESSES.iter().filter(is_wanted).filter(can_run).collect()
}

fn save_scoreboard(board: &Scoreboard, path: &std::path::Path) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_string_pretty(board)? + "\n")
}

fn replay_case(seed: Seed) -> ExitCode {
    // A seed that was parsed names an attack.
    let Some(harness) = seed.harness() else { return ExitCode::from(2) };
    match runner::run_case(harness, seed, &Counters::default()) {
        None => println!("{}: seed {seed} shows nothing wrong", harness.name),
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

/// Runs libFuzzer on one target after the other, on as many at once as there are cores.
fn run_libfuzzer(only: Option<&'static Target>, seconds: u64, keep: bool) -> ExitCode {
    let Some(program) = libfuzzer::program() else { return ExitCode::from(2) };
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| only.is_none_or(|only| only.name == target.name)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            match fuzz_target(program, target, seconds, keep) {
                Ok(text) => println!("{:<12} {text}", target.name),
                Err(what) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    println!("VIOLATION in {}\n{what}", target.name);
                }
            }
        }
    };
    thread::scope(|scope| (0..thread_count().min(targets.len())).for_each(|_| drop(scope.spawn(work))));
    if failed.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fuzz_target(program: &Path, target: &Target, seconds: u64, keep: bool) -> Result<String, String> {
    let executed = libfuzzer::run(program, target, seconds, seed::from_clock() as u32 | 1)?;
    let kept = if keep {
        libfuzzer::minimize_corpus(program, target).map_err(|error| error.to_string())?
    } else {
        0
    };
    let keeping = if keep { format!(", {kept} inputs kept") } else { String::new() };
    Ok(format!("{executed:>12} executions{keeping}"))
}

fn thread_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn parse_target(name: &str) -> Result<&'static Target, String> {
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    fuzz::by_name(name).ok_or_else(|| format!("no target has that name; there are: {}", names()))
}

fn parse_harness(name: &str) -> Result<&'static Harness, String> {
    let names = || HARNESSES.iter().map(|harness| harness.name).collect::<Vec<_>>().join(", ");
    harness::by_name(name).ok_or_else(|| format!("no attack has that name; there are: {}", names()))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.len().saturating_sub(1);
    let unit = match text.get(split..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        _ => return Err("a time is a number and one of s, m, h".into()),
    };
    let count: u32 = text[..split].parse().map_err(|error| format!("{text}: {error}"))?;
    Ok(Duration::from_secs(u64::from(count) * unit))
}

/// The commit that was checked out, with a mark if it was changed since.
fn describe_commit() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
