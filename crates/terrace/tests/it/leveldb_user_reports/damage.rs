//! Damaged files: what is lost is said to be lost, and nothing else is.

use terrace::ErrorKind;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

use super::{FoundCounts, ReportedDb, key, plain, value};
use crate::files;

/// A bit flipped in the log that stock LevelDB left behind: it drops the rest of each damaged block of 32 KiB, so of
/// 100 entries those of the first two blocks are gone. With paranoid checks the open fails instead.
#[test]
fn flipped_bits_in_a_leveldb_log() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let mut story = ReportedDb::new(plain());
    story.close();
    let db = stock.open(story.path(), &plain()).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &value(n)).unwrap());
    db.close();
    let log = story.file(".log");
    files::damage(&log, 19, 1);
    files::damage(&log, 32_768 + 1_000, 1);
    story.settings.paranoid_checks = true;
    assert_eq!(story.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    story.settings.paranoid_checks = false;
    story.open();
    assert_eq!(story.find(100), FoundCounts { right: 36, missing: 64, damaged: 0 });
    assert_eq!(story.scan().unwrap(), 36);
}

/// The same in a log of our own: what came before the damage is there, and no entry is wrong.
#[test]
fn flipped_bit_in_a_terrace_log() {
    let mut story = ReportedDb::new(plain());
    story.fill(100);
    story.close();
    files::damage(&story.file(".log"), 2 * 32_768 + 1_000, 1);
    story.settings.paranoid_checks = true;
    assert_eq!(story.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    story.settings.paranoid_checks = false;
    story.open();
    let found = story.find(100);
    assert!(found.right >= 60 && found.missing > 0 && found.damaged == 0, "{found:?}");
    assert_eq!(story.find(60).right, 60);
}

/// One damaged block of a table: its entries are errors, not absences, and all others are there.
#[test]
fn a_damaged_block_of_a_table() {
    let mut story = ReportedDb::new(plain());
    story.fill(100);
    story.db().compact_range(None, None).unwrap();
    story.close();
    files::damage(&story.file(".ldb"), 100, 1);
    story.open();
    let found = story.find(100);
    assert!(found.right >= 90 && found.damaged > 0 && found.missing == 0, "{found:?}");
    assert_eq!(story.scan().unwrap_err().kind(), ErrorKind::Corruption);
}

/// Repair drops the damaged blocks and keeps the rest.
#[test]
fn repair_of_a_table_with_damaged_blocks() {
    let mut story = ReportedDb::new(plain());
    story.fill(100);
    story.db().compact_range(None, None).unwrap();
    story.close();
    let table = story.file(".ldb");
    files::damage(&table, 100, 1);
    files::damage(&table, 9_000, 1);
    story.repair();
    story.open();
    let found = story.find(100);
    assert!(found.right >= 90 && found.damaged == 0, "{found:?}");
    assert_eq!(story.scan().unwrap(), found.right);
}

/// The index of one of several tables: that table is lost to readers, the others are not.
#[test]
fn a_damaged_index() {
    let mut story =
        ReportedDb::new(Settings { write_buffer_size: 1 << 20, max_file_size: 1 << 20, ..plain() });
    story.fill(3_000);
    story.db().compact_range(None, None).unwrap();
    story.close();
    let tables = files::tables(story.path());
    assert!(tables.len() >= 3, "{tables:?}");
    files::damage(&tables[tables.len() / 2], -2_000, 500);
    story.open();
    let found = story.find(3_000);
    assert!(found.right >= 1_500 && found.damaged > 0 && found.missing == 0, "{found:?}");
}

/// No manifest: the open says so, and repair finds everything again.
#[test]
fn repair_of_a_missing_manifest() {
    let mut story = ReportedDb::new(plain());
    story.fill(1_000);
    story.close();
    files::remove(&story.file("MANIFEST-"));
    assert_eq!(story.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    story.repair();
    story.open();
    assert_eq!(story.find(1_000).right, 1_000);
}

/// A manifest whose beginning is damaged.
#[test]
fn repair_of_a_damaged_manifest() {
    let mut story = ReportedDb::new(plain());
    story.put("foo", "hello");
    story.db().flush().unwrap();
    story.close();
    files::damage(&story.file("MANIFEST-"), 0, 1_000);
    assert_eq!(story.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    story.repair();
    story.open();
    assert_eq!(story.get("foo"), Some("hello".into()));
}

/// After a repair the last sequence number must not be too low, or new writes hide behind old ones.
#[test]
fn writes_after_a_repair_are_the_newest() {
    let mut story = ReportedDb::new(plain());
    for n in 1..=5 {
        story.put("foo", &format!("v{n}"));
    }
    story.repair();
    story.open();
    assert_eq!(story.get("foo"), Some("v5".into()));
    story.put("foo", "v6");
    assert_eq!(story.get("foo"), Some("v6".into()));
    story.open();
    assert_eq!(story.get("foo"), Some("v6".into()));
}

/// A merge that can't read one of its inputs must not hold up writers, nor lose what it could read.
#[test]
fn a_damaged_table_does_not_stop_writes() {
    let mut story = ReportedDb::new(Settings { write_buffer_size: 64 << 10, ..plain() });
    story.fill(10);
    story.db().flush().unwrap();
    story.close();
    files::damage(&story.file(".ldb"), 100, 1);
    story.open();
    assert!(story.find(10).right >= 5);
    story.fill(2_000);
    assert_eq!(story.find(2_000).right, 2_000);
}

/// With paranoid checks a merge that meets damage says so, and throws nothing away.
#[test]
fn compaction_reports_corruption() {
    let mut story = ReportedDb::new(Settings { paranoid_checks: true, ..plain() });
    for _ in 0..2 {
        story.fill(20);
        story.db().flush().unwrap();
    }
    story.close();
    files::tables(story.path()).iter().for_each(|table| files::damage(table, 100, 1));
    story.open();
    let before = story.find(20);
    assert!(before.right >= 10 && before.damaged > 0, "{before:?}");
    assert_eq!(story.db().compact_range(None, None).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(story.find(20), before);
}

/// Entries in other files than the damaged one.
#[test]
fn keys_outside_the_damaged_table() {
    let mut story = ReportedDb::new(plain());
    story.fill(10);
    story.db().flush().unwrap();
    story.close();
    files::damage(&story.file(".ldb"), 100, 1);
    story.open();
    story.db().put(&key(1_000), &value(1_000)).unwrap();
    assert_eq!(story.db().get(&key(1_000)).unwrap(), Some(value(1_000)));
    story.db().flush().unwrap();
    assert_eq!(story.db().get(&key(1_000)).unwrap(), Some(value(1_000)));
}
