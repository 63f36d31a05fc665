//! Beside the distribution's LevelDB: the same errors, one lock, and no database that it would read wrongly. That each
//! opens what the other left is attacked by `relay`, `heirs` and `power-cuts` of terrace-torture.

use std::path::Path;

use terrace::Env;
use terrace_testkit::run::Subject;
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
