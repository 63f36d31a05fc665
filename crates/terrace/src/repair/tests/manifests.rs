//! Missing or damaged CURRENT files and manifests.

use terrace_format::key::{InternalKey, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;
use crate::ErrorKind;

/// Creates a database with versions and tombstones on three levels and in the log.
fn layered() -> TestDb {
    TestDb::with_writes(|db| {
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
fn check_layered(test_db: &TestDb) {
    let text = test_db.contents();
    assert!(!text.contains("deleted") && text.contains("twice=new") && text.contains("zz=log"), "{text}");
    assert_eq!(text.split(' ').count(), 22, "{text}");
}

#[test]
fn missing_current() {
    let test_db = layered();
    test_db.remove("CURRENT");
    let report = test_db.repair();
    assert_eq!(report.actions, [format!("CURRENT points to {}, which is intact", test_db.only("MANIFEST"))]);
    assert_eq!(report.moved, []);
    check_layered(&test_db);
}

#[test]
fn invalid_current() {
    for contents in ["", "MANIFEST-000002", "MANIFEST-999999\n", "../etc/passwd\n"] {
        let test_db = layered();
        test_db.write("CURRENT", contents.as_bytes());
        assert!(!test_db.verify().is_clean(), "{contents}");
        test_db.repair();
        check_layered(&test_db);
    }
}

#[test]
fn missing_manifest() {
    let test_db = layered();
    test_db.remove("MANIFEST");
    let report = test_db.repair();
    assert_eq!((report.logs_salvaged, report.blocks_lost), (1, 0), "{report}");
    check_layered(&test_db);
}

/// The repair itself once wrote a manifest that listed the table twice.
#[test]
fn table_listed_twice() {
    let table = CraftedTable::new().put("k", 1, "K");
    let database = CraftedDb::new().table(1, 9, &table).table(4, 9, &table);
    let test_db = TestDb::from_crafted(&database);
    let found = test_db.verify().problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].message, "lists table 9 twice");
    let report = test_db.repair();
    assert_eq!((&report.problems, report.tables_kept), (&found, 1), "{report}");
    assert!(test_db.verify().is_clean());
    assert_eq!(test_db.contents(), "k=K");
}

#[test]
fn neither_current_nor_manifest() {
    let test_db = layered();
    test_db.remove("CURRENT");
    test_db.remove("MANIFEST");
    test_db.repair();
    check_layered(&test_db);
    // New writes are newer than all recovered ones.
    let db = Db::open(DIR, &test_db.options).unwrap();
    db.put(b"twice", b"newest").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get(b"twice").unwrap().as_deref(), Some(b"newest".as_slice()));
}

#[test]
fn flipped_bit_in_each_manifest_byte() {
    let fs = layered().fs.fork();
    let test_db = TestDb::on(fs.fork());
    let length = test_db.read(&test_db.only("MANIFEST")).len() as i64;
    for offset in 0..length {
        let test_db = TestDb::on(fs.fork());
        test_db.flip("MANIFEST", offset);
        let report = test_db.repair();
        assert_eq!(report.blocks_lost, 0, "bit at {offset}: {report}");
        check_layered(&test_db);
    }
}

#[test]
fn manifest_truncated_at_each_length() {
    let fs = layered().fs.fork();
    let test_db = TestDb::on(fs.fork());
    let bytes = test_db.read(&test_db.only("MANIFEST"));
    for len in 0..bytes.len() {
        let test_db = TestDb::on(fs.fork());
        test_db.write(&test_db.only("MANIFEST"), &bytes[..len]);
        test_db.repair();
        check_layered(&test_db);
    }
}

/// LevelDB's repair puts all tables on level 0, where the higher file number is taken for the newer
/// one. Gets then returned the old version, and iterators the new one.
#[test]
fn older_version_in_the_higher_numbered_table() {
    let database = CraftedDb::new().table(0, 10, &CraftedTable::new().put("k", 50, "new")).table(
        2,
        11,
        &CraftedTable::new().put("k", 7, "old").put("l", 8, "L"),
    );
    for lost in [false, true] {
        let test_db = TestDb::from_crafted(&database);
        if lost {
            test_db.remove("MANIFEST");
        }
        assert_eq!(test_db.repair().changed, lost);
        assert_eq!(test_db.contents(), "k=new l=L");
    }
}

#[test]
fn disjoint_tables_are_kept_without_a_manifest() {
    let database = CraftedDb::new()
        .table(1, 10, &CraftedTable::new().put("a", 1, "A").put("b", 2, "B"))
        .table(2, 11, &CraftedTable::new().put("c", 3, "C"))
        .table(0, 12, &CraftedTable::new().delete("c", 4).put("d", 5, "D"))
        .table(3, 13, &CraftedTable::new().put("e", 6, "E"));
    let test_db = TestDb::from_crafted(&database.rename_file("000013.ldb", "000013.sst"));
    test_db.remove("MANIFEST");
    let report = test_db.repair();
    assert_eq!((report.tables_kept, report.tables_merged), (2, 2), "{report}");
    assert_eq!(test_db.contents(), "a=A b=B d=D e=E");
    assert_eq!(test_db.find(".sst"), ["000013.sst"]);
}

/// The versions do not overlap, but a point lookup would search only one of the two tables.
#[test]
fn versions_of_one_key_at_table_boundaries() {
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().put("a", 1, "A").put("k", 9, "new"))
        .table(0, 11, &CraftedTable::new().put("k", 5, "old").put("z", 6, "Z"));
    let test_db = TestDb::from_crafted(&database);
    test_db.remove("MANIFEST");
    assert_eq!(test_db.repair().tables_merged, 2);
    assert_eq!(test_db.contents(), "a=A k=new z=Z");
}

#[test]
fn merge_keeps_versions_of_one_key_in_one_table() {
    let long = "x".repeat(600_000);
    let first = CraftedTable::new().put("a", 3, &long).put("b", 7, &long).put("b", 5, &long).put("c", 1, "C");
    let second =
        CraftedTable::new().put("b", 8, &long).put("b", 6, &long).put("b", 4, &long).put("c", 2, "CC");
    let mut test_db = TestDb::from_crafted(&CraftedDb::new().table(0, 10, &first).table(0, 11, &second));
    test_db.options.compression = Some(&crate::compress::NO_COMPRESSION);
    test_db.remove("MANIFEST");
    test_db.repair();
    let db = Db::open_read_only(DIR, &test_db.options).unwrap();
    let files = &db.levels()[6].files;
    assert!(files.len() > 1, "{files:?}");
    assert!(files.windows(2).all(|pair| pair[0].largest < pair[1].smallest), "{files:?}");
}

/// A manifest that CURRENT never named did not take effect, so the files that it replaces are live.
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
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "a=A b=B");
}

#[test]
fn ldb_and_sst_with_the_same_number() {
    let table = |key: &str, sequence| CraftedTable::new().put(key, sequence, "v");
    let database = CraftedDb::new()
        .file("000010.ldb", table("a", 1).encode())
        .file("000010.sst", table("b", 2).encode());
    let test_db = TestDb::from_crafted(&database);
    test_db.remove("MANIFEST");
    test_db.repair();
    assert_eq!(test_db.contents(), "a=v b=v");
}

fn record(edit: VersionEdit) -> Vec<u8> {
    let mut record = Vec::new();
    edit.encode(&mut record);
    record
}

/// A compaction dropped a tombstone and the entry under it, and its inputs are still in the
/// directory. The manifest is damaged after the edit that deletes them.
#[test]
fn tables_deleted_in_the_manifest_stay_deleted() {
    let database = CraftedDb::new()
        .table(0, 10, &CraftedTable::new().delete("deleted", 9))
        .table(1, 11, &CraftedTable::new().put("deleted", 5, "back again"))
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .manifest_record(&record(VersionEdit {
            deleted_files: vec![(0, 10), (1, 11)],
            ..VersionEdit::default()
        }))
        .manifest_record(b"\xff damaged")
        .without_file("000010.ldb");
    let test_db = TestDb::from_crafted(&database);
    let report = test_db.repair();
    assert!(report.moved.contains(&("000011.ldb".into(), "lost/000011.ldb".into())), "{report}");
    assert_eq!(test_db.contents(), "kept=K");
}

/// As above, but the compaction ran before the manifest was created, so no edit names the old
/// table. Its file number proves that it is obsolete.
#[test]
fn unlisted_table_older_than_the_manifest() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .file("000001.ldb", CraftedTable::new().put("deleted", 5, "back again").encode())
        .manifest_record(b"\xff damaged");
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "kept=K");
}

/// The table is older than the manifest but holds later writes: it was being written when the
/// manifest was created.
#[test]
fn table_written_while_the_manifest_was_created() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .file("000001.ldb", CraftedTable::new().put("later", 7, "L").encode())
        .manifest_record(b"\xff damaged");
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "kept=K later=L");
}

/// The input of the compaction is missing, so the edit that replaces it must be among the
/// unreadable ones.
#[test]
fn compaction_output_without_its_inputs() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .file("000001.ldb", CraftedTable::new().put("a", 6, "A").encode())
        .manifest_record(b"\xff damaged")
        .without_file("000012.ldb");
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "a=A");
}

/// The manifest ends cleanly without its last edits: it lists tables that were compacted into a
/// table that it does not list.
#[test]
fn manifest_that_lost_its_last_edits() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .file("000013.ldb", CraftedTable::new().put("a", 6, "A").put("b", 7, "B").encode())
        .without_file("000012.ldb");
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "a=A b=B");
}

/// CURRENT never named the older manifest durably: its flush has not happened, so the log is live.
/// The table of the flush became live later, by an unreadable edit.
#[test]
fn flush_of_an_abandoned_manifest() {
    let table = CraftedTable::new().put("b", 8, "B");
    let key = InternalKey::new(b"b", 8, ValueType::Value);
    let file = NewFile { number: 1, size: table.encode().len() as u64, smallest: key.clone(), largest: key };
    let flush = VersionEdit {
        comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
        log_number: Some(30),
        last_sequence: Some(8),
        new_files: vec![(0, file)],
        ..VersionEdit::default()
    };
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .log(13, &CraftedLog::new().batch(7, &[("c", "C")]))
        .file("000001.ldb", table.encode())
        .file("MANIFEST-000001", CraftedLog::new().record(&record(flush)).bytes().to_vec())
        .manifest_record(b"\xff damaged");
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "a=A b=B c=C");
}

#[test]
fn logs_obsolete_by_the_manifest_stay_obsolete() {
    let database = CraftedDb::new()
        .table(1, 12, &CraftedTable::new().put("kept", 6, "K"))
        .log(2, &CraftedLog::new().batch(5, &[("deleted", "back again")]))
        .log(3, &CraftedLog::new().batch(7, &[("new", "N")]))
        .manifest_record(b"\xff damaged");
    let test_db = TestDb::from_crafted(&database);
    test_db.repair();
    assert_eq!(test_db.contents(), "kept=K new=N");
}

#[test]
fn damaged_manifest_with_another_comparator() {
    let database = CraftedDb::new()
        .comparator("another")
        .table(1, 12, &CraftedTable::new().put("a", 6, "A"))
        .manifest_record(b"\xff damaged");
    let test_db = TestDb::from_crafted(&database);
    let before = test_db.fs.mutation_count();
    let error = repair(DIR, &test_db.options, &RepairOptions { dry_run: true }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(test_db.fs.mutation_count(), before);
    let error = repair(DIR, &test_db.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(test_db.names(), ["000012.ldb", "CURRENT", "LOCK", "MANIFEST-000002"]);
}

/// No manifest names the comparator, but the keys of an intact table are out of order.
#[test]
fn no_manifest_and_another_comparator() {
    let database = CraftedDb::new().table(1, 12, &CraftedTable::new().put("b", 6, "B").put("a", 7, "A"));
    let test_db = TestDb::from_crafted(&database);
    test_db.remove("MANIFEST");
    let error = repair(DIR, &test_db.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(test_db.names(), ["000012.ldb", "CURRENT", "LOCK"]);
}

/// The comparator is known, so keys out of order are corruption. No entry is lost.
#[test]
fn keys_out_of_order() {
    let table = CraftedTable::new().put("b", 6, "B").put("a", 7, "A").put("c", 8, "C");
    let test_db = TestDb::from_crafted(&CraftedDb::new().table(1, 12, &table));
    assert!(!test_db.verify().is_clean());
    let report = test_db.repair();
    assert_eq!((report.tables_salvaged, report.blocks_lost), (1, 0), "{report}");
    assert_eq!(test_db.contents(), "a=A b=B c=C");
}

/// The manifest held the marker that keeps stock LevelDB from opening the database.
#[test]
fn incompatibility_marker_is_restored() {
    let mut test_db = TestDb::on(MemFs::new());
    test_db.options.compression = crate::compress::codec_by_name("zstd");
    let db = Db::open(DIR, &test_db.options).unwrap();
    for n in 0..20 {
        db.put(format!("k{n:02}").as_bytes(), [b'v'; 200]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    test_db.remove("MANIFEST");
    test_db.options.compression = crate::compress::codec_by_name("snappy");
    test_db.repair();
    let manifest = test_db.read(&test_db.only("MANIFEST"));
    let marked_name = b"leveldb.BytewiseComparator+terrace.1";
    assert!(manifest.windows(marked_name.len()).any(|name| name == marked_name));
}
