//! Runs of the program that cannot start a thread, and runs on a terminal.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests create the files that the program reads, and fail if that fails"
)]

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::cli_test::copy_program;

/// A user without other processes. The limit on processes does not hold for root.
const USER: &str = "54321";

/// Directory with a copy of the program, for a user with a limited number of processes.
struct LimitedUser {
    dir: TempDir,
}

impl LimitedUser {
    fn new() -> LimitedUser {
        let dir = tempfile::tempdir().unwrap();
        copy_program(&dir.path().join("terrace"));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        LimitedUser { dir }
    }

    /// Runs a command line as the user, who may have one process with one thread.
    fn run(&self, line: &[&str]) -> Output {
        let mut words = vec!["prlimit", "--nproc=1", "--"];
        words.extend(line);
        if rustix::process::geteuid().is_root() {
            let user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"];
            words.splice(0..0, user);
        }
        Command::new(words[0]).args(&words[1..]).current_dir(self.dir.path()).output().unwrap()
    }

    fn terrace(&self, line: &str) -> Output {
        let program = self.dir.path().join("terrace");
        let words = std::iter::once(program.to_str().unwrap()).chain(line.split_whitespace());
        self.run(&words.collect::<Vec<_>>())
    }
}

fn not_tested(reason: &str) {
    assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "{reason}");
    // Not captured by the test harness.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {reason}");
}

/// Regression: `compact` and `repair` panicked when no thread could draw their spinner.
#[test]
fn no_command_needs_a_thread() {
    let user = LimitedUser::new();
    let probe = user.run(&["sh", "-c", "true"]);
    if !probe.status.success() {
        return not_tested(&format!("commands without threads: {}", String::from_utf8_lossy(&probe.stderr)));
    }
    let forked = user.run(&["sh", "-c", "(true) & wait $!"]);
    assert!(!forked.status.success(), "the limit has no effect: {forked:?}");
    let lines: String = (0..20_000).map(|i| format!("{i:05}\t{}\n", "some value ".repeat(20))).collect();
    fs::write(user.dir.path().join("lines.tsv"), lines).unwrap();
    for line in [
        "load db lines.tsv --create --write-buffer 64k",
        "compact db",
        "put db k v --sync",
        "delete db --from 1 --to 2",
        "verify db",
        "dump db",
        "stat db",
        "repair db",
        "compact db",
        "tour lines.tsv --dir tour",
    ] {
        let ended = user.terrace(line);
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && !error.contains("panicked"), "{line}: {}\n{error}", ended.status);
    }
    let counted = user.terrace("count db");
    assert_eq!(String::from_utf8_lossy(&counted.stdout), "10001\n");
}

/// Standard error of a program on a terminal, which `script` provides.
fn on_a_terminal(dir: &Path, line: &str) -> String {
    let command = format!("{} {line}", env!("CARGO_BIN_EXE_terrace"));
    let ended = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TERM", "xterm")
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// Regression: `compact` showed a spinner, not the completed share.
#[test]
fn progress_on_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        return not_tested("progress on a terminal: no program script");
    }
    let trial = crate::cli_test::CliTest::new();
    let lines: String = (0..60_000).map(|i| format!("{:05}\t{i:0400}\n", i * 7919 % 60_000)).collect();
    trial.file("lines.tsv", lines);
    trial.run("load db lines.tsv --create --write-buffer 1m --compression none").assert_contains(0, &[]);
    let dir = trial.path("");
    let shown = on_a_terminal(&dir, "compact db --max-file-size 1m");
    assert!(shown.contains("compacting") && shown.contains("%") && shown.contains(" -> "), "{shown:?}");
    assert!(on_a_terminal(&dir, "repair db").contains("repairing ..."));
}
