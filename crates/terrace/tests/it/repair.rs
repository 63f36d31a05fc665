//! Repair of databases with a random history: both engines then find the entries of an ordered map.

use std::path::Path;

use terrace::{Db, Env, Options, RepairOptions, repair, verify};
use terrace_testkit::differential::{DatabaseUnderTest, Workload, compare_contents, seeds};
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::{StockLevelDb, StockLevelDbUnderTest, stock_leveldb_or_skip};

use crate::files;
use terrace_torture::database_under_test::{TerraceUnderTest, options_from_settings};

/// Damage to a database before its repair.
struct DamageCase {
    name: &'static str,
    damage: fn(&Path),
    /// Whether the damage requires a repair.
    needs_repair: bool,
}

static DAMAGE_CASES: &[DamageCase] = &[
    DamageCase { name: "none", damage: |_| (), needs_repair: false },
    DamageCase { name: "no CURRENT", damage: |dir| files::remove(&dir.join("CURRENT")), needs_repair: true },
    DamageCase {
        name: "no manifest",
        damage: |dir| files::files(dir, "MANIFEST-").iter().for_each(|file| files::remove(file)),
        needs_repair: true,
    },
    DamageCase {
        name: "damaged footers",
        damage: |dir| files::tables(dir).iter().for_each(|table| files::damage(table, -1, 1)),
        needs_repair: true,
    },
    DamageCase {
        name: "a damaged manifest, and no CURRENT",
        damage: |dir| {
            files::damage(&files::files(dir, "MANIFEST-")[0], -3, 3);
            files::remove(&dir.join("CURRENT"));
        },
        needs_repair: true,
    },
];

fn open(
    stock: Option<&'static StockLevelDb>,
    path: &Path,
    settings: &Settings,
) -> Box<dyn DatabaseUnderTest> {
    match stock {
        Some(stock) => {
            Box::new(StockLevelDbUnderTest::open(stock, path, settings).unwrap_or_else(|e| panic!("{e:?}")))
        }
        None => Box::new(TerraceUnderTest::open(path, settings, &Env::system()).unwrap()),
    }
}

/// Symptom: `terrace verify` advised a repair of a database without its log, and the repair found
/// nothing. Guarantee: the repair reports the log, and the repaired database is intact.
#[test]
fn missing_log() {
    let options = Options::default().create_if_missing(true).env(Env::in_memory());
    let db = Db::open("db", &options).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    db.close().unwrap();
    for name in options.env.fs.list("db".as_ref()).unwrap() {
        if name.to_string_lossy().ends_with(".log") {
            options.env.fs.remove(&Path::new("db").join(name)).unwrap();
        }
    }
    let found = verify("db", &options).unwrap().problems;
    let report = repair("db", &options, &RepairOptions::default()).unwrap();
    assert_eq!(report.problems, found);
    assert!(report.changed && found.len() == 1, "{report}");
    assert!(verify("db", &options).unwrap().is_clean());
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.recovery().damage.len(), 0);
    assert_eq!((db.get("a").unwrap(), db.get("b").unwrap()), (Some(b"1".to_vec()), None));
}

/// Random histories, written by LevelDB or by Terrace; then each kind of damage, a repair, and a
/// check by both engines.
#[track_caller]
fn check_random_histories(
    name: &str,
    count: usize,
    writer: Option<&'static StockLevelDb>,
    readers: &[Option<&'static StockLevelDb>],
) {
    for seed in seeds(name, count) {
        let plan = Workload::draw(seed, 1_500, |shape, _| {
            shape.terrace_only_features = false;
            shape.sync_one_in = 0;
        });
        for case in DAMAGE_CASES {
            let dir = tempfile::tempdir().unwrap();
            let mut rng = Rng::new(seed);
            let settings =
                Settings { create_if_missing: true, ..Settings::draw(&mut rng, plan.params.comparator) };
            let context = || format!("TERRACE_SEED={seed:#x}: {} [{settings}]", case.name);
            let mut model = Model::new(plan.params.comparator);
            let mut database = open(writer, dir.path(), &settings);
            plan.run_part(0..1_500, &mut *database, &mut model)
                .unwrap_or_else(|report| panic!("{}: {report}", context()));
            model.drop_readers();
            drop(database);
            // LevelDB leaves the tables that an iterator held until the close, and removes them at
            // the next open. Without a manifest a repair could not tell that they are obsolete.
            drop(open(writer, dir.path(), &settings));
            (case.damage)(dir.path());
            let options = options_from_settings(&settings, &Env::system());
            let report = repair(dir.path(), &options, &RepairOptions::default())
                .unwrap_or_else(|error| panic!("{}: {error}", context()));
            let tables = files::tables(dir.path()).len();
            assert!(case.needs_repair || !report.changed, "{}: {report}", context());
            assert_eq!(report.blocks_lost, 0, "{}: {report}", context());
            let checked = verify(dir.path(), &options).unwrap();
            assert!(checked.is_clean(), "{}: {checked}\n{tables} tables\n{report}", context());
            for reader in readers {
                let mut database = open(*reader, dir.path(), &settings);
                compare_contents(&mut *database, &mut model)
                    .unwrap_or_else(|difference| panic!("{}: {difference}\n{report}", context()));
            }
        }
    }
}

#[test]
fn repair_of_random_leveldb_databases() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    check_random_histories("repair of stock", 12, Some(stock), &[Some(stock), None]);
}

#[test]
fn repair_of_random_terrace_databases() {
    let readers = stock_leveldb_or_skip().map_or(vec![None], |stock| vec![None, Some(stock)]);
    check_random_histories("repair of ours", 12, None, &readers);
}
