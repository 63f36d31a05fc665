//! Databases on Windows: names, open files, and locks of other processes.
#![cfg(windows)]

use std::path::{Path, PathBuf};

use terrace::{Db, Options};

use crate::{files, process};

fn options() -> Options {
    Options::default().create_if_missing(true)
}

fn fill(db: &Db, version: u32) {
    for n in 0..5_000u32 {
        db.put(format!("{n:06}"), format!("{version} of {n}")).unwrap();
    }
    db.flush().unwrap();
}

fn check(db: &Db, version: u32) {
    let entries = db.iter().map(|entry| entry.unwrap());
    let count = entries.inspect(|(key, value)| {
        let n: u32 = std::str::from_utf8(key).unwrap().parse().unwrap();
        assert_eq!(*value, format!("{version} of {n}").into_bytes());
    });
    assert_eq!(count.count(), 5_000);
}

#[track_caller]
fn check_path(path: &Path) {
    let db = Db::open(path, &options()).unwrap();
    fill(&db, 1);
    db.close().unwrap();
    let db = Db::open(path, &Options::default()).unwrap();
    check(&db, 1);
    db.checkpoint(path.with_extension("copy")).unwrap();
    drop(db);
    assert!(terrace::verify(path, &Options::default()).unwrap().problems.is_empty());
    check(&Db::open_read_only(path.with_extension("copy"), &Options::default()).unwrap(), 1);
    terrace::destroy(path, &options()).unwrap();
    assert!(!path.exists());
}

#[test]
fn names_outside_of_ascii() {
    let directory = tempfile::tempdir().unwrap();
    check_path(&directory.path().join("Größe プラットフォーム 🦀"));
}

#[test]
fn paths_above_260_characters() {
    let directory = tempfile::tempdir().unwrap();
    let part = "long".repeat(50);
    let parent: PathBuf = [directory.path(), Path::new(&part), Path::new(&part)].iter().collect();
    files::create_directory(&parent);
    check_path(&parent.join("database"));
}

/// The compaction removes tables that the iterator and the snapshot read.
#[test]
fn compaction_beside_an_iterator() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), &options()).unwrap();
    fill(&db, 1);
    let old_tables = files::tables(directory.path());
    let mut iterator = db.iter();
    let (_, first) = iterator.next().unwrap().unwrap();
    assert_eq!(first, b"1 of 0");
    fill(&db, 2);
    db.compact_range(None, None).unwrap();
    let (_, second) = iterator.next().unwrap().unwrap();
    assert_eq!(second, b"1 of 1");
    assert_eq!(iterator.count(), 4_998);
    db.compact_range(None, None).unwrap();
    check(&db, 2);
    drop(db);
    let db = Db::open(directory.path(), &options()).unwrap();
    check(&db, 2);
    assert!(old_tables.iter().all(|table| !table.exists()), "{:?}", files::names(directory.path()));
}

#[test]
fn lock_of_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Db::open(&path, &options()).unwrap();
    fill(&db, 1);
    for task in ["open", "repair", "destroy"] {
        let refused = process::run_in_other_process(task, &path);
        assert!(refused.contains("the database is open in another process"), "{task}: {refused}");
    }
    let refused = Db::open(&path, &options()).unwrap_err().to_string();
    assert!(refused.contains("the database is already open in this process"), "{refused}");
    check(&db, 1);
    drop(db);
    assert_eq!(process::run_in_other_process("open", &path), "ok");
    assert_eq!(process::run_in_other_process("destroy", &path), "ok");
    assert!(!path.exists());
}

/// Not a test: the tests of other systems that this one cannot run.
#[test]
fn not_tested() {
    for reason in [
        "uncompressed blocks in mapped tables: Windows cannot remove a mapped file",
        "links, FIFOs and special files in a database: they need rights that few users have",
        "files without permission, read-only mounts, limits on descriptors: Windows has other means",
        "a directory that is removed or renamed while a follower has its files open: Windows refuses it",
        "gets without waits from the page cache: they need mapped tables",
        "a memory limit of the process: it is tested with control groups",
        "power cuts, and a file system other than that of this machine",
    ] {
        println!("NOT TESTED: {reason}");
    }
}
