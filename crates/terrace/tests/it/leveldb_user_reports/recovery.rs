//! Reopening a database: reused and new files, and the recovered entries.

use terrace::ErrorKind;
use terrace_testkit::crafted::CraftedLog;
use terrace_testkit::settings::Settings;

use super::{ReportedDb, plain};
use crate::files;

fn reuse_logs_settings() -> Settings {
    Settings { reuse_logs: true, ..plain() }
}

#[test]
fn manifest_is_reused() {
    let mut database = ReportedDb::new(reuse_logs_settings());
    database.put("foo", "bar");
    database.close();
    let manifest = database.file("MANIFEST-");
    for _ in 0..3 {
        database.open();
        assert_eq!((database.file("MANIFEST-"), database.get("foo")), (manifest.clone(), Some("bar".into())));
    }
}

/// A manifest that has grown too large is rotated, once.
#[test]
fn large_manifest_is_rotated() {
    let mut database = ReportedDb::new(reuse_logs_settings());
    database.put("foo", "bar");
    database.close();
    let old = database.file("MANIFEST-");
    let mut bytes = files::read(&old);
    bytes.resize(3 << 20, 0);
    files::write(&old, &bytes);
    database.open();
    let new = database.file("MANIFEST-");
    assert_ne!(new, old);
    assert!(files::read(&new).len() < 100_000);
    assert_eq!(database.get("foo"), Some("bar".into()));
    database.open();
    assert_eq!((database.file("MANIFEST-"), database.get("foo")), (new, Some("bar".into())));
}

#[test]
fn missing_log() {
    let mut database = ReportedDb::new(plain());
    database.put("foo", "bar");
    database.close();
    files::remove(&database.file(".log"));
    database.open();
    assert_eq!(database.get("foo"), None);
    database.put("foo", "again");
    database.open();
    assert_eq!(database.get("foo"), Some("again".into()));
}

#[test]
fn log_is_reused() {
    let mut database = ReportedDb::new(reuse_logs_settings());
    database.put("foo", "bar");
    database.close();
    let log = database.file(".log");
    for n in 0..3 {
        database.open();
        assert_eq!((database.file(".log"), database.get("foo")), (log.clone(), Some("bar".into())));
        database.put(&format!("key{n}"), "x");
        assert!(files::tables(database.path()).is_empty());
    }
    database.open();
    assert_eq!(database.get("key0").zip(database.get("key2")), Some(("x".into(), "x".into())));
}

/// A log larger than the write buffer becomes several tables.
#[test]
fn log_larger_than_the_write_buffer() {
    for reuse_logs in [false, true] {
        let mut database = ReportedDb::new(Settings { reuse_logs, ..plain() });
        database.fill(200);
        database.close();
        assert_eq!(files::tables(database.path()).len(), 0);
        database.settings.write_buffer_size = 64 << 10;
        database.open();
        assert!(files::tables(database.path()).len() > 1);
        assert_eq!(database.find(200).right, 200);
        database.open();
        assert_eq!(database.find(200).right, 200);
    }
}

/// A crash between two memtables leaves several logs.
#[test]
fn several_logs() {
    let mut database = ReportedDb::new(plain());
    database.put("foo", "bar");
    database.close();
    let number: u64 = database.file(".log").file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let log = |offset| database.path().join(format!("{:06}.log", number + offset));
    files::write(&log(1), CraftedLog::new().batch(2, &[("hello", "world"), ("foo", "baz")]).bytes());
    files::write(&log(4), CraftedLog::new().batch(4, &[("hi", "there"), ("hello", "moon")]).bytes());
    database.open();
    for (key, value) in [("foo", "baz"), ("hello", "moon"), ("hi", "there")] {
        assert_eq!(database.get(key), Some(value.into()), "{key}");
    }
    assert_eq!(files::files(database.path(), ".log").len(), 1);
    database.put("hi", "again");
    database.open();
    assert_eq!(database.get("hi"), Some("again".into()));
}

#[test]
fn missing_manifest() {
    let mut database = ReportedDb::new(plain());
    database.put("foo", "bar");
    database.close();
    files::remove(&database.file("MANIFEST-"));
    let error = database.try_open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("MANIFEST"), "{error}");
}
