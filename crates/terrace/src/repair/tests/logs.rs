//! Damaged logs, and logs without a manifest.

use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;

fn log() -> CraftedLog {
    CraftedLog::new().batch(1, &[("a", "A")]).batch(2, &[("b", "B")]).batch(3, &[("c", "C")])
}

#[test]
fn intact_log_is_kept() {
    let test_db = TestDb::from_crafted(&CraftedDb::new().log(3, &log()));
    let report = test_db.repair();
    assert!(!report.changed, "{report}");
    assert_eq!((report.logs_kept, report.logs_salvaged), (1, 0), "{report}");
    assert_eq!(test_db.contents(), "a=A b=B c=C");
}

#[test]
fn damaged_log_is_converted_to_a_table() {
    let damaged = CraftedLog::new()
        .batch(1, &[("a", "A")])
        .pad_to_block()
        .batch(2, &[("b", "B")])
        .pad_to_block()
        .batch(3, &[("c", "C")])
        .flip_bit(32_768 + 10);
    let test_db = TestDb::from_crafted(&CraftedDb::new().log(3, &damaged));
    let found = test_db.verify().problems;
    let report = test_db.repair();
    assert_eq!(report.problems, found);
    assert!(report.problems[0].to_string().starts_with("000003.log at 32768: checksum"), "{report}");
    assert_eq!(report.logs_salvaged, 1, "{report}");
    assert_eq!(report.moved[0], ("000003.log".into(), "lost/000003.log".into()));
    assert_eq!(test_db.contents(), "a=A c=C");
}

#[test]
fn log_record_that_is_not_a_batch() {
    let test_db = TestDb::from_crafted(&CraftedDb::new().log(3, &log().record(b"not a batch")));
    assert_eq!(test_db.repair().logs_salvaged, 1);
    assert_eq!(test_db.contents(), "a=A b=B c=C");
}

/// The numbers of the new tables follow the number of the log. Without a manifest, files with such
/// numbers are taken for foreign files.
#[test]
fn log_with_the_maximum_stray_number() {
    let last = crate::version::MAX_UNLISTED_FILE_NUMBER;
    let stray = CraftedLog::new().batch(4, &[("a", "new")]);
    let test_db = TestDb::from_crafted(&CraftedDb::new().log(3, &log()).log(last, &stray));
    test_db.remove("CURRENT");
    test_db.remove("MANIFEST");
    assert_eq!(test_db.repair().logs_salvaged, 2);
    assert_eq!(test_db.contents(), "a=new b=B c=C");
}

/// The name has the form of a log name, but no log with this number has it.
#[test]
fn log_name_with_extra_zeros_is_ignored() {
    let test_db = TestDb::from_crafted(&CraftedDb::new().log(3, &log()).file("0000000004.log", vec![7; 100]));
    assert!(!test_db.repair().changed);
    assert_eq!(test_db.contents(), "a=A b=B c=C");
    assert_eq!(test_db.read("0000000004.log"), [7; 100]);
}

/// A manifest without a previous log stores the number 0, which is also a valid log number.
#[test]
fn obsolete_log_0_stays_obsolete() {
    let edit = VersionEdit { prev_log_number: Some(64), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let old = CraftedLog::new().batch(1, &[("a", "old"), ("z", "gone")]).record(b"not a batch");
    let broken = CraftedLog::new().batch(3, &[("a", "A")]).record(b"not a batch");
    let test_db =
        TestDb::from_crafted(&CraftedDb::new().manifest_record(&record).log(0, &old).log(3, &broken));
    let report = test_db.repair();
    assert_eq!(report.logs_salvaged, 1, "{report}");
    assert!(test_db.verify().is_clean());
    assert_eq!(test_db.contents(), "a=A");
}

#[test]
fn log_writes_are_newer_than_tables() {
    let broken = CraftedLog::new().batch(8, &[("a", "newest"), ("b", "B")]).record(b"not a batch");
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().put("a", 5, "newer"))
        .table(1, 11, &CraftedTable::new().put("a", 4, "old"))
        .log(12, &broken)
        .log(14, &CraftedLog::new().batch(10, &[("b", "BB")]));
    let test_db = TestDb::from_crafted(&database);
    let report = test_db.repair();
    assert_eq!((report.tables_kept, report.tables_merged, report.logs_salvaged), (2, 0, 2), "{report}");
    assert_eq!(test_db.contents(), "a=newest b=BB");
}

/// If the log stayed, the next open would turn it into a table with a higher number than tables
/// with later writes. A second repair would then have to merge them.
#[test]
fn log_older_than_the_tables() {
    let older: &[(&str, &str)] = &[("a", "old"), ("b", "B")];
    let newer: &[(&str, &str)] = &[("c", "C")];
    for log in [
        CraftedLog::new().batch(3, older).batch(6, newer),
        CraftedLog::new().batch(6, newer).batch(3, older).batch(2, older),
    ] {
        let table = CraftedTable::new().put("a", 5, "newer");
        let test_db = TestDb::from_crafted(&CraftedDb::new().table(0, 10, &table).log(12, &log));
        let found = test_db.verify().problems;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, "sequence number 3, expected more than 5, the largest in a table");
        let report = test_db.repair();
        assert_eq!(report.problems, found);
        assert_eq!((report.tables_merged, report.logs_salvaged), (1, 1), "{report}");
        assert!(test_db.verify().is_clean());
        assert_eq!(test_db.contents(), "a=newer b=B c=C");
        assert!(!test_db.repair().changed, "a second repair has nothing to do");
    }
}

/// The writes of the log are in a table already. Without a manifest the repair uses both, which
/// changes nothing.
#[test]
fn log_already_flushed_to_a_table() {
    let database = CraftedDb::new()
        .file("000005.ldb", CraftedTable::new().put("a", 1, "A").put("b", 2, "B").put("c", 3, "C").encode())
        .file("000007.ldb", CraftedTable::new().delete("b", 9).encode())
        .log(3, &log());
    let test_db = TestDb::from_crafted(&database);
    test_db.remove("MANIFEST");
    let report = test_db.repair();
    assert_eq!((report.tables_merged, report.logs_salvaged), (2, 1), "{report}");
    assert_eq!(test_db.contents(), "a=A c=C");
}

/// A power cut has removed a page of a mapped log, so an open drops the writes after it. A repair
/// keeps all readable writes.
#[test]
fn lost_page_in_a_terrace_log() {
    let test_db = TestDb::killed_after(|db| db.put(b"a", b"A").unwrap());
    let name = test_db.only(".log");
    let log = CraftedLog::new().batch(1, &[("a", "A")]).pad_to_block_end().batch(3, &[("c", "C")]);
    test_db.write(&name, log.pad_to_block_end().bytes());
    assert_eq!(contents(&Db::open_read_only(DIR, &test_db.options).unwrap()), "a=A");
    let report = test_db.repair();
    assert_eq!(report.problems[0].message, "sequence number 3, expected 2, the next");
    assert_eq!(test_db.contents(), "a=A c=C");
}

#[test]
fn logs_larger_than_a_memtable() {
    let mut test_db = TestDb::on(MemFs::new());
    test_db.options.write_buffer_size = Some(8 << 20);
    let db = Db::open(DIR, &test_db.options).unwrap();
    for n in 0..2000u32 {
        db.put(format!("{:04}", n * 7 % 1000).as_bytes(), format!("{n}{}", value(n)).as_bytes()).unwrap();
    }
    db.close().unwrap();
    let expect = test_db.contents();
    test_db.remove("MANIFEST");
    test_db.options.write_buffer_size = Some(64 << 10);
    test_db.repair();
    assert_eq!(test_db.contents(), expect);
    // The tables overlap, so they were merged, and the inputs are removed.
    assert_eq!(test_db.find(".ldb").len(), 1);
}

/// A failed write, and the next one with the same sequence number: in a log of Terrace the first is
/// live.
#[test]
fn repeated_sequence_number_in_a_terrace_log() {
    let test_db = TestDb::killed_after(|db| db.put(b"a", b"A").unwrap());
    let name = test_db.only(".log");
    let log = CraftedLog::new().batch(1, &[("a", "A")]).batch(1, &[("b", "B")]).batch(2, &[("c", "C")]);
    test_db.write(&name, log.bytes());
    assert_eq!(contents(&Db::open_read_only(DIR, &test_db.options).unwrap()), "a=A c=C");
    let report = test_db.repair();
    assert_eq!(report.problems[0].message, "sequence number 1, expected 2, the next");
    assert_eq!(test_db.contents(), "a=A c=C");
}

/// A killed process leaves an incomplete record before preallocated space.
#[test]
fn torn_record_at_the_end_of_a_terrace_log() {
    let test_db = TestDb::killed_after(|db| db.put(b"a", b"A").unwrap());
    let name = test_db.only(".log");
    let long = "x".repeat(40_000);
    let whole = CraftedLog::new().batch(1, &[("a", "A")]);
    let torn = whole.clone().batch(2, &[("b", &long)]).truncate(32_768).append_zeros(32_768);
    test_db.write(&name, torn.bytes());
    let report = test_db.repair();
    assert!(!report.changed, "{report}");
    assert_eq!(contents(&Db::open_read_only(DIR, &test_db.options).unwrap()), "a=A");
}
