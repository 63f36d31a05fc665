//! Manifests that lost their last edits without a trace: the file ends at an earlier edit.

use std::collections::BTreeMap;

use terrace_env::DeterministicScheduler;
use terrace_format::filename::FileName;
use terrace_format::key::InternalComparator;
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::CraftedTable;
use terrace_testkit::rng::Rng;

use super::*;
use crate::ErrorKind;
use crate::file_io::FileReader;
use crate::version::{CommitError, Manifest, ManifestRecovery};

/// Greater than the number of each file in these databases. A table gets such a smaller number if
/// its flush or compaction was running while the manifest was created.
const MANIFEST_NUMBER: u64 = 100;

/// Creates a database as a killed process leaves it. Its manifest lacks the edits of `changes`, and
/// has a greater number than all tables.
fn without_edits_of(changes: impl FnOnce(&Db)) -> TestDb {
    let test_db = TestDb::on(MemFs::new());
    let db = Db::open(DIR, &test_db.options).unwrap();
    for value in ["1", "2"] {
        db.put("a", value).unwrap();
        db.put("c", value).unwrap();
        db.flush().unwrap();
    }
    db.put("d", "3").unwrap();
    let order = InternalComparator::new(Arc::clone(&test_db.options.comparator));
    let known = ManifestRecovery::read_current_manifest(&test_db.options.env, DIR.as_ref(), &order).unwrap();
    changes(&db);
    // The job of a flush removes the log after the caller of the flush continues.
    while test_db.find(".log").len() > 1 {
        std::thread::yield_now();
    }
    let test_db = TestDb::on(test_db.fs.fork());
    let numbers = VersionEdit {
        log_number: Some(known.version_set.log_number),
        prev_log_number: Some(0),
        next_file_number: Some(MANIFEST_NUMBER + 1),
        last_sequence: Some(known.version_set.last_sequence),
        ..VersionEdit::default()
    };
    let mut manifest =
        Manifest::new(&test_db.options.env, DIR.as_ref(), 1 << 20).with_log_method(known.log_method);
    manifest.replaces(known.manifest_number, false);
    let written = manifest.rotate(MANIFEST_NUMBER, known.version_set.snapshot_edit(false), &numbers);
    written.map_err(CommitError::into_error).unwrap();
    test_db
}

#[test]
fn flush_that_spans_a_new_manifest() {
    let test_db = without_edits_of(|db| {
        db.flush().unwrap();
        db.put("e", "4").unwrap();
    });
    test_db.repair();
    assert_eq!(test_db.contents(), "a=2 c=2 d=3 e=4");
}

#[test]
fn compaction_that_spans_a_new_manifest() {
    let test_db = without_edits_of(|db| {
        db.compact_range(None, None).unwrap();
        db.put("e", "4").unwrap();
    });
    let error = Db::open(DIR, &test_db.options).unwrap_err();
    assert!(error.to_string().contains("missing files"), "{error}");
    test_db.repair();
    assert_eq!(test_db.contents(), "a=2 c=2 d=3 e=4");
}

/// Symptom: an open removed the only copy of acknowledged writes. It was the table of a flush, and
/// the manifest had lost the edit of the flush. Guarantee: the open fails and changes nothing, and
/// a repair recovers all writes.
#[test]
fn open_keeps_a_table_with_the_writes_of_a_missing_log() {
    let test_db = without_edits_of(|db| {
        db.flush().unwrap();
        db.put("e", "4").unwrap();
    });
    let before = test_db.find("0");
    for _ in 0..2 {
        let error = Db::open(DIR, &test_db.options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(Db::open_read_only(DIR, &test_db.options).unwrap_err().kind(), ErrorKind::Corruption);
    }
    assert_eq!(test_db.find("0"), before);
    test_db.repair();
    assert_eq!(test_db.contents(), "a=2 c=2 d=3 e=4");
}

/// The table holds no later writes, so the database opens as without it. It may have been ingested:
/// then its entries have the sequence number 0.
#[test]
fn open_with_a_missing_log_keeps_unlisted_tables() {
    let table = CraftedTable::new().put("m", 0, "M").encode();
    for is_repair in [false, true] {
        let test_db = without_edits_of(|_| ());
        for log in test_db.find(".log") {
            test_db.remove(&log);
        }
        let name = FileName::Table(MANIFEST_NUMBER - 1).to_string();
        test_db.write(&name, &table);
        if is_repair {
            test_db.repair();
        } else {
            let db = Db::open(DIR, &test_db.options).unwrap();
            assert_eq!(db.recovery().damage.len(), 1, "the log is missing");
            db.close().unwrap();
        }
        assert_eq!(test_db.contents(), "a=2 c=2");
        assert_eq!(test_db.find(&name), [""; 0]);
        assert_eq!(test_db.read(&format!("lost/{name}")), table);
    }
}

/// Returns the offsets of the records of a log file.
fn record_offsets(test_db: &TestDb, name: &str) -> Vec<usize> {
    let file = test_db.fs.open_sequential(&TestDb::path(name)).unwrap();
    let mut records = LogReader::new(FileReader(file));
    let mut offsets = Vec::new();
    while let Some(item) = records.next().unwrap() {
        if let LogItem::Record { offset, .. } = item {
            offsets.push(offset as usize);
        }
    }
    offsets
}

/// Whichever number of edits the manifest has lost, an open or a repair finds all entries.
#[test]
fn manifest_of_a_killed_process_cut_after_each_edit() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut test_db = TestDb::on(MemFs::new());
        test_db.options.env.scheduler = DeterministicScheduler::new(seed);
        let db = Db::open(DIR, &test_db.options).unwrap();
        let mut expected = BTreeMap::new();
        for step in 0..80 + rng.below(80) {
            for _ in 0..rng.below(6) {
                let key = format!("k{:02}", rng.below(40));
                if rng.one_in(3) {
                    db.delete(&key).unwrap();
                    expected.remove(&key);
                } else {
                    let value = step.to_string();
                    db.put(&key, &value).unwrap();
                    expected.insert(key, value);
                }
            }
            match rng.below(8) {
                0 => db.compact_range(None, None).unwrap(),
                1..5 => db.flush().unwrap(),
                _ => {}
            }
        }
        let expected: Vec<String> =
            expected.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let killed = test_db.fs.fork();
        let manifest = test_db.only("MANIFEST");
        let bytes = test_db.read(&manifest);
        // The first two edits are the snapshot and its numbers.
        for offset in record_offsets(&test_db, &manifest).into_iter().skip(2) {
            let test_db = TestDb::on(killed.fork());
            test_db.write(&manifest, &bytes[..offset]);
            match Db::open(DIR, &test_db.options) {
                Ok(db) => assert_eq!(contents(&db), expected.join(" "), "seed {seed}, cut at {offset}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    test_db.repair();
                    assert_eq!(test_db.contents(), expected.join(" "), "seed {seed}, cut at {offset}");
                }
            }
        }
    }
}
