//! Damaged, truncated and missing tables, and tables in an order that LevelDB misreads.

use terrace_format::table::Footer;
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::{CraftedDb, CraftedFilter, CraftedTable};

use super::*;
use crate::ErrorKind;

fn table(entries: &[(&str, u64, &str)]) -> CraftedTable {
    entries.iter().fold(CraftedTable::new(), |table, (key, sequence, value)| table.put(key, *sequence, value))
}

/// Creates a database with tables on two levels and entries in the log.
fn healthy() -> TestDb {
    TestDb::with_writes(|db| {
        fill(db);
        db.compact_range(None, None).unwrap();
        db.put(b"k00", value(0).as_bytes()).unwrap();
        db.flush().unwrap();
        db.delete(b"k20").unwrap();
    })
}

#[test]
fn healthy_database_is_not_changed() {
    let test_db = healthy();
    let before = test_db.fs.mutation_count();
    let names = test_db.names();
    let report = test_db.repair();
    assert!(!report.changed && report.problems.is_empty(), "{report}");
    assert_eq!((report.tables_kept, report.logs_kept), (2, 1), "{report}");
    assert_eq!((test_db.fs.mutation_count(), test_db.names()), (before, names));
    assert_eq!(recovered_keys(&test_db).len(), 20);
}

#[test]
fn open_database_is_locked() {
    let test_db = healthy();
    let db = Db::open(DIR, &test_db.options).unwrap();
    let before = test_db.fs.mutation_count();
    for dry_run in [false, true] {
        let error = repair(DIR, &test_db.options, &RepairOptions { dry_run }).unwrap_err();
        assert!(error.is_locked(), "{error}");
    }
    assert!(verify(DIR, &test_db.options).unwrap_err().is_locked());
    assert_eq!(test_db.fs.mutation_count(), before);
    db.close().unwrap();
}

#[test]
fn no_database() {
    let test_db = TestDb::on(MemFs::new());
    let missing = repair(DIR, &test_db.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    test_db.fs.create_dir(DIR.as_ref()).unwrap();
    let empty = repair(DIR, &test_db.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(empty.to_string(), "invalid argument: db: no database in this directory");
    assert_eq!(test_db.names(), [""; 0]);
}

#[test]
fn no_lock_file() {
    let test_db = healthy();
    test_db.remove("LOCK");
    test_db.remove("CURRENT");
    test_db.repair();
    assert_eq!(recovered_keys(&test_db).len(), 20);
}

/// Creates a database with one table on level 2 and an empty log.
fn one_table() -> TestDb {
    let test_db = TestDb::with_writes(|db| {
        fill(db);
        db.compact_range(None, None).unwrap();
    });
    assert_eq!(recovered_keys(&test_db).len(), 20);
    test_db
}

#[test]
fn damaged_block_loses_only_its_own_keys() {
    let test_db = one_table();
    let name = test_db.flip(".ldb", 100);
    let found = test_db.verify().problems;
    let report = test_db.repair();
    assert_eq!(report.problems, found);
    let problem = report.problems[0].to_string();
    assert!(problem.starts_with(&format!("{name} at 0: checksum 0x")), "{problem}");
    assert_eq!((report.tables_salvaged, report.blocks_lost, report.tables_kept), (1, 1, 0), "{report}");
    assert!(report.moved.contains(&(name.clone(), format!("lost/{name}"))), "{report}");
    let kept = recovered_keys(&test_db);
    assert!((14..=16).contains(&kept.len()) && kept[0] == 20 - kept.len() as u32, "{kept:?}");
}

#[test]
fn flipped_bit_in_a_table_loses_at_most_one_block() {
    let fs = one_table().fs.fork();
    let name = TestDb::on(fs.fork()).only(".ldb");
    let length = TestDb::on(fs.fork()).read(&name).len() as i64;
    for offset in (0..length).step_by(13) {
        let test_db = TestDb::on(fs.fork());
        test_db.flip(".ldb", offset);
        let report = test_db.repair();
        assert!(report.changed || test_db.verify().is_clean(), "bit at {offset}: {report}");
        assert!(recovered_keys(&test_db).len() >= 14, "bit at {offset}: {report}");
    }
}

#[test]
fn blocks_are_found_without_an_index() {
    for (part, offset) in [("magic", -1), ("index", -60)] {
        let test_db = one_table();
        test_db.flip(".ldb", offset);
        let report = test_db.repair();
        assert_eq!((report.tables_salvaged, report.blocks_lost), (1, 0), "{part}: {report}");
        assert_eq!(recovered_keys(&test_db).len(), 20, "{part}");
    }
}

/// An index looks like a data block, but its entries must not be salvaged.
#[test]
fn index_block_is_not_salvaged_as_data() {
    let test_db = one_table();
    let bytes = test_db.read(&test_db.only(".ldb"));
    let footer = Footer::decode(&bytes, bytes.len() as u64).unwrap();
    test_db.flip(".ldb", footer.metaindex.offset as i64);
    test_db.flip(".ldb", -1);
    test_db.repair();
    assert_eq!(recovered_keys(&test_db).len(), 20);
}

#[test]
fn intact_blocks_are_found_without_an_index() {
    for codec in ["none", "snappy"] {
        let mut test_db = TestDb::on(MemFs::new());
        test_db.options.compression = crate::compress::codec_by_name(codec);
        let db = Db::open(DIR, &test_db.options).unwrap();
        fill(&db);
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        test_db.flip(".ldb", 100);
        test_db.flip(".ldb", 2500);
        test_db.flip(".ldb", -1);
        let report = test_db.repair();
        let kept = recovered_keys(&test_db).len();
        assert!((8..=12).contains(&kept), "{codec}: {kept} {report}");
    }
}

#[test]
fn truncated_table_keeps_its_first_blocks() {
    let test_db = one_table();
    let name = test_db.only(".ldb");
    let bytes = test_db.read(&name);
    test_db.write(&name, &bytes[..bytes.len() / 2]);
    let report = test_db.repair();
    assert_eq!(report.tables_salvaged, 1, "{report}");
    let kept = recovered_keys(&test_db);
    assert!((5..=10).contains(&kept.len()) && kept.last() == Some(&(kept.len() as u32 - 1)), "{kept:?}");
}

#[test]
fn empty_table_file() {
    let test_db = one_table();
    let name = test_db.only(".ldb");
    test_db.write(&name, b"");
    assert_eq!(test_db.repair().tables_salvaged, 1);
    assert_eq!(test_db.contents(), "");
}

#[test]
fn missing_table_is_reported() {
    let database =
        CraftedDb::new().table(1, 10, &table(&[("a", 1, "A")])).table(1, 11, &table(&[("b", 2, "B")]));
    let test_db = TestDb::from_crafted(&database.without_file("000010.ldb"));
    let report = test_db.repair();
    assert_eq!(report.problems[0].to_string(), "000010.ldb: missing, but the manifest lists it as live");
    assert_eq!((report.tables_missing, report.tables_kept), (1, 1));
    assert_eq!(test_db.contents(), "b=B");
}

/// The filter of a table rejects a stored key.
#[test]
fn filter_with_false_negatives() {
    let blank = CraftedTable::new().put("a", 1, "A").filter(CraftedFilter::AllBitsZero);
    let mut test_db = TestDb::from_crafted(&CraftedDb::new().table(1, 10, &blank));
    test_db.options.filter_policy = Some(Arc::new(crate::BloomFilterPolicy::new(10)));
    assert_eq!(Db::open(DIR, &test_db.options).unwrap().get(b"a").unwrap(), None, "the filter hides the key");
    let report = test_db.repair();
    assert!(report.problems[0].message.ends_with("is not in the filter"), "{report}");
    assert_eq!((report.tables_salvaged, report.blocks_lost), (1, 0), "{report}");
    assert_eq!(test_db.contents(), "a=A");
}

#[test]
fn manifest_with_a_too_narrow_key_range() {
    let wide = table(&[("a", 1, "A"), ("c", 2, "C")]);
    let narrow = table(&[("a", 1, "A")]);
    let test_db =
        TestDb::from_crafted(&CraftedDb::new().table(2, 10, &narrow).file("000010.ldb", wide.encode()));
    let report = test_db.repair();
    assert_eq!((report.tables_kept, report.tables_salvaged), (1, 0), "{report}");
    assert_eq!(test_db.contents(), "a=A c=C");
}

/// A damaged table of level 0 gets a new, higher number. It must not look newer than a newer table
/// that overlaps it.
#[test]
fn salvaged_level_0_table_keeps_its_age() {
    let old = table(&[("a", 1, "old"), ("b", 2, "old")]);
    let mut bytes = old.encode();
    let magic = bytes.len() - 1;
    bytes[magic] ^= 1;
    let database = CraftedDb::new()
        .table(0, 10, &old)
        .table(0, 11, &table(&[("a", 3, "new")]))
        .table(0, 12, &table(&[("z", 4, "Z")]))
        .file("000010.ldb", bytes);
    let test_db = TestDb::from_crafted(&database);
    let report = test_db.repair();
    assert_eq!((report.tables_salvaged, report.tables_merged, report.tables_kept), (1, 1, 1), "{report}");
    assert_eq!(test_db.contents(), "a=new b=old z=Z");
    // LevelDB expects that of two overlapping tables on level 0 the one with the higher number is
    // newer.
    let db = Db::open_read_only(DIR, &test_db.options).unwrap();
    let level_0 = &db.levels()[0].files;
    assert_eq!(level_0.len(), 2, "{level_0:?}");
}

/// LevelDB's own repair produces such a database: an older version on level 0 with a higher file
/// number.
#[test]
fn level_0_numbers_contradict_sequence_numbers() {
    let database = CraftedDb::new()
        .table(0, 10, &table(&[("k", 50, "new")]))
        .table(0, 11, &table(&[("k", 7, "old"), ("l", 60, "L")]))
        .table(0, 12, &table(&[("m", 1, "M")]));
    let test_db = TestDb::from_crafted(&database);
    let report = test_db.repair();
    assert_eq!((report.tables_merged, report.tables_kept), (2, 1), "{report}");
    assert_eq!(test_db.contents(), "k=new l=L m=M");
}

#[test]
fn table_newer_than_the_manifest_last_sequence() {
    let edit = VersionEdit { last_sequence: Some(1), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let database = CraftedDb::new().table(1, 10, &table(&[("a", 5, "A")])).manifest_record(&record);
    let test_db = TestDb::from_crafted(&database);
    assert!(test_db.repair().changed);
    let db = Db::open(DIR, &test_db.options).unwrap();
    db.put(b"a", b"newer").unwrap();
    assert_eq!(contents(&db), "a=newer");
}

/// Without the repair, Terrace would skip the number of the table, but LevelDB would give it to
/// another file.
#[test]
fn table_number_not_below_next_file_number() {
    let edit = VersionEdit { next_file_number: Some(1), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let database = CraftedDb::new().table(1, 10, &table(&[("a", 5, "A")])).manifest_record(&record);
    let test_db = TestDb::from_crafted(&database);
    assert!(!test_db.verify().is_clean());
    assert!(test_db.repair().changed);
    assert!(test_db.verify().is_clean());
    assert_eq!(test_db.contents(), "a=A");
}
