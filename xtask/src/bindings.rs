//! Checks of the bindings: `cargo xtask bindings [--all] [LANGUAGE ..]`.
//!
//! ```text
//!   row --tools--> bindings/LANGUAGE/check --last line--> one line of the report
//! ```
//!
//! `--all` adds suites that take longer than their use in each test run justifies.
//!
//! `bindings/README.md` describes what a check gets and returns. Its output stays in
//! `target/bindings/LANGUAGE.log`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::tidy::root;

/// A language with a directory `bindings/NAME` that contains the script `check`.
struct Language {
    name: &'static str,
    /// Programs that the check needs.
    tools: &'static [&'static str],
    /// The check uses what the rows above have built, so it begins after their end.
    needs_others: bool,
}

static LANGUAGES: &[Language] = &[
    Language { name: "rust", tools: &["cargo"], needs_others: false },
    Language { name: "c", tools: &["cargo", "cc"], needs_others: false },
    Language { name: "python", tools: &["cargo", "python3"], needs_others: false },
    Language { name: "node", tools: &["cargo", "node", "npm"], needs_others: false },
    Language { name: "java", tools: &["cargo", "mvn", "javac", "java"], needs_others: false },
    Language { name: "go", tools: &["cargo", "go", "cc"], needs_others: false },
    // All languages on one database.
    Language { name: "mixed", tools: &["python3"], needs_others: true },
];

/// Argument of the checks that also runs the long suites.
const ALL: &str = "--all";
/// Exit code of a check that could not run. The reason is its last line.
const NOT_TESTED: i32 = 3;
/// Size of the small disk for cases that fill it.
const SMALL_DISK_SIZE: &str = "size=16m";

enum Outcome {
    Passed { counts: String, seconds: u64 },
    NotTested { reason: String },
    Failed { log: PathBuf },
}

/// Checks the languages of the arguments, or all. A missing toolchain is a failure if
/// `TERRACE_REQUIRE_BINDINGS=1` is set, as in CI.
pub(crate) fn run() -> ExitCode {
    let (flags, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(2).partition(|argument| argument == ALL);
    if let Some(name) = names.iter().find(|name| LANGUAGES.iter().all(|language| language.name != **name)) {
        let known: Vec<&str> = LANGUAGES.iter().map(|language| language.name).collect();
        eprintln!("bindings: unknown language {name}; known: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let chosen = LANGUAGES.iter().filter(|row| names.is_empty() || names.iter().any(|name| name == row.name));
    let (last, first): (Vec<_>, Vec<_>) = chosen.partition(|language| language.needs_others);
    let have_passed = [first, last].map(|languages| check_all(&languages, &flags));
    if have_passed == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks the languages, as many at a time as there are processors, and prints each outcome.
/// Returns whether all have passed.
fn check_all(languages: &[&Language], flags: &[String]) -> bool {
    let is_required = std::env::var_os("TERRACE_REQUIRE_BINDINGS").is_some_and(|value| value == "1");
    let next = AtomicUsize::new(0);
    let is_failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(language) = languages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = language
                        .check(flags)
                        .unwrap_or_else(|error| Outcome::NotTested { reason: error.to_string() });
                    outcome.print(language.name);
                    if outcome.is_failure(is_required) {
                        is_failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    !is_failed.into_inner()
}

impl Outcome {
    fn is_failure(&self, is_required: bool) -> bool {
        match self {
            Outcome::Passed { .. } => false,
            Outcome::NotTested { .. } => is_required,
            Outcome::Failed { .. } => true,
        }
    }

    fn print(&self, name: &str) {
        match self {
            Outcome::Passed { counts, seconds } => println!("{name:<7} {counts}   {seconds} s"),
            Outcome::NotTested { reason } => println!("{name:<7} NOT TESTED: {reason}"),
            Outcome::Failed { log } => {
                print!("{}", fs::read_to_string(log).unwrap_or_default());
                println!("{name:<7} FAILED, see {}", log.display());
            }
        }
    }
}

impl Language {
    fn check(&self, flags: &[String]) -> io::Result<Outcome> {
        if let Some(tool) = self.tools.iter().find(|tool| !is_program(tool)) {
            return Ok(Outcome::NotTested { reason: format!("no {tool} (make setup)") });
        }
        let directory = target().join("bindings");
        fs::create_dir_all(&directory)?;
        let log = directory.join(format!("{}.log", self.name));
        let small_disk = SmallDisk::mount(directory.join(format!("{}-disk", self.name)))?;
        let start = Instant::now();
        let mut script = Command::new(root().join("bindings").join(self.name).join("check"));
        script.args(flags);
        script.env("CARGO_TARGET_DIR", target());
        script.env("TERRACE_CONFORMANCE", root().join("bindings/conformance"));
        script.envs(small_disk.as_ref().map(|disk| ("TERRACE_SMALL_DISK", &disk.0)));
        let output = File::create(&log)?;
        let status = script.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output).status()?;
        let text = fs::read_to_string(&log)?;
        let untested: Vec<&str> = text.lines().filter(|line| line.starts_with("NOT TESTED")).collect();
        untested.iter().for_each(|line| println!("{:<7} {line}", self.name));
        let last = text.lines().last().unwrap_or_default().to_owned();
        Ok(match status.code() {
            Some(0) => Outcome::Passed { counts: last, seconds: start.elapsed().as_secs() },
            Some(NOT_TESTED) => Outcome::NotTested { reason: last },
            _ => Outcome::Failed { log },
        })
    }
}

/// Target directory of Cargo, as an absolute path.
pub(crate) fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(chosen)
}

/// Returns whether a directory of `PATH` has the program.
pub(crate) fn is_program(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|directory| directory.join(name).is_file())
}

/// File system of 16 MiB, for cases that fill a disk or make it read-only.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns None without the right to mount: the cases that need it print NOT TESTED.
    fn mount(point: PathBuf) -> io::Result<Option<SmallDisk>> {
        fs::create_dir_all(&point)?;
        let is_mounted = succeeds("mount", &["-t", "tmpfs", "-o", SMALL_DISK_SIZE, "tmpfs"], &point);
        Ok(is_mounted.then_some(SmallDisk(point)))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        succeeds("umount", &["--lazy"], &self.0);
    }
}

fn succeeds(program: &str, arguments: &[&str], path: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
