//! Runs of the tests of a row.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::build::TestProgram;
use super::table::{Compilers, Platform, Share, Skipped};

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
    mut log: &File,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    for program in programs {
        let mut command = command(row, program);
        command.arg("--show-output");
        if !row.emulator().is_empty() {
            // The emulator forks to start a program, and the child waits for ever for a lock that
            // another thread held.
            command.arg("--test-threads=1");
        }
        let skipped = share.skipped.iter().filter(|skipped| skipped.package == program.package_name());
        skipped.flat_map(|skipped| skipped.tests).for_each(|test| {
            command.args(["--skip", test]);
        });
        let output = command.stdin(Stdio::null()).output()?;
        writeln!(log, "\n{}: {}", program.path.display(), output.status)?;
        log.write_all(&output.stdout)?;
        log.write_all(&output.stderr)?;
        counts.add(&String::from_utf8_lossy(&output.stdout), output.status.success());
        counts.add_untested(&String::from_utf8_lossy(&output.stdout));
        counts.add_untested(&String::from_utf8_lossy(&output.stderr));
    }
    counts.untested.extend(share.skipped.iter().map(|skipped| {
        let Skipped { package, tests, reason } = skipped;
        format!("NOT TESTED: {} of {package}: {reason}", tests.join(", "))
    }));
    Ok(counts)
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

    fn add_untested(&mut self, output: &str) {
        let lines = output.lines().filter_map(|line| {
            let is_skip = line.starts_with("NOT TESTED") || line.starts_with("*** STOCK");
            is_skip.then(|| line.trim_matches(['*', ' ']).to_owned())
        });
        self.untested.extend(lines);
    }
}
