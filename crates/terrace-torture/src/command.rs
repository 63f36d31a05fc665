//! The commands: run the attacks, repeat a case.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use crate::fuzz::{self, TARGETS, Target, libfuzzer};
use crate::harness::kills::openers::{self, Opener};
use crate::harness::kills::writer::{self, Job};
use crate::harness::{self, HARNESSES, Harness};
use crate::mutants::{self, Mutant};
use crate::runner::{self, Until};
use crate::scoreboard::Scoreboard;
use crate::seed::{self, Seed};
use crate::tally::Tally;

/// Attack Terrace and say what was found
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run a fixed number of cases of every attack
    Check(Which),
    /// Run every attack for a time and print a scoreboard
    Torture {
        /// In all: 90s, 10m, 8h
        #[arg(long, value_parser = duration, default_value = "10m")]
        budget: Duration,
        /// Stop at the first violation, and show it as it came: for who only wants to know whether there is one
        #[arg(long)]
        brief: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Run the targets of hostile bytes under libFuzzer, which is led by what code they reach
    Fuzz {
        /// Only this one
        #[arg(value_parser = target)]
        target: Option<&'static Target>,
        /// For each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Then keep the smallest inputs that reach all that was reached, in corpora/
        #[arg(long)]
        keep: bool,
    },
    /// See that every deliberate bug is found
    Mutants {
        /// Only these
        #[arg(value_parser = mutants::named)]
        names: Vec<&'static Mutant>,
    },
    /// What a process does that will be killed
    #[command(hide = true)]
    Write {
        #[arg(value_parser = writer_job)]
        job: Job,
        ledger: std::path::PathBuf,
    },
    /// What a process does that races with another
    #[command(hide = true)]
    Open(Opener),
    /// Repeat one case
    Replay {
        /// As it was printed
        #[arg(long)]
        seed: Seed,
    },
}

#[derive(clap::Args)]
struct Which {
    /// Only these attacks
    #[arg(value_parser = attack)]
    attacks: Vec<&'static Harness>,
    /// Draw the seeds from this number; if it is absent a check always draws the same, a torture others each time
    #[arg(long)]
    start: Option<u64>,
    /// Write the scoreboard there as JSON, too
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        Action::Check(mut which) => {
            which.start.get_or_insert(CHECK_START);
            all(&which, &Tally::default(), |harness, _| Until::Cases(harness.check))
        }
        Action::Torture { budget, brief, which } => {
            let tally = if brief { Tally::brief() } else { Tally::default() };
            all(&which, &tally, |harness, shares| match harness.share {
                0 => Until::Cases(harness.check),
                share => Until::Elapsed(budget * share / shares),
            })
        }
        Action::Fuzz { target, seconds, keep } => fuzz(target, seconds, keep),
        Action::Mutants { names } => mutants::hunt(&names),
        Action::Write { job, ledger } => writer::write(&job, &ledger),
        Action::Open(opener) => openers::open(&opener),
        Action::Replay { seed } => replay(seed),
    }
}

/// A check is the same for the same code, but for the moments of kills and what threads do; new seeds are for a torture.
const CHECK_START: u64 = 1;

/// Runs the attacks one after the other, each on all cores; `until` gets an attack and the sum of all shares.
fn all(which: &Which, tally: &Tally, until: impl Fn(&Harness, u32) -> Until) -> ExitCode {
    let began = Instant::now();
    let attacks = if which.attacks.is_empty() { every(&until) } else { which.attacks.clone() };
    let shares = attacks.iter().map(|harness| harness.share).sum::<u32>().max(1);
    let start = which.start.unwrap_or_else(seed::fresh);
    let mut board = Scoreboard::new(start, commit());
    for harness in attacks {
        eprint!("{:<14} ", harness.name);
        let outcome = runner::run(harness, start, until(harness, shares), threads(), tally);
        eprintln!("{} cases, {:.1} s", outcome.cases, outcome.took.as_secs_f64());
        board.enter(harness, &outcome);
    }
    board.close(tally, began.elapsed());
    println!("{board}");
    if let Some(path) = &which.json
        && let Err(error) = save(&board, path)
    {
        eprintln!("{}: {error}", path.display());
        return ExitCode::from(2);
    }
    if board.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every attack that is wanted, and can be run here.
fn every(until: impl Fn(&Harness, u32) -> Until) -> Vec<&'static Harness> {
    let is_wanted = |harness: &&Harness| !matches!(until(harness, 1), Until::Cases(0));
    let can_run = |harness: &&Harness| !harness::is_guided(harness) || libfuzzer::program().is_some();
    HARNESSES.iter().filter(is_wanted).filter(can_run).collect()
}

fn save(board: &Scoreboard, path: &std::path::Path) -> std::io::Result<()> {
    std::fs::write(path, serde_json::to_string_pretty(board)? + "\n")
}

fn replay(seed: Seed) -> ExitCode {
    // A seed that was parsed names an attack.
    let Some(harness) = seed.harness() else { return ExitCode::from(2) };
    match runner::case(harness, seed, &Tally::default()) {
        None => println!("{}: seed {seed} shows nothing wrong", harness.name),
        Some(violation) => {
            println!("VIOLATION in {}\n{}", harness.name, violation.what);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn writer_job(text: &str) -> Result<Job, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs libFuzzer on one target after the other, on as many at once as there are cores.
fn fuzz(only: Option<&'static Target>, seconds: u64, keep: bool) -> ExitCode {
    let Some(program) = libfuzzer::program() else { return ExitCode::from(2) };
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| only.is_none_or(|only| only.name == target.name)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            match fuzz_one(program, target, seconds, keep) {
                Ok(text) => println!("{:<12} {text}", target.name),
                Err(what) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    println!("VIOLATION in {}\n{what}", target.name);
                }
            }
        }
    };
    thread::scope(|scope| (0..threads().min(targets.len())).for_each(|_| drop(scope.spawn(work))));
    if failed.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fuzz_one(program: &Path, target: &Target, seconds: u64, keep: bool) -> Result<String, String> {
    let executed = libfuzzer::run(program, target, seconds, seed::fresh() as u32 | 1)?;
    let kept = if keep { libfuzzer::keep(program, target).map_err(|error| error.to_string())? } else { 0 };
    let keeping = if keep { format!(", {kept} inputs kept") } else { String::new() };
    Ok(format!("{executed:>12} executions{keeping}"))
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn target(name: &str) -> Result<&'static Target, String> {
    let names = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    fuzz::named(name).ok_or_else(|| format!("no target has that name; there are: {}", names()))
}

fn attack(name: &str) -> Result<&'static Harness, String> {
    let names = || HARNESSES.iter().map(|harness| harness.name).collect::<Vec<_>>().join(", ");
    harness::named(name).ok_or_else(|| format!("no attack has that name; there are: {}", names()))
}

fn duration(text: &str) -> Result<Duration, String> {
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
fn commit() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
