//! Opening again: which files are kept, which are made, and what is there.

use terrace::ErrorKind;
use terrace_testkit::crafted::CraftedLog;
use terrace_testkit::settings::Settings;

use super::{ReportedDb, plain};
use crate::files;

fn reusing() -> Settings {
    Settings { reuse_logs: true, ..plain() }
}

#[test]
fn manifest_is_reused() {
    let mut story = ReportedDb::new(reusing());
    story.put("foo", "bar");
    story.close();
    let manifest = story.file("MANIFEST-");
    for _ in 0..3 {
        story.open();
        assert_eq!((story.file("MANIFEST-"), story.get("foo")), (manifest.clone(), Some("bar".into())));
    }
}

/// A manifest that has grown too large is written anew, once.
#[test]
fn large_manifest_is_rotated() {
    let mut story = ReportedDb::new(reusing());
    story.put("foo", "bar");
    story.close();
    let old = story.file("MANIFEST-");
    let mut bytes = files::read(&old);
    bytes.resize(3 << 20, 0);
    files::write(&old, &bytes);
    story.open();
    let new = story.file("MANIFEST-");
    assert_ne!(new, old);
    assert!(files::read(&new).len() < 100_000);
    assert_eq!(story.get("foo"), Some("bar".into()));
    story.open();
    assert_eq!((story.file("MANIFEST-"), story.get("foo")), (new, Some("bar".into())));
}

#[test]
fn missing_log() {
    let mut story = ReportedDb::new(plain());
    story.put("foo", "bar");
    story.close();
    files::remove(&story.file(".log"));
    story.open();
    assert_eq!(story.get("foo"), None);
    story.put("foo", "again");
    story.open();
    assert_eq!(story.get("foo"), Some("again".into()));
}

#[test]
fn log_is_reused() {
    let mut story = ReportedDb::new(reusing());
    story.put("foo", "bar");
    story.close();
    let log = story.file(".log");
    for n in 0..3 {
        story.open();
        assert_eq!((story.file(".log"), story.get("foo")), (log.clone(), Some("bar".into())));
        story.put(&format!("key{n}"), "x");
        assert!(files::tables(story.path()).is_empty());
    }
    story.open();
    assert_eq!(story.get("key0").zip(story.get("key2")), Some(("x".into(), "x".into())));
}

/// A log of more than a write buffer holds becomes several tables.
#[test]
fn a_log_larger_than_the_write_buffer() {
    for reuse_logs in [false, true] {
        let mut story = ReportedDb::new(Settings { reuse_logs, ..plain() });
        story.fill(200);
        story.close();
        assert_eq!(files::tables(story.path()).len(), 0);
        story.settings.write_buffer_size = 64 << 10;
        story.open();
        assert!(files::tables(story.path()).len() > 1);
        assert_eq!(story.find(200).right, 200);
        story.open();
        assert_eq!(story.find(200).right, 200);
    }
}

/// Logs that another LevelDB left behind ours, as a crash between two memtables leaves them.
#[test]
fn several_logs() {
    let mut story = ReportedDb::new(plain());
    story.put("foo", "bar");
    story.close();
    let number: u64 = story.file(".log").file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let log = |offset| story.path().join(format!("{:06}.log", number + offset));
    files::write(&log(1), CraftedLog::new().batch(2, &[("hello", "world"), ("foo", "baz")]).bytes());
    files::write(&log(4), CraftedLog::new().batch(4, &[("hi", "there"), ("hello", "moon")]).bytes());
    story.open();
    for (key, value) in [("foo", "baz"), ("hello", "moon"), ("hi", "there")] {
        assert_eq!(story.get(key), Some(value.into()), "{key}");
    }
    assert_eq!(files::files(story.path(), ".log").len(), 1);
    story.put("hi", "again");
    story.open();
    assert_eq!(story.get("hi"), Some("again".into()));
}

#[test]
fn missing_manifest() {
    let mut story = ReportedDb::new(plain());
    story.put("foo", "bar");
    story.close();
    files::remove(&story.file("MANIFEST-"));
    let error = story.try_open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("MANIFEST"), "{error}");
}
