//! Damaged files: lost entries are reported, and no others are lost.

use terrace::ErrorKind;
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

use super::{FoundCounts, ReportedDb, key, plain, value};
use crate::files;

/// Flipped bits in a log of LevelDB. Without paranoid checks each costs the rest of its block of 32
/// KiB, so the entries of the first two blocks are lost. With paranoid checks the open fails.
#[test]
fn flipped_bits_in_a_leveldb_log() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let mut database = ReportedDb::new(plain());
    database.close();
    let db = stock.open(database.path(), &plain()).unwrap();
    (0..100).for_each(|n| db.put(&key(n), &value(n)).unwrap());
    db.close();
    let log = database.file(".log");
    files::damage(&log, 19, 1);
    files::damage(&log, 32_768 + 1_000, 1);
    database.settings.paranoid_checks = true;
    assert_eq!(database.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    database.settings.paranoid_checks = false;
    database.open();
    assert_eq!(database.find(100), FoundCounts { right: 36, missing: 64, damaged: 0 });
    assert_eq!(database.scan().unwrap(), 36);
}

/// A flipped bit in a log of Terrace: the entries before the damage are recovered, and none is
/// wrong.
#[test]
fn flipped_bit_in_a_terrace_log() {
    let mut database = ReportedDb::new(plain());
    database.fill(100);
    database.close();
    files::damage(&database.file(".log"), 2 * 32_768 + 1_000, 1);
    database.settings.paranoid_checks = true;
    assert_eq!(database.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    database.settings.paranoid_checks = false;
    database.open();
    let found = database.find(100);
    assert!(found.right >= 60 && found.missing > 0 && found.damaged == 0, "{found:?}");
    assert_eq!(database.find(60).right, 60);
}

/// A damaged block of a table: reads of its entries fail instead of reporting missing keys, and all
/// others succeed.
#[test]
fn damaged_block_of_a_table() {
    let mut database = ReportedDb::new(plain());
    database.fill(100);
    database.db().compact_range(None, None).unwrap();
    database.close();
    files::damage(&database.file(".ldb"), 100, 1);
    database.open();
    let found = database.find(100);
    assert!(found.right >= 90 && found.damaged > 0 && found.missing == 0, "{found:?}");
    assert_eq!(database.scan().unwrap_err().kind(), ErrorKind::Corruption);
}

/// Repair drops the damaged blocks and keeps the rest.
#[test]
fn repair_of_a_table_with_damaged_blocks() {
    let mut database = ReportedDb::new(plain());
    database.fill(100);
    database.db().compact_range(None, None).unwrap();
    database.close();
    let table = database.file(".ldb");
    files::damage(&table, 100, 1);
    files::damage(&table, 9_000, 1);
    database.repair();
    database.open();
    let found = database.find(100);
    assert!(found.right >= 90 && found.damaged == 0, "{found:?}");
    assert_eq!(database.scan().unwrap(), found.right);
}

/// A damaged index: reads fail for its table only.
#[test]
fn damaged_index() {
    let mut database =
        ReportedDb::new(Settings { write_buffer_size: 1 << 20, max_file_size: 1 << 20, ..plain() });
    database.fill(3_000);
    database.db().compact_range(None, None).unwrap();
    database.close();
    let tables = files::tables(database.path());
    assert!(tables.len() >= 3, "{tables:?}");
    files::damage(&tables[tables.len() / 2], -2_000, 500);
    database.open();
    let found = database.find(3_000);
    assert!(found.right >= 1_500 && found.damaged > 0 && found.missing == 0, "{found:?}");
}

/// A missing manifest: the open reports it, and a repair recovers all entries.
#[test]
fn repair_of_a_missing_manifest() {
    let mut database = ReportedDb::new(plain());
    database.fill(1_000);
    database.close();
    files::remove(&database.file("MANIFEST-"));
    assert_eq!(database.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    database.repair();
    database.open();
    assert_eq!(database.find(1_000).right, 1_000);
}

/// A manifest with a damaged start.
#[test]
fn repair_of_a_damaged_manifest() {
    let mut database = ReportedDb::new(plain());
    database.put("foo", "hello");
    database.db().flush().unwrap();
    database.close();
    files::damage(&database.file("MANIFEST-"), 0, 1_000);
    assert_eq!(database.try_open().err().unwrap().kind(), ErrorKind::Corruption);
    database.repair();
    database.open();
    assert_eq!(database.get("foo"), Some("hello".into()));
}

/// After a repair the last sequence number must not be too low; otherwise older writes would hide
/// new ones.
#[test]
fn writes_after_a_repair_are_the_newest() {
    let mut database = ReportedDb::new(plain());
    for n in 1..=5 {
        database.put("foo", &format!("v{n}"));
    }
    database.repair();
    database.open();
    assert_eq!(database.get("foo"), Some("v5".into()));
    database.put("foo", "v6");
    assert_eq!(database.get("foo"), Some("v6".into()));
    database.open();
    assert_eq!(database.get("foo"), Some("v6".into()));
}

/// A compaction that cannot read an input must not stop writers, and must not lose readable
/// entries.
#[test]
fn damaged_table_does_not_stop_writes() {
    let mut database = ReportedDb::new(Settings { write_buffer_size: 64 << 10, ..plain() });
    database.fill(10);
    database.db().flush().unwrap();
    database.close();
    files::damage(&database.file(".ldb"), 100, 1);
    database.open();
    assert!(database.find(10).right >= 5);
    database.fill(2_000);
    assert_eq!(database.find(2_000).right, 2_000);
}

/// A compaction with paranoid checks that finds corruption reports it and drops no entry.
#[test]
fn compaction_reports_corruption() {
    let mut database = ReportedDb::new(Settings { paranoid_checks: true, ..plain() });
    for _ in 0..2 {
        database.fill(20);
        database.db().flush().unwrap();
    }
    database.close();
    files::tables(database.path()).iter().for_each(|table| files::damage(table, 100, 1));
    database.open();
    let before = database.find(20);
    assert!(before.right >= 10 && before.damaged > 0, "{before:?}");
    assert_eq!(database.db().compact_range(None, None).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(database.find(20), before);
}

/// A damaged table does not hide other entries: a get finds them in the memtable, and later in
/// another table.
#[test]
fn keys_outside_the_damaged_table() {
    let mut database = ReportedDb::new(plain());
    database.fill(10);
    database.db().flush().unwrap();
    database.close();
    files::damage(&database.file(".ldb"), 100, 1);
    database.open();
    database.db().put(key(1_000), value(1_000)).unwrap();
    assert_eq!(database.db().get(key(1_000)).unwrap(), Some(value(1_000)));
    database.db().flush().unwrap();
    assert_eq!(database.db().get(key(1_000)).unwrap(), Some(value(1_000)));
}
