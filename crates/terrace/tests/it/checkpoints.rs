//! Checkpoints: copies of databases in different states, and refused targets. The attack `backups`
//! of terrace-torture tests crashes, errors and concurrent writers.
#![allow(clippy::disallowed_methods, reason = "tests prepare and inspect directories")]

use std::fs;
use std::path::Path;

use terrace::compress::{CODECS, Codec};
use terrace::{Db, Env, Error, ErrorKind, MappedLogs, Options, verify};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::StockLevelDb;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(db: &Db) -> Entries {
    db.iter().collect::<Result<_, _>>().unwrap()
}

fn in_memory() -> Options {
    Options::default().create_if_missing(true).env(Env::in_memory())
}

/// Writes tables, an immutable memtable's worth of entries, and entries that are only in the log.
fn fill(db: &Db) {
    for round in 0..3 {
        for key in 0..200 {
            db.put(format!("key {key:03}"), format!("{round} {key} {}", "x".repeat(50))).unwrap();
        }
        if round < 2 {
            db.flush().unwrap();
        }
        db.delete(format!("key {round:03}")).unwrap();
    }
}

/// Checks the copy: its entries, every block, and LevelDB's view of it.
#[track_caller]
fn check_copy(path: &Path, options: &Options, expected: &Entries, codec: &Codec) {
    let report = verify(path, options).unwrap();
    assert!(report.is_clean() && report.notes.is_empty(), "{report}");
    if let Ok(stock) = StockLevelDb::load() {
        let opened = stock.open(path, &Settings { paranoid_checks: true, ..Settings::default() });
        match (opened, codec.needs_marker) {
            (Err(error), true) => assert!(error.text.contains("comparator"), "{}", error.text),
            (Ok(_), true) => panic!("LevelDB opened a database with {}", codec.name),
            (Ok(db), false) if codec.leveldb_compatible => assert_eq!(&db.scan().unwrap(), expected),
            (opened, false) => drop(opened),
        }
    }
    let db = Db::open(path, options).unwrap();
    assert_eq!(&entries(&db), expected);
    assert!(db.recovery().damage.is_empty());
    db.put("written to the copy", "1").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db).len(), expected.len() + 1);
}

#[test]
fn every_codec_and_log_method() {
    for codec in CODECS {
        for mapped_logs in [MappedLogs::Auto, MappedLogs::Never] {
            let dir = tempfile::tempdir().unwrap();
            let mut options = Options::default().create_if_missing(true);
            options.compression = Some(codec);
            options.mapped_logs = mapped_logs;
            let db = Db::open(dir.path().join("db"), &options).unwrap();
            fill(&db);
            let expected = entries(&db);
            let first = dir.path().join("open for writing");
            assert_eq!(db.checkpoint(&first).unwrap(), 603);
            db.put("later", "2").unwrap();
            db.close().unwrap();

            // The replay of the logs is in memory only, so the copy gets tables of it.
            let reader = Db::open_read_only(dir.path().join("db"), &options).unwrap();
            let second = dir.path().join("read only");
            assert_eq!(reader.checkpoint(&second).unwrap(), 604);
            let expected_later = entries(&reader);
            check_copy(&first, &options, &expected, codec);
            check_copy(&second, &options, &expected_later, codec);
            assert_eq!(entries(&reader), expected_later, "the original changed");
        }
    }
}

#[test]
fn empty_database() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    assert_eq!(db.checkpoint("copy").unwrap(), 0);
    db.close().unwrap();
    Db::open_read_only("db", &options).unwrap().checkpoint("read-only copy").unwrap();
    for copy in ["copy", "read-only copy"] {
        let db = Db::open(copy, &options).unwrap();
        assert!(entries(&db).is_empty());
        db.put("a", "1").unwrap();
    }
}

#[test]
fn copy_of_a_copy() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db);
    let expected = entries(&db);
    db.checkpoint("copy 1").unwrap();
    for n in 1..4 {
        let db = Db::open(format!("copy {n}"), &options).unwrap();
        assert_eq!(entries(&db), expected);
        db.checkpoint(format!("copy {}", n + 1)).unwrap();
    }
}

/// LevelDB before 1.14 wrote tables with another file extension.
#[test]
fn tables_of_old_names() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let path = dir.path().join("db");
    let db = Db::open(&path, &options).unwrap();
    fill(&db);
    let expected = entries(&db);
    db.close().unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let table = entry.unwrap().path();
        if table.extension().is_some_and(|extension| extension == "ldb") {
            fs::rename(&table, table.with_extension("sst")).unwrap();
        }
    }
    let db = Db::open(&path, &options).unwrap();
    db.checkpoint(dir.path().join("copy")).unwrap();
    check_copy(&dir.path().join("copy"), &options, &expected, CODECS[0]);
}

/// A link to another file system is impossible. The memory file system of Linux is one.
#[cfg(target_os = "linux")]
#[test]
fn other_file_system() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path().join("db"), &options).unwrap();
    fill(&db);
    let expected = entries(&db);
    db.checkpoint(memory.path().join("copy")).unwrap();
    check_copy(&memory.path().join("copy"), &options, &expected, CODECS[0]);
}

/// The tables of the original stay until the checkpoint has linked them, and obsolete tables do not
/// stay longer.
#[test]
fn compaction_during_the_checkpoint() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db);
    let expected = entries(&db);
    let writer = db.clone();
    let mut is_compacted = false;
    db.checkpoint_with_progress("copy", |_, _| {
        if !std::mem::replace(&mut is_compacted, true) {
            writer.put("later", "3").unwrap();
            writer.flush().unwrap();
            writer.rewrite_tables().unwrap();
        }
    })
    .unwrap();
    assert!(is_compacted);
    assert_eq!(entries(&Db::open("copy", &options).unwrap()), expected);
    let live: usize = db.levels().iter().map(|level| level.files.len()).sum();
    db.close().unwrap();
    drop(writer);
    let names = options.env.fs.list("db".as_ref()).unwrap();
    let tables = names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb")).count();
    assert_eq!(tables, live, "{names:?}");
}

#[test]
fn refused_targets() {
    let options = in_memory();
    let fs = &options.env.fs;
    let db = Db::open("db", &options).unwrap();
    fs.create_dir("exists".as_ref()).unwrap();
    fs.create_dir("mine.partial".as_ref()).unwrap();
    fs.create_dir("mine.partial/photos".as_ref()).unwrap();
    for (target, kind, message) in [
        ("exists", ErrorKind::InvalidArgument, "exists: exists, expected the name of a new directory"),
        ("db", ErrorKind::InvalidArgument, "db: is inside of the database db"),
        ("db/below", ErrorKind::InvalidArgument, "db/below: is inside of the database db"),
        ("other/../db/below", ErrorKind::InvalidArgument, "is inside of the database db"),
        ("/", ErrorKind::InvalidArgument, "/: "),
        (
            "mine",
            ErrorKind::InvalidArgument,
            "mine.partial: is no leftover of an interrupted copy, found photos",
        ),
        ("missing/copy", ErrorKind::NotFound, "missing/copy.partial"),
    ] {
        let error = db.checkpoint(target).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        // Windows joins names by another character.
        assert!(error.to_string().replace('\\', "/").contains(message), "{error}");
    }
    assert!(fs.is_dir("mine.partial/photos".as_ref()).unwrap());
    db.checkpoint("db/../beside").unwrap();
    // A database of this name, even a closed one, is no leftover.
    Db::open("other.partial", &options).unwrap().close().unwrap();
    assert!(db.checkpoint("other").unwrap_err().to_string().contains("other.partial: is no leftover"));
    Db::open("other.partial", &options).unwrap();
    db.shutdown().unwrap();
    assert!(matches!(db.checkpoint("closed"), Err(Error::NotSupported(_))));
    assert!(!fs.exists("closed.partial".as_ref()).unwrap());
}

#[test]
fn leftover_of_an_interrupted_checkpoint() {
    let options = in_memory();
    let fs = &options.env.fs;
    let db = Db::open("db", &options).unwrap();
    fill(&db);
    db.checkpoint("old").unwrap();
    fs.create_dir("copy.partial".as_ref()).unwrap();
    fs.rename("old".as_ref(), "copy.partial/database".as_ref()).unwrap();
    db.put("new", "1").unwrap();
    db.checkpoint("copy").unwrap();
    assert!(Db::open("copy", &options).unwrap().get("new").unwrap().is_some());
    assert!(!fs.exists("copy.partial".as_ref()).unwrap());
}

/// Two threads with one target: one of them creates a whole copy.
#[test]
fn two_checkpoints_with_one_target() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    fill(&db);
    let expected = entries(&db);
    for round in 0..20 {
        let target = format!("copy {round}");
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| db.checkpoint(&target))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        assert_eq!(entries(&Db::open_read_only(&target, &options).unwrap()), expected);
    }
}
