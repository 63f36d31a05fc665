//! Bugs of LevelDB 1.23 that Terrace does not have.

use std::path::Path;

use terrace::{Db, Env, ErrorKind, Options, RepairOptions};
use terrace_testkit::crafted::{CraftedDb, CraftedTable};
use terrace_testkit::settings::Settings;

use crate::files;
use crate::process::run_in_other_process;
use terrace_torture::database_under_test::options_from_settings;

fn create() -> Options {
    options_from_settings(&Settings::create(), &Env::system())
}

fn repair(path: &Path) {
    terrace::repair(path, &create(), &RepairOptions::default()).unwrap();
}

/// LevelDB: after a repair, gets return an old version of a key and iterators the new one. A
/// compaction had rewritten the old version into a file with a higher number than that of the new
/// one on level 0. LevelDB's repair puts both on level 0, where a higher file number counts as
/// newer.
#[test]
fn repair_keeps_the_newer_of_two_versions() {
    let dir = tempfile::tempdir().unwrap();
    let database = CraftedDb::new().table(0, 10, &CraftedTable::new().put("k", 50, "new")).table(
        2,
        11,
        &CraftedTable::new().put("k", 7, "old"),
    );
    database.write_to(dir.path());
    let new = Some(b"new".to_vec());
    let seen = |db: &Db| (db.get(b"k").unwrap(), db.iter().next().map(|entry| entry.unwrap().1));
    let db = Db::open(dir.path(), &create()).unwrap();
    assert_eq!(seen(&db), (new.clone(), new.clone()), "before the repair");
    db.close().unwrap();
    repair(dir.path());
    for when in ["after the repair", "after another open", "and another"] {
        let db = Db::open(dir.path(), &create()).unwrap();
        assert_eq!(seen(&db), (new.clone(), new.clone()), "{when}");
        db.close().unwrap();
    }
}

/// LevelDB: a repair by a second process, of an open database, returns OK and moves the live log
/// away. The next put of the first process returns OK too and is lost.
#[test]
fn repair_of_an_open_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &create()).unwrap();
    db.put(b"before", b"1").unwrap();
    let error = run_in_other_process("repair", dir.path());
    assert!(error.contains("LOCK"), "{error}");
    let error = terrace::repair(dir.path(), &create(), &RepairOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    db.put(b"after", b"2").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path(), &create()).unwrap();
    assert_eq!(db.get(b"before").unwrap(), Some(b"1".to_vec()));
    assert_eq!(db.get(b"after").unwrap(), Some(b"2".to_vec()));
}

/// LevelDB: a failed second open closes a descriptor of the lock file, which releases the record
/// lock of the process. Another process can then open the same database.
#[test]
fn refused_second_open_keeps_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &create()).unwrap();
    let error = Db::open(dir.path(), &create()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    for task in ["open", "destroy", "open"] {
        let error = run_in_other_process(task, dir.path());
        assert!(error.contains("LOCK"), "{task}: {error}");
    }
    db.close().unwrap();
    assert_eq!(run_in_other_process("open", dir.path()), "ok");
}

/// LevelDB: an open that fails on the lock has already renamed the `LOG` of the running process to
/// `LOG.old`.
#[test]
fn refused_open_leaves_the_info_log() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &create()).unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap(); // Logged.
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let _db = Db::open(dir.path(), &create()).unwrap();
    let logs = || ["LOG", "LOG.old"].map(|name| files::read(&dir.path().join(name)));
    let [log, old] = logs();
    assert!(!log.is_empty(), "the recovery is in the log");
    assert_ne!(run_in_other_process("open", dir.path()), "ok");
    assert!(Db::open(dir.path(), &create()).is_err());
    let [log_after, old_after] = logs();
    assert!(log_after.starts_with(&log) && old_after == old);
}

/// An empty value is a value: in a memtable, in a table, after log replay, and at a snapshot.
#[test]
fn empty_value_is_not_a_missing_key() {
    let dir = tempfile::tempdir().unwrap();
    let check = |db: &Db, location: &str| {
        assert_eq!(db.get(b"empty").unwrap(), Some(Vec::new()), "{location}");
        assert_eq!(db.get(b"missing").unwrap(), None, "{location}");
        let entries: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
        assert_eq!(entries, [(b"empty".to_vec(), Vec::new())], "{location}");
    };
    let db = Db::open(dir.path(), &create()).unwrap();
    db.put(b"empty", b"").unwrap();
    check(&db, "memory");
    db.close().unwrap();
    let db = Db::open(dir.path(), &create()).unwrap();
    check(&db, "log");
    db.flush().unwrap();
    check(&db, "table");
    db.compact_range(None, None).unwrap();
    check(&db, "compacted table");
}
