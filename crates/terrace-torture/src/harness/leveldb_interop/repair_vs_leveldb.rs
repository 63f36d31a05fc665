//! Two repairs of one damaged database: Terrace's recovers every value that LevelDB's does, and
//! invents none.

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

/// Number of operations of a case.
const OPERATIONS_PER_CASE: usize = 1_500;

pub(in super::super) const REPAIR_VS_LEVELDB: Harness = Harness {
    id: 43,
    name: "repair-vs-leveldb",
    property: "repair recovers every value that LevelDB's does and invents none",
    check_cases: 40,
    time_share: 1,
    run,
};

/// Kind of damage to the files of a closed database.
struct DamageCase {
    name: &'static str,
    inflict: fn(&Path, &mut Rng) -> std::io::Result<()>,
}

static DAMAGE_CASES: &[DamageCase] = &[
    DamageCase { name: "no CURRENT", inflict: |dir, _| std::fs::remove_file(dir.join("CURRENT")) },
    DamageCase { name: "no MANIFEST", inflict: |dir, _| remove_files(&files_matching(dir, "MANIFEST-")?) },
    DamageCase {
        name: "no MANIFEST, and a damaged table",
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
        name: "a truncated table",
        inflict: |dir, rng| truncate_files(&pick_one(files_matching(dir, ".ldb")?, rng), rng),
    },
    DamageCase {
        name: "a missing table",
        inflict: |dir, rng| remove_files(&pick_one(files_matching(dir, ".ldb")?, rng)),
    },
    DamageCase {
        name: "a damaged log",
        inflict: |dir, rng| flip_bits(&pick_one(files_matching(dir, ".log")?, rng), rng),
    },
    DamageCase {
        name: "a truncated log",
        inflict: |dir, rng| truncate_files(&pick_one(files_matching(dir, ".log")?, rng), rng),
    },
    DamageCase {
        name: "a damaged MANIFEST",
        inflict: |dir, rng| flip_bits(&files_matching(dir, "MANIFEST-")?, rng),
    },
];

/// Damages the files of a closed database in a random way and returns a description.
pub(in super::super) fn inflict_damage(dir: &Path, rng: &mut Rng) -> std::io::Result<&'static str> {
    let damage = &DAMAGE_CASES[rng.below(DAMAGE_CASES.len() as u64) as usize];
    (damage.inflict)(dir, rng)?;
    Ok(damage.name)
}

/// Returns the files whose names start or end with `part`, in order.
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

/// Returns one of the files, or none if there are none.
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
            let offset = rng.below(bytes.len() as u64) as usize;
            bytes[offset] ^= 1 << rng.below(8);
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
    let workload = Workload::draw(seed, OPERATIONS_PER_CASE, |params, _| {
        params.terrace_only_features = false;
        params.sync_one_in = 0;
    });
    let mut rng = Rng::new(!seed);
    let our_dir = tempfile::tempdir().map_err(error_text)?;
    let their_dir = tempfile::tempdir().map_err(error_text)?;
    let writer = rng.pick(&[EngineKind::Terrace, EngineKind::LevelDb]);
    let mut model = Model::new(workload.params.comparator);
    let mut database = writer.open(stock, our_dir.path(), &workload.settings)?;
    workload.run(&mut *database, &mut model).map_err(error_text)?;
    drop(database);
    // This open removes tables that an iterator kept until the close. Without a MANIFEST, a repair
    // can't know that they are obsolete.
    drop(writer.open(stock, our_dir.path(), &workload.settings)?);
    let logs =
        read_files(&files_matching(our_dir.path(), ".log").map_err(error_text)?).map_err(error_text)?;
    let damage = inflict_damage(our_dir.path(), &mut rng).map_err(error_text)?;
    let damaged_keys = keys_in_damaged_records(&logs);
    copy_files(our_dir.path(), their_dir.path()).map_err(error_text)?;
    let context =
        |message: String| format!("written by {writer:?}, {damage}, [{}]: {message}", workload.settings);
    let ours = repair_with_terrace(&workload, stock, our_dir.path()).map_err(context)?;
    // If LevelDB's repair fails, it recovers nothing.
    let theirs = repair_with_leveldb(&workload, stock, their_dir.path()).unwrap_or_default();
    let theirs = theirs.into_iter().filter(|(key, _)| !damaged_keys.contains(key)).collect::<Vec<_>>();
    check_superset(&model, &ours, &theirs)
        .and_then(|()| check_nothing_invented(&workload, &ours))
        .map_err(context)?;
    counters.add(Counter::Repairs, 1);
    Ok(())
}

fn read_files(files: &[PathBuf]) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    files.iter().map(|file| Ok((file.clone(), std::fs::read(file)?))).collect()
}

/// Returns the keys of log records that were damaged since `logs` were read. LevelDB uses such a
/// record without a look at its checksum, and Terrace drops it.
fn keys_in_damaged_records(logs: &[(PathBuf, Vec<u8>)]) -> HashSet<Vec<u8>> {
    let mut keys = HashSet::new();
    for (path, before) in logs {
        let after = std::fs::read(path).unwrap_or_default();
        let Some(first_change) = before.iter().zip(&after).position(|(a, b)| a != b) else { continue };
        let mut reader = LogReader::new(before.as_slice());
        let mut damaged = Vec::new();
        // Neither the read nor the parse can fail, because the bytes are in memory and intact.
        while let Ok(Some(LogItem::Record { offset, data, .. })) = reader.next() {
            if offset > first_change as u64 {
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

fn repair_with_terrace(
    workload: &Workload,
    stock: &'static StockLevelDb,
    path: &Path,
) -> OpResult<Vec<Entry>> {
    repair(path, &options_from_settings(&workload.settings, &Env::system()), &RepairOptions::default())
        .map_err(error_text)?;
    read_all(&mut *EngineKind::Terrace.open(stock, path, &workload.settings)?)
}

fn repair_with_leveldb(
    workload: &Workload,
    stock: &'static StockLevelDb,
    path: &Path,
) -> OpResult<Vec<Entry>> {
    // Paranoid checks make LevelDB verify checksums. Without them it may recover wrong values.
    let settings = Settings { paranoid_checks: true, ..workload.settings.clone() };
    stock.repair(path, &settings).map_err(|error| error.text)?;
    read_all(&mut *EngineKind::LevelDb.open(stock, path, &workload.settings)?)
}

/// Checks that each right value of LevelDB's repair is also in Terrace's.
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
                "LevelDB's repair recovers \"{key}\" with {} bytes, Terrace's has {found}",
                value.len()
            ));
        }
    }
    Ok(())
}

/// Checks that each recovered value was written to its key at some time.
fn check_nothing_invented(workload: &Workload, ours: &[Entry]) -> OpResult<()> {
    let mut written: BTreeMap<Vec<u8>, HashSet<ValueSpec>> = BTreeMap::new();
    for write in workload.ops.iter().flat_map(Op::writes) {
        written.entry(write.key().to_vec()).or_default().extend(write.value());
    }
    for (key, value) in ours {
        let specs = written.get(key);
        if !specs.is_some_and(|specs| specs.iter().any(|spec| spec.matches(value))) {
            let key = key.escape_ascii();
            return Err(format!("Terrace's repair shows a value that \"{key}\" never had"));
        }
    }
    Ok(())
}
