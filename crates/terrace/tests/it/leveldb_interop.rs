//! Comparison with the system's LevelDB: the same errors, one lock, and no database that LevelDB
//! would misread. The harnesses of terrace-torture test that each engine opens databases of the
//! other.

use std::path::Path;

use terrace::Env;
use terrace_testkit::differential::DatabaseUnderTest;
use terrace_testkit::settings::{ComparatorKind, Settings};
use terrace_testkit::stock_leveldb::{
    StatusCode, StockLevelDb, StockLevelDbUnderTest, stock_leveldb_or_skip,
};

use crate::files;
use terrace_torture::database_under_test::{TerraceUnderTest, status_code};

/// One of the two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    LevelDb,
    Terrace,
}

use Opener::{LevelDb, Terrace};

impl Opener {
    fn open(self, stock: &'static StockLevelDb, path: &Path, settings: &Settings) -> OpenResult {
        match self {
            LevelDb => {
                let opened = StockLevelDbUnderTest::open(stock, path, settings);
                Ok(Box::new(opened.map_err(|error| (error.code, error.text))?))
            }
            Terrace => {
                let opened = TerraceUnderTest::open(path, settings, &Env::system());
                Ok(Box::new(opened.map_err(|error| (status_code(error.kind()), error.to_string()))?))
            }
        }
    }
}

type OpenResult = Result<Box<dyn DatabaseUnderTest>, (StatusCode, String)>;

/// A database that must not open: damage to a healthy one, and the settings of the open.
struct DamageCase {
    name: &'static str,
    damage: fn(&Path),
    settings: fn() -> Settings,
}

fn paranoid() -> Settings {
    Settings { paranoid_checks: true, ..Settings::default() }
}

static DAMAGE_CASES: &[DamageCase] = &[
    DamageCase { name: "nothing there", damage: |dir| empty(dir), settings: Settings::default },
    DamageCase {
        name: "exists",
        damage: |_| (),
        settings: || Settings { error_if_exists: true, ..Settings::create() },
    },
    DamageCase {
        name: "another order",
        damage: |_| (),
        settings: || Settings { comparator: ComparatorKind::Reverse, ..Settings::default() },
    },
    DamageCase {
        name: "empty CURRENT",
        damage: |dir| files::write(&dir.join("CURRENT"), b""),
        settings: Settings::create,
    },
    DamageCase {
        name: "CURRENT without its newline",
        damage: |dir| files::write(&dir.join("CURRENT"), b"MANIFEST-000002"),
        settings: Settings::create,
    },
    DamageCase {
        name: "no manifest",
        damage: |dir| files::remove(&files::only(dir, "MANIFEST-")),
        settings: Settings::create,
    },
    DamageCase {
        name: "empty manifest",
        damage: |dir| files::write(&files::only(dir, "MANIFEST-"), b""),
        settings: Settings::create,
    },
    DamageCase {
        name: "damaged manifest",
        damage: |dir| files::damage(&files::only(dir, "MANIFEST-"), 0, 1000),
        settings: Settings::create,
    },
    DamageCase {
        name: "no table",
        damage: |dir| files::remove(&files::only(dir, ".ldb")),
        settings: Settings::create,
    },
    DamageCase {
        name: "damaged log, paranoid",
        damage: |dir| files::damage(&files::only(dir, ".log"), 10, 3),
        settings: paranoid,
    },
];

fn empty(dir: &Path) {
    files::names(dir).iter().for_each(|name| files::remove(&dir.join(name)));
}

/// Creates a database with a table and a log, whose manifest an open does not rewrite.
fn healthy(stock: &'static StockLevelDb, dir: &Path) {
    let db = stock.open(dir, &Settings::create()).unwrap();
    db.put(b"in a table", b"1").unwrap();
    db.compact_range(None, None);
    db.put(b"in the log", b"2").unwrap();
}

#[test]
fn error_classes_match_leveldb() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    for DamageCase { name, damage: spoil, settings } in DAMAGE_CASES {
        let [theirs, ours] = [LevelDb, Terrace].map(|owner| {
            let dir = tempfile::tempdir().unwrap();
            healthy(stock, dir.path());
            spoil(dir.path());
            owner
                .open(stock, dir.path(), &settings())
                .err()
                .unwrap_or((StatusCode::Unknown, "it opened".into()))
        });
        assert_ne!(theirs.0, StatusCode::Unknown, "{name}: {theirs:?}");
        assert_eq!(ours.0, theirs.0, "{name}: ours {ours:?}, theirs {theirs:?}");
    }
}

#[test]
fn a_missing_parent_directory() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such");
    let [theirs, ours] =
        [LevelDb, Terrace].map(|owner| owner.open(stock, &path, &Settings::create()).err().unwrap());
    assert_eq!(ours.0, theirs.0, "ours {ours:?}, theirs {theirs:?}");
}

/// LevelDB respects a lock of Terrace. (A test with two processes covers the reverse.)
#[test]
fn locks_exclude_each_other() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ours = Terrace.open(stock, dir.path(), &Settings::create()).unwrap();
    let refused = LevelDb.open(stock, dir.path(), &Settings::create()).err().unwrap();
    assert_eq!(refused.0, StatusCode::Io, "{refused:?}");
    drop(ours);
    let theirs = LevelDb.open(stock, dir.path(), &Settings::create()).unwrap();
    let refused = crate::process::run_in_other_process("open", dir.path());
    assert!(refused.contains("LOCK"), "{refused}");
    drop(theirs);
    assert_eq!(crate::process::run_in_other_process("open", dir.path()), "ok");
}

/// Blocks that LevelDB cannot read are written only after the comparator name in the manifest makes
/// LevelDB refuse the database.
#[test]
fn leveldb_refuses_databases_with_zstd() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let plain = terrace::Options::default().create_if_missing(true);
    let zstd = plain.clone().compression(&terrace::compress::ZSTD);
    let db = terrace::Db::open(dir.path(), &plain).unwrap();
    db.put(b"old", b"plain").unwrap();
    db.close().unwrap();
    let db = terrace::Db::open(dir.path(), &zstd).unwrap();
    db.put(b"new", "packed ".repeat(1000).as_bytes()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let before = files::names(dir.path());
    let refused = LevelDb.open(stock, dir.path(), &Settings::default()).err().unwrap();
    assert_eq!(refused.0, StatusCode::InvalidArgument, "{refused:?}");
    assert!(refused.1.contains("leveldb.BytewiseComparator+terrace.1 does not match"), "{refused:?}");
    let kept = files::names(dir.path());
    assert!(before.iter().all(|name| kept.contains(name) || name == "LOG"), "{before:?}, then {kept:?}");
    let db = terrace::Db::open(dir.path(), &plain).unwrap();
    assert_eq!(db.get(b"old").unwrap().as_deref(), Some(b"plain".as_slice()));
    assert!(db.get(b"new").unwrap().is_some());
}
