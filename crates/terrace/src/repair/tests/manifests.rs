//! CURRENT and manifests that are missing or damaged.

use terrace_format::key::{InternalKey, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;
use crate::ErrorKind;

/// Versions and deletes on three levels and in the log.
fn layered() -> TestDb {
    TestDb::of(|db| {
        fill(db);
        db.put(b"deleted", b"1").unwrap();
        db.put(b"twice", b"old").unwrap();
        db.compact_range(None, None).unwrap();
        db.delete(b"deleted").unwrap();
        db.put(b"twice", b"new").unwrap();
        db.flush().unwrap();
        db.delete(b"k19").unwrap();
        db.put(b"k19", value(19).as_bytes()).unwrap();
        db.put(b"zz", b"log").unwrap();
    })
}

#[track_caller]
fn check_layered(patient: &TestDb) {
    let text = patient.contents();
    assert!(!text.contains("deleted") && text.contains("twice=new") && text.contains("zz=log"), "{text}");
    assert_eq!(text.split(' ').count(), 22, "{text}");
}

#[test]
fn missing_current() {
    let patient = layered();
    patient.remove("CURRENT");
    let report = patient.repair();
    assert_eq!(report.actions, [format!("CURRENT names {}, which is whole", patient.only("MANIFEST"))]);
    assert_eq!(report.moved, []);
    check_layered(&patient);
}

#[test]
fn invalid_current() {
    for contents in ["", "MANIFEST-000002", "MANIFEST-999999\n", "../etc/passwd\n"] {
        let patient = layered();
        patient.write("CURRENT", contents.as_bytes());
        assert!(!patient.verify().is_clean(), "{contents}");
        patient.repair();
        check_layered(&patient);
    }
}

#[test]
fn missing_manifest() {
    let patient = layered();
    patient.remove("MANIFEST");
    let report = patient.repair();
    assert_eq!((report.logs_salvaged, report.blocks_lost), (1, 0), "{report}");
    check_layered(&patient);
}

/// It was listed twice again by the manifest that the repair wrote.
#[test]
fn table_listed_twice() {
    let table = CraftedTable::new().put("k", 1, "K");
    let database = CraftedDb::new().table(1, 9, &table).table(4, 9, &table);
    let patient = TestDb::fabricated(&database);
    let found = patient.verify().problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].message, "lists table 9 twice");
    let report = patient.repair();
    assert_eq!((&report.problems, report.tables_kept), (&found, 1), "{report}");
    assert!(patient.verify().is_clean());
    assert_eq!(patient.contents(), "k=K");
}

#[test]
fn neither_current_nor_manifest() {
    let patient = layered();
    patient.remove("CURRENT");
    patient.remove("MANIFEST");
    patient.repair();
    check_layered(&patient);
    // And it is a database again: what is written now is newer than everything.
    let db = Db::open(DIR, &patient.options).unwrap();
    db.put(b"twice", b"newest").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get(b"twice").unwrap().as_deref(), Some(b"newest".as_slice()));
}

#[test]
fn flipped_bit_in_each_manifest_byte() {
    let fs = layered().fs.fork();
    let patient = TestDb::on(fs.fork());
    let length = patient.read(&patient.only("MANIFEST")).len() as i64;
    for at in 0..length {
        let patient = TestDb::on(fs.fork());
        patient.flip("MANIFEST", at);
        let report = patient.repair();
        assert_eq!(report.blocks_lost, 0, "bit at {at}: {report}");
        check_layered(&patient);
    }
}

#[test]
fn manifest_truncated_at_each_length() {
    let fs = layered().fs.fork();
    let patient = TestDb::on(fs.fork());
    let bytes = patient.read(&patient.only("MANIFEST"));
    for len in 0..bytes.len() {
        let patient = TestDb::on(fs.fork());
        patient.write(&patient.only("MANIFEST"), &bytes[..len]);
        patient.repair();
        check_layered(&patient);
    }
}

/// LevelDB's repair puts all tables on level 0, where it takes the higher number for the newer: get then returned the
/// old version, and an iterator the new one.
#[test]
fn older_version_in_the_higher_numbered_table() {
    let database = CraftedDb::new().table(0, 10, &CraftedTable::new().put("k", 50, "new")).table(
        2,
        11,
        &CraftedTable::new().put("k", 7, "old").put("l", 8, "L"),
    );
    for lost in [false, true] {
        let patient = TestDb::fabricated(&database);
        if lost {
            patient.remove("MANIFEST");
        }
        assert_eq!(patient.repair().changed, lost);
        assert_eq!(patient.contents(), "k=new l=L");
    }
}

#[test]
fn disjoint_tables_are_kept_without_a_manifest() {
    let database = CraftedDb::new()
        .table(1, 10, &CraftedTable::new().put("a", 1, "A").put("b", 2, "B"))
        .table(2, 11, &CraftedTable::new().put("c", 3, "C"))
        .table(0, 12, &CraftedTable::new().delete("c", 4).put("d", 5, "D"))
        .table(3, 13, &CraftedTable::new().put("e", 6, "E"));
    let patient = TestDb::fabricated(&database.rename_file("000013.ldb", "000013.sst"));
    patient.remove("MANIFEST");
    let report = patient.repair();
    assert_eq!((report.tables_kept, report.tables_merged), (2, 2), "{report}");
    assert_eq!(patient.contents(), "a=A b=B d=D e=E");
    assert_eq!(patient.find(".sst"), ["000013.sst"]);
}

/// Their versions do not overlap, but a look-up would ask only one of the two for the key.
#[test]
fn versions_of_one_key_at_table_boundaries() {
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().put("a", 1, "A").put("k", 9, "new"))
        .table(0, 11, &CraftedTable::new().put("k", 5, "old").put("z", 6, "Z"));
    let patient = TestDb::fabricated(&database);
    patient.remove("MANIFEST");
    assert_eq!(patient.repair().tables_merged, 2);
    assert_eq!(patient.contents(), "a=A k=new z=Z");
}

#[test]
fn merge_keeps_versions_of_one_key_in_one_table() {
    let long = "x".repeat(600_000);
    let first = CraftedTable::new().put("a", 3, &long).put("b", 7, &long).put("b", 5, &long).put("c", 1, "C");
    let second =
        CraftedTable::new().put("b", 8, &long).put("b", 6, &long).put("b", 4, &long).put("c", 2, "CC");
    let mut patient = TestDb::fabricated(&CraftedDb::new().table(0, 10, &first).table(0, 11, &second));
    patient.options.compression = &crate::compress::NO_COMPRESSION;
    patient.remove("MANIFEST");
    patient.repair();
    let db = Db::open_read_only(DIR, &patient.options).unwrap();
    let files = &db.levels()[6].files;
    assert!(files.len() > 1, "{files:?}");
    assert!(files.windows(2).all(|pair| pair[0].largest < pair[1].smallest), "{files:?}");
}

/// A manifest that CURRENT does not name never counted: what it calls replaced is not.
#[test]
fn unfinished_manifest_is_ignored() {
    let file = |number, key: &str| NewFile {
        number,
        size: 100,
        smallest: InternalKey::new(key.as_bytes(), 1, ValueType::Value),
        largest: InternalKey::new(key.as_bytes(), 1, ValueType::Value),
    };
    let snapshot = VersionEdit {
        comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
        log_number: Some(30),
        new_files: vec![(1, file(19, "a"))],
        ..VersionEdit::default()
    };
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .log(13, &CraftedLog::new().batch(7, &[("b", "B")]))
        .manifest_record(b"\xff damaged")
        .file("MANIFEST-000020", CraftedLog::new().record(&record(snapshot)).bytes().to_vec());
    let patient = TestDb::fabricated(&database);
    patient.repair();
    assert_eq!(patient.contents(), "a=A b=B");
}

#[test]
fn ldb_and_sst_with_the_same_number() {
    let table = |key: &str, sequence| CraftedTable::new().put(key, sequence, "v");
    let database = CraftedDb::new()
        .file("000010.ldb", table("a", 1).encode())
        .file("000010.sst", table("b", 2).encode());
    let patient = TestDb::fabricated(&database);
    patient.remove("MANIFEST");
    patient.repair();
    assert_eq!(patient.contents(), "a=v b=v");
}

fn record(edit: VersionEdit) -> Vec<u8> {
    let mut record = Vec::new();
    edit.encode(&mut record);
    record
}

/// A merge dropped a delete and what it hid, and the tables it read are still in the directory. The end of the manifest
/// is damaged, behind the edit that says so.
#[test]
fn tables_deleted_in_the_manifest_stay_deleted() {
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().delete("gone", 9))
        .table(1, 11, &CraftedTable::new().put("gone", 5, "back again"))
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .manifest_record(&record(VersionEdit {
            deleted_files: vec![(0, 10), (1, 11)],
            ..VersionEdit::default()
        }))
        .manifest_record(b"\xff damaged")
        .without_file("000010.ldb");
    let patient = TestDb::fabricated(&database);
    let report = patient.repair();
    assert!(report.moved.contains(&("000011.ldb".into(), "lost/000011.ldb".into())), "{report}");
    assert_eq!(patient.contents(), "kept=K");
}

/// The same, but the merge was before the manifest was begun, so that no edit speaks of the old table. Its number does.
#[test]
fn unlisted_table_older_than_the_manifest() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .file("000001.ldb", CraftedTable::new().put("gone", 5, "back again").encode())
        .manifest_record(b"\xff damaged");
    let patient = TestDb::fabricated(&database);
    patient.repair();
    assert_eq!(patient.contents(), "kept=K");
}

/// It is older than the manifest, but it holds what came later: it was being written when the manifest was begun.
#[test]
fn table_written_while_the_manifest_was_created() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .file("000001.ldb", CraftedTable::new().put("later", 7, "L").encode())
        .manifest_record(b"\xff damaged");
    let patient = TestDb::fabricated(&database);
    patient.repair();
    assert_eq!(patient.contents(), "kept=K later=L");
}

/// What was merged into it is gone, so the edit that says so is among those that can't be read.
#[test]
fn compaction_output_without_its_inputs() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .file("000001.ldb", CraftedTable::new().put("a", 6, "A").encode())
        .manifest_record(b"\xff damaged")
        .without_file("000012.ldb");
    let patient = TestDb::fabricated(&database);
    patient.repair();
    assert_eq!(patient.contents(), "a=A");
}

/// The end of the manifest is lost without a trace: it reads back whole, but the tables that it names were merged into
/// one that it does not name.
#[test]
fn manifest_that_lost_its_last_edits() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .file("000013.ldb", CraftedTable::new().put("a", 6, "A").put("b", 7, "B").encode())
        .without_file("000012.ldb");
    let patient = TestDb::fabricated(&database);
    patient.repair();
    assert_eq!(patient.contents(), "a=A b=B");
}

#[test]
fn logs_obsolete_by_the_manifest_stay_obsolete() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .log(2, &CraftedLog::new().batch(5, &[("gone", "back again")]))
        .log(3, &CraftedLog::new().batch(7, &[("new", "N")]))
        .manifest_record(b"\xff damaged");
    let patient = TestDb::fabricated(&database);
    patient.repair();
    assert_eq!(patient.contents(), "kept=K new=N");
}

#[test]
fn damaged_manifest_with_another_comparator() {
    let database = CraftedDb::new()
        .comparator("another")
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .manifest_record(b"\xff damaged");
    let patient = TestDb::fabricated(&database);
    let before = patient.fs.mutation_count();
    let refused = repair(DIR, &patient.options, &RepairOptions { dry_run: true }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert_eq!(patient.fs.mutation_count(), before);
    let refused = repair(DIR, &patient.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert_eq!(patient.names(), ["000012.ldb", "CURRENT", "LOCK", "MANIFEST-000002"]);
}

/// Nothing says which comparator it was, but the keys of a sound table do not rise.
#[test]
fn no_manifest_and_another_comparator() {
    let database = CraftedDb::new().table(1, 12, &CraftedTable::new().put("b", 6, "B").put("a", 7, "A"));
    let patient = TestDb::fabricated(&database);
    patient.remove("MANIFEST");
    let refused = repair(DIR, &patient.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert_eq!(patient.names(), ["000012.ldb", "CURRENT", "LOCK"]);
}

/// The comparator is known, so keys that do not rise are damage, of which nothing is lost.
#[test]
fn keys_out_of_order() {
    let table = CraftedTable::new().put("b", 6, "B").put("a", 7, "A").put("c", 8, "C");
    let patient = TestDb::fabricated(&CraftedDb::new().table(1, 12, &table));
    assert!(!patient.verify().is_clean());
    let report = patient.repair();
    assert_eq!((report.tables_salvaged, report.blocks_lost), (1, 0), "{report}");
    assert_eq!(patient.contents(), "a=A b=B c=C");
}

/// Stock LevelDB must not open what it can't read, and the mark that says so was in the manifest.
#[test]
fn incompatibility_marker_is_restored() {
    let mut patient = TestDb::on(MemFs::new());
    patient.options.compression = crate::compress::codec_by_name("zstd").unwrap();
    let db = Db::open(DIR, &patient.options).unwrap();
    for n in 0..20 {
        db.put(format!("k{n:02}").as_bytes(), &[b'v'; 200]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    patient.remove("MANIFEST");
    patient.options.compression = crate::compress::codec_by_name("snappy").unwrap();
    patient.repair();
    let manifest = patient.read(&patient.only("MANIFEST"));
    let guarded = b"leveldb.BytewiseComparator+terrace.1";
    assert!(manifest.windows(guarded.len()).any(|name| name == guarded));
}
