//! Processes that are killed while they write. No acknowledged write may be missing.
//!
//! ```text
//!   this process                     a writer: this same program, for one database
//!     start it ------------------->    open, then in each thread, in a loop:
//!     wait 1 to 300 ms                   write, with or without sync
//!     sometimes suspend and resume       record it in the ledger
//!     SIGKILL -------------------->
//!     read the ledger, open the database, compare, start the next writer on it
//! ```
//!
//! The seed determines the writes of each thread (`thread_writes`). So the number of the last
//! acknowledged write gives the expected contents: the state after that write, or after the
//! complete next one.
//!
//! The speed of the machine decides when a kill happens. A seed repeats the writes, not the time.

pub(crate) mod concurrent_open;
pub(in crate::harness) mod killed_database;
pub(in crate::harness) mod ledger;
pub(super) mod small_disk;
pub(in crate::harness) mod thread_writes;
pub(crate) mod writer;
pub(in crate::harness) mod writer_process;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use terrace::{Db, Options};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};
use terrace_testkit::stock_leveldb::{StockLevelDb, stock_leveldb_or_skip};

use super::Harness;
use crate::counters::{Counter, Counters};
use ledger::Ledger;
use small_disk::SmallDisk;
use thread_writes::ExpectedState;
use writer::WriterJob;
use writer_process::WriterProcess;

/// Number of kills in a case, all of one database.
const KILLS_PER_CASE: u64 = 4;

/// Maximum lifetime of a writer, in milliseconds.
const MAX_WRITER_LIFETIME_MS: u64 = 300;

pub(super) const PROCESS_KILL: Harness = Harness {
    id: 30,
    name: "process-kill",
    property: "no acknowledged write is lost to SIGKILL, and no batch is partial",
    check_cases: 12,
    time_share: 4,
    run: |seed, counters| run_case(seed, counters, KillScenario::Plain),
};

pub(super) const FAILED_SYNCS: Harness = Harness {
    id: 31,
    name: "failed-syncs",
    property: "as process-kill, while syncs fail and the process reopens the database",
    check_cases: 6,
    time_share: 2,
    run: |seed, counters| run_case(seed, counters, KillScenario::FailedSyncs),
};

pub(super) const FULL_DISK: Harness = Harness {
    id: 32,
    name: "full-disk",
    property: "as process-kill, while the disk is full; writes resume without a reopen",
    check_cases: 6,
    time_share: 2,
    run: |seed, counters| run_case(seed, counters, KillScenario::FullDisk),
};

pub(super) const LEVELDB_AFTER_CRASH: Harness = Harness {
    id: 41,
    name: "leveldb-after-crash",
    property: "the other engine finds every write acknowledged before a kill",
    check_cases: 6,
    time_share: 2,
    run: |seed, counters| {
        if stock_leveldb_or_skip().is_some() {
            run_case(seed, counters, KillScenario::AlternateWithLevelDb)
        } else {
            Ok(())
        }
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillScenario {
    Plain,
    FailedSyncs,
    FullDisk,
    /// Terrace and stock LevelDB in turns.
    AlternateWithLevelDb,
}

/// A database and its expected contents between two kills.
struct KillCase {
    seed: u64,
    scenario: KillScenario,
    rng: Rng,
    /// Directory of the ledger and of the writer's output.
    ledger_dir: TempDir,
    /// Directory of the database.
    storage: Storage,
    expected: Vec<ExpectedState>,
}

enum Storage {
    Directory(TempDir),
    SmallDisk(SmallDisk),
}

impl Storage {
    fn database_path(&self) -> PathBuf {
        match self {
            Storage::Directory(dir) => dir.path().join("db"),
            Storage::SmallDisk(disk) => disk.path().join("db"),
        }
    }
}

fn run_case(seed: u64, counters: &Counters, scenario: KillScenario) -> Result<(), String> {
    let mut case = KillCase::new(seed, scenario).map_err(|error| format!("setup failed: {error}"))?;
    for round in 0..KILLS_PER_CASE {
        case.kill_round(round, counters)
            .map_err(|message| format!("{scenario:?}, kill {round}: {message}"))?;
    }
    Ok(())
}

impl KillCase {
    fn new(seed: u64, scenario: KillScenario) -> std::io::Result<KillCase> {
        let mut rng = Rng::new(seed);
        let storage = match scenario {
            // Without permission to mount, calls fail as on a full disk instead.
            KillScenario::FullDisk => match SmallDisk::mount(4 + rng.below(12)) {
                Some(disk) => Storage::SmallDisk(disk),
                None => Storage::Directory(temp_dir(&mut rng)?),
            },
            _ => Storage::Directory(temp_dir(&mut rng)?),
        };
        // The binding of the stock library uses one thread.
        let threads = if scenario == KillScenario::AlternateWithLevelDb { 1 } else { 1 + rng.below(4) };
        let expected = (0..threads).map(|thread| ExpectedState::new(seed, thread)).collect();
        Ok(KillCase { seed, scenario, rng, ledger_dir: tempfile::tempdir()?, storage, expected })
    }

    /// Runs a writer, kills it, and checks the contents.
    fn kill_round(&mut self, round: u64, counters: &Counters) -> Result<(), String> {
        let ledger = Ledger::create(&self.ledger_dir.path().join("ledger"), &self.acknowledged())?;
        if let Storage::SmallDisk(disk) = &self.storage {
            disk.fill(self.rng.below(1 << 20))?;
        }
        let writer = self.start_writer(round)?;
        self.let_writer_run(&writer, &ledger)?;
        writer.kill()?;
        if let Storage::SmallDisk(disk) = &self.storage {
            disk.free_space();
        }
        let acknowledged = ledger.read()?;
        let new_writes = acknowledged.iter().sum::<u64>() - self.acknowledged().iter().sum::<u64>();
        self.check_contents(round, &acknowledged)?;
        counters.add(Counter::ProcessKills, 1);
        counters.add(Counter::AcknowledgedWrites, new_writes);
        Ok(())
    }

    fn start_writer(&mut self, round: u64) -> Result<WriterProcess, String> {
        let job = serde_json::to_string(&self.writer_job(round)).map_err(|error| error.to_string())?;
        let ledger = self.ledger_dir.path().join("ledger");
        let stderr_path = self.ledger_dir.path().join("stderr");
        WriterProcess::start(["write".as_ref(), job.as_ref(), ledger.as_os_str()], stderr_path)
    }

    /// Lets the writer run for a random time. Sometimes it is suspended in between.
    fn let_writer_run(&mut self, writer: &WriterProcess, ledger: &Ledger) -> Result<(), String> {
        let lifetime = Duration::from_millis(1 + self.rng.below(MAX_WRITER_LIFETIME_MS));
        if self.rng.one_in(4) {
            std::thread::sleep(lifetime / 2);
            writer.suspend()?;
            let lock_check = self.check_lock_while_suspended(ledger);
            writer.resume()?;
            lock_check?;
            std::thread::sleep(lifetime / 2);
        } else {
            std::thread::sleep(lifetime);
        }
        Ok(())
    }

    /// Checks that a suspended process still holds the lock of its database.
    fn check_lock_while_suspended(&self, ledger: &Ledger) -> Result<(), String> {
        // A writer that has written nothing may not have opened the database yet. A writer with
        // failed syncs closes it now and then.
        if self.scenario == KillScenario::FailedSyncs || ledger.read()? == self.acknowledged() {
            return Ok(());
        }
        match Db::open(self.storage.database_path(), &Options::default()) {
            Err(error) if error.is_locked() => Ok(()),
            outcome => {
                Err(format!("an open while a suspended process has the database open returned {outcome:?}"))
            }
        }
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.expected.iter().map(ExpectedState::batches_applied).collect()
    }

    fn writer_job(&mut self, round: u64) -> WriterJob {
        let (fault_plan, ballast) = match (self.scenario, &self.storage) {
            (KillScenario::FailedSyncs, _) => (Some(draw_failed_sync_plan(&mut self.rng)), None),
            (KillScenario::FullDisk, Storage::SmallDisk(disk)) => (None, Some(disk.ballast_path())),
            (KillScenario::FullDisk, _) => (Some(draw_no_space_plan(&mut self.rng)), None),
            _ => (None, None),
        };
        WriterJob {
            database: self.storage.database_path(),
            seed: self.seed,
            settings_seed: self.settings_seed(round),
            acknowledged: self.acknowledged(),
            sync_one_in: if self.scenario == KillScenario::FailedSyncs {
                5
            } else {
                self.rng.pick(&[20, 200, 2_000, u64::MAX])
            },
            fault_plan,
            ballast,
            by_leveldb: self.is_leveldb_round(round),
            leveldb_compatible: self.scenario == KillScenario::AlternateWithLevelDb,
        }
    }

    fn is_leveldb_round(&self, round: u64) -> bool {
        self.scenario == KillScenario::AlternateWithLevelDb && (self.seed ^ round).is_multiple_of(2)
    }

    /// Returns the seed of the options, which differ in each round.
    fn settings_seed(&self, round: u64) -> u64 {
        self.seed ^ round << 32
    }

    /// Reads the database and compares it with the expected contents.
    fn check_contents(&mut self, round: u64, acknowledged: &[u64]) -> Result<(), String> {
        let settings =
            draw_settings(self.settings_seed(round), self.scenario == KillScenario::AlternateWithLevelDb);
        let entries = match self.scenario {
            KillScenario::AlternateWithLevelDb if !self.is_leveldb_round(round) => {
                self.read_with_leveldb(&settings)
            }
            _ => self.read_with_terrace(&settings),
        };
        let entries = entries.map_err(|error| format!("after the kill: {error}"))?;
        let mut rest = entries.as_slice();
        for (expected, &acknowledged) in self.expected.iter_mut().zip(acknowledged) {
            let end = rest.partition_point(|(key, _)| expected.owns(key));
            let (own, others) = rest.split_at(end);
            expected.advance_to_match(own, acknowledged)?;
            rest = others;
        }
        match rest.first() {
            Some((key, _)) => Err(format!("found \"{}\", which was never written", key.escape_ascii())),
            None => Ok(()),
        }
    }

    fn read_with_terrace(&mut self, settings: &Settings) -> Result<Vec<Entry>, String> {
        let database = self.storage.database_path();
        let options = writer::open_options(settings, terrace::Env::system());
        // A read-only open leaves the files of this writer to the next one.
        let read_only = self.rng.one_in(2) && database.join("CURRENT").exists();
        let open = if read_only { Db::open_read_only } else { Db::open };
        let entries = open(&database, &options).and_then(|db| {
            let entries = db.iter().collect::<terrace::Result<Vec<_>>>()?;
            db.close().map(|()| entries)
        });
        entries.map_err(|error| error.to_string())
    }

    fn read_with_leveldb(&self, settings: &Settings) -> Result<Vec<Entry>, String> {
        let stock = StockLevelDb::load()?;
        // With paranoid checks LevelDB rejects a log with preallocated zeros after an incomplete
        // record of several fragments. A kill between two headers leaves it, which is unlikely.
        let settings = &Settings { paranoid_checks: false, ..settings.clone() };
        let entries = stock.open(&self.storage.database_path(), settings).and_then(|db| db.scan());
        entries.map_err(|error| error.text)
    }
}

fn temp_dir(rng: &mut Rng) -> std::io::Result<TempDir> {
    // Syncs are cheap there, so a case has more of them.
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() && rng.one_in(2) {
        tempfile::tempdir_in(shared_memory)
    } else {
        tempfile::tempdir()
    }
}

/// Draws the options of a seed. `leveldb_compatible` limits them to options of both engines.
fn draw_settings(seed: u64, leveldb_compatible: bool) -> Settings {
    let draw = if leveldb_compatible { Settings::draw } else { Settings::draw_with_terrace_features };
    draw(&mut Rng::new(seed), ComparatorKind::Bytewise)
}

/// Draws a plan in which a sync fails, early or late.
fn draw_failed_sync_plan(rng: &mut Rng) -> String {
    let file = rng.pick(&["sync .log", "sync .log", "sync .log", "sync .ldb", "sync MANIFEST", "sync-dir *"]);
    let error = rng.pick(&["once EIO", "x3 EIO", "once sync-loses-data"]);
    let error = if file.starts_with("sync-dir") { "once EIO" } else { error };
    format!("{file} #{} {error}", 1 + rng.skewed(100))
}

/// Draws a plan in which the disk is full for some calls.
fn draw_no_space_plan(rng: &mut Rng) -> String {
    let call =
        rng.pick(&["write-at .log", "create-log .log", "append .ldb", "create .ldb", "append MANIFEST"]);
    format!("{call} #{} x{} ENOSPC", 1 + rng.skewed(500), 1 + rng.below(20))
}
