//! Two repairs of one damaged database: ours recovers every value that theirs does, and invents none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use terrace::{BatchOp, Env, RepairOptions, repair};
use terrace_format::batch;
use terrace_format::log::{Item, LogReader};
use terrace_testkit::model::Model;
use terrace_testkit::op::{Op, Value};
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Answer, Entry, Plan};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::{Stock, stock_or_skip};

use super::power_cuts::copy_files;
use super::{Harness, Owner, contents, text};
use crate::subject::options;
use crate::tally::{Figure, Tally};

/// Operations of a life.
const OPERATIONS: usize = 1_500;

pub(in super::super) const REPAIRS: Harness = Harness {
    id: 43,
    name: "repairs",
    shows: "repair recovers every value that stock LevelDB's does, and none that was never written",
    check: 40,
    share: 1,
    run: repairs,
};

/// What happens to the files of a closed database.
struct Accident {
    name: &'static str,
    happen: fn(&Path, &mut Rng) -> std::io::Result<()>,
}

static ACCIDENTS: &[Accident] = &[
    Accident { name: "no CURRENT", happen: |dir, _| std::fs::remove_file(dir.join("CURRENT")) },
    Accident { name: "no manifest", happen: |dir, _| remove(&files(dir, "MANIFEST-")?) },
    Accident {
        name: "no manifest, and a damaged table",
        happen: |dir, rng| {
            remove(&files(dir, "MANIFEST-")?)?;
            flip(&any(files(dir, ".ldb")?, rng), rng)
        },
    },
    Accident { name: "a damaged table", happen: |dir, rng| flip(&any(files(dir, ".ldb")?, rng), rng) },
    Accident { name: "half a table", happen: |dir, rng| cut(&any(files(dir, ".ldb")?, rng), rng) },
    Accident { name: "a table gone", happen: |dir, rng| remove(&any(files(dir, ".ldb")?, rng)) },
    Accident { name: "a damaged log", happen: |dir, rng| flip(&any(files(dir, ".log")?, rng), rng) },
    Accident { name: "half a log", happen: |dir, rng| cut(&any(files(dir, ".log")?, rng), rng) },
    Accident { name: "a damaged manifest", happen: |dir, rng| flip(&files(dir, "MANIFEST-")?, rng) },
];

/// The files whose names begin or end so, in order.
pub(super) fn files(dir: &Path, part: &str) -> std::io::Result<Vec<PathBuf>> {
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
fn any(files: Vec<PathBuf>, rng: &mut Rng) -> Vec<PathBuf> {
    if files.is_empty() { files } else { vec![files[rng.below(files.len() as u64) as usize].clone()] }
}

fn remove(files: &[PathBuf]) -> std::io::Result<()> {
    files.iter().try_for_each(std::fs::remove_file)
}

fn flip(files: &[PathBuf], rng: &mut Rng) -> std::io::Result<()> {
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

fn cut(files: &[PathBuf], rng: &mut Rng) -> std::io::Result<()> {
    for file in files {
        let bytes = std::fs::read(file)?;
        std::fs::write(file, &bytes[..rng.below(bytes.len() as u64 + 1) as usize])?;
    }
    Ok(())
}

fn repairs(seed: u64, tally: &Tally) -> Result<(), String> {
    let Some(stock) = stock_or_skip() else { return Ok(()) };
    let plan = Plan::draw(seed, OPERATIONS, |shape, _| (shape.own, shape.sync_one_in) = (false, 0));
    let mut rng = Rng::new(!seed);
    let (ours, theirs) = (tempfile::tempdir().map_err(text)?, tempfile::tempdir().map_err(text)?);
    let owner = rng.pick(&[Owner::Ours, Owner::Theirs]);
    let mut model = Model::new(plan.shape.order);
    let mut subject = owner.open(stock, ours.path(), &plan.settings)?;
    plan.run(&mut *subject, &mut model).map_err(text)?;
    drop(subject);
    // Sweeps what an iterator held to the end: without a manifest nobody could tell that it is old.
    drop(owner.open(stock, ours.path(), &plan.settings)?);
    let accident = &ACCIDENTS[rng.below(ACCIDENTS.len() as u64) as usize];
    let logs = contents_of(&files(ours.path(), ".log").map_err(text)?).map_err(text)?;
    (accident.happen)(ours.path(), &mut rng).map_err(text)?;
    let doubtful = doubtful(&logs);
    copy_files(ours.path(), theirs.path()).map_err(text)?;
    let context =
        |what: String| format!("written by {owner:?}, {}, [{}]: {what}", accident.name, plan.settings);
    let our = repaired_by_us(&plan, stock, ours.path()).map_err(context)?;
    // Where theirs gives up, everything is more.
    let their = repaired_by_them(&plan, stock, theirs.path()).unwrap_or_default();
    let theirs = their.into_iter().filter(|(key, _)| !doubtful.contains(key)).collect::<Vec<_>>();
    superset(&model, &our, &theirs).and_then(|()| nothing_invented(&plan, &our)).map_err(context)?;
    tally.add(Figure::Repairs, 1);
    Ok(())
}

fn contents_of(files: &[PathBuf]) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    files.iter().map(|file| Ok((file.clone(), std::fs::read(file)?))).collect()
}

/// The keys of records that were damaged since these were the logs. Theirs takes such a record as it is now, without a
/// look at its checksum; ours knows better than to show what may be wrong.
fn doubtful(logs: &[(PathBuf, Vec<u8>)]) -> HashSet<Vec<u8>> {
    let mut keys = HashSet::new();
    for (path, before) in logs {
        let after = std::fs::read(path).unwrap_or_default();
        let Some(at) = before.iter().zip(&after).position(|(a, b)| a != b) else { continue };
        let (mut reader, mut damaged) = (LogReader::new(before.as_slice()), Vec::new());
        // From memory, and sound: neither fails.
        while let Ok(Some(Item::Record { offset, data })) = reader.next() {
            if offset > at as u64 {
                break;
            }
            damaged = data.to_vec();
        }
        if let Ok(batch) = batch::check(&damaged) {
            keys.extend(batch.iter().map(|operation| match operation {
                BatchOp::Put { key, .. } | BatchOp::Delete { key } => key.to_vec(),
            }));
        }
    }
    keys
}

fn repaired_by_us(plan: &Plan, stock: &'static Stock, path: &Path) -> Answer<Vec<Entry>> {
    repair(path, &options(&plan.settings, &Env::system()), &RepairOptions::default()).map_err(text)?;
    contents(&mut *Owner::Ours.open(stock, path, &plan.settings)?)
}

fn repaired_by_them(plan: &Plan, stock: &'static Stock, path: &Path) -> Answer<Vec<Entry>> {
    // So that it looks at checksums: what it takes from blocks that fail them may be right, and nobody can know.
    let careful = Settings { paranoid_checks: true, ..plan.settings.clone() };
    stock.repair(path, &careful).map_err(|error| error.text)?;
    contents(&mut *Owner::Theirs.open(stock, path, &plan.settings)?)
}

/// Every value that was right before the accident and is so in theirs is so in ours.
fn superset(model: &Model, ours: &[Entry], theirs: &[Entry]) -> Answer<()> {
    let ours: HashMap<&[u8], &[u8]> =
        ours.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    for (key, value) in theirs {
        let right = model.get(key, None).is_some_and(|expected| expected.is(value));
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
fn nothing_invented(plan: &Plan, ours: &[Entry]) -> Answer<()> {
    let mut written: BTreeMap<Vec<u8>, HashSet<Value>> = BTreeMap::new();
    for write in plan.ops.iter().flat_map(Op::writes) {
        written.entry(write.key().to_vec()).or_default().extend(write.value());
    }
    let known = |key: &Vec<u8>, value: &[u8]| {
        written.get(key).is_some_and(|values| values.iter().any(|written| written.is(value)))
    };
    match ours.iter().find(|(key, value)| !known(key, value)) {
        Some((key, _)) => Err(format!("\"{}\" never had the value that ours shows", key.escape_ascii())),
        None => Ok(()),
    }
}
