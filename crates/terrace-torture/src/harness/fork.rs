//! A process forks while its threads use a database.
//!
//! ```text
//!   fork     4 writers, 2 readers   main thread: fork, wait      child: read, own database, exit
//!   daemon   4 writers with ledger  main thread: fork, _exit     child: write, check the ledger
//! ```
//!
//! In `fork`, the parent lives: each child reads through the database of its parent, and opens,
//! fills and flushes one of its own. A process that hangs is killed and reported. In `daemon`, the
//! parent exits right after the fork, as `daemon` of the C library does: the child must adopt the
//! database with all writes that the parent acknowledged, also between the fork and its exit. Every
//! second case of `daemon` runs without locks of open file descriptions. Ordinary record locks take
//! their place, which a child does not inherit.

pub(crate) mod forker;

use std::io::Read;
use std::process::Stdio;
use std::sync::Once;

use terrace_testkit::emulator;

use super::Harness;
use crate::counters::{Counter, Counters};
use forker::ForkMode;

/// Number of forks in a case of `fork`.
const FORKS_PER_CASE: u32 = 50;

pub(super) const FORK: Harness = Harness {
    id: 37,
    name: "fork",
    property: "a forked child hangs neither in its parent's database nor in one of its own",
    check_cases: 2,
    time_share: 1,
    run: run_forks,
};

pub(super) const DAEMON: Harness = Harness {
    id: 38,
    name: "daemon",
    property: "a forked child continues with the database of a parent that has exited",
    check_cases: 20,
    time_share: 1,
    run: run_daemon,
};

fn run_forks(seed: u64, counters: &Counters) -> Result<(), String> {
    run(seed, ForkMode::Children { forks: FORKS_PER_CASE })?;
    counters.add(Counter::Forks, u64::from(FORKS_PER_CASE));
    Ok(())
}

fn run_daemon(seed: u64, counters: &Counters) -> Result<(), String> {
    run(seed, ForkMode::Daemon { without_ofd_locks: seed % 2 == 1 })?;
    counters.add(Counter::Forks, 1);
    Ok(())
}

/// Runs the forking process and waits until it and its children have closed their output.
fn run(seed: u64, mode: ForkMode) -> Result<(), String> {
    let describe = |error: std::io::Error| format!("the forking process did not start: {error}");
    let dir = tempfile::tempdir().map_err(describe)?;
    let mut child = emulator::command(std::env::current_exe().map_err(describe)?)
        .arg("fork")
        .arg(dir.path())
        .arg(seed.to_string())
        .args(mode.to_arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(describe)?;
    let mut output = String::new();
    let read = child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut output));
    let status = child.wait().map_err(describe)?;
    match read {
        Some(Ok(_)) if output.trim_end() == forker::SUCCESS => Ok(()),
        Some(Ok(_)) if output.starts_with(forker::NOT_TESTED) => {
            static WARN: Once = Once::new();
            WARN.call_once(|| eprintln!("{}", output.trim_end()));
            Ok(())
        }
        _ => Err(format!("the forking process ended with {status}: {output}")),
    }
}
