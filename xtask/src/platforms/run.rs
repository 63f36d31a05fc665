//! Runs of the tests of a row.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::build::TestProgram;
use super::table::{Compilers, Platform, Runner, Share, Skipped};
use super::test_process::{self, Progress};

/// Results of all programs of a row.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Distinct lines `NOT TESTED: ..` of the tests.
    pub(super) untested: BTreeSet<String>,
}

/// Runs all programs, and continues after a failure.
pub(super) fn run_all(
    row: &Platform,
    share: &Share,
    programs: &[TestProgram],
    log: &File,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    for program in programs {
        run_program(row, share, program, &mut counts, log)?;
    }
    counts.untested.extend(share.skipped.iter().map(|skipped| {
        let Skipped { package, tests, reason } = skipped;
        format!("NOT TESTED: {} of {package}: {reason}", tests.join(", "))
    }));
    Ok(counts)
}

/// Runs a program. Kills it if a test does not end, and runs the tests after this one.
fn run_program(
    row: &Platform,
    share: &Share,
    program: &TestProgram,
    counts: &mut Counts,
    mut log: &File,
) -> io::Result<()> {
    let mut next = Some(selection(share, program));
    let start = Instant::now();
    let before = [counts.passed, counts.failed];
    while let Some(selection) = next {
        let mut command = command(row, program);
        command.arg("--show-output").args(&selection);
        if !row.emulator().is_empty() {
            // The emulator forks to start a program, and the child waits for ever for a lock that
            // another thread held.
            command.arg("--test-threads=1");
        }
        let output = test_process::run(command, row.target, row.runner.time_limit())?;
        let status = output.status.map_or("killed".into(), |status| status.to_string());
        writeln!(log, "\n{}: {status}\n{}{}", program.path.display(), output.stdout, output.stderr)?;
        counts.add_untested(&output.stdout);
        counts.add_untested(&output.stderr);
        next = match output.status {
            Some(status) => {
                counts.add(&output.stdout, status.success());
                None
            }
            None => {
                let progress = Progress::read(&output.stdout);
                counts.add_killed(row, program, &progress);
                remaining(row, program, &selection, &progress)?
            }
        };
    }
    let [passed, failed] = [counts.passed - before[0], counts.failed - before[1]];
    let seconds = start.elapsed().as_secs();
    let path = program.path.display();
    writeln!(log, "\nSUMMARY {path}: {passed} of {} tests passed in {seconds} s", passed + failed)
}

/// Returns the arguments that select the tests of the share.
fn selection(share: &Share, program: &TestProgram) -> Vec<String> {
    let skipped = share.skipped.iter().filter(|skipped| skipped.package == program.package_name());
    let tests = skipped.flat_map(|skipped| skipped.tests);
    tests.flat_map(|test| ["--skip".to_owned(), (*test).to_owned()]).collect()
}

/// Returns the arguments that select the tests of `selection` that have not started. Returns None
/// if there is none, or if no running test is known.
fn remaining(
    row: &Platform,
    program: &TestProgram,
    selection: &[String],
    progress: &Progress,
) -> io::Result<Option<Vec<String>>> {
    if progress.running.is_empty() {
        return Ok(None);
    }
    let mut list = command(row, program);
    list.arg("--list").args(selection);
    let list = list.stdin(Stdio::null()).output()?;
    let list = String::from_utf8_lossy(&list.stdout);
    let names = list.lines().filter_map(|line| line.trim_end().strip_suffix(": test"));
    let names: Vec<_> = names.filter(|name| !progress.has_started(name)).map(str::to_owned).collect();
    Ok((!names.is_empty()).then(|| ["--exact".to_owned()].into_iter().chain(names).collect()))
}

/// Returns the command that runs the tests of `program`, with the compilers of its target for the
/// programs that tests build.
pub(super) fn command(row: &Platform, program: &TestProgram) -> Command {
    let mut command = row.start(&program.path);
    command.current_dir(&program.package);
    // The system's LevelDB has the architecture and the C library of this machine.
    command.env_remove("TERRACE_REQUIRE_STOCK").env_remove("CI");
    let emulator = row.emulator();
    if !emulator.is_empty() {
        command.env("TERRACE_EMULATOR", emulator.join(" "));
        // The leak check traces the process, which an emulator cannot do.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
    }
    if let Compilers::Gnu(prefix) = row.compilers {
        let tools = [("CC", "gcc"), ("CXX", "g++"), ("AR", "ar"), ("LD", "ld"), ("OBJCOPY", "objcopy")];
        command.envs(tools.map(|(variable, tool)| (variable, format!("{prefix}{tool}"))));
    }
    command
}

impl Counts {
    /// Adds the line `test result: ok. 53 passed; 0 failed; ..`. A program that ends without it has
    /// failed.
    fn add(&mut self, output: &str, is_success: bool) {
        let result = output.lines().rfind(|line| line.starts_with("test result: "));
        let count = |word: &str| {
            let before = result?.split(word).next()?;
            before.split_whitespace().last()?.parse::<usize>().ok()
        };
        let failed = count(" failed;").unwrap_or(0);
        self.passed += count(" passed;").unwrap_or(0);
        self.failed += if is_success { failed } else { failed.max(1) };
    }

    /// Adds the results of a process that was killed. By Wine, a test that does not end is not
    /// tested; elsewhere it has failed.
    fn add_killed(&mut self, row: &Platform, program: &TestProgram, progress: &Progress) {
        self.passed += progress.passed.len();
        self.failed += progress.failed.len();
        let minutes = row.runner.time_limit().as_secs() / 60;
        let package = program.package_name();
        let mut tests = progress.running.iter().cloned().collect::<Vec<_>>().join(", ");
        if tests.is_empty() {
            tests = "a test, and those after it,".into();
        }
        let line = format!("{tests} of {package}: no end within {minutes} minutes");
        if matches!(row.runner, Runner::Wine) {
            self.untested.insert(format!("NOT TESTED: {line} by Wine"));
        } else {
            self.failed += progress.running.len().max(1);
            self.untested.insert(format!("FAILED: {line}"));
        }
    }

    fn add_untested(&mut self, output: &str) {
        let lines = output.lines().filter_map(|line| {
            let is_skip = line.starts_with("NOT TESTED") || line.starts_with("*** STOCK");
            is_skip.then(|| line.trim_matches(['*', ' ']).to_owned())
        });
        self.untested.extend(lines);
    }
}
