//! `terrace bench` that a signal ends.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "waits for another process, and reads its file")]

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cli_test::{CliTest, ProgramResult};

/// Starts `line`, and sends it `signal` as soon as `ready` returns true.
#[track_caller]
fn interrupt(trial: &CliTest, line: &str, signal: Signal, ready: impl Fn() -> bool) -> ProgramResult {
    let child = trial.start(line);
    let waited = (0..6000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        ready()
    });
    kill_process(Pid::from_child(&child), signal).expect("the process runs");
    let ended = CliTest::wait(child);
    assert!(waited, "the process never became ready: {ended:?}");
    ended
}

/// Regression: after Ctrl-C, the directory for temporary files kept gigabytes of measured
/// databases.
#[test]
fn interrupted_bench_removes_its_databases() {
    for (signal, code, name) in
        [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM"), (Signal::HUP, 129, "SIGHUP")]
    {
        let trial = CliTest::new();
        // An hour, in the first phase of the first round.
        let line = "bench fillrandom --sync --num 1000000000 --seconds 3600 --engines terrace --dir new";
        let ended = interrupt(&trial, line, signal, || trial.path("new/terrace-0/CURRENT").exists());
        ended.assert_error(code, &format!("interrupted by {name}; its databases are removed"));
        assert!(trial.list("").is_empty(), "{:?}", trial.list(""));
    }
}

#[test]
fn interrupted_bench_keeps_results_and_other_files() {
    let trial = CliTest::with_entries("a\t1\n");
    let line = "bench fillseq --num 500 --engines terrace --rounds 1000 --dir . --json r.json";
    let saved =
        || String::from_utf8_lossy(&std::fs::read(trial.path("r.json")).unwrap_or_default()).into_owned();
    let ended = interrupt(&trial, line, Signal::INT, || saved().contains("\"round\":2,"));
    ended.assert_contains(
        130,
        &["fillseq\n  terrace  median ", "interrupted by SIGINT; its databases are removed, and the results"],
    );
    assert_eq!(trial.list(""), ["db", "r.json"]);
    trial.run("dump db").assert_output(0, "a\t1\n");
    assert!(!saved().contains("died"), "the interrupted phase is reported as a failure: {}", saved());
}

/// Regression: the measuring process continued until the end of its phase.
#[cfg(target_os = "linux")]
#[test]
fn killed_bench_ends_its_child() {
    let trial = CliTest::new();
    let line = "bench fillrandom --sync --num 1000000000 --seconds 3600 --engines terrace --dir new";
    let mut child = trial.start(line);
    let wait_until = |done: &dyn Fn() -> bool| {
        (0..6000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            done()
        })
    };
    assert!(
        wait_until(&|| trial.run("stat new/terrace-0").err.contains("open in another process")),
        "the child did not open the database"
    );
    child.kill().expect("the process runs");
    child.wait().expect("the process is a child of this one");
    assert!(wait_until(&|| trial.run("stat new/terrace-0").code == 0), "no process has the database open");
}
