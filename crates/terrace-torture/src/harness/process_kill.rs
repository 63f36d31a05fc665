//! Processes that are killed while they write: nothing that they had acknowledged may be missing.
//!
//! ```text
//!   this process                     a writer: this same program, for one database
//!     start it ------------------->    open, then in each thread for ever:
//!     wait 1 to 300 ms                   write, without sync or with
//!     perhaps stop and go on             note it in the ledger
//!     SIGKILL -------------------->
//!     read the ledger; open the database; compare; start the next one on the same database
//! ```
//!
//! A thread's writes follow from the seed alone (`work`), so that the number of the last one that was acknowledged says
//! what must be there: the state after that one or, as a whole, after the one that was under way.
//!
//! How fast a machine is decides where a kill strikes: a seed repeats the writes, not the moment.

pub(crate) mod concurrent_open;
mod ledger;
mod small_disk;
mod thread_writes;
pub(crate) mod writer;
mod writer_process;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use terrace::{Db, Options};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::{ComparatorKind, Settings};
use terrace_testkit::stock_leveldb::{StockLevelDb, stock_leveldb_or_skip};

use super::Harness;
use crate::counters::{Counters, Figure};
use ledger::Ledger;
use small_disk::SmallDisk;
use thread_writes::ExpectedState;
use writer::WriterJob;
use writer_process::WriterProcess;

/// Kills in a case, all of one database.
const KILLS_PER_CASE: u64 = 4;

/// The longest life of a writer, in milliseconds.
const MAX_WRITER_LIFETIME_MS: u64 = 300;

pub(super) const PROCESS_KILL: Harness = Harness {
    id: 30,
    name: "kills",
    property: "no acknowledged write is lost when its process is killed, synced or not, and no batch is there in part",
    check_cases: 12,
    time_share: 4,
    run: |seed, tally| run_case(seed, tally, KillScenario::Plain),
};

pub(super) const FAILED_SYNCS: Harness = Harness {
    id: 31,
    name: "failed-syncs",
    property: "the same, where syncs fail now and then and the database is opened again by its process",
    check_cases: 6,
    time_share: 2,
    run: |seed, tally| run_case(seed, tally, KillScenario::FailedSyncs),
};

pub(super) const FULL_DISK: Harness = Harness {
    id: 32,
    name: "full-disk",
    property: "the same, where the disk is full for a while; writes go on when there is space, without a new open",
    check_cases: 6,
    time_share: 2,
    run: |seed, tally| run_case(seed, tally, KillScenario::FullDisk),
};

pub(super) const LEVELDB_AFTER_CRASH: Harness = Harness {
    id: 41,
    name: "heirs",
    property: "what Terrace or stock LevelDB had acknowledged when it was killed, the other finds",
    check_cases: 6,
    time_share: 2,
    run: |seed, tally| {
        if stock_leveldb_or_skip().is_some() {
            run_case(seed, tally, KillScenario::AlternateWithLevelDb)
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

/// A database and what is known of it between two kills.
struct KillCase {
    seed: u64,
    scenario: KillScenario,
    rng: Rng,
    /// The ledger, and what a writer says.
    ledger_dir: TempDir,
    /// The database is in here.
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

fn run_case(seed: u64, tally: &Counters, kind: KillScenario) -> Result<(), String> {
    let mut case = KillCase::new(seed, kind).map_err(|error| format!("can't begin: {error}"))?;
    (0..KILLS_PER_CASE).try_for_each(|round| {
        case.kill_round(round, tally).map_err(|what| format!("{kind:?}, kill {round}: {what}"))
    })
}

impl KillCase {
    fn new(seed: u64, kind: KillScenario) -> std::io::Result<KillCase> {
        let mut rng = Rng::new(seed);
        let place = match kind {
            // Without the right to mount, calls fail as on a full disk instead.
            KillScenario::FullDisk => match SmallDisk::mount(4 + rng.below(12)) {
                Some(disk) => Storage::SmallDisk(disk),
                None => Storage::Directory(temp_dir(&mut rng)?),
            },
            _ => Storage::Directory(temp_dir(&mut rng)?),
        };
        // The stock library's database is one thread's here.
        let threads = if kind == KillScenario::AlternateWithLevelDb { 1 } else { 1 + rng.below(4) };
        let tracks = (0..threads).map(|thread| ExpectedState::new(seed, thread)).collect();
        Ok(KillCase {
            seed,
            scenario: kind,
            rng,
            ledger_dir: tempfile::tempdir()?,
            storage: place,
            expected: tracks,
        })
    }

    /// One life of a writer, and a look at what it left.
    fn kill_round(&mut self, round: u64, tally: &Counters) -> Result<(), String> {
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
        let more = acknowledged.iter().sum::<u64>() - self.acknowledged().iter().sum::<u64>();
        self.check_contents(round, &acknowledged)?;
        tally.add(Figure::Kills, 1);
        tally.add(Figure::Acknowledged, more);
        Ok(())
    }

    fn start_writer(&mut self, round: u64) -> Result<WriterProcess, String> {
        let job = serde_json::to_string(&self.writer_job(round)).map_err(|error| error.to_string())?;
        let (ledger, words) = (self.ledger_dir.path().join("ledger"), self.ledger_dir.path().join("words"));
        WriterProcess::start(["write".as_ref(), job.as_ref(), ledger.as_os_str()], words)
    }

    /// Lets the writer live for a while. Now and then it is stopped in between.
    fn let_writer_run(&mut self, writer: &WriterProcess, ledger: &Ledger) -> Result<(), String> {
        let life = Duration::from_millis(1 + self.rng.below(MAX_WRITER_LIFETIME_MS));
        if self.rng.one_in(4) {
            std::thread::sleep(life / 2);
            writer.suspend()?;
            let opened = self.check_lock_while_suspended(ledger);
            writer.resume()?;
            opened?;
            std::thread::sleep(life / 2);
        } else {
            std::thread::sleep(life);
        }
        Ok(())
    }

    /// A process that is stopped has its database all the same.
    fn check_lock_while_suspended(&self, ledger: &Ledger) -> Result<(), String> {
        // One that has written nothing may not have opened it yet; one whose syncs fail closes it now and then.
        if self.scenario == KillScenario::FailedSyncs || ledger.read()? == self.acknowledged() {
            return Ok(());
        }
        match Db::open(self.storage.database_path(), &Options::default()) {
            Err(error) if error.is_locked() => Ok(()),
            outcome => Err(format!("opening a database that a stopped process has open gave {outcome:?}")),
        }
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.expected.iter().map(ExpectedState::batches_applied).collect()
    }

    fn writer_job(&mut self, round: u64) -> WriterJob {
        let (fail, ballast) = match (self.scenario, &self.storage) {
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
            fault_plan: fail,
            ballast,
            by_leveldb: self.is_leveldb_round(round),
            leveldb_compatible: self.scenario == KillScenario::AlternateWithLevelDb,
        }
    }

    fn is_leveldb_round(&self, round: u64) -> bool {
        self.scenario == KillScenario::AlternateWithLevelDb && (self.seed ^ round).is_multiple_of(2)
    }

    /// Other options each time.
    fn settings_seed(&self, round: u64) -> u64 {
        self.seed ^ round << 32
    }

    /// Reads what is left, and compares it with what must be there.
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
        for (track, &acknowledged) in self.expected.iter_mut().zip(acknowledged) {
            let end = rest.partition_point(|(key, _)| track.owns(key));
            let (own, others) = rest.split_at(end);
            track.advance_to_match(own, acknowledged)?;
            rest = others;
        }
        match rest.first() {
            Some((key, _)) => Err(format!("nobody wrote \"{}\"", key.escape_ascii())),
            None => Ok(()),
        }
    }

    fn read_with_terrace(&mut self, settings: &Settings) -> Result<Vec<Entry>, String> {
        let (database, options) =
            (self.storage.database_path(), writer::open_options(settings, terrace::Env::system()));
        // Read-only, so that the next writer finds what this one left.
        let read_only = self.rng.one_in(2) && database.join("CURRENT").exists();
        let open = if read_only { Db::open_read_only } else { Db::open };
        let seen = open(&database, &options).and_then(|db| {
            let entries = db.iter().into_forward().collect::<terrace::Result<Vec<_>>>()?;
            db.close().map(|()| entries)
        });
        seen.map_err(|error| error.to_string())
    }

    fn read_with_leveldb(&self, settings: &Settings) -> Result<Vec<Entry>, String> {
        let stock = StockLevelDb::load()?;
        // With paranoid checks it refuses a log in which a kill broke off a record of several blocks, where zeros follow:
        // in its own logs nothing follows.
        let settings = &Settings { paranoid_checks: false, ..settings.clone() };
        let seen = stock.open(&self.storage.database_path(), settings).and_then(|db| db.scan());
        seen.map_err(|error| error.text)
    }
}

fn temp_dir(rng: &mut Rng) -> std::io::Result<TempDir> {
    // Where syncs cost nothing there are more of them.
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() && rng.one_in(2) {
        tempfile::tempdir_in(shared_memory)
    } else {
        tempfile::tempdir()
    }
}

/// The options of a seed; for both engines those that both have.
fn draw_settings(seed: u64, for_both: bool) -> Settings {
    let draw = if for_both { Settings::draw } else { Settings::draw_with_terrace_features };
    draw(&mut Rng::new(seed), ComparatorKind::Bytewise)
}

/// A sync that fails, early or late.
fn draw_failed_sync_plan(rng: &mut Rng) -> String {
    let file = rng.pick(&["sync .log", "sync .log", "sync .log", "sync .ldb", "sync MANIFEST", "sync-dir *"]);
    let how = rng.pick(&["once EIO", "x3 EIO", "once sync-loses-data"]);
    let how = if file.starts_with("sync-dir") { "once EIO" } else { how };
    format!("{file} #{} {how}", 1 + rng.skewed(100))
}

/// A disk that is full for some calls.
fn draw_no_space_plan(rng: &mut Rng) -> String {
    let call = rng.pick(&["write-at .log", "create-log .log", "append .ldb", "create .ldb", "append MANIFEST"]);
    format!("{call} #{} x{} ENOSPC", 1 + rng.skewed(500), 1 + rng.below(20))
}
