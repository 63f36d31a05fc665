//! Both engines read the same contents after a power cut.
//!
//! Terrace loses power in memory, at any call that changes a file. LevelDB needs real files, so its
//! log loses its end. If a power cut leaves a gap in a log, or cuts a log that another one follows,
//! LevelDB continues after the gap and Terrace does not. Such files are not compared; see
//! docs/design/0001-log-replay.md.
//!
//! The engines differ in one case. Terrace preallocates its logs, so zeros may follow an incomplete
//! record of several fragments, where LevelDB's file would end. With paranoid checks LevelDB
//! rejects such a log. Without them it shows the same contents as Terrace.

use std::path::Path;
use std::sync::Arc;

use terrace_env::FileSystem;
use terrace_env::mem::{MemFs, POWER_LOSS_PROFILES};
use terrace_testkit::differential::{OpResult, Workload};
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDb, stock_leveldb_or_skip};

use super::{EngineKind, Harness, check_equal, error_text, read_all};
use crate::counters::{Counter, Counters};
use crate::database_under_test::{BackgroundThreads, SimulatedEnv, TerraceUnderTest};

/// Number of operations of a case.
const OPERATIONS_PER_CASE: usize = 600;

/// Power-loss profiles that leave no gap in a log.
const PROFILES_WITHOUT_HOLES: [&str; 3] = ["P1", "P2", "P5"];

/// LevelDB's error for an incomplete record that zeros follow.
const TORN_RECORD_ERROR: &str = "error in middle of record";

pub(in super::super) const LEVELDB_AFTER_POWER_CUT: Harness = Harness {
    id: 42,
    name: "leveldb-after-power-cut",
    property: "both engines read the same contents after a power cut",
    check_cases: 60,
    time_share: 1,
    run,
};

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let Some(stock) = stock_leveldb_or_skip() else { return Ok(()) };
    let workload = Workload::draw(seed, OPERATIONS_PER_CASE, |params, _| {
        params.terrace_only_features = false;
        params.sync_one_in = 20;
    });
    let dir = tempfile::tempdir().map_err(error_text)?;
    let mut rng = Rng::new(!seed);
    let writer = rng.pick(&[EngineKind::Terrace, EngineKind::LevelDb]);
    let origin = match writer {
        EngineKind::Terrace => cut_power_of_terrace(&workload, &mut rng, dir.path())?,
        EngineKind::LevelDb => truncate_leveldb_log(stock, &workload, &mut rng, dir.path())?,
    };
    if writer == EngineKind::Terrace && may_have_log_hole(dir.path()).map_err(error_text)? {
        return Ok(());
    }
    let read_copy = |reader: EngineKind, settings: &Settings| {
        let copy = tempfile::tempdir().map_err(error_text)?;
        copy_files(dir.path(), copy.path()).map_err(error_text)?;
        let opened = reader.open(stock, copy.path(), settings);
        let entries = opened.and_then(|mut database| read_all(&mut *database));
        entries.map_err(|error| format!("{origin}: {reader:?}: {error}"))
    };
    let ours = read_copy(EngineKind::Terrace, &workload.settings)?;
    let theirs = match read_copy(EngineKind::LevelDb, &workload.settings) {
        Err(error) if writer == EngineKind::Terrace && error.contains(TORN_RECORD_ERROR) => {
            read_copy(EngineKind::LevelDb, &Settings { paranoid_checks: false, ..workload.settings.clone() })?
        }
        entries => entries?,
    };
    check_equal(&ours, &theirs).map_err(|error| format!("[{}], {origin}: {error}", workload.settings))?;
    counters.add(Counter::LevelDbHandovers, 1);
    Ok(())
}

/// Runs Terrace up to a random call that changes a file, cuts the power, and copies the files to
/// `dir`.
pub(in super::super) fn cut_power_of_terrace(
    workload: &Workload,
    rng: &mut Rng,
    dir: &Path,
) -> OpResult<String> {
    let complete = run_workload(workload, None)?;
    let calls = complete.mutation_count();
    let call = rng.below(calls);
    let profiles: Vec<_> = POWER_LOSS_PROFILES
        .iter()
        .filter(|profile| PROFILES_WITHOUT_HOLES.iter().any(|name| profile.name.starts_with(name)))
        .collect();
    let profile = rng.pick(&profiles);
    let image = run_workload(workload, Some(call))?.crash_clone(&profile.crash_with_seed(workload.seed));
    export_files(&image, Path::new(SimulatedEnv::DB_PATH), dir).map_err(error_text)?;
    Ok(format!("written by Terrace, power cut at call {call} of {calls}, {}", profile.name))
}

fn run_workload(workload: &Workload, last_call: Option<u64>) -> OpResult<Arc<MemFs>> {
    let simulated = SimulatedEnv::new(BackgroundThreads::Inline, workload.seed);
    let files = simulated.files();
    if let Some(call) = last_call {
        files.freeze_at(call);
    }
    let opened = TerraceUnderTest::in_memory(simulated, &workload.settings);
    let result = opened.map_err(error_text).and_then(|mut database| {
        let mut model = Model::new(workload.params.comparator);
        workload.run(&mut database, &mut model).map_err(error_text)
    });
    // An interrupted workload ends with an error.
    if last_call.is_none() { result.map(|()| files) } else { Ok(files) }
}

fn export_files(files: &MemFs, from: &Path, to: &Path) -> std::io::Result<()> {
    let other = |error: terrace_env::FileError| std::io::Error::other(error.to_string());
    if !files.exists(from).map_err(other)? {
        return Ok(());
    }
    for name in files.list(from).map_err(other)? {
        let path = from.join(&name);
        let mut bytes = vec![0; files.file_size(&path).map_err(other)? as usize];
        let file = files.open_random_access(&path, terrace_env::AccessMode::Pread).map_err(other)?;
        file.read_at(0, &mut bytes).map_err(other)?;
        std::fs::write(to.join(name), bytes)?;
    }
    Ok(())
}

/// Runs LevelDB in `dir` and truncates its newest log.
pub(in super::super) fn truncate_leveldb_log(
    stock: &'static StockLevelDb,
    workload: &Workload,
    rng: &mut Rng,
    dir: &Path,
) -> OpResult<String> {
    let mut database = EngineKind::LevelDb.open(stock, dir, &workload.settings)?;
    workload.run(&mut *database, &mut Model::new(workload.params.comparator)).map_err(error_text)?;
    drop(database);
    let log =
        super::repair_vs_leveldb::files_matching(dir, ".log").map_err(error_text)?.pop().ok_or("no log")?;
    let file = std::fs::File::options().write(true).open(&log).map_err(error_text)?;
    let full_len = file.metadata().map_err(error_text)?.len();
    let len = rng.below(full_len + 1);
    file.set_len(len).map_err(error_text)?;
    Ok(format!("written by LevelDB, {} truncated to {len} of {full_len} bytes", log.display()))
}

/// Returns true if several logs have contents, because a power cut may have taken the end of any of
/// them.
pub(in super::super) fn may_have_log_hole(dir: &Path) -> std::io::Result<bool> {
    let mut non_empty = 0;
    for log in super::repair_vs_leveldb::files_matching(dir, ".log")? {
        non_empty += usize::from(std::fs::read(log)?.iter().any(|byte| *byte != 0));
    }
    Ok(non_empty > 1)
}

pub(super) fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
