//! Two processes race for one database: at most one has it open.
//!
//! ```text
//!   each, in a loop:   open, or retry           fails while the other process has it open
//!                      open a second time       fails, and must not release the lock
//!                      counter += 1, n times    read, then write; recorded in the ledger
//!                      close
//! ```
//!
//! Each process is killed now and then. If both had the database open at once, one would overwrite
//! the count of the other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use terrace::{Db, Env, Options};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;

use super::ledger::Ledger;
use super::writer_process::WriterProcess;
use super::{Harness, MAX_WRITER_LIFETIME_MS};
use crate::counters::{Counter, Counters};

/// Number of kills in a case.
const KILLS_PER_CASE: u64 = 6;

const COUNTER_KEY: &[u8] = b"counter";

pub(in super::super) const CONCURRENT_OPEN: Harness = Harness {
    id: 33,
    name: "concurrent-open",
    property: "of two processes only one has the database open, even when one is killed",
    check_cases: 6,
    time_share: 1,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let database = dir.path().join("db");
    let ledger_path = dir.path().join("ledger");
    let ledger = Ledger::create(&ledger_path, &[0, 0])?;
    let start = |opener: usize| {
        let stderr_path = dir.path().join(format!("stderr{opener}"));
        let arguments = ["open".as_ref(), database.as_os_str(), ledger_path.as_os_str()];
        let number = opener.to_string();
        WriterProcess::start(arguments.into_iter().chain([number.as_ref()]), stderr_path)
    };
    let mut openers = vec![start(0)?, start(1)?];
    for _ in 0..KILLS_PER_CASE {
        std::thread::sleep(Duration::from_millis(1 + rng.below(MAX_WRITER_LIFETIME_MS)));
        let opener = rng.below(2) as usize;
        // The next process uses the same entry of the ledger and continues its count.
        openers.remove(opener).kill()?;
        openers.insert(opener, start(opener)?);
        counters.add(Counter::ProcessKills, 1);
    }
    openers.into_iter().try_for_each(WriterProcess::kill)?;
    let acknowledged = ledger.read()?.iter().sum::<u64>();
    let db = Db::open(&database, &open_options()).map_err(|error| error.to_string())?;
    let count = read_counter(&db)?;
    // Each killed process may have made one write that it did not record.
    let max_count = acknowledged + KILLS_PER_CASE + 2;
    if count < acknowledged || count > max_count {
        return Err(format!("{acknowledged} increments were acknowledged, but the counter is {count}"));
    }
    counters.add(Counter::AcknowledgedWrites, acknowledged);
    Ok(())
}

fn open_options() -> Options {
    crate::database_under_test::options_from_settings(&Settings::create(), &Env::system())
}

fn read_counter(db: &Db) -> Result<u64, String> {
    let value = db.get(COUNTER_KEY).map_err(|error| error.to_string())?;
    let bytes = value.unwrap_or_else(|| vec![0; 8]).try_into();
    bytes.map(u64::from_le_bytes).map_err(|bytes| format!("the counter is {bytes:?}, expected 8 bytes"))
}

/// Arguments of an opener process.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenerArgs {
    database: PathBuf,
    ledger: PathBuf,
    number: u64,
}

/// Opens, counts and closes until the process is killed, an error occurs, or the parent ends.
pub(crate) fn run_opener(opener: &OpenerArgs) -> ExitCode {
    super::writer::exit_with_parent();
    if let Err(error) = open_in_loop(opener) {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}

fn open_in_loop(opener: &OpenerArgs) -> Result<(), String> {
    let ledger = Ledger::open(&opener.ledger, 2)?;
    let mut acknowledged = ledger.read()?[opener.number as usize];
    let mut rng = Rng::new(opener.number);
    loop {
        let db = match Db::open(&opener.database, &open_options()) {
            Ok(db) => db,
            Err(error) if error.is_locked() => {
                std::thread::yield_now();
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        check_second_open_is_locked(&opener.database)?;
        for _ in 0..rng.skewed(200) {
            let count = read_counter(&db)? + 1;
            db.put(COUNTER_KEY, count.to_le_bytes()).map_err(|error| error.to_string())?;
            acknowledged += 1;
            ledger.record(opener.number, acknowledged)?;
        }
        db.close().map_err(|error| error.to_string())?;
    }
}

fn check_second_open_is_locked(database: &Path) -> Result<(), String> {
    match Db::open(database, &open_options()) {
        Err(error) if error.is_locked() => Ok(()),
        outcome => Err(format!("a second open in one process returned {outcome:?}")),
    }
}
