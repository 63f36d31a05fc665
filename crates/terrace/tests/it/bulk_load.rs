//! Bulk loads hold the same entries as puts in the same order, or nothing after an error.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace::env::fault::{FaultFs, FaultPlan};
use terrace::env::mem::{Crash, MemFs};
use terrace::{
    Comparator, Db, Env, Error, LoadOptions, LoadProgress, LoadReport, Options, bulk_load,
    bulk_load_with_progress, verify,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn in_memory() -> Options {
    Options::default().create_if_missing(true).env(Env::in_memory())
}

/// Smallest memory: several runs.
fn small() -> LoadOptions {
    LoadOptions::default().memory(0).timeout(Duration::ZERO)
}

/// Returns `count` pseudo-random entries, with repeated keys.
fn random_entries(count: u64) -> Vec<(String, Vec<u8>)> {
    let mut state = 1u64;
    let entries = (0..count).map(|n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (format!("key{:07}", (state >> 33) % (count * 2)), format!("{n:030}").into_bytes())
    });
    entries.collect()
}

fn map_of(entries: &[(String, Vec<u8>)]) -> Map {
    entries.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone())).collect()
}

fn load(db: &Db, entries: &[(String, Vec<u8>)], options: &LoadOptions) -> Result<LoadReport, Error> {
    bulk_load(db, entries.iter().map(|(key, value)| Ok::<_, Error>((key, value))), options)
}

fn contents(db: &Db) -> Map {
    db.iter().map(Result::unwrap).collect()
}

fn level_tables(db: &Db) -> usize {
    db.levels().iter().map(|level| level.files.len()).sum()
}

#[track_caller]
fn check_no_leftovers(options: &Options, db: &Db) {
    let names = options.env.fs.list(Path::new("db")).unwrap();
    let names: Vec<&str> = names.iter().map(|name| name.to_str().unwrap()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".dbtmp")), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.ends_with(".ldb")).count(), level_tables(db), "{names:?}");
}

/// Symptom: a load of repeated keys failed with overlapping tables. Cause: the older entry of the
/// last key of a table began the next table. Guarantee: the last entry of a key counts.
#[test]
fn repeated_keys_at_the_end_of_a_table() {
    let options = in_memory().max_file_size(1 << 20).compression(&terrace::compress::NO_COMPRESSION);
    let db = Db::open("db", &options).unwrap();
    let entries: Vec<(String, Vec<u8>)> =
        (0..8000u32).map(|n| (format!("key{:04}", n * 7 % 4000), vec![(n / 4000) as u8; 1000])).collect();
    load(&db, &entries, &LoadOptions::default()).unwrap();
    assert!(level_tables(&db) > 2);
    assert_eq!(contents(&db), map_of(&entries));
    db.put("later", "").unwrap();
}

#[test]
fn random_order_and_repeated_keys() {
    for count in [0, 1, 100, 60_000] {
        let options = in_memory();
        let db = Db::open("db", &options).unwrap();
        let entries = random_entries(count);
        let expect = map_of(&entries);
        let report = load(&db, &entries, &small()).unwrap();
        assert_eq!((report.entries, report.keys), (count, expect.len() as u64));
        assert!(report.is_ingested);
        assert_eq!(contents(&db), expect);
        check_no_leftovers(&options, &db);
        db.close().unwrap();
        let report = verify("db", &options).unwrap();
        assert!(report.is_clean() && report.keys == Some(expect.len() as u64), "{report}");
    }
}

/// Ascending entries are not merged, unless a late entry is out of order.
#[test]
fn ascending_order_is_written_once() {
    for late in [None, Some(0), Some(30_000)] {
        let options = in_memory();
        let db = Db::open("db", &options).unwrap();
        let mut entries: Vec<_> = (0..60_000).map(|n| (format!("key{n:07}"), vec![b'v'; 30])).collect();
        entries.extend(late.map(|n| (format!("key{n:07}"), b"late".to_vec())));
        let mut merged = 0;
        let lines = entries.iter().map(|(key, value)| Ok::<_, Error>((key, value)));
        bulk_load_with_progress(&db, lines, &small(), |progress| {
            merged += usize::from(matches!(progress, LoadProgress::Merged { .. }));
        })
        .unwrap();
        assert_eq!(merged > 0, late.is_some());
        assert_eq!(contents(&db), map_of(&entries));
        check_no_leftovers(&options, &db);
    }
}

/// Comparator with the reverse of the bytewise order.
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "test.Reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
fn custom_comparator() {
    let options = in_memory().comparator(Arc::new(Reverse));
    let db = Db::open("db", &options).unwrap();
    let entries = random_entries(40_000);
    load(&db, &entries, &small()).unwrap();
    let expect: Vec<_> = map_of(&entries).into_iter().rev().collect();
    assert_eq!(db.iter().map(Result::unwrap).collect::<Vec<_>>(), expect);
}

#[test]
fn entry_that_exceeds_the_memory() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let large = vec![7; 3 << 20];
    let entries =
        [("b".to_owned(), large.clone()), ("a".to_owned(), large.clone()), ("b".to_owned(), vec![1])];
    load(&db, &entries, &small()).unwrap();
    assert_eq!(contents(&db), map_of(&entries));
}

/// Regression: the size of the tables was computed from the memory with an overflow.
#[test]
fn more_memory_than_a_machine_has() {
    let db = Db::open("db", &in_memory()).unwrap();
    let entries = random_entries(100);
    load(&db, &entries, &LoadOptions::default().memory(usize::MAX)).unwrap();
    assert_eq!(contents(&db), map_of(&entries));
}

#[test]
fn overlapping_entries_are_put() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let entries = random_entries(30_000);
    let mut expect = map_of(&entries);
    expect.insert(b"key0000000 and more".to_vec(), b"old".to_vec());
    db.put("key0000000 and more", "old").unwrap();
    db.put(&entries[0].0, "old").unwrap();
    let refused = load(&db, &entries, &small().puts_on_overlap(false));
    assert!(matches!(refused, Err(Error::Overlap { .. })), "{refused:?}");
    assert_eq!(db.iter().count(), 2);
    check_no_leftovers(&options, &db);
    let snapshot = db.snapshot();
    let report = load(&db, &entries, &small()).unwrap();
    assert!(!report.is_ingested);
    assert_eq!(contents(&db), expect);
    assert_eq!(snapshot.iter().count(), 2);
    db.flush().unwrap();
    check_no_leftovers(&options, &db);
}

#[test]
fn open_snapshot_refuses_an_atomic_load() {
    let db = Db::open("db", &in_memory()).unwrap();
    let snapshot = db.snapshot();
    let refused = load(&db, &random_entries(10), &small().puts_on_overlap(false));
    assert!(matches!(refused, Err(Error::SnapshotsOpen)), "{refused:?}");
    drop(snapshot);
    load(&db, &random_entries(10), &small().puts_on_overlap(false)).unwrap();
}

/// Error type of a caller.
#[derive(Debug)]
enum CallerError {
    Input,
    Terrace,
}

impl From<Error> for CallerError {
    fn from(_: Error) -> CallerError {
        CallerError::Terrace
    }
}

#[test]
fn iterator_that_fails_changes_nothing() {
    for failing in [0, 5, 30_000] {
        let options = in_memory();
        let db = Db::open("db", &options).unwrap();
        db.put("key", "old").unwrap();
        let lines = random_entries(40_000).into_iter().enumerate();
        let lines = lines.map(|(n, entry)| if n == failing { Err(CallerError::Input) } else { Ok(entry) });
        assert!(matches!(bulk_load(&db, lines, &small()), Err(CallerError::Input)));
        assert_eq!(contents(&db), Map::from([(b"key".to_vec(), b"old".to_vec())]));
        check_no_leftovers(&options, &db);
        db.shutdown().unwrap();
        assert!(matches!(bulk_load(&db, [Ok(("a", "b"))], &small()), Err(CallerError::Terrace)));
    }
}

/// After the close, another handle may use the directory and its file numbers.
#[test]
fn close_during_a_load() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let mut again = None;
    let lines = random_entries(40_000).into_iter().enumerate().map(|(n, entry)| {
        if n == 30_000 {
            db.shutdown().unwrap();
            let reopened = Db::open("db", &options).unwrap();
            reopened.put("a", "b").unwrap();
            reopened.flush().unwrap();
            again = Some(reopened);
        }
        Ok::<_, Error>(entry)
    });
    assert_eq!(bulk_load(&db, lines, &small()).unwrap_err().to_string(), "not supported: database is closed");
    let again = again.unwrap();
    assert_eq!(again.iter().count(), 1);
    check_no_leftovers(&options, &again);
}

#[test]
fn iterator_that_panics_changes_nothing() {
    let options = in_memory();
    let db = Db::open("db", &options).unwrap();
    let lines = random_entries(40_000).into_iter().enumerate().map(|(n, entry)| {
        if n == 30_000 {
            std::panic::resume_unwind(Box::new("the iterator panics"));
        }
        Ok::<_, Error>(entry)
    });
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bulk_load(&db, lines, &small())));
    assert!(outcome.is_err());
    assert_eq!(db.iter().count(), 0);
    check_no_leftovers(&options, &db);
    db.put("a", "b").unwrap();
}

/// A crash and an error at any call leave all entries or none, and no temporary file after the
/// next open.
#[test]
fn crash_and_error_at_each_call_of_a_load() {
    let entries = random_entries(20_000);
    let expect = map_of(&entries);
    // Most calls are appends. Their number does not matter, so only some of them fail.
    for op in ["create", "sync", "close", "rename", "sync-dir", "remove", "open", "append"] {
        for call in (1..).step_by(if op == "append" { 61 } else { 1 }) {
            let fs = Arc::new(MemFs::new());
            let faulty = Arc::new(FaultFs::new(Arc::clone(&fs) as _, FaultPlan::default()));
            let options = Options::default()
                .create_if_missing(true)
                .env(Env::with_file_system(Arc::clone(&faulty) as _));
            let db = Db::open("db", &options).unwrap();
            db.put("a", "1").unwrap();
            faulty.set_plan(format!("{op} * #{call} once ENOSPC").parse().unwrap());
            let outcome = load(&db, &entries, &small());
            let has_failed = !faulty.failed_calls().is_empty();
            let context = format!("{op} {call}: {outcome:?}");
            faulty.set_plan(FaultPlan::default());
            let killed =
                Options::default().env(Env::with_file_system(Arc::new(fs.crash_clone(&Crash::Kill))));
            let after = Db::open("db", &killed).unwrap();
            let mut found = contents(&after);
            assert!(found.remove(b"a".as_slice()).is_some(), "{context}");
            let all = found == expect;
            assert!(all || found.is_empty(), "{context}: {} entries", found.len());
            assert!(all || outcome.is_err(), "{context}");
            check_no_leftovers(&killed, &after);
            drop(db);
            if !has_failed {
                break;
            }
        }
    }
}
