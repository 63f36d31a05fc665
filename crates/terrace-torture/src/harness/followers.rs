//! Followers beside a writer in another process that is killed, stopped, closed and opened again.
//!
//! ```text
//!   writer process   write n, ledger := n     Terrace or stock LevelDB; ends by a kill or a close
//!   followers        a := ledger, catch up, read everything: the state after some write >= a
//! ```
//!
//! Each state that a follower shows is compared, entry by entry, with the state after the write
//! that its count names. It is never earlier than an earlier one, and a caught-up state is not
//! earlier than the ledger. Snapshots are read again later, after flushes and compactions.

pub(crate) mod followed_writer;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{Db, Env, FollowOptions, Snapshot};
use terrace_testkit::rng::Rng;
use terrace_testkit::stock_leveldb::StockLevelDb;

use super::Harness;
use super::process_kill::ledger::Ledger;
use super::process_kill::writer_process::WriterProcess;
use crate::counters::{Counter, Counters};
use crate::database_under_test::options_from_settings;
use crate::followed_history::ExpectedState;

pub(super) const FOLLOWERS: Harness = Harness {
    id: 48,
    name: "followers",
    property: "a follower shows states that the writer had, never goes back, and sees acknowledged writes",
    check_cases: 4,
    time_share: 2,
    run,
};

/// Number of writer processes in a case.
const WRITERS: u32 = 4;

/// Number of snapshots that a follower holds for later checks.
const HELD_SNAPSHOTS: usize = 3;

/// Maximum age of the states of each follower, in milliseconds.
static AGES_MS: &[u64] = &[0, 1, 10];

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let database = dir.path().join("db");
    let ledger_path = dir.path().join("ledger");
    let ledger = Ledger::create(&ledger_path, &[0])?;
    let size = rng.pick(&[64 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]);
    let should_stop = AtomicBool::new(false);
    // The followers open the database of the first writer.
    let first = start_writer(&mut rng, &database, &ledger_path, size)?;
    wait_for_writes(&ledger)?;
    std::thread::scope(|scope| {
        let followers: Vec<_> = AGES_MS
            .iter()
            .map(|age| {
                let database = &database;
                let ledger = &ledger;
                let should_stop = &should_stop;
                scope.spawn(move || {
                    let checked =
                        follow(database, ledger, Duration::from_millis(*age), should_stop, counters);
                    checked.map_err(|error| format!("follower with states of {age} ms: {error}"))
                })
            })
            .collect();
        let outcome = run_writers(first, &mut rng, &database, &ledger_path, size, counters);
        // The last states are checked without a writer, too.
        std::thread::sleep(Duration::from_millis(20));
        should_stop.store(true, Ordering::Relaxed);
        let mut results = vec![outcome];
        for follower in followers {
            results.push(follower.join().unwrap_or_else(|_| Err("a follower panicked".into())));
        }
        results.into_iter().collect()
    })
}

fn start_writer(rng: &mut Rng, database: &Path, ledger: &Path, size: usize) -> Result<WriterProcess, String> {
    let size = size.to_string();
    let mut arguments =
        vec![OsStr::new("followed-writer"), database.as_os_str(), ledger.as_os_str(), OsStr::new(&size)];
    if rng.one_in(3) && StockLevelDb::load().is_ok() {
        arguments.push(OsStr::new("--by-leveldb"));
    }
    WriterProcess::start(arguments, ledger.with_extension("stderr"))
}

fn wait_for_writes(ledger: &Ledger) -> Result<(), String> {
    let started = Instant::now();
    while ledger.read()?[0] < 10 {
        if started.elapsed() > Duration::from_secs(20) {
            return Err("the writer does not write".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Lets writers run one after the other.
fn run_writers(
    first: WriterProcess,
    rng: &mut Rng,
    database: &Path,
    ledger: &Path,
    size: usize,
    counters: &Counters,
) -> Result<(), String> {
    let mut next = Some(first);
    for _ in 0..WRITERS {
        let mut writer = match next.take() {
            Some(first) => first,
            None => start_writer(rng, database, ledger, size)?,
        };
        std::thread::sleep(Duration::from_millis(30 + rng.below(250)));
        if rng.one_in(2) {
            writer.suspend()?;
            std::thread::sleep(Duration::from_millis(rng.below(30)));
            writer.resume()?;
            std::thread::sleep(Duration::from_millis(rng.below(30)));
        }
        if rng.one_in(2) {
            writer.kill()?;
            counters.add(Counter::ProcessKills, 1);
            continue;
        }
        writer.close_input();
        match writer.wait(Duration::from_secs(20))? {
            Some(status) if status.success() => {}
            ended => return Err(format!("the writer ended with {ended:?}: {}", writer.output())),
        }
    }
    Ok(())
}

/// Reads until `should_stop`, and checks each state.
fn follow(
    database: &Path,
    ledger: &Ledger,
    every: Duration,
    should_stop: &AtomicBool,
    counters: &Counters,
) -> Result<(), String> {
    let describe = |error: terrace::Error| error.to_string();
    let options = options_from_settings(&followed_writer::settings(64 << 10), &Env::system());
    let open = || Db::follow(database, &options, &FollowOptions::default().every(every)).map_err(describe);
    let mut db = open()?;
    let mut state = ExpectedState::default();
    let mut held: Vec<(Snapshot, ExpectedState)> = Vec::new();
    for round in 0u64.. {
        if should_stop.load(Ordering::Relaxed) {
            break;
        }
        let acknowledged = ledger.read()?[0];
        if every.is_zero() || round.is_multiple_of(2) {
            db.catch_up().map_err(describe)?;
        }
        let snapshot = db.snapshot();
        let before = state.write();
        state.check_next(&snapshot)?;
        if (every.is_zero() || round.is_multiple_of(2)) && state.write() < acknowledged {
            return Err(format!(
                "write {}, expected at least {acknowledged} (before {before})",
                state.write()
            ));
        }
        state.check_gets(&snapshot)?;
        counters.add(Counter::FollowedStates, 1);
        for (snapshot, state) in &held {
            state.check(snapshot).map_err(|error| format!("held snapshot: {error}"))?;
            state.check_gets(snapshot).map_err(|error| format!("held snapshot: {error}"))?;
        }
        if round % 8 == 0 {
            if held.len() == HELD_SNAPSHOTS {
                held.remove((round / 8) as usize % HELD_SNAPSHOTS);
            }
            held.push((snapshot, state.clone()));
        }
        if round % 64 == 63 {
            // A new follower never shows an earlier state than the old one.
            held.clear();
            db = open()?;
        }
    }
    Ok(())
}
