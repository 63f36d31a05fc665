//! Logs that are damaged, and logs without their manifest.

use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;

fn log() -> CraftedLog {
    CraftedLog::new().batch(1, &[("a", "A")]).batch(2, &[("b", "B")]).batch(3, &[("c", "C")])
}

#[test]
fn intact_log_is_kept() {
    let patient = TestDb::fabricated(&CraftedDb::new().log(3, &log()));
    let report = patient.repair();
    assert!(!report.changed, "{report}");
    assert_eq!((report.logs_kept, report.logs_salvaged), (1, 0), "{report}");
    assert_eq!(patient.contents(), "a=A b=B c=C");
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
    let patient = TestDb::fabricated(&CraftedDb::new().log(3, &damaged));
    let found = patient.verify().problems;
    let report = patient.repair();
    assert_eq!(report.problems, found);
    assert!(report.problems[0].to_string().starts_with("000003.log at 32768: checksum"), "{report}");
    assert_eq!(report.logs_salvaged, 1, "{report}");
    assert_eq!(report.moved[0], ("000003.log".into(), "lost/000003.log".into()));
    assert_eq!(patient.contents(), "a=A c=C");
}

#[test]
fn log_record_that_is_not_a_batch() {
    let patient = TestDb::fabricated(&CraftedDb::new().log(3, &log().record(b"not a batch")));
    assert_eq!(patient.repair().logs_salvaged, 1);
    assert_eq!(patient.contents(), "a=A b=B c=C");
}

/// New tables are numbered behind it, where names without a manifest are taken for somebody else's.
#[test]
fn log_with_the_maximum_stray_number() {
    let last = crate::version::MAX_UNLISTED_FILE_NUMBER;
    let stray = CraftedLog::new().batch(4, &[("a", "new")]);
    let patient = TestDb::fabricated(&CraftedDb::new().log(3, &log()).log(last, &stray));
    patient.remove("CURRENT");
    patient.remove("MANIFEST");
    assert_eq!(patient.repair().logs_salvaged, 2);
    assert_eq!(patient.contents(), "a=new b=B c=C");
}

/// The name says which log it is, but nobody would find it by its number.
#[test]
fn log_name_with_extra_zeros_is_ignored() {
    let patient = TestDb::fabricated(&CraftedDb::new().log(3, &log()).file("0000000004.log", vec![7; 100]));
    assert!(!patient.repair().changed);
    assert_eq!(patient.contents(), "a=A b=B c=C");
    assert_eq!(patient.read("0000000004.log"), [7; 100]);
}

/// A manifest says that there is no log before the last by the number 0, which is a log's name, too.
#[test]
fn obsolete_log_0_stays_obsolete() {
    let edit = VersionEdit { prev_log_number: Some(64), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let old = CraftedLog::new().batch(1, &[("a", "old"), ("z", "gone")]).record(b"not a batch");
    let broken = CraftedLog::new().batch(3, &[("a", "A")]).record(b"not a batch");
    let patient = TestDb::fabricated(&CraftedDb::new().manifest_record(&record).log(0, &old).log(3, &broken));
    let report = patient.repair();
    assert_eq!(report.logs_salvaged, 1, "{report}");
    assert!(patient.verify().is_clean());
    assert_eq!(patient.contents(), "a=A");
}

#[test]
fn log_writes_are_newer_than_tables() {
    let broken = CraftedLog::new().batch(8, &[("a", "newest"), ("b", "B")]).record(b"not a batch");
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().put("a", 5, "newer"))
        .table(1, 11, &CraftedTable::new().put("a", 4, "old"))
        .log(12, &broken)
        .log(14, &CraftedLog::new().batch(10, &[("b", "BB")]));
    let patient = TestDb::fabricated(&database);
    let report = patient.repair();
    assert_eq!((report.tables_kept, report.tables_merged, report.logs_salvaged), (2, 0, 2), "{report}");
    assert_eq!(patient.contents(), "a=newest b=BB");
}

/// A table that the next open makes of the log would have a higher number than tables with later writes, which a second
/// repair had to mend.
#[test]
fn log_older_than_the_tables() {
    let old: &[(&str, &str)] = &[("a", "old"), ("b", "B")];
    let new: &[(&str, &str)] = &[("c", "C")];
    for log in [
        CraftedLog::new().batch(3, old).batch(6, new),
        CraftedLog::new().batch(6, new).batch(3, old).batch(2, old),
    ] {
        let table = CraftedTable::new().put("a", 5, "newer");
        let patient = TestDb::fabricated(&CraftedDb::new().table(0, 10, &table).log(12, &log));
        let found = patient.verify().problems;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].message, "sequence number 3, expected more than 5, as in a table");
        let report = patient.repair();
        assert_eq!(report.problems, found);
        assert_eq!((report.tables_merged, report.logs_salvaged), (1, 1), "{report}");
        assert!(patient.verify().is_clean());
        assert_eq!(patient.contents(), "a=newer b=B c=C");
        assert!(!patient.repair().changed, "there was more to repair");
    }
}

/// A log whose writes are in a table already: without a manifest both count, and that changes nothing.
#[test]
fn log_already_flushed_to_a_table() {
    let database = CraftedDb::new()
        .file("000005.ldb", CraftedTable::new().put("a", 1, "A").put("b", 2, "B").put("c", 3, "C").encode())
        .file("000007.ldb", CraftedTable::new().delete("b", 9).encode())
        .log(3, &log());
    let patient = TestDb::fabricated(&database);
    patient.remove("MANIFEST");
    let report = patient.repair();
    assert_eq!((report.tables_merged, report.logs_salvaged), (2, 1), "{report}");
    assert_eq!(patient.contents(), "a=A c=C");
}

/// In a log of Terrace the writes have no gap. What stands behind one would be left out by the next open: a repair keeps
/// all that can be read.
#[test]
fn sequence_gap_in_a_terrace_log() {
    let patient = TestDb::of(|db| db.put(b"a", b"A").unwrap());
    let name = patient.only(".log");
    patient.write(&name, CraftedLog::new().batch(1, &[("a", "A")]).batch(3, &[("c", "C")]).bytes());
    let report = patient.repair();
    assert_eq!(report.problems[0].message, "sequence number 3, expected 2, the next");
    assert_eq!(patient.contents(), "a=A c=C");
}

#[test]
fn logs_larger_than_a_memtable() {
    let mut patient = TestDb::on(MemFs::new());
    patient.options.write_buffer_size = Some(8 << 20);
    let db = Db::open(DIR, &patient.options).unwrap();
    for n in 0..2000u32 {
        db.put(format!("{:04}", n * 7 % 1000).as_bytes(), format!("{n}{}", value(n)).as_bytes()).unwrap();
    }
    db.close().unwrap();
    let expect = patient.contents();
    patient.remove("MANIFEST");
    patient.options.write_buffer_size = Some(64 << 10);
    patient.repair();
    assert_eq!(patient.contents(), expect);
    // They overlap, so they were merged; and what was only made for that is gone.
    assert_eq!(patient.find(".ldb").len(), 1);
}

/// A write that failed, and the one behind it that took its number: in a log of Terrace the first counts.
#[test]
fn repeated_sequence_number_in_a_terrace_log() {
    let patient = TestDb::of(|db| db.put(b"a", b"A").unwrap());
    let name = patient.only(".log");
    let log = CraftedLog::new().batch(1, &[("a", "A")]).batch(1, &[("b", "B")]).batch(2, &[("c", "C")]);
    patient.write(&name, log.bytes());
    assert_eq!(contents(&Db::open_read_only(DIR, &patient.options).unwrap()), "a=A c=C");
    let report = patient.repair();
    assert_eq!(report.problems[0].message, "sequence number 1, expected 2, the next");
    assert_eq!(patient.contents(), "a=A c=C");
}

/// What a killed process leaves: a record that breaks off, in front of room that was set aside.
#[test]
fn torn_record_at_the_end_of_a_terrace_log() {
    let patient = TestDb::of(|db| db.put(b"a", b"A").unwrap());
    let name = patient.only(".log");
    let long = "x".repeat(40_000);
    let whole = CraftedLog::new().batch(1, &[("a", "A")]);
    let torn = whole.clone().batch(2, &[("b", &long)]).truncate(32_768).append_zeros(32_768);
    patient.write(&name, torn.bytes());
    let report = patient.repair();
    assert!(!report.changed, "{report}");
    assert_eq!(contents(&Db::open_read_only(DIR, &patient.options).unwrap()), "a=A");
}
