//! What a power cut leaves of a database is the same to both engines.
//!
//! Ours loses its power in memory, at any call that changes a file. Theirs knows only real files: there the end of the
//! log goes missing. Where a cut leaves holes in a log, or the end of one is gone and the next one is there, LevelDB reads on
//! behind them and Terrace does not: that is not compared, see docs/design/0001-log-replay.md.
//!
//! One thing they say differently: Terrace's logs have their room ahead of the records, so a record of several pieces may
//! break off with zeros behind it, where LevelDB's file would end. With paranoid checks LevelDB refuses to open that, and
//! without it shows what Terrace shows.

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

/// Operations of a life.
const OPERATIONS_PER_CASE: usize = 600;

/// The ways to lose data that leave no hole.
const PROFILES_WITHOUT_HOLES: [&str; 3] = ["P1", "P2", "P5"];

/// What LevelDB says of a record that breaks off with room behind it.
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
    let plan = Workload::draw(seed, OPERATIONS_PER_CASE, |shape, _| {
        (shape.terrace_only_features, shape.sync_one_in) = (false, 20)
    });
    let dir = tempfile::tempdir().map_err(error_text)?;
    let mut rng = Rng::new(!seed);
    let writer = rng.pick(&[EngineKind::Terrace, EngineKind::LevelDb]);
    let what = match writer {
        EngineKind::Terrace => cut_power_of_terrace(&plan, &mut rng, dir.path())?,
        EngineKind::LevelDb => truncate_leveldb_log(stock, &plan, &mut rng, dir.path())?,
    };
    if writer == EngineKind::Terrace && may_have_log_hole(dir.path()).map_err(error_text)? {
        return Ok(());
    }
    let look = |owner: EngineKind, settings: &Settings| {
        let copy = tempfile::tempdir().map_err(error_text)?;
        copy_files(dir.path(), copy.path()).map_err(error_text)?;
        let opened = owner.open(stock, copy.path(), settings);
        let seen = opened.and_then(|mut subject| read_all(&mut *subject));
        seen.map_err(|error| format!("{what}: {owner:?} says {error}"))
    };
    let ours = look(EngineKind::Terrace, &plan.settings)?;
    let theirs = match look(EngineKind::LevelDb, &plan.settings) {
        Err(refused) if writer == EngineKind::Terrace && refused.contains(TORN_RECORD_ERROR) => {
            look(EngineKind::LevelDb, &Settings { paranoid_checks: false, ..plan.settings.clone() })?
        }
        seen => seen?,
    };
    check_equal(&ours, &theirs).map_err(|error| format!("[{}], {what}: {error}", plan.settings))?;
    counters.add(Counter::LevelDbHandovers, 1);
    Ok(())
}

/// A life of ours until any call that changes a file, and what a power cut leaves of it in `dir`.
fn cut_power_of_terrace(plan: &Workload, rng: &mut Rng, dir: &Path) -> OpResult<String> {
    let whole = run_workload(plan, None)?;
    let (call, calls) = (rng.below(whole.mutation_count()), whole.mutation_count());
    let profiles: Vec<_> = POWER_LOSS_PROFILES
        .iter()
        .filter(|profile| PROFILES_WITHOUT_HOLES.iter().any(|name| profile.name.starts_with(name)))
        .collect();
    let profile = rng.pick(&profiles);
    let image = run_workload(plan, Some(call))?.crash_clone(&profile.crash_with_seed(plan.seed));
    export_files(&image, Path::new(SimulatedEnv::DB_PATH), dir).map_err(error_text)?;
    Ok(format!("ours, cut at call {call} of {calls}, {}", profile.name))
}

fn run_workload(plan: &Workload, until: Option<u64>) -> OpResult<Arc<MemFs>> {
    let world = SimulatedEnv::new(BackgroundThreads::Inline, plan.seed);
    let files = world.files();
    if let Some(call) = until {
        files.freeze_at(call);
    }
    let opened = TerraceUnderTest::in_memory(world, &plan.settings);
    let lived = opened.map_err(error_text).and_then(|mut engine| {
        let mut model = Model::new(plan.params.comparator);
        plan.run(&mut engine, &mut model).map_err(error_text)
    });
    // Where it was cut off, an error is what it should meet.
    if until.is_none() { lived.map(|()| files) } else { Ok(files) }
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

/// A life of theirs in `dir`, whose newest log then ends too early.
fn truncate_leveldb_log(
    stock: &'static StockLevelDb,
    plan: &Workload,
    rng: &mut Rng,
    dir: &Path,
) -> OpResult<String> {
    let mut subject = EngineKind::LevelDb.open(stock, dir, &plan.settings)?;
    plan.run(&mut *subject, &mut Model::new(plan.params.comparator)).map_err(error_text)?;
    drop(subject);
    let log =
        super::repair_vs_leveldb::files_matching(dir, ".log").map_err(error_text)?.pop().ok_or("no log")?;
    let file = std::fs::File::options().write(true).open(&log).map_err(error_text)?;
    let (len, full) = (
        rng.below(file.metadata().map_err(error_text)?.len() + 1),
        file.metadata().map_err(error_text)?.len(),
    );
    file.set_len(len).map_err(error_text)?;
    Ok(format!("theirs, {len} of {full} bytes of {} left", log.display()))
}

/// True if there are several logs with something in them: a power cut may have taken the end of any.
fn may_have_log_hole(dir: &Path) -> std::io::Result<bool> {
    let mut filled = 0;
    for log in super::repair_vs_leveldb::files_matching(dir, ".log")? {
        filled += usize::from(std::fs::read(log)?.iter().any(|byte| *byte != 0));
    }
    Ok(filled > 1)
}

pub(super) fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
