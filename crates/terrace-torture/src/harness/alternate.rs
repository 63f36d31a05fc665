//! Stock LevelDB, goleveldb and Terrace take turns on one directory, and none of them loses an
//! acknowledged write.
//!
//! ```text
//!   turn     open --> check the contents --> writes --> end
//!   engine     Terrace with mapped or appended logs, with or without reuse_logs
//!              LevelDB 1.23 with or without reuse_logs
//!              goleveldb
//!   fault      none; a limit on the size of files; a full disk; each for some of the writes. Half
//!              of the cases have them in most turns
//!   end        close; SIGKILL; SIGKILL during writes
//! ```
//!
//! An engine is a process of its own, so the page cache survives its end, and every acknowledged
//! write must be there in the next turn. A failed write may be there or not.
//!
//! LevelDB and goleveldb lose some writes without Terrace. [`known_losses`] lists the ways.

mod copies;
mod cxx_program;
mod engine;
mod engine_process;
mod history;
pub(super) mod interrupted_loads;
mod known_losses;
mod log_scan;
pub(crate) mod terrace_turn;
mod turn;

use std::path::PathBuf;
use std::sync::Once;

use tempfile::TempDir;
use terrace_testkit::rng::Rng;

use super::Harness;
use super::process_kill::small_disk::SmallDisk;
use crate::counters::{Counter, Counters};
use copies::DirectoryCopy;
use engine::{Engine, EngineSettings};
use engine_process::{Answer, EngineProcess};
use history::{Contents, History};
use known_losses::{Loss, WrongContents};
use log_scan::LogScan;
use turn::Turn;

/// Number of turns of a case.
const TURNS_PER_CASE: usize = 12;

/// One case of this number runs on a small disk, which can be full.
const SMALL_DISK_ONE_IN: u64 = 4;

/// Size of the small disk, in MiB.
const SMALL_DISK_MIB: u64 = 48;

pub(super) const ALTERNATE: Harness = Harness {
    id: 45,
    name: "alternate",
    property: "engines that take turns lose no acknowledged write, after kills and failed writes",
    check_cases: 40,
    time_share: 3,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    engine::report_missing_engines()?;
    let mut case = AlternateCase::new(seed, counters).map_err(|error| format!("setup failed: {error}"))?;
    for _ in 0..TURNS_PER_CASE {
        case.take_turn().map_err(|message| case.describe_failure(&message))?;
        if case.has_wrong_contents {
            break;
        }
    }
    Ok(())
}

/// Directory of the database, in a temporary directory or on a small disk.
enum Storage {
    Directory(TempDir),
    SmallDisk(SmallDisk),
}

/// One directory and its turns.
struct AlternateCase<'a> {
    rng: Rng,
    counters: &'a Counters,
    storage: Storage,
    /// True if most turns have a fault.
    has_many_faults: bool,
    history: History,
    turns: Vec<Turn>,
    /// Directory as it was before the current turn.
    copy: Option<DirectoryCopy>,
    /// Directory as it was after the last turn of Terrace, if another turn has ended since.
    left_by_terrace: Option<DirectoryCopy>,
    /// True if a known bug of goleveldb has changed the contents, or a later write can change them.
    /// The case ends then.
    has_wrong_contents: bool,
}

impl<'a> AlternateCase<'a> {
    fn new(seed: u64, counters: &'a Counters) -> std::io::Result<AlternateCase<'a>> {
        let mut rng = Rng::new(seed);
        let storage = match rng.one_in(SMALL_DISK_ONE_IN) {
            true => {
                mount_small_disk().map_or_else(|| temp_dir(&mut rng), |disk| Ok(Storage::SmallDisk(disk)))?
            }
            false => temp_dir(&mut rng)?,
        };
        Ok(AlternateCase {
            has_many_faults: rng.one_in(2),
            rng,
            counters,
            storage,
            history: History::default(),
            turns: Vec::new(),
            copy: None,
            left_by_terrace: None,
            has_wrong_contents: false,
        })
    }

    fn database_path(&self) -> PathBuf {
        match &self.storage {
            Storage::Directory(dir) => dir.path().join("db"),
            Storage::SmallDisk(disk) => disk.path().join("db"),
        }
    }

    /// Lets one engine open the database, checks the contents, writes, and ends the process.
    fn take_turn(&mut self) -> Result<(), String> {
        let settings = EngineSettings::draw(&mut self.rng, self.has_many_faults);
        let scan = LogScan::of(&self.database_path());
        self.turns.push(Turn::new(settings, scan.is_damaged));
        self.copy_directory()?;
        let (mut process, opened) = EngineProcess::open(&settings, &self.database_path())?;
        if opened != Answer::Ok {
            return Err(format!("the open failed: {opened:?}"));
        }
        let found = process.read_all().map_err(|answer| format!("the first read failed: {answer:?}"))?;
        self.check_after_open(&found, &scan)?;
        // The other engines give the sequence numbers of the hidden entries to new ones.
        self.has_wrong_contents |= scan.has_hidden_table && settings.engine != Engine::Terrace;
        self.counters.add(Counter::EngineTurns, 1);
        if self.has_wrong_contents {
            return Ok(());
        }
        let result = self.write_and_end(process);
        if let Storage::SmallDisk(disk) = &self.storage {
            disk.free_space();
        }
        result
    }

    /// Copies the directory before the current turn.
    fn copy_directory(&mut self) -> Result<(), String> {
        let ended = &self.turns[..self.turns.len() - 1];
        if let [.., before_last, _] = ended
            && before_last.settings.engine == Engine::Terrace
        {
            self.left_by_terrace = self.copy.take();
        }
        if !ended.is_empty() {
            self.copy = Some(DirectoryCopy::of(&self.database_path())?);
        }
        Ok(())
    }

    /// Checks the contents after the open of the current turn. Each lost batch needs an
    /// explanation.
    fn check_after_open(&mut self, found: &Contents, scan: &LogScan) -> Result<(), String> {
        let lost = match self.history.check_after_open(found) {
            Ok(lost) => lost,
            Err(difference) => {
                known_losses::explain_contents(&self.describe_wrong_contents(scan)?).ok_or(difference)?;
                self.counters.add(Counter::KnownLosses, 1);
                self.has_wrong_contents = true;
                return Ok(());
            }
        };
        let Some(copy) = self.copy.as_ref().filter(|_| !lost.is_empty()) else { return Ok(()) };
        let mut unexplained = Vec::new();
        for index in lost {
            let loss = self.describe_loss(index, scan, copy)?;
            match known_losses::explain(&loss) {
                Some(row) => {
                    let turn = self.turns.len() - 1;
                    self.turns[turn].events.push(format!("batch {index}: {}", row.name));
                    self.counters.add(Counter::KnownLosses, 1);
                }
                None => unexplained.push(format!("{}: {loss:?}", self.history.describe_batch(index))),
            }
        }
        if unexplained.is_empty() {
            return Ok(());
        }
        Err(format!("{} acknowledged batches are missing\n{}", unexplained.len(), unexplained.join("\n")))
    }

    /// Collects the circumstances of wrong contents that the current turn has found.
    fn describe_wrong_contents(&self, scan: &LogScan) -> Result<WrongContents, String> {
        let holders: Vec<Engine> = self.turns.iter().map(|turn| turn.settings.engine).collect();
        let (Some(copy), [.., last_holder, finder]) = (&self.copy, holders.as_slice()) else {
            return Err("the new database is not empty".into());
        };
        let by_leveldb = copy.read_with(Engine::LevelDb)?;
        Ok(WrongContents {
            finder: *finder,
            last_holder: *last_holder,
            leveldb_is_right: by_leveldb.is_some_and(|found| self.history.check_in_use(&found).is_ok()),
            has_record_after_torn_one: scan.has_record_after_torn_one,
            follows_failed_write: self.turns[holders.len() - 2].first_failed_batch.is_some(),
        })
    }

    /// Collects the circumstances of a loss that the current turn has found.
    fn describe_loss(&self, index: usize, scan: &LogScan, copy: &DirectoryCopy) -> Result<Loss, String> {
        let batch = &self.history.batches[index];
        let current = self.turns.len() - 1;
        let author_turn = &self.turns[batch.turn];
        let is_as_by_leveldb = batch.turn > 0 && self.turns[batch.turn - 1].may_tear_log();
        let finder = self.turns[current].settings.engine;
        let left_by_terrace = match self.turns[current - 1].settings.engine {
            Engine::Terrace => Some(copy),
            _ => self.left_by_terrace.as_ref(),
        };
        let intact = left_by_terrace.map_or(Ok(false), |copy| copy.shows(finder, batch))?;
        Ok(Loss {
            author: batch.author,
            holders: self.turns[batch.turn..current].iter().map(|turn| turn.settings.engine).collect(),
            finder,
            is_intact_after_terrace: intact,
            follows_failed_write: author_turn.first_failed_batch.is_some_and(|failed| failed < index),
            follows_damage: author_turn.is_log_damaged && is_as_by_leveldb,
            evidence: copy.evidence(batch, scan)?,
        })
    }

    /// Describes the turns, and keeps the directory as it was before the last one.
    fn describe_failure(&mut self, message: &str) -> String {
        let mut text = String::new();
        for (index, turn) in self.turns.iter().enumerate() {
            text.push_str(&format!("turn {index}: {turn}\n"));
        }
        let kept = self.copy.take().map(DirectoryCopy::keep);
        let kept = kept.map_or_else(String::new, |path| format!("\nbefore this turn: {}", path.display()));
        format!("{text}{message}{kept}")
    }
}

fn temp_dir(rng: &mut Rng) -> std::io::Result<Storage> {
    // Syncs are cheap in shared memory, so most cases run there.
    let shared_memory = std::path::Path::new("/dev/shm");
    let dir = if shared_memory.is_dir() && !rng.one_in(4) {
        tempfile::tempdir_in(shared_memory)
    } else {
        tempfile::tempdir()
    };
    dir.map(Storage::Directory)
}

/// Mounts a small disk, if this process may do so.
fn mount_small_disk() -> Option<SmallDisk> {
    static REPORT: Once = Once::new();
    let disk = SmallDisk::mount(SMALL_DISK_MIB);
    if disk.is_none() {
        REPORT
            .call_once(|| eprintln!("\nNOT TESTED: alternate: a full disk: this process may not mount one"));
    }
    disk
}
