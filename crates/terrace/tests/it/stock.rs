//! Both ways with the distribution's LevelDB: what one wrote, the other opens, with equal contents.

use std::path::Path;

use terrace::Env;
use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Plan, Subject, compare, seeds};
use terrace_testkit::settings::{Order, Settings};
use terrace_testkit::stock::{Stock, StockClass, StockSubject, stock_or_skip};

use crate::files;
use terrace_torture::subject::{Engine, class};

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Theirs,
    Ours,
}

use Owner::{Ours, Theirs};

impl Owner {
    fn open(self, stock: &'static Stock, path: &Path, settings: &Settings) -> Opened {
        match self {
            Theirs => {
                let opened = StockSubject::open(stock, path, settings);
                Ok(Box::new(opened.map_err(|error| (error.class, error.text))?))
            }
            Ours => {
                let opened = Engine::open(path, settings, &Env::system());
                Ok(Box::new(opened.map_err(|error| (class(error.kind()), error.to_string()))?))
            }
        }
    }
}

type Opened = Result<Box<dyn Subject>, (StockClass, String)>;

/// Splits a random run among owners, `turn` operations each. Every owner first sees exactly what the others left.
#[track_caller]
fn relay(stock: &'static Stock, seed: u64, owners: &[Owner], turn: usize) {
    let plan = Plan::draw(seed, owners.len() * turn, |shape, _| (shape.own, shape.sync_one_in) = (false, 0));
    let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(seed));
    let mut model = Model::new(plan.shape.order);
    for (at, owner) in owners.iter().enumerate() {
        let settings = Settings::draw(&mut rng, plan.shape.order);
        let context =
            || format!("TERRACE_SEED={seed:#x}: {owner:?} as owner {at} of {owners:?}, [{settings}]");
        let mut subject =
            owner.open(stock, dir.path(), &settings).unwrap_or_else(|e| panic!("{}: {e:?}", context()));
        compare(&mut *subject, &mut model).unwrap_or_else(|what| panic!("{}: {what}", context()));
        let part = at * turn..(at + 1) * turn;
        plan.run_part(part, &mut *subject, &mut model)
            .unwrap_or_else(|report| panic!("{}: {report}", context()));
        model.forget_readers();
    }
}

#[test]
fn theirs_opened_by_ours() {
    let Some(stock) = stock_or_skip() else { return };
    for seed in seeds("theirs to ours", 200) {
        relay(stock, seed, &[Theirs, Ours], 600);
    }
}

#[test]
fn ours_opened_by_theirs() {
    let Some(stock) = stock_or_skip() else { return };
    for seed in seeds("ours to theirs", 200) {
        relay(stock, seed, &[Ours, Theirs], 600);
    }
}

#[test]
fn relays() {
    let Some(stock) = stock_or_skip() else { return };
    for seed in seeds("relays", 50) {
        let first = [Theirs, Ours][(seed % 2) as usize];
        let second = if first == Theirs { Ours } else { Theirs };
        relay(stock, seed, &[first, second, first, second, first], 1_000);
    }
}

/// A database that must not open: how to spoil a healthy one, and how it is opened.
struct Spoilt {
    name: &'static str,
    spoil: fn(&Path),
    settings: fn() -> Settings,
}

fn paranoid() -> Settings {
    Settings { paranoid_checks: true, ..Settings::default() }
}

static SPOILT: &[Spoilt] = &[
    Spoilt { name: "nothing there", spoil: |dir| empty(dir), settings: Settings::default },
    Spoilt {
        name: "exists",
        spoil: |_| (),
        settings: || Settings { error_if_exists: true, ..Settings::create() },
    },
    Spoilt {
        name: "another order",
        spoil: |_| (),
        settings: || Settings { order: Order::Reverse, ..Settings::default() },
    },
    Spoilt {
        name: "empty CURRENT",
        spoil: |dir| files::write(&dir.join("CURRENT"), b""),
        settings: Settings::create,
    },
    Spoilt {
        name: "CURRENT without its newline",
        spoil: |dir| files::write(&dir.join("CURRENT"), b"MANIFEST-000002"),
        settings: Settings::create,
    },
    Spoilt {
        name: "no manifest",
        spoil: |dir| files::remove(&files::only(dir, "MANIFEST-")),
        settings: Settings::create,
    },
    Spoilt {
        name: "empty manifest",
        spoil: |dir| files::write(&files::only(dir, "MANIFEST-"), b""),
        settings: Settings::create,
    },
    Spoilt {
        name: "damaged manifest",
        spoil: |dir| files::damage(&files::only(dir, "MANIFEST-"), 0, 1000),
        settings: Settings::create,
    },
    Spoilt {
        name: "no table",
        spoil: |dir| files::remove(&files::only(dir, ".ldb")),
        settings: Settings::create,
    },
    Spoilt {
        name: "damaged log, paranoid",
        spoil: |dir| files::damage(&files::only(dir, ".log"), 10, 3),
        settings: paranoid,
    },
];

fn empty(dir: &Path) {
    files::names(dir).iter().for_each(|name| files::remove(&dir.join(name)));
}

/// A table and a log, with a manifest that nobody has to write again.
fn healthy(stock: &'static Stock, dir: &Path) {
    let db = stock.open(dir, &Settings::create()).unwrap();
    db.put(b"in a table", b"1").unwrap();
    db.compact_range(None, None);
    db.put(b"in the log", b"2").unwrap();
}

#[test]
fn errors_of_one_class() {
    let Some(stock) = stock_or_skip() else { return };
    for Spoilt { name, spoil, settings } in SPOILT {
        let [theirs, ours] = [Theirs, Ours].map(|owner| {
            let dir = tempfile::tempdir().unwrap();
            healthy(stock, dir.path());
            spoil(dir.path());
            owner
                .open(stock, dir.path(), &settings())
                .err()
                .unwrap_or((StockClass::Unknown, "it opened".into()))
        });
        assert_ne!(theirs.0, StockClass::Unknown, "{name}: {theirs:?}");
        assert_eq!(ours.0, theirs.0, "{name}: ours {ours:?}, theirs {theirs:?}");
    }
}

#[test]
fn a_missing_parent_directory() {
    let Some(stock) = stock_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such");
    let [theirs, ours] =
        [Theirs, Ours].map(|owner| owner.open(stock, &path, &Settings::create()).err().unwrap());
    assert_eq!(ours.0, theirs.0, "ours {ours:?}, theirs {theirs:?}");
}

/// Stock LevelDB sees our lock. (That we see theirs is a test of two processes.)
#[test]
fn neither_opens_what_the_other_has_open() {
    let Some(stock) = stock_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ours = Ours.open(stock, dir.path(), &Settings::create()).unwrap();
    let refused = Theirs.open(stock, dir.path(), &Settings::create()).err().unwrap();
    assert_eq!(refused.0, StockClass::Io, "{refused:?}");
    drop(ours);
    let theirs = Theirs.open(stock, dir.path(), &Settings::create()).unwrap();
    let refused = crate::process::elsewhere("open", dir.path());
    assert!(refused.contains("LOCK"), "{refused}");
    drop(theirs);
    assert_eq!(crate::process::elsewhere("open", dir.path()), "ok");
}

/// The life that `task` stands for, in a database that is still open.
pub(crate) fn life(task: &str, path: &Path) -> Box<dyn Subject> {
    let (owner, seed) = match task.split_once(' ').unwrap() {
        ("Ours", seed) => (Ours, seed),
        (_, seed) => (Theirs, seed),
    };
    let (plan, settings) = killed_plan(seed.parse().unwrap());
    let mut subject = owner.open(Stock::load().unwrap(), path, &settings).unwrap();
    plan.run_part(0..plan.ops.len(), &mut *subject, &mut Model::new(plan.shape.order)).unwrap();
    subject
}

fn killed_plan(seed: u64) -> (Plan, Settings) {
    let plan = Plan::draw(seed, 600, |shape, _| (shape.own, shape.sync_one_in) = (false, 0));
    let settings = Settings::draw(&mut Rng::new(seed), plan.shape.order);
    (plan, Settings { paranoid_checks: true, ..settings })
}

/// What a killed process leaves, with the log's unused room and all, is a database for either side.
#[test]
fn each_opens_what_the_other_left_when_it_was_killed() {
    let Some(stock) = stock_or_skip() else { return };
    for seed in seeds("killed", 20) {
        for (owner, heir) in [(Ours, Theirs), (Theirs, Ours)] {
            let (plan, settings) = killed_plan(seed);
            let dir = tempfile::tempdir().unwrap();
            crate::process::killed_after(&format!("life {owner:?} {seed}"), dir.path());
            let mut model = Model::new(plan.shape.order);
            model.write(&plan.writes().collect::<Vec<_>>());
            let mut heir =
                heir.open(stock, dir.path(), &settings).unwrap_or_else(|e| panic!("{seed:#x}: {e:?}"));
            compare(&mut *heir, &mut model)
                .unwrap_or_else(|what| panic!("{seed:#x}, left by {owner:?}: {what}"));
        }
    }
}

/// Blocks that stock LevelDB can't read are written only behind a name that makes it refuse the database whole.
#[test]
fn zstd_is_written_only_behind_the_guard() {
    let Some(stock) = stock_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let plain = terrace::Options { create_if_missing: true, ..terrace::Options::default() };
    let zstd = terrace::Options { compression: &terrace::compress::ZSTD, ..plain.clone() };
    let db = terrace::Db::open(dir.path(), &plain).unwrap();
    db.put(b"old", b"plain").unwrap();
    db.close().unwrap();
    let db = terrace::Db::open(dir.path(), &zstd).unwrap();
    db.put(b"new", "packed ".repeat(1000).as_bytes()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let before = files::names(dir.path());
    let refused = Theirs.open(stock, dir.path(), &Settings::default()).err().unwrap();
    assert_eq!(refused.0, StockClass::InvalidArgument, "{refused:?}");
    assert!(refused.1.contains("leveldb.BytewiseComparator+terrace.1 does not match"), "{refused:?}");
    let kept = files::names(dir.path());
    assert!(before.iter().all(|name| kept.contains(name) || name == "LOG"), "{before:?}, then {kept:?}");
    let db = terrace::Db::open(dir.path(), &plain).unwrap();
    assert_eq!(db.get(b"old").unwrap().as_deref(), Some(b"plain".as_slice()));
    assert!(db.get(b"new").unwrap().is_some());
}
