//! Two processes that race for one database: whoever has it is alone in it.
//!
//! ```text
//!   each, for ever:   open, or try again       refused while the other has it
//!                     open it once more        refused, and that must not cost it the lock
//!                     counter += 1, some times  read, then write; noted in the ledger
//!                     close
//! ```
//!
//! Each is killed now and then. Were both inside at once, one would overwrite what the other counted.

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

/// Kills in a case.
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
    let (mut rng, dir) = (Rng::new(seed), tempfile::tempdir().map_err(|error| error.to_string())?);
    let (database, notes) = (dir.path().join("db"), dir.path().join("ledger"));
    let ledger = Ledger::create(&notes, &[0, 0])?;
    let start = |opener: usize| {
        let words = dir.path().join(format!("words{opener}"));
        let arguments = ["open".as_ref(), database.as_os_str(), notes.as_os_str()];
        let number = opener.to_string();
        WriterProcess::start(arguments.into_iter().chain([number.as_ref()]), words)
    };
    let mut racing = vec![start(0)?, start(1)?];
    for _ in 0..KILLS_PER_CASE {
        std::thread::sleep(Duration::from_millis(1 + rng.below(MAX_WRITER_LIFETIME_MS)));
        let opener = rng.below(2) as usize;
        // Its place in the ledger is that of the next one, who begins with what stands there.
        racing.remove(opener).kill()?;
        racing.insert(opener, start(opener)?);
        counters.add(Counter::ProcessKills, 1);
    }
    racing.into_iter().try_for_each(WriterProcess::kill)?;
    let noted = ledger.read()?.iter().sum::<u64>();
    let db = Db::open(&database, &open_options()).map_err(|error| error.to_string())?;
    let counted = read_counter(&db)?;
    // Of each that was killed one write may have been made and not noted.
    let most = noted + KILLS_PER_CASE + 2;
    if counted < noted || counted > most {
        return Err(format!("{noted} additions were acknowledged, the counter says {counted}"));
    }
    counters.add(Counter::AcknowledgedWrites, noted);
    Ok(())
}

fn open_options() -> Options {
    crate::database_under_test::options_from_settings(&Settings::create(), &Env::system())
}

fn read_counter(db: &Db) -> Result<u64, String> {
    let value = db.get(COUNTER_KEY).map_err(|error| error.to_string())?;
    let bytes = value.unwrap_or_else(|| vec![0; 8]).try_into();
    bytes.map(u64::from_le_bytes).map_err(|bytes| format!("a counter of {bytes:?}"))
}

/// What to do in the process of an opener.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenerArgs {
    database: PathBuf,
    ledger: PathBuf,
    number: u64,
}

/// Opens, counts and closes until it is killed, or something goes wrong, or nobody watches any more.
pub(crate) fn run_opener(opener: &OpenerArgs) -> ExitCode {
    super::writer::exit_with_parent();
    if let Err(error) = open_in_loop(opener) {
        eprintln!("{error}");
    }
    ExitCode::FAILURE
}

fn open_in_loop(opener: &OpenerArgs) -> Result<(), String> {
    let ledger = Ledger::open(&opener.ledger, 2)?;
    let mut noted = ledger.read()?[opener.number as usize];
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
            db.put(COUNTER_KEY, &count.to_le_bytes()).map_err(|error| error.to_string())?;
            noted += 1;
            ledger.record(opener.number, noted)?;
        }
        db.close().map_err(|error| error.to_string())?;
    }
}

fn check_second_open_is_locked(database: &Path) -> Result<(), String> {
    match Db::open(database, &open_options()) {
        Err(error) if error.is_locked() => Ok(()),
        outcome => Err(format!("a second open in one process gave {outcome:?}")),
    }
}
