//! Followers beside a writer in another process that is killed, stopped, closed and opened again.
//!
//! ```text
//!   writer process   write n, ledger := n     Terrace, LevelDB or goleveldb; a kill or a close
//!   followers        a := ledger, catch up, read everything: the state after some write >= a
//! ```
//!
//! Each state that a follower shows is compared, entry by entry, with the state after the write
//! that its count names. It is never earlier than an earlier one, and a caught-up state is not
//! earlier than the ledger. Snapshots are read again later, after flushes and compactions.
//!
//! Followers also take checkpoints. A copy, opened for writes or followed, shows the state of its
//! follower or a later one.
//!
//! In half of the cases, the writer also ingests, loads and deletes ranges, which leaves no trace
//! in a WAL. Between two writers, the database may be replaced: followers of the old one then
//! return [`Error::Replaced`].

pub(crate) mod followed_writer;
mod goleveldb_writer;
mod replacement;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{Db, Env, Error, FollowOptions, Options, Snapshot};
use terrace_testkit::rng::Rng;
use terrace_testkit::stock_leveldb::StockLevelDb;

use self::replacement::{DatabaseCount, Replacement, SavedDatabase, copy_files, damage_manifest};
use super::Harness;
use super::process_kill::ledger::Ledger;
use super::process_kill::writer_process::WriterProcess;
use super::readers::go_program;
use crate::counters::{Counter, Counters};
use crate::database_under_test::options_from_settings;
use crate::followed_history::ExpectedState;

pub(super) const FOLLOWERS: Harness = Harness {
    id: 53,
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

/// Number of states from one checkpoint of a follower to the next.
const CHECKPOINT_PERIOD: u64 = 32;

/// Maximum age of the states of each follower, in milliseconds.
static AGES_MS: &[u64] = &[0, 1, 10];

/// Case of the attack: a database, and the kinds of its operations.
struct Case {
    database: PathBuf,
    ledger_path: PathBuf,
    ledger: Ledger,
    write_buffer_size: usize,
    has_bulk_operations: bool,
    has_checkpoints: bool,
    has_goleveldb: bool,
    databases: DatabaseCount,
    should_stop: AtomicBool,
}

/// Running writer.
struct Writer {
    process: WriterProcess,
    /// False if a kill would leave the process of goleveldb.
    can_be_killed: bool,
    is_terrace: bool,
}

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ledger_path = dir.path().join("ledger");
    let case = Case {
        database: dir.path().join("db"),
        ledger: Ledger::create(&ledger_path, &[0])?,
        ledger_path,
        write_buffer_size: rng.pick(&[64 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]),
        has_bulk_operations: rng.one_in(2),
        has_checkpoints: rng.one_in(3),
        has_goleveldb: rng.one_in(3),
        databases: DatabaseCount::default(),
        should_stop: AtomicBool::new(false),
    };
    // The followers open the database of the first writer, before that may end.
    let first = case.start_writer(&mut rng, false)?;
    case.wait_for_writes_after(0)?;
    let checks = AGES_MS.iter().map(|age| FollowerCheck::open(&case, Duration::from_millis(*age)));
    let checks: Vec<FollowerCheck<'_>> = checks.collect::<Result<_, _>>()?;
    std::thread::scope(|scope| {
        let followers: Vec<_> = checks
            .into_iter()
            .map(|check| {
                scope.spawn(move || {
                    let age = check.every.as_millis();
                    let checked = check.run(counters);
                    checked.map_err(|error| format!("follower with states of {age} ms: {error}"))
                })
            })
            .collect();
        let outcome = case.run_writers(first, &mut rng, counters);
        // The last states are checked without a writer, too.
        std::thread::sleep(Duration::from_millis(20));
        case.should_stop.store(true, Ordering::Relaxed);
        let mut results = vec![outcome];
        for follower in followers {
            results.push(follower.join().unwrap_or_else(|_| Err("a follower panicked".into())));
        }
        // All errors: a fault of the writer shows in each follower.
        let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    })
}

impl Case {
    fn options(&self) -> Options {
        options_from_settings(&followed_writer::settings(64 << 10), &Env::system())
    }

    fn empty_state(&self) -> ExpectedState {
        let state = match self.has_bulk_operations {
            true => ExpectedState::with_bulk_operations(),
            false => ExpectedState::default(),
        };
        if self.has_goleveldb { state.with_skipped_sequences() } else { state }
    }

    /// Starts a writer. goleveldb skips records of a log below the last sequence number of the
    /// MANIFEST. LevelDB and killed processes leave such records, so goleveldb may only follow a
    /// Terrace that closed its database.
    fn start_writer(&self, rng: &mut Rng, can_be_goleveldb: bool) -> Result<Writer, String> {
        let size = self.write_buffer_size.to_string();
        let mut arguments: Vec<OsString> = vec!["followed-writer".into()];
        arguments.extend([self.database.clone().into(), self.ledger_path.clone().into(), size.into()]);
        let mut can_be_killed = true;
        let mut is_terrace = false;
        match rng.below(4) {
            0 if StockLevelDb::load().is_ok() => arguments.push("--by-leveldb".into()),
            1 if can_be_goleveldb
                && self.has_goleveldb
                && let Ok(program) = go_program::built_program() =>
            {
                arguments.extend(["--by-goleveldb".into(), program.into()]);
                can_be_killed = false;
                if rng.one_in(2) {
                    arguments.push("--ends-by-kill".into());
                }
            }
            _ => is_terrace = true,
        }
        if self.has_bulk_operations {
            arguments.push("--has-bulk-operations".into());
        }
        if self.has_checkpoints {
            arguments.push("--has-checkpoints".into());
        }
        if !is_terrace {
            self.databases.forget_marks();
        }
        let stderr_path = self.ledger_path.with_extension("stderr");
        let process = WriterProcess::start(arguments.iter().map(OsString::as_os_str), stderr_path)?;
        Ok(Writer { process, can_be_killed, is_terrace })
    }

    fn wait_for_writes_after(&self, last_write: u64) -> Result<(), String> {
        let started = Instant::now();
        while self.ledger.read()?[0] < last_write + 10 {
            if started.elapsed() > Duration::from_secs(20) {
                return Err("the writer does not write".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets writers run one after the other.
    fn run_writers(&self, first: Writer, rng: &mut Rng, counters: &Counters) -> Result<(), String> {
        let mut writer = first;
        let mut saved: Option<SavedDatabase> = None;
        for number in 1..=WRITERS {
            std::thread::sleep(Duration::from_millis(30 + rng.below(250)));
            if rng.one_in(2) {
                writer.process.suspend()?;
                std::thread::sleep(Duration::from_millis(rng.below(30)));
                writer.process.resume()?;
                std::thread::sleep(Duration::from_millis(rng.below(30)));
            }
            let is_terrace = writer.is_terrace;
            let is_closed = end_writer(writer, rng, counters)?;
            if number == WRITERS {
                break;
            }
            if is_closed && saved.is_none() && rng.one_in(2) {
                saved = Some(self.save()?);
            }
            writer = match is_closed && rng.one_in(2) {
                true => self.replace(rng, saved.as_ref())?,
                false => self.start_writer(rng, is_closed && is_terrace)?,
            };
        }
        Ok(())
    }

    /// Copies the closed database.
    fn save(&self) -> Result<SavedDatabase, String> {
        let directory = self.database.with_extension("saved");
        copy_files(&self.database, &directory).map_err(|error| error.to_string())?;
        Ok(SavedDatabase { directory, last_write: self.ledger.read()?[0] })
    }

    /// Replaces the closed database, and starts the next writer.
    fn replace(&self, rng: &mut Rng, saved: Option<&SavedDatabase>) -> Result<Writer, String> {
        let replacement = Replacement::draw(rng, saved.is_some());
        self.databases.begin_replacement();
        if replacement == Replacement::Repair {
            self.databases.count_repair();
            damage_manifest(&self.database, rng)?;
        }
        if let Some(last_write) = replacement.execute(&self.database, saved, &self.options())? {
            self.ledger.record(0, last_write)?;
        }
        let last_write = self.ledger.read()?[0];
        let writer = self.start_writer(rng, false)?;
        self.wait_for_writes_after(last_write)?;
        self.databases.end_replacement(replacement);
        if !writer.is_terrace {
            self.databases.forget_marks();
        }
        Ok(writer)
    }
}

/// Kills the writer, or lets it close the database. Returns true if it was closed.
fn end_writer(mut writer: Writer, rng: &mut Rng, counters: &Counters) -> Result<bool, String> {
    if rng.one_in(2) && writer.can_be_killed {
        writer.process.kill()?;
        counters.add(Counter::ProcessKills, 1);
        return Ok(false);
    }
    writer.process.close_input();
    match writer.process.wait(Duration::from_secs(20))? {
        Some(status) if status.success() => Ok(writer.can_be_killed),
        ended => Err(format!("the writer ended with {ended:?}: {}", writer.process.output())),
    }
}

/// Removes a copy, if there is one.
fn remove_copy(path: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Follower whose states are checked.
struct FollowerCheck<'a> {
    case: &'a Case,
    every: Duration,
    db: Db,
    /// Count of the databases at its open.
    opened: u64,
    state: ExpectedState,
    held: Vec<(Snapshot, ExpectedState)>,
}

impl FollowerCheck<'_> {
    fn open(case: &Case, every: Duration) -> Result<FollowerCheck<'_>, String> {
        let follow = FollowOptions::default().every(every);
        let db = Db::follow(&case.database, &case.options(), &follow).map_err(|error| error.to_string())?;
        Ok(FollowerCheck { case, every, db, opened: 0, state: case.empty_state(), held: Vec::new() })
    }

    /// Reads until the end of the case, and checks each state.
    fn run(mut self, counters: &Counters) -> Result<(), String> {
        for round in 0u64.. {
            if self.case.should_stop.load(Ordering::Relaxed) {
                break;
            }
            match self.case.databases.current() {
                Some(current) => self.check_state_in(current, round, counters)?,
                None => {
                    // Any error is possible, but no state that never was.
                    let _ = self.db.catch_up();
                    self.state.accept_repairs(self.case.databases.repairs());
                    self.state.check_next(&self.db.snapshot())?;
                }
            }
            for (snapshot, state) in &self.held {
                let checked = state.check(snapshot).and_then(|_| state.check_gets(snapshot));
                checked.map_err(|error| format!("held snapshot: {error}"))?;
            }
        }
        Ok(())
    }

    /// Checks the next state. `current` is the count of the databases.
    fn check_state_in(&mut self, current: u64, round: u64, counters: &Counters) -> Result<(), String> {
        let case = self.case;
        let acknowledged = case.ledger.read()?[0];
        let must_be_replaced = case.databases.is_surely_replaced(self.opened);
        let should_catch_up = self.every.is_zero() || round.is_multiple_of(2) || current != self.opened;
        match should_catch_up.then(|| self.db.catch_up()) {
            _ if case.databases.current() != Some(current) => return Ok(()),
            Some(Err(Error::Replaced { .. })) if current != self.opened => {
                counters.add(Counter::ReplacedDatabases, 1);
                return self.reopen(current);
            }
            Some(Err(error)) => return Err(format!("database {current}, opened {}: {error}", self.opened)),
            Some(Ok(_)) if must_be_replaced && case.databases.is_surely_replaced(self.opened) => {
                return Err(format!("the replacement of database {} was not noticed", self.opened));
            }
            Some(Ok(_)) | None => {}
        }
        let snapshot = self.db.snapshot();
        let before = self.state.write();
        self.state.accept_repairs(case.databases.repairs());
        let checked = self.state.check_next(&snapshot);
        let entries =
            checked.map_err(|error| format!("database {current}, opened {}: {error}", self.opened))?;
        let is_caught_up = should_catch_up && case.databases.current() == Some(current);
        if is_caught_up && self.state.write() < acknowledged {
            let write = self.state.write();
            return Err(format!("write {write}, expected at least {acknowledged} (before {before})"));
        }
        let gets = self.state.check_gets(&snapshot)?;
        counters.add(Counter::FollowedStates, 1);
        counters.add(Counter::FollowedReads, entries + gets);
        if round.is_multiple_of(8) {
            if self.held.len() == HELD_SNAPSHOTS {
                self.held.remove((round / 8) as usize % HELD_SNAPSHOTS);
            }
            self.held.push((snapshot, self.state.clone()));
        }
        if round % CHECKPOINT_PERIOD == 1 {
            self.check_checkpoint(current, counters)?;
        }
        if round % 64 == 63 {
            // A new follower never shows an earlier state than the old one.
            self.reopen(current)?;
        }
        Ok(())
    }

    /// Checks a copy of the present state, as another follower and as a program that opens it.
    fn check_checkpoint(&self, current: u64, counters: &Counters) -> Result<(), String> {
        let age = self.every.as_millis();
        let path = self.case.database.with_extension(format!("copy-{age}"));
        // Later writes that the follower reads meanwhile do not belong to the copy.
        let created = self.db.checkpoint_with_progress(&path, |_, _| drop(self.db.catch_up()));
        if self.case.databases.current() != Some(current) {
            // Any error is possible while the database is replaced.
            return remove_copy(&path);
        }
        created.map_err(|error| format!("checkpoint: {error}"))?;
        let options = self.case.options();
        let follow = FollowOptions::default();
        let mut states = Vec::new();
        let opens: [&dyn Fn() -> terrace::Result<Db>; 2] =
            [&|| Db::follow(&path, &options, &follow), &|| Db::open(&path, &options)];
        for open in opens {
            let copy = open().map_err(|error| format!("copy: {error}"))?;
            let mut state = self.state.clone();
            state.accept_repairs(self.case.databases.repairs());
            state.check_next(&copy.snapshot()).map_err(|error| format!("copy: {error}"))?;
            states.push(state.write());
        }
        counters.add(Counter::FollowedStates, 1);
        remove_copy(&path)?;
        match states.windows(2).all(|pair| pair[0] == pair[1]) {
            true => Ok(()),
            false => Err(format!("writes {states:?} in one copy, by a follower and by an open")),
        }
    }

    /// Opens the follower again. It may be one of another database.
    fn reopen(&mut self, current: u64) -> Result<(), String> {
        let opened = FollowerCheck::open(self.case, self.every);
        if self.case.databases.current() != Some(current) {
            return Ok(());
        }
        self.held.clear();
        self.db = opened?.db;
        if self.opened != current {
            self.opened = current;
            self.state = self.case.empty_state();
        }
        Ok(())
    }
}
