//! Two repairs of one damaged database: ours recovers every value that theirs does, and invents none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use terrace::{BatchOp, Env, RepairOptions, repair};
use terrace_format::batch;
use terrace_format::log::{LogItem, LogReader};
use terrace_testkit::differential::{Entry, OpResult, Workload};
use terrace_testkit::model::Model;
use terrace_testkit::op::{Op, ValueSpec};
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDb, stock_leveldb_or_skip};

use super::leveldb_after_power_cut::copy_files;
use super::{EngineKind, Harness, error_text, read_all};
use crate::counters::{Counter, Counters};
use crate::database_under_test::options_from_settings;

/// Operations of a life.
const OPERATIONS_PER_CASE: usize = 1_500;

pub(in super::super) const REPAIR_VS_LEVELDB: Harness = Harness {
    id: 43,
    name: "repair-vs-leveldb",
    property: "repair recovers every value that LevelDB's does and invents none",
    check_cases: 40,
    time_share: 1,
    run,
};

/// What happens to the files of a closed database.
struct DamageCase {
    name: &'static str,
    inflict: fn(&Path, &mut Rng) -> std::io::Result<()>,
}

static DAMAGE_CASES: &[DamageCase] = &[
    DamageCase { name: "no CURRENT", inflict: |dir, _| std::fs::remove_file(dir.join("CURRENT")) },
    DamageCase { name: "no manifest", inflict: |dir, _| remove_files(&files_matching(dir, "MANIFEST-")?) },
    DamageCase {
        name: "no manifest, and a damaged table",
        inflict: |dir, rng| {
            remove_files(&files_matching(dir, "MANIFEST-")?)?;
            flip_bits(&pick_one(files_matching(dir, ".ldb")?, rng), rng)
        },
    },
    DamageCase {
        name: "a damaged table",
        inflict: |dir, rng| flip_bits(&pick_one(files_matching(dir, ".ldb")?, rng), rng),
    },
    DamageCase {
        name: "half a table",
        inflict: |dir, rng| truncate_files(&pick_one(files_matching(dir, ".ldb")?, rng), rng),
    },
    DamageCase {
        name: "a table gone",
        inflict: |dir, rng| remove_files(&pick_one(files_matching(dir, ".ldb")?, rng)),
    },
    DamageCase {
        name: "a damaged log",
        inflict: |dir, rng| flip_bits(&pick_one(files_matching(dir, ".log")?, rng), rng),
    },
    DamageCase {
        name: "half a log",
        inflict: |dir, rng| truncate_files(&pick_one(files_matching(dir, ".log")?, rng), rng),
    },
    DamageCase {
        name: "a damaged manifest",
        inflict: |dir, rng| flip_bits(&files_matching(dir, "MANIFEST-")?, rng),
    },
];

/// The files whose names begin or end so, in order.
pub(super) fn files_matching(dir: &Path, part: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(part) || name.ends_with(part) {
            files.push(dir.join(name));
        }
    }
    files.sort();
    Ok(files)
}

/// One of them, if there are any.
fn pick_one(files: Vec<PathBuf>, rng: &mut Rng) -> Vec<PathBuf> {
    if files.is_empty() { files } else { vec![files[rng.below(files.len() as u64) as usize].clone()] }
}

fn remove_files(files: &[PathBuf]) -> std::io::Result<()> {
    files.iter().try_for_each(std::fs::remove_file)
}

fn flip_bits(files: &[PathBuf], rng: &mut Rng) -> std::io::Result<()> {
    for file in files {
        let mut bytes = std::fs::read(file)?;
        if !bytes.is_empty() {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        std::fs::write(file, bytes)?;
    }
    Ok(())
}

fn truncate_files(files: &[PathBuf], rng: &mut Rng) -> std::io::Result<()> {
    for file in files {
        let bytes = std::fs::read(file)?;
        std::fs::write(file, &bytes[..rng.below(bytes.len() as u64 + 1) as usize])?;
    }
    Ok(())
}

fn run(seed: u64, counters: &Counters) -> Result<(), String> {
    let Some(stock) = stock_leveldb_or_skip() else { return Ok(()) };
    let plan = Workload::draw(seed, OPERATIONS_PER_CASE, |shape, _| {
        (shape.terrace_only_features, shape.sync_one_in) = (false, 0)
    });
    let mut rng = Rng::new(!seed);
    let (ours, theirs) = (tempfile::tempdir().map_err(error_text)?, tempfile::tempdir().map_err(error_text)?);
    let owner = rng.pick(&[EngineKind::Terrace, EngineKind::LevelDb]);
    let mut model = Model::new(plan.params.comparator);
    let mut subject = owner.open(stock, ours.path(), &plan.settings)?;
    plan.run(&mut *subject, &mut model).map_err(error_text)?;
    drop(subject);
    // Sweeps what an iterator held to the end: without a manifest nobody could tell that it is old.
    drop(owner.open(stock, ours.path(), &plan.settings)?);
    let accident = &DAMAGE_CASES[rng.below(DAMAGE_CASES.len() as u64) as usize];
    let logs = read_files(&files_matching(ours.path(), ".log").map_err(error_text)?).map_err(error_text)?;
    (accident.inflict)(ours.path(), &mut rng).map_err(error_text)?;
    let doubtful = keys_in_damaged_records(&logs);
    copy_files(ours.path(), theirs.path()).map_err(error_text)?;
    let context =
        |what: String| format!("written by {owner:?}, {}, [{}]: {what}", accident.name, plan.settings);
    let our = repair_with_terrace(&plan, stock, ours.path()).map_err(context)?;
    // Where theirs gives up, everything is more.
    let their = repair_with_leveldb(&plan, stock, theirs.path()).unwrap_or_default();
    let theirs = their.into_iter().filter(|(key, _)| !doubtful.contains(key)).collect::<Vec<_>>();
    check_superset(&model, &our, &theirs)
        .and_then(|()| check_nothing_invented(&plan, &our))
        .map_err(context)?;
    counters.add(Counter::Repairs, 1);
    Ok(())
}

fn read_files(files: &[PathBuf]) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    files.iter().map(|file| Ok((file.clone(), std::fs::read(file)?))).collect()
}

/// The keys of records that were damaged since these were the logs. Theirs takes such a record as it is now, without a
/// look at its checksum; ours knows better than to show what may be wrong.
fn keys_in_damaged_records(logs: &[(PathBuf, Vec<u8>)]) -> HashSet<Vec<u8>> {
    let mut keys = HashSet::new();
    for (path, before) in logs {
        let after = std::fs::read(path).unwrap_or_default();
        let Some(at) = before.iter().zip(&after).position(|(a, b)| a != b) else { continue };
        let (mut reader, mut damaged) = (LogReader::new(before.as_slice()), Vec::new());
        // From memory, and sound: neither fails.
        while let Ok(Some(LogItem::Record { offset, data })) = reader.next() {
            if offset > at as u64 {
                break;
            }
            damaged = data.to_vec();
        }
        if let Ok(batch) = batch::validate(&damaged) {
            keys.extend(batch.iter().map(|operation| match operation {
                BatchOp::Put { key, .. } | BatchOp::Delete { key } => key.to_vec(),
            }));
        }
    }
    keys
}

fn repair_with_terrace(plan: &Workload, stock: &'static StockLevelDb, path: &Path) -> OpResult<Vec<Entry>> {
    repair(path, &options_from_settings(&plan.settings, &Env::system()), &RepairOptions::default())
        .map_err(error_text)?;
    read_all(&mut *EngineKind::Terrace.open(stock, path, &plan.settings)?)
}

fn repair_with_leveldb(plan: &Workload, stock: &'static StockLevelDb, path: &Path) -> OpResult<Vec<Entry>> {
    // So that it looks at checksums: what it takes from blocks that fail them may be right, and nobody can know.
    let careful = Settings { paranoid_checks: true, ..plan.settings.clone() };
    stock.repair(path, &careful).map_err(|error| error.text)?;
    read_all(&mut *EngineKind::LevelDb.open(stock, path, &plan.settings)?)
}

/// Every value that was right before the accident and is so in theirs is so in ours.
fn check_superset(model: &Model, ours: &[Entry], theirs: &[Entry]) -> OpResult<()> {
    let ours: HashMap<&[u8], &[u8]> =
        ours.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    for (key, value) in theirs {
        let right = model.get(key, None).is_some_and(|expected| expected.matches(value));
        if right && ours.get(key.as_slice()) != Some(&value.as_slice()) {
            let found =
                ours.get(key.as_slice()).map_or("nothing".into(), |value| format!("{} bytes", value.len()));
            let key = key.escape_ascii();
            return Err(format!(
                "theirs recovers \"{key}\" with its {} bytes, ours has {found}",
                value.len()
            ));
        }
    }
    Ok(())
}

/// Every value is one that its key had at some time.
fn check_nothing_invented(plan: &Workload, ours: &[Entry]) -> OpResult<()> {
    let mut written: BTreeMap<Vec<u8>, HashSet<ValueSpec>> = BTreeMap::new();
    for write in plan.ops.iter().flat_map(Op::writes) {
        written.entry(write.key().to_vec()).or_default().extend(write.value());
    }
    let known = |key: &Vec<u8>, value: &[u8]| {
        written.get(key).is_some_and(|values| values.iter().any(|written| written.matches(value)))
    };
    match ours.iter().find(|(key, value)| !known(key, value)) {
        Some((key, _)) => Err(format!("\"{}\" never had the value that ours shows", key.escape_ascii())),
        None => Ok(()),
    }
}
