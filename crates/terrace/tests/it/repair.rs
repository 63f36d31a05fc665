//! Repair of databases that had a life: whoever wrote them, both engines then find in them what an ordered map has.

use std::path::Path;

use terrace::{Env, RepairOptions, repair, verify};
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Plan, Subject, compare, seeds};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::{Stock, StockSubject, stock_or_skip};

use crate::files;
use terrace_torture::subject::{Engine, options};

/// What goes wrong between a good life and the repair.
struct Accident {
    name: &'static str,
    happen: fn(&Path),
    /// Whether there is anything to repair.
    harm: bool,
}

static ACCIDENTS: &[Accident] = &[
    Accident { name: "none", happen: |_| (), harm: false },
    Accident { name: "no CURRENT", happen: |dir| files::remove(&dir.join("CURRENT")), harm: true },
    Accident {
        name: "no manifest",
        happen: |dir| files::files(dir, "MANIFEST-").iter().for_each(|file| files::remove(file)),
        harm: true,
    },
    Accident {
        name: "damaged footers",
        happen: |dir| files::tables(dir).iter().for_each(|table| files::damage(table, -1, 1)),
        harm: true,
    },
    Accident {
        name: "a damaged manifest, and no CURRENT",
        happen: |dir| {
            files::damage(&files::files(dir, "MANIFEST-")[0], -3, 3);
            files::remove(&dir.join("CURRENT"));
        },
        harm: true,
    },
];

fn open(stock: Option<&'static Stock>, path: &Path, settings: &Settings) -> Box<dyn Subject> {
    match stock {
        Some(stock) => {
            Box::new(StockSubject::open(stock, path, settings).unwrap_or_else(|e| panic!("{e:?}")))
        }
        None => Box::new(Engine::open(path, settings, &Env::system()).unwrap()),
    }
}

/// A random life, written by stock LevelDB or by Terrace; then every accident, a repair, and a look by both.
#[track_caller]
fn lives(name: &str, count: usize, writer: Option<&'static Stock>, readers: &[Option<&'static Stock>]) {
    for seed in seeds(name, count) {
        let plan = Plan::draw(seed, 1_500, |shape, _| (shape.own, shape.sync_one_in) = (false, 0));
        for accident in ACCIDENTS {
            let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(seed));
            let settings = Settings { create_if_missing: true, ..Settings::draw(&mut rng, plan.shape.order) };
            let context = || format!("TERRACE_SEED={seed:#x}: {} [{settings}]", accident.name);
            let mut model = Model::new(plan.shape.order);
            let mut subject = open(writer, dir.path(), &settings);
            plan.run_part(0..1_500, &mut *subject, &mut model)
                .unwrap_or_else(|report| panic!("{}: {report}", context()));
            model.forget_readers();
            drop(subject);
            // LevelDB leaves tables behind that an iterator held to the end, and sweeps them at the next open. Without a
            // manifest nobody could tell that they are old.
            drop(open(writer, dir.path(), &settings));
            (accident.happen)(dir.path());
            let options = options(&settings, &Env::system());
            let report = repair(dir.path(), &options, &RepairOptions::default())
                .unwrap_or_else(|error| panic!("{}: {error}", context()));
            let tables = files::tables(dir.path()).len();
            assert!(accident.harm || !report.changed, "{}: {report}", context());
            assert_eq!(report.blocks_lost, 0, "{}: {report}", context());
            let checked = verify(dir.path(), &options, &mut |_, _| ()).unwrap();
            assert!(checked.is_clean(), "{}: {checked}\n{tables} tables\n{report}", context());
            for reader in readers {
                let mut subject = open(*reader, dir.path(), &settings);
                compare(&mut *subject, &mut model)
                    .unwrap_or_else(|what| panic!("{}: {what}\n{report}", context()));
            }
        }
    }
}

#[test]
fn a_life_in_stock_leveldb() {
    let Some(stock) = stock_or_skip() else { return };
    lives("repair of stock", 12, Some(stock), &[Some(stock), None]);
}

#[test]
fn a_life_in_terrace() {
    let readers = stock_or_skip().map_or(vec![None], |stock| vec![None, Some(stock)]);
    lives("repair of ours", 12, None, &readers);
}
