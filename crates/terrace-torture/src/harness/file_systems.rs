//! Real file systems on small disks, which are full most of the time.
//!
//! ```text
//!   this process                        a child: this same program
//!     create an image, mount it
//!     start the child ------------->      fill the disk during writes of the log, a flush, a
//!                                         compaction, an open, .., and after a copy
//!                                         free space, continue; record each acknowledged write
//!     wait, or SIGKILL; unmount, mount
//!     start a second child -------->      compare the database with the acknowledged writes
//!     check the log method in LOG
//! ```
//!
//! A store into a mapped log ends the process by SIGBUS if the file system has no space for it. So
//! the attack also tests the choice of the log method for each file system.
//!
//! Each case tries every row of `rows.rs`. Its seed determines the writes and the order of the
//! stages.

mod ballast;
mod child;
mod job;
pub(in crate::harness) mod mounted;
pub(in crate::harness) mod rows;

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_testkit::rng::Rng;

use super::Harness;
use super::process_kill::ledger::Ledger;
use super::process_kill::writer_process::WriterProcess;
use crate::counters::{Counter, Counters};
pub(crate) use child::run_child;
pub(crate) use job::DiskJob;
use job::{DiskReport, STAGES};
use mounted::{MountedFileSystem, remove_stale_mounts};
use rows::{FILE_SYSTEMS, FileSystemRow};

pub(super) const FILE_SYSTEMS_HARNESS: Harness = Harness {
    id: 35,
    name: "file-systems",
    property: "on full disks of real file systems: no signal, typed errors, no acknowledged write lost",
    check_cases: 2,
    time_share: 2,
    run,
};

/// Time after which a child counts as hanging. It works for less than a second.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    static REMOVE_STALE: Once = Once::new();
    REMOVE_STALE.call_once(remove_stale_mounts);
    for (index, row) in FILE_SYSTEMS.iter().enumerate() {
        match MountedFileSystem::create(row) {
            Ok(mounted) => DiskCase::new(seed ^ index as u64, row, mounted)
                .and_then(|mut case| case.run(counters))
                .map_err(|message| format!("{}: {message}", row.name))?,
            Err(reason) => warn_not_tested("file-systems", row.name, &reason),
        }
    }
    Ok(())
}

/// Prints once per process that a file system is not tested.
pub(in crate::harness) fn warn_not_tested(attack: &'static str, name: &'static str, reason: &str) {
    static WARNED: Mutex<Vec<(&str, &str)>> = Mutex::new(Vec::new());
    let mut warned = WARNED.lock();
    if !warned.contains(&(attack, name)) {
        warned.push((attack, name));
        eprintln!("NOT TESTED: {attack}: {name}: {reason}");
    }
}

/// One database on one file system.
struct DiskCase {
    seed: u64,
    rng: Rng,
    row: &'static FileSystemRow,
    mounted: MountedFileSystem,
    /// Directory of the files that must not be on the full disk.
    notes: tempfile::TempDir,
}

impl DiskCase {
    fn new(seed: u64, row: &'static FileSystemRow, mounted: MountedFileSystem) -> Result<DiskCase, String> {
        let notes = tempfile::tempdir().map_err(|error| error.to_string())?;
        Ok(DiskCase { seed, rng: Rng::new(seed), row, mounted, notes })
    }

    fn run(&mut self, counters: &Counters) -> Result<(), String> {
        let ledger = Ledger::create(&self.notes.path().join("ledger"), &[0])?;
        let mut stages = STAGES.to_vec();
        for index in (1..stages.len()).rev() {
            stages.swap(index, self.rng.below(index as u64 + 1) as usize);
        }
        let job = DiskJob {
            directory: self.mounted.directory(),
            ledger: self.notes.path().join("ledger"),
            report: self.notes.path().join("report"),
            seed: self.seed,
            acknowledged: 0,
            stages,
            has_reflinks: self.row.has_reflinks,
            exits_without_close: self.rng.one_in(2),
        };
        let lifetime =
            if self.rng.one_in(4) { Some(Duration::from_millis(20 + self.rng.below(400))) } else { None };
        self.run_child(&job, lifetime)?;
        // A killed child leaves no report.
        let report = std::fs::read_to_string(&job.report).unwrap_or_default();
        let report: DiskReport = serde_json::from_str(&report).unwrap_or_default();
        self.check_log_methods(&job.database())?;
        for name in ["ballast", "other", "other.ballast"] {
            // Only a killed child leaves these files.
            let _ = std::fs::remove_file(job.directory.join(name));
        }
        // A killed child may leave its copy.
        let _ = std::fs::remove_dir_all(job.directory.join("copy"));
        self.mounted.remount()?;
        let acknowledged = ledger.read()?[0];
        let check = DiskJob { acknowledged, stages: Vec::new(), exits_without_close: false, ..job.clone() };
        self.run_child(&check, None).map_err(|message| format!("after the child: {message}"))?;
        if self.check_log_methods(&job.database())? == 0 {
            return Err("LOG names the method of no log".into());
        }
        counters.add(Counter::FileSystems, 1);
        counters.add(Counter::AcknowledgedWrites, ledger.read()?[0]);
        counters.add(Counter::DiskFullErrors, report.errors());
        Ok(())
    }

    /// Runs a child to its end, or kills it after `lifetime`.
    fn run_child(&self, job: &DiskJob, lifetime: Option<Duration>) -> Result<(), String> {
        let job = serde_json::to_string(job).map_err(|error| error.to_string())?;
        let stderr_path = self.notes.path().join("stderr");
        let mut child = WriterProcess::start(["fill-disk".as_ref(), job.as_ref()], stderr_path)?;
        match child.wait(lifetime.unwrap_or(TIME_LIMIT))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the child ended with {status}: {}", child.output())),
            None if lifetime.is_some() => Ok(()),
            None => Err(format!("the child did not end within {TIME_LIMIT:?}: {}", child.output())),
        }
    }

    /// Checks that each log of the last two opens was written by the expected method. Returns the
    /// number of logs.
    fn check_log_methods(&self, database: &Path) -> Result<usize, String> {
        let mut logs = 0;
        for name in ["LOG", "LOG.old"] {
            // A full disk may leave no file.
            let text = std::fs::read_to_string(database.join(name)).unwrap_or_default();
            for method in text.lines().filter_map(log_method) {
                if !method.starts_with(self.row.log_method) {
                    return Err(format!("a log is \"{method}\", expected \"{}\"", self.row.log_method));
                }
                logs += 1;
            }
        }
        Ok(logs)
    }
}

/// Returns the method in a line such as "Log #3 is mapped: ext4 writes in place".
fn log_method(line: &str) -> Option<&str> {
    let (log, method) = line.split_once(" is ")?;
    let names_method = method.starts_with("mapped: ") || method.starts_with("appended: ");
    (log.contains("Log #") && names_method).then_some(method)
}
