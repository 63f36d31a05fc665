//! Power cuts on real file systems, from the recorded writes of their disk.
//!
//! ```text
//!   this process                 a recorder                 a workload
//!     create an image
//!     start ------------------->   serve the file `disk`
//!     mount `disk`
//!     start -------------------------------------------->     write, sync, flush, close, open;
//!                                  record writes,  <-----     acknowledge with the position in
//!                                  flushes                    the records
//!     unmount
//!     several times: cut the power after some record, mount the image, copy the database;
//!                    Terrace opens a copy; LevelDB, then Terrace, open another one
//! ```
//!
//! Every write that was acknowledged as durable before the cut must be there. With mapped logs,
//! Terrace must show a prefix of the writes. With appended logs, and if LevelDB opens the database
//! first, holes between unsynced writes are known limits (docs/trust.md), and only counted.

mod history;
mod recorder;
mod records;
mod workload;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

use terrace::{Db, Options};
use terrace_testkit::differential::Entry;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDb, stock_leveldb_or_skip};

use super::Harness;
use super::file_systems::mounted::{MountDirectory, make_file_system, remove_stale_mounts, run_command};
use super::file_systems::rows::{FILE_SYSTEMS, FileSystemRow};
use super::file_systems::warn_not_tested;
use super::process_kill::writer_process::WriterProcess;
use crate::counters::{Counter, Counters};
use history::{History, Survivors};
use recorder::DISK_FILE;
pub(crate) use recorder::{RecorderArgs, run_recorder};
use records::Records;
use workload::Acknowledgement;
pub(crate) use workload::{RecordedJob, run_workload};

pub(super) const POWER_CUTS: Harness = Harness {
    id: 36,
    name: "power-cuts",
    property: "after power cuts on real file systems: every synced write, and a prefix with mapped logs",
    check_cases: 2,
    time_share: 2,
    run,
};

/// Number of power cuts of a recorded workload.
const CUTS_PER_RECORDING: u64 = 6;

/// Time after which the workload counts as hanging. It takes less than a second.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    static REMOVE_STALE: Once = Once::new();
    REMOVE_STALE.call_once(remove_stale_mounts);
    for (index, row) in FILE_SYSTEMS.iter().enumerate().filter(|(_, row)| keeps_synced_writes(row)) {
        match Recording::start(row) {
            Ok(recording) => PowerCutCase::new(seed ^ index as u64, row, recording)
                .run(counters)
                .map_err(|message| format!("{}: {message}", row.name))?,
            Err(reason) => warn_not_tested("power-cuts", row.name, &reason),
        }
    }
    Ok(())
}

/// Returns false for file systems that lose synced writes at a power cut, and for those that only
/// add a layer.
fn keeps_synced_writes(row: &FileSystemRow) -> bool {
    !row.has_overlay && row.survives_power_cuts
}

/// A mounted file system whose disk is recorded. Dropping it ends the recorder first, so that no
/// unmount waits for it.
struct Recording {
    recorder: WriterProcess,
    mounts: MountDirectory,
}

impl Recording {
    /// An error means that this machine cannot test the file system.
    fn start(row: &'static FileSystemRow) -> Result<Recording, String> {
        let mut mounts = MountDirectory::create().map_err(|error| error.to_string())?;
        let image = mounts.path().join("image");
        make_file_system(row, &image)?;
        copy_sparse(&image, &mounts.path().join("first"))?;
        let point = mounts.expect_mount("recorded").map_err(|error| error.to_string())?;
        let arguments = ["record-disk".as_ref(), image.as_os_str()];
        let records = mounts.path().join("records");
        let arguments = arguments.into_iter().chain([records.as_os_str(), point.as_os_str()]);
        let recorder = WriterProcess::start(arguments, mounts.path().join("recorder"))?;
        let mut recording = Recording { recorder, mounts };
        recording.wait_for_recorder(&point.join(DISK_FILE))?;
        let (kind, options) = row.mount;
        let options = if options.is_empty() { "loop".into() } else { format!("loop,{options}") };
        recording.mounts.mount("base", kind, &options, &point.join(DISK_FILE))?;
        Ok(recording)
    }

    fn wait_for_recorder(&mut self, disk: &Path) -> Result<(), String> {
        let started = Instant::now();
        while !disk.exists() {
            if self.recorder.wait(Duration::from_millis(5))?.is_some() {
                return Err(format!("the recorder ended: {}", self.recorder.output().trim_end()));
            }
            if started.elapsed() > TIME_LIMIT {
                return Err("the recorder does not start".into());
            }
        }
        Ok(())
    }

    fn records_path(&self) -> PathBuf {
        self.mounts.path().join("records")
    }

    fn acknowledgements_path(&self) -> PathBuf {
        self.mounts.path().join("acknowledgements")
    }

    /// Unmounts the file system, and then the recorder, which ends.
    fn finish(&mut self) -> Result<Records, String> {
        self.mounts.unmount()?;
        match self.recorder.wait(TIME_LIMIT)? {
            Some(status) if status.success() => Records::read(&self.records_path()),
            Some(status) => Err(format!("the recorder ended with {status}: {}", self.recorder.output())),
            None => Err("the recorder does not end".into()),
        }
    }
}

/// Copies a file without its zeros.
fn copy_sparse(from: &Path, to: &Path) -> Result<(), String> {
    run_command(Command::new("cp").arg("--sparse=always").arg(from).arg(to))
}

/// Power cuts of one workload.
struct PowerCutCase {
    seed: u64,
    rng: Rng,
    row: &'static FileSystemRow,
    recording: Recording,
    /// False for appended logs on every file system.
    maps_logs: bool,
    has_mapped_logs: bool,
}

impl PowerCutCase {
    fn new(seed: u64, row: &'static FileSystemRow, recording: Recording) -> PowerCutCase {
        let mut rng = Rng::new(seed);
        let maps_logs = !rng.one_in(3);
        let has_mapped_logs = maps_logs && row.log_method.starts_with("mapped");
        PowerCutCase { seed, rng, row, recording, maps_logs, has_mapped_logs }
    }

    fn run(&mut self, counters: &Counters) -> Result<(), String> {
        let job = RecordedJob {
            directory: self.recording.mounts.path().join("base"),
            records: self.recording.records_path(),
            acknowledgements: self.recording.acknowledgements_path(),
            seed: self.seed,
            writes: 300 + self.rng.below(900),
            sync_one_in: self.rng.pick(&[5, 50, 400, 5_000]),
            maps_logs: self.maps_logs,
        };
        self.run_workload(&job)?;
        let records = self.recording.finish()?;
        let acknowledgements = self.read_acknowledgements(&job)?;
        let history = History::new(self.seed, job.writes);
        counters.add(Counter::RecordedWrites, records.len() as u64 - records.flushes());
        counters.add(Counter::AcknowledgedWrites, job.writes);
        let Some(first) = acknowledgements.first() else { return Ok(()) };
        for _ in 0..CUTS_PER_RECORDING {
            let cut = records.draw_cut(&mut self.rng, records.count_up_to(first.position));
            let durable = durable_writes(&acknowledgements, &records, cut);
            self.cut_power(&records, cut, &history, durable, counters)?;
        }
        Ok(())
    }

    fn run_workload(&self, job: &RecordedJob) -> Result<(), String> {
        let job = serde_json::to_string(job).map_err(|error| error.to_string())?;
        let stderr_path = self.recording.mounts.path().join("workload");
        let arguments = ["write-recorded".as_ref(), job.as_ref()];
        let mut child = WriterProcess::start(arguments, stderr_path)?;
        match child.wait(TIME_LIMIT)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the workload ended with {status}: {}", child.output())),
            None => Err("the workload does not end".into()),
        }
    }

    fn read_acknowledgements(&self, job: &RecordedJob) -> Result<Vec<Acknowledgement>, String> {
        let text = std::fs::read_to_string(&job.acknowledgements).map_err(|error| error.to_string())?;
        Ok(text.lines().filter_map(Acknowledgement::parse).collect())
    }

    /// Cuts the power after a record and checks the databases. The first `durable` writes must be
    /// there.
    fn cut_power(
        &mut self,
        records: &Records,
        cut: usize,
        history: &History,
        durable: u64,
        counters: &Counters,
    ) -> Result<(), String> {
        let image = self.recording.mounts.path().join("cut");
        copy_sparse(&self.recording.mounts.path().join("first"), &image)?;
        let file = File::options().write(true).open(&image).map_err(|error| error.to_string())?;
        let survivors = records.cut_power(&file, cut, &mut self.rng).map_err(|error| error.to_string())?;
        drop(file);
        let logs = if self.has_mapped_logs { "mapped" } else { "appended" };
        let describe = |message: String| {
            format!("{logs} logs, cut after record {cut} ({survivors}), {durable} durable writes: {message}")
        };
        counters.add(Counter::PowerCuts, 1);
        let Some(copies) = self.copy_databases(&image)? else {
            counters.add(Counter::UnmountableImages, 1);
            eprintln!("{}: {}", self.row.name, describe("the image cannot be mounted".into()));
            return Ok(());
        };
        self.check_terrace_first(&copies[0], history, durable, counters).map_err(describe)?;
        if stock_leveldb_or_skip().is_some() {
            check_leveldb_first(&copies[1], history, durable, counters)
                .map_err(|message| describe(format!("LevelDB first: {message}")))?;
        }
        Ok(())
    }

    /// Mounts an image and copies its database twice. Returns `None` if it cannot be mounted.
    fn copy_databases(&mut self, image: &Path) -> Result<Option<[tempfile::TempDir; 2]>, String> {
        let mounts = &mut self.recording.mounts;
        let (kind, options) = self.row.mount;
        let options = if options.is_empty() { "loop".into() } else { format!("loop,{options}") };
        let Ok(point) = mounts.mount("after", kind, &options, image) else { return Ok(None) };
        let new_dir = || tempfile::tempdir_in(mounts.path()).map_err(|error| error.to_string());
        let copies = [new_dir()?, new_dir()?];
        for copy in &copies {
            run_command(Command::new("cp").arg("-r").arg(point.join("db")).arg(copy.path()))?;
        }
        mounts.unmount()?;
        Ok(Some(copies))
    }

    fn check_terrace_first(
        &self,
        copy: &tempfile::TempDir,
        history: &History,
        durable: u64,
        counters: &Counters,
    ) -> Result<(), String> {
        let entries = read_with_terrace(&copy.path().join("db"))?;
        match history.classify(&entries, durable)? {
            Survivors::Prefix(_) => Ok(()),
            Survivors::Holes if self.has_mapped_logs => Err("later writes without earlier ones".into()),
            Survivors::Holes => {
                counters.add(Counter::KnownHoles, 1);
                Ok(())
            }
        }
    }
}

/// Returns the number of writes that were acknowledged as durable before a cut.
fn durable_writes(acknowledgements: &[Acknowledgement], records: &Records, cut: usize) -> u64 {
    let before = acknowledgements.iter().filter(|ack| records.count_up_to(ack.position) <= cut);
    before.map(|ack| ack.number).max().unwrap_or(0)
}

/// Opens a database with stock LevelDB and then with Terrace, which must find the same entries.
fn check_leveldb_first(
    copy: &tempfile::TempDir,
    history: &History,
    durable: u64,
    counters: &Counters,
) -> Result<(), String> {
    let database = copy.path().join("db");
    let stock = StockLevelDb::load()?;
    let entries = stock.open(&database, &Settings::default()).and_then(|db| db.scan());
    let entries = entries.map_err(|error| error.text)?;
    if history.classify(&entries, durable)? == Survivors::Holes {
        counters.add(Counter::KnownHoles, 1);
    }
    counters.add(Counter::LevelDbHandovers, 1);
    if read_with_terrace(&database)? == entries { Ok(()) } else { Err("Terrace finds other entries".into()) }
}

fn read_with_terrace(database: &Path) -> Result<Vec<Entry>, String> {
    let db = Db::open(database, &Options::default()).map_err(|error| format!("open: {error}"))?;
    let entries = db.iter().collect::<terrace::Result<Vec<_>>>().map_err(|error| error.to_string())?;
    db.close().map_err(|error| format!("close: {error}"))?;
    Ok(entries)
}
