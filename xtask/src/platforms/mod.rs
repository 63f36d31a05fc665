//! Builds and tests for other platforms: `cargo xtask platforms [--all] [TARGET ..]`.
//!
//! ```text
//!   table         one row a target: compilers, emulator, packages
//!   build         cargo build | cargo zigbuild --> programs of the tests
//!   run           programs --processor | emulator--> counts
//!   test_process  one program, and the end of tests that do not end by themselves
//!   wine          its directory, and the parts of Windows that it lacks
//!   leveldb_dll   leveldb.dll, and programs in C that use it
//!   same_files    databases of all platforms: equal tables, opened by each other and by LevelDB
//! ```
//!
//! Without `--all`, only the short share of one row runs. The output of a row stays in
//! `target/platforms/TARGET.log`.

mod build;
mod leveldb_dll;
mod run;
mod same_files;
mod table;
mod test_process;
mod wine;

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::bindings::target;
use build::TestProgram;
use run::Counts;
use table::{PLATFORMS, Platform, Runner, Share};

/// Argument of the command that runs all rows.
const ALL: &str = "--all";

/// Result of a row.
enum Outcome {
    /// Built, and tested where a processor or an emulator runs the target.
    Built {
        counts: Option<Counts>,
        programs: Vec<TestProgram>,
        seconds: [u64; 2],
    },
    /// Not built: a compiler or the emulator is missing.
    NotTested {
        reason: String,
    },
    Failed {
        reason: String,
    },
}

/// Runs the rows of the arguments: all with `--all`, or the targets that they name, or the share of
/// `make test`.
pub(crate) fn run() -> ExitCode {
    let (flags, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(2).partition(|argument| argument == ALL);
    if let Some(name) = names.iter().find(|name| PLATFORMS.iter().all(|row| row.target != **name)) {
        let known: Vec<&str> = PLATFORMS.iter().map(|row| row.target).collect();
        eprintln!("platforms: unknown target {name}; known: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let is_share = flags.is_empty() && names.is_empty();
    let mut is_failed = false;
    let mut tested = Vec::new();
    for row in PLATFORMS.iter().filter(|row| names.is_empty() || names.iter().any(|name| name == row.target))
    {
        let Some(share) = (if is_share { row.short_share.as_ref() } else { Some(&row.all) }) else {
            continue;
        };
        let outcome = check(row, share).unwrap_or_else(|error| Outcome::Failed { reason: error.to_string() });
        outcome.print(row);
        is_failed |= outcome.is_failed();
        if let Outcome::Built { programs, counts: Some(_), .. } = outcome {
            tested.push((row, programs));
        }
    }
    if !is_share {
        is_failed |= same_files::check(&tested).is_err();
    }
    if tested.iter().any(|(row, _)| matches!(row.runner, Runner::Wine)) {
        wine::stop();
    }
    if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn check(row: &Platform, share: &Share) -> io::Result<Outcome> {
    if let Some(reason) = row.missing_tool() {
        return Ok(Outcome::NotTested { reason });
    }
    fs::create_dir_all(directory())?;
    let log = File::create(log_of(row))?;
    let start = Instant::now();
    if matches!(row.runner, Runner::Wine) && !wine::prepare(&log)? {
        return Ok(Outcome::Failed { reason: "the directory of wine".into() });
    }
    let Some(programs) = build::build(row, share, &log)? else {
        return Ok(Outcome::Failed { reason: "the build".into() });
    };
    let built = start.elapsed().as_secs();
    let mut counts = match row.runner {
        Runner::None(_) => None,
        _ => Some(run::run_all(row, share, &programs, &log)?),
    };
    if let (Runner::Wine, Some(counts)) = (&row.runner, &mut counts)
        && share.built.contains(&leveldb_dll::PACKAGE)
    {
        leveldb_dll::run(row, counts, &log)?;
    }
    let seconds = [built, start.elapsed().as_secs() - built];
    Ok(Outcome::Built { counts, programs, seconds })
}

impl Outcome {
    fn is_failed(&self) -> bool {
        match self {
            Outcome::Built { counts, .. } => counts.as_ref().is_some_and(|counts| counts.failed > 0),
            Outcome::NotTested { .. } => false,
            Outcome::Failed { .. } => true,
        }
    }

    fn print(&self, row: &Platform) {
        let target = row.target;
        match self {
            Outcome::Built { counts: Some(counts), seconds: [build, tests], .. } => {
                let passed = counts.passed;
                let total = passed + counts.failed;
                let runner = row.runner.name();
                println!(
                    "{target:<27} built in {build} s   {passed} of {total} tests passed in {tests} s   {runner}"
                );
                counts.untested.iter().for_each(|line| println!("{target:<27} {line}"));
            }
            Outcome::Built { counts: None, seconds: [build, _], .. } => {
                println!("{target:<27} built in {build} s   NOT TESTED: {}", row.runner.name());
            }
            Outcome::NotTested { reason } => println!("{target:<27} NOT TESTED: {reason}"),
            Outcome::Failed { reason } => println!("{target:<27} FAILED: {reason}"),
        }
        if self.is_failed() {
            println!("{target:<27} see {}", log_of(row).display());
        }
    }
}

fn directory() -> PathBuf {
    target().join("platforms")
}

fn log_of(row: &Platform) -> PathBuf {
    directory().join(format!("{}.log", row.target))
}
