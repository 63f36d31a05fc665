//! Tables that are damaged, truncated, missing, or in an order that LevelDB gets wrong.

use terrace_format::table::Footer;
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::{CraftedDb, CraftedFilter, CraftedTable};

use super::*;
use crate::ErrorKind;

fn table(entries: &[(&str, u64, &str)]) -> CraftedTable {
    entries.iter().fold(CraftedTable::new(), |table, (key, sequence, value)| table.put(key, *sequence, value))
}

/// Every level may have tables, every log may have entries.
fn healthy() -> TestDb {
    TestDb::of(|db| {
        fill(db);
        db.compact_range(None, None).unwrap();
        db.put(b"k00", value(0).as_bytes()).unwrap();
        db.flush().unwrap();
        db.delete(b"k20").unwrap();
    })
}

#[test]
fn healthy_database_is_not_changed() {
    let patient = healthy();
    let (before, names) = (patient.fs.mutation_count(), patient.names());
    let report = patient.repair();
    assert!(!report.changed && report.problems.is_empty(), "{report}");
    assert_eq!((report.tables_kept, report.logs_kept), (2, 1), "{report}");
    assert_eq!((patient.fs.mutation_count(), patient.names()), (before, names));
    assert_eq!(filled(&patient).len(), 20);
}

#[test]
fn an_open_database_is_refused() {
    let patient = healthy();
    let db = Db::open(DIR, &patient.options).unwrap();
    let before = patient.fs.mutation_count();
    for dry_run in [false, true] {
        let refused = repair(DIR, &patient.options, &RepairOptions { dry_run }).unwrap_err();
        assert!(refused.is_locked(), "{refused}");
    }
    assert!(verify(DIR, &patient.options, &mut |_, _| ()).unwrap_err().is_locked());
    assert_eq!(patient.fs.mutation_count(), before);
    db.close().unwrap();
}

#[test]
fn no_database() {
    let patient = TestDb::on(MemFs::new());
    let missing = repair(DIR, &patient.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    patient.fs.create_dir(DIR.as_ref()).unwrap();
    let empty = repair(DIR, &patient.options, &RepairOptions::default()).unwrap_err();
    assert_eq!(empty.to_string(), "invalid argument: db: holds no database");
    assert_eq!(patient.names(), [""; 0]);
}

#[test]
fn no_lock_file() {
    let patient = healthy();
    patient.remove("LOCK");
    patient.remove("CURRENT");
    patient.repair();
    assert_eq!(filled(&patient).len(), 20);
}

/// The whole database in one table of level 2, and nothing in the log.
fn one_table() -> TestDb {
    let patient = TestDb::of(|db| {
        fill(db);
        db.compact_range(None, None).unwrap();
    });
    assert_eq!(filled(&patient).len(), 20);
    patient
}

#[test]
fn damaged_block_loses_only_its_own_keys() {
    let patient = one_table();
    let name = patient.flip(".ldb", 100);
    let found = patient.verify().problems;
    let report = patient.repair();
    assert_eq!(report.problems, found);
    let place = report.problems[0].to_string();
    assert!(place.starts_with(&format!("{name} at 0: checksum 0x")), "{place}");
    assert_eq!((report.tables_salvaged, report.blocks_lost, report.tables_kept), (1, 1, 0), "{report}");
    assert!(report.moved.contains(&(name.clone(), format!("lost/{name}"))), "{report}");
    let kept = filled(&patient);
    assert!((14..=16).contains(&kept.len()) && kept[0] == 20 - kept.len() as u32, "{kept:?}");
}

#[test]
fn flipped_bit_in_a_table_loses_at_most_one_block() {
    let fs = one_table().fs.fork();
    let length = TestDb::on(fs.fork()).only(".ldb");
    let length = TestDb::on(fs.fork()).read(&length).len() as i64;
    for at in (0..length).step_by(13) {
        let patient = TestDb::on(fs.fork());
        patient.flip(".ldb", at);
        let report = patient.repair();
        assert!(report.changed || patient.verify().is_clean(), "bit at {at}: {report}");
        assert!(filled(&patient).len() >= 14, "bit at {at}: {report}");
    }
}

#[test]
fn blocks_are_found_without_an_index() {
    for (what, at) in [("magic", -1), ("index", -60)] {
        let patient = one_table();
        patient.flip(".ldb", at);
        let report = patient.repair();
        assert_eq!((report.tables_salvaged, report.blocks_lost), (1, 0), "{what}: {report}");
        assert_eq!(filled(&patient).len(), 20, "{what}");
    }
}

/// An index looks like a block of data: what is in it must not become entries.
#[test]
fn index_block_is_not_salvaged_as_data() {
    let patient = one_table();
    let bytes = patient.read(&patient.only(".ldb"));
    let footer = Footer::decode(&bytes, bytes.len() as u64).unwrap();
    patient.flip(".ldb", footer.metaindex.offset as i64);
    patient.flip(".ldb", -1);
    patient.repair();
    assert_eq!(filled(&patient).len(), 20);
}

#[test]
fn intact_blocks_are_found_without_an_index() {
    for codec in ["none", "snappy"] {
        let mut patient = TestDb::on(MemFs::new());
        patient.options.compression = crate::compress::codec_by_name(codec).unwrap();
        let db = Db::open(DIR, &patient.options).unwrap();
        fill(&db);
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        patient.flip(".ldb", 100);
        patient.flip(".ldb", 2500);
        patient.flip(".ldb", -1);
        let report = patient.repair();
        let kept = filled(&patient).len();
        assert!((8..=12).contains(&kept), "{codec}: {kept} {report}");
    }
}

#[test]
fn a_truncated_table_keeps_its_first_blocks() {
    let patient = one_table();
    let name = patient.only(".ldb");
    let bytes = patient.read(&name);
    patient.write(&name, &bytes[..bytes.len() / 2]);
    let report = patient.repair();
    assert_eq!(report.tables_salvaged, 1, "{report}");
    let kept = filled(&patient);
    assert!((5..=10).contains(&kept.len()) && kept.last() == Some(&(kept.len() as u32 - 1)), "{kept:?}");
}

#[test]
fn an_empty_file_in_place_of_a_table() {
    let patient = one_table();
    let name = patient.only(".ldb");
    patient.write(&name, b"");
    assert_eq!(patient.repair().tables_salvaged, 1);
    assert_eq!(patient.contents(), "");
}

#[test]
fn missing_table_is_reported() {
    let database =
        CraftedDb::new().table(1, 10, &table(&[("a", 1, "A")])).table(1, 11, &table(&[("b", 2, "B")]));
    let patient = TestDb::fabricated(&database.without_file("000010.ldb"));
    let report = patient.repair();
    assert_eq!(report.problems[0].to_string(), "000010.ldb: missing, and the manifest says that it is live");
    assert_eq!((report.tables_missing, report.tables_kept), (1, 1));
    assert_eq!(patient.contents(), "b=B");
}

/// The filter of a table says that keys are not there which are.
#[test]
fn filter_with_false_negatives() {
    let blank = CraftedTable::new().put("a", 1, "A").filter(CraftedFilter::AllBitsZero);
    let mut lying = TestDb::fabricated(&CraftedDb::new().table(1, 10, &blank));
    lying.options.filter_policy = Some(Arc::new(crate::BloomFilterPolicy::new(10)));
    assert_eq!(Db::open(DIR, &lying.options).unwrap().get(b"a").unwrap(), None, "what the test is about");
    let report = lying.repair();
    assert!(report.problems[0].message.ends_with("which the filter denies"), "{report}");
    assert_eq!((report.tables_salvaged, report.blocks_lost), (1, 0), "{report}");
    assert_eq!(lying.contents(), "a=A");
}

#[test]
fn manifest_with_a_too_narrow_key_range() {
    let wide = table(&[("a", 1, "A"), ("c", 2, "C")]);
    let narrow = table(&[("a", 1, "A")]);
    let patient =
        TestDb::fabricated(&CraftedDb::new().table(2, 10, &narrow).file("000010.ldb", wide.encode()));
    let report = patient.repair();
    assert_eq!((report.tables_kept, report.tables_salvaged), (1, 0), "{report}");
    assert_eq!(patient.contents(), "a=A c=C");
}

/// A damaged table of level 0 gets a new and higher number. A newer table that overlaps it must not come to look older.
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
    let patient = TestDb::fabricated(&database);
    let report = patient.repair();
    assert_eq!((report.tables_salvaged, report.tables_merged, report.tables_kept), (1, 1, 1), "{report}");
    assert_eq!(patient.contents(), "a=new b=old z=Z");
    // What LevelDB goes by: on level 0, of two tables that overlap, the one with the higher number is newer.
    let db = Db::open_read_only(DIR, &patient.options).unwrap();
    let level_0 = &db.levels()[0].files;
    assert_eq!(level_0.len(), 2, "{level_0:?}");
}

/// What LevelDB's own repair makes of a database: an older version on level 0 under a higher number.
#[test]
fn level_0_numbers_contradict_sequence_numbers() {
    let database = CraftedDb::new()
        .table(0, 10, &table(&[("k", 50, "new")]))
        .table(0, 11, &table(&[("k", 7, "old"), ("l", 60, "L")]))
        .table(0, 12, &table(&[("m", 1, "M")]));
    let patient = TestDb::fabricated(&database);
    let report = patient.repair();
    assert_eq!((report.tables_merged, report.tables_kept), (2, 1), "{report}");
    assert_eq!(patient.contents(), "k=new l=L m=M");
}

#[test]
fn table_newer_than_the_manifest_last_sequence() {
    let edit = VersionEdit { last_sequence: Some(1), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let database = CraftedDb::new().table(1, 10, &table(&[("a", 5, "A")])).manifest_record(&record);
    let patient = TestDb::fabricated(&database);
    assert!(patient.repair().changed);
    let db = Db::open(DIR, &patient.options).unwrap();
    db.put(b"a", b"newer").unwrap();
    assert_eq!(contents(&db), "a=newer");
}

/// Left as it was, the next open would go by the table's number, but LevelDB would give it to another file.
#[test]
fn table_number_not_below_next_file_number() {
    let edit = VersionEdit { next_file_number: Some(1), ..VersionEdit::default() };
    let mut record = Vec::new();
    edit.encode(&mut record);
    let database = CraftedDb::new().table(1, 10, &table(&[("a", 5, "A")])).manifest_record(&record);
    let patient = TestDb::fabricated(&database);
    assert!(!patient.verify().is_clean());
    assert!(patient.repair().changed);
    assert!(patient.verify().is_clean());
    assert_eq!(patient.contents(), "a=A");
}
