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

mod ledger;
pub(crate) mod openers;
mod small_disk;
mod supervisor;
mod work;
pub(crate) mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use terrace::{Db, Options};
use terrace_testkit::rng::Rng;
use terrace_testkit::run::Entry;
use terrace_testkit::settings::{Order, Settings};
use terrace_testkit::stock::{Stock, stock_or_skip};

use super::Harness;
use crate::tally::{Figure, Tally};
use ledger::Ledger;
use small_disk::SmallDisk;
use supervisor::Writer;
use work::Track;
use writer::Job;

/// Kills in a case, all of one database.
const ROUNDS: u64 = 4;

/// The longest life of a writer, in milliseconds.
const LIFE_MS: u64 = 300;

pub(super) const KILLS: Harness = Harness {
    id: 30,
    name: "kills",
    shows: "no acknowledged write is lost when its process is killed, synced or not, and no batch is there in part",
    check: 12,
    share: 4,
    run: |seed, tally| case(seed, tally, Kind::Plain),
};

pub(super) const FAILED_SYNCS: Harness = Harness {
    id: 31,
    name: "failed-syncs",
    shows: "the same, where syncs fail now and then and the database is opened again by its process",
    check: 6,
    share: 2,
    run: |seed, tally| case(seed, tally, Kind::FailedSyncs),
};

pub(super) const FULL_DISK: Harness = Harness {
    id: 32,
    name: "full-disk",
    shows: "the same, where the disk is full for a while; writes go on when there is space, without a new open",
    check: 6,
    share: 2,
    run: |seed, tally| case(seed, tally, Kind::FullDisk),
};

pub(super) const HEIRS: Harness = Harness {
    id: 41,
    name: "heirs",
    shows: "what Terrace or stock LevelDB had acknowledged when it was killed, the other finds",
    check: 6,
    share: 2,
    run: |seed, tally| if stock_or_skip().is_some() { case(seed, tally, Kind::Heirs) } else { Ok(()) },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    FailedSyncs,
    FullDisk,
    /// Terrace and stock LevelDB in turns.
    Heirs,
}

/// A database and what is known of it between two kills.
struct Case {
    seed: u64,
    kind: Kind,
    rng: Rng,
    /// The ledger, and what a writer says.
    notes: TempDir,
    /// The database is in here.
    place: Place,
    tracks: Vec<Track>,
}

enum Place {
    Directory(TempDir),
    Disk(SmallDisk),
}

impl Place {
    fn database(&self) -> PathBuf {
        match self {
            Place::Directory(dir) => dir.path().join("db"),
            Place::Disk(disk) => disk.path().join("db"),
        }
    }
}

fn case(seed: u64, tally: &Tally, kind: Kind) -> Result<(), String> {
    let mut case = Case::new(seed, kind).map_err(|error| format!("can't begin: {error}"))?;
    (0..ROUNDS).try_for_each(|round| {
        case.round(round, tally).map_err(|what| format!("{kind:?}, kill {round}: {what}"))
    })
}

impl Case {
    fn new(seed: u64, kind: Kind) -> std::io::Result<Case> {
        let mut rng = Rng::new(seed);
        let place = match kind {
            // Without the right to mount, calls fail as on a full disk instead.
            Kind::FullDisk => match SmallDisk::mount(4 + rng.below(12)) {
                Some(disk) => Place::Disk(disk),
                None => Place::Directory(directory(&mut rng)?),
            },
            _ => Place::Directory(directory(&mut rng)?),
        };
        // The stock library's database is one thread's here.
        let threads = if kind == Kind::Heirs { 1 } else { 1 + rng.below(4) };
        let tracks = (0..threads).map(|thread| Track::new(seed, thread)).collect();
        Ok(Case { seed, kind, rng, notes: tempfile::tempdir()?, place, tracks })
    }

    /// One life of a writer, and a look at what it left.
    fn round(&mut self, round: u64, tally: &Tally) -> Result<(), String> {
        let ledger = Ledger::create(&self.notes.path().join("ledger"), &self.acknowledged())?;
        if let Place::Disk(disk) = &self.place {
            disk.fill(self.rng.below(1 << 20))?;
        }
        let writer = self.start(round)?;
        self.live(&writer, &ledger)?;
        writer.kill()?;
        if let Place::Disk(disk) = &self.place {
            disk.make_room();
        }
        let acknowledged = ledger.read()?;
        let more = acknowledged.iter().sum::<u64>() - self.acknowledged().iter().sum::<u64>();
        self.look(round, &acknowledged)?;
        tally.add(Figure::Kills, 1);
        tally.add(Figure::Acknowledged, more);
        Ok(())
    }

    fn start(&mut self, round: u64) -> Result<Writer, String> {
        let job = serde_json::to_string(&self.job(round)).map_err(|error| error.to_string())?;
        let (ledger, words) = (self.notes.path().join("ledger"), self.notes.path().join("words"));
        Writer::start(["write".as_ref(), job.as_ref(), ledger.as_os_str()], words)
    }

    /// Lets the writer live for a while. Now and then it is stopped in between.
    fn live(&mut self, writer: &Writer, ledger: &Ledger) -> Result<(), String> {
        let life = Duration::from_millis(1 + self.rng.below(LIFE_MS));
        if self.rng.one_in(4) {
            std::thread::sleep(life / 2);
            writer.stop()?;
            let opened = self.opens_what_is_stopped(ledger);
            writer.go_on()?;
            opened?;
            std::thread::sleep(life / 2);
        } else {
            std::thread::sleep(life);
        }
        Ok(())
    }

    /// A process that is stopped has its database all the same.
    fn opens_what_is_stopped(&self, ledger: &Ledger) -> Result<(), String> {
        // One that has written nothing may not have opened it yet; one whose syncs fail closes it now and then.
        if self.kind == Kind::FailedSyncs || ledger.read()? == self.acknowledged() {
            return Ok(());
        }
        match Db::open(self.place.database(), &Options::default()) {
            Err(error) if error.is_locked() => Ok(()),
            outcome => Err(format!("opening a database that a stopped process has open gave {outcome:?}")),
        }
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.tracks.iter().map(Track::writes).collect()
    }

    fn job(&mut self, round: u64) -> Job {
        let (fail, ballast) = match (self.kind, &self.place) {
            (Kind::FailedSyncs, _) => (Some(failed_sync(&mut self.rng)), None),
            (Kind::FullDisk, Place::Disk(disk)) => (None, Some(disk.ballast())),
            (Kind::FullDisk, _) => (Some(no_space(&mut self.rng)), None),
            _ => (None, None),
        };
        Job {
            database: self.place.database(),
            seed: self.seed,
            settings: self.settings_seed(round),
            after: self.acknowledged(),
            sync_one_in: if self.kind == Kind::FailedSyncs {
                5
            } else {
                self.rng.pick(&[20, 200, 2_000, u64::MAX])
            },
            fail,
            ballast,
            theirs: self.is_theirs(round),
            for_both: self.kind == Kind::Heirs,
        }
    }

    fn is_theirs(&self, round: u64) -> bool {
        self.kind == Kind::Heirs && (self.seed ^ round).is_multiple_of(2)
    }

    /// Other options each time.
    fn settings_seed(&self, round: u64) -> u64 {
        self.seed ^ round << 32
    }

    /// Reads what is left, and compares it with what must be there.
    fn look(&mut self, round: u64, acknowledged: &[u64]) -> Result<(), String> {
        let settings = settings(self.settings_seed(round), self.kind == Kind::Heirs);
        let entries = match self.kind {
            Kind::Heirs if !self.is_theirs(round) => self.seen_by_theirs(&settings),
            _ => self.seen_by_ours(&settings),
        };
        let entries = entries.map_err(|error| format!("after the kill: {error}"))?;
        let mut rest = entries.as_slice();
        for (track, &acknowledged) in self.tracks.iter_mut().zip(acknowledged) {
            let end = rest.partition_point(|(key, _)| track.owns(key));
            let (own, others) = rest.split_at(end);
            track.find(own, acknowledged)?;
            rest = others;
        }
        match rest.first() {
            Some((key, _)) => Err(format!("nobody wrote \"{}\"", key.escape_ascii())),
            None => Ok(()),
        }
    }

    fn seen_by_ours(&mut self, settings: &Settings) -> Result<Vec<Entry>, String> {
        let (database, options) = (self.place.database(), writer::options(settings, terrace::Env::system()));
        // Read-only, so that the next writer finds what this one left.
        let read_only = self.rng.one_in(2) && database.join("CURRENT").exists();
        let open = if read_only { Db::open_read_only } else { Db::open };
        let seen = open(&database, &options).and_then(|db| {
            let entries = db.iter().into_forward().collect::<terrace::Result<Vec<_>>>()?;
            db.close().map(|()| entries)
        });
        seen.map_err(|error| error.to_string())
    }

    fn seen_by_theirs(&self, settings: &Settings) -> Result<Vec<Entry>, String> {
        let stock = Stock::load()?;
        // With paranoid checks it refuses a log in which a kill broke off a record of several blocks, where zeros follow:
        // in its own logs nothing follows.
        let settings = &Settings { paranoid_checks: false, ..settings.clone() };
        let seen = stock.open(&self.place.database(), settings).and_then(|db| db.scan());
        seen.map_err(|error| error.text)
    }
}

fn directory(rng: &mut Rng) -> std::io::Result<TempDir> {
    // Where syncs cost nothing there are more of them.
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() && rng.one_in(2) {
        tempfile::tempdir_in(shared_memory)
    } else {
        tempfile::tempdir()
    }
}

/// The options of a seed; for both engines those that both have.
fn settings(seed: u64, for_both: bool) -> Settings {
    let draw = if for_both { Settings::draw } else { Settings::draw_own };
    draw(&mut Rng::new(seed), Order::Bytewise)
}

/// A sync that fails, early or late.
fn failed_sync(rng: &mut Rng) -> String {
    let file = rng.pick(&["sync .log", "sync .log", "sync .log", "sync .ldb", "sync MANIFEST", "sync-dir *"]);
    let how = rng.pick(&["once EIO", "x3 EIO", "once sync-forgets"]);
    let how = if file.starts_with("sync-dir") { "once EIO" } else { how };
    format!("{file} #{} {how}", 1 + rng.skewed(100))
}

/// A disk that is full for some calls.
fn no_space(rng: &mut Rng) -> String {
    let call = rng.pick(&["store .log", "create-log .log", "append .ldb", "create .ldb", "append MANIFEST"]);
    format!("{call} #{} x{} ENOSPC", 1 + rng.skewed(500), 1 + rng.below(20))
}
