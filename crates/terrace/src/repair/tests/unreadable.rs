//! Files that the disk cannot read. The repair saves all others.

use terrace_env::fault::{FaultFs, FaultPlan};
use terrace_testkit::crafted::{CraftedDb, CraftedLog, CraftedTable};

use super::*;

/// Returns a database with two tables and a log, `b=B` to `d=D`.
fn database() -> TestDb {
    let database = CraftedDb::new()
        .table(1, 5, &CraftedTable::new().put("b", 2, "B"))
        .table(1, 7, &CraftedTable::new().put("c", 3, "C"))
        .log(9, &CraftedLog::new().batch(4, &[("d", "D")]));
    TestDb::from_crafted(&database)
}

/// Repairs while `plan` fails. Checks that a dry run gives the same report.
#[track_caller]
fn repair_with_faults(test_db: &TestDb, plan: &str) -> RepairReport {
    let faulty = || {
        let plan: FaultPlan = plan.parse().unwrap();
        let fs = FaultFs::new(Arc::clone(&test_db.fs) as Arc<dyn FileSystem>, plan);
        Options { env: Env::with_file_system(Arc::new(fs)), ..test_db.options.clone() }
    };
    let dry = repair(DIR, &faulty(), &RepairOptions { dry_run: true }).unwrap();
    let report = repair(DIR, &faulty(), &RepairOptions::default()).unwrap();
    assert_eq!(RepairReport { dry_run: false, ..dry }, report, "a dry run gives the same report");
    report
}

/// Regression: a bad sector ended the repair with an error, and nothing was saved.
#[test]
fn everything_else_is_saved() {
    for (plan, file, contents) in [
        ("open 000005.ldb #1 forever EIO", "000005.ldb", "c=C d=D"),
        ("read 000005.ldb #1 forever EIO", "000005.ldb", "c=C d=D"),
        ("open 000009.log #1 forever EIO", "000009.log", "b=B c=C"),
        ("read 000009.log #1 forever EIO", "000009.log", "b=B c=C"),
        ("open CURRENT #1 forever EIO", "CURRENT", "b=B c=C d=D"),
        ("read CURRENT #1 forever EIO", "CURRENT", "b=B c=C d=D"),
        ("open MANIFEST #1 forever EIO", "MANIFEST", "b=B c=C d=D"),
        ("read MANIFEST #1 forever EIO", "MANIFEST", "b=B c=C d=D"),
    ] {
        let test_db = database();
        let report = repair_with_faults(&test_db, plan);
        let problem = report.problems.iter().find(|problem| problem.file.starts_with(file));
        let problem = problem.unwrap_or_else(|| panic!("{plan}: {report}"));
        // `EIO`, or `ERROR_IO_DEVICE` of Windows.
        let code = if cfg!(windows) { "(os error 1117)" } else { "(os error 5)" };
        assert!(problem.message.contains(code), "{plan}: {report}");
        assert_eq!(test_db.contents(), contents, "{plan}: {report}");
        if file != "CURRENT" {
            assert!(report.moved.iter().any(|(from, _)| from.starts_with(file)), "{plan}: {report}");
        }
    }
}

#[test]
fn lost_table_is_reported_with_its_keys() {
    let report = repair_with_faults(&database(), "open 000005.ldb #1 forever EIO");
    assert_eq!((report.tables_unreadable, report.tables_kept, report.tables_missing), (1, 1, 0), "{report}");
    let action = &report.actions[0];
    assert!(action.starts_with("000005.ldb: its entries are lost: "), "{action}");
    assert!(action.ends_with(" bytes, keys 'b' to 'b'"), "{action}");
}

#[test]
fn unreadable_table_without_a_manifest() {
    let test_db = database();
    test_db.remove("CURRENT");
    test_db.remove("MANIFEST");
    let report = repair_with_faults(&test_db, "read 000007.ldb #1 forever EIO");
    assert_eq!(test_db.contents(), "b=B d=D", "{report}");
}

/// Some errors of a disk are transient.
#[test]
fn error_that_does_not_return() {
    for (op, file) in
        [("open", ".ldb"), ("read", ".ldb"), ("open", ".log"), ("read", ".log"), ("read", "MANIFEST")]
    {
        let test_db = database();
        let report = repair_with_faults(&test_db, &format!("{op} {file} #1 once EIO"));
        assert_eq!(report.problems, [], "{op} {file}");
    }
}

/// One block of several cannot be read.
#[test]
fn unreadable_block() {
    let test_db = TestDb::with_writes(|db| {
        fill(db);
        db.flush().unwrap();
    });
    // A data block, which is read twice. The reads before it are those for the codec of the table,
    // then the footer, the metaindex, the filter and the index, with their trailers.
    let report = repair_with_faults(&test_db, "read .ldb #13 x2 EIO");
    assert_eq!((report.blocks_lost, report.tables_salvaged), (1, 1), "{report}");
    assert!(test_db.verify().is_clean());
}

/// These errors say nothing about the file: a later repair saves more.
#[test]
fn missing_resources_and_permissions_end_the_repair() {
    for fault in ["EMFILE", "EACCES"] {
        let test_db = database();
        let plan: FaultPlan = format!("open 000005.ldb #1 forever {fault}").parse().unwrap();
        let fs = FaultFs::new(Arc::clone(&test_db.fs) as Arc<dyn FileSystem>, plan);
        let options = Options { env: Env::with_file_system(Arc::new(fs)), ..test_db.options.clone() };
        assert!(repair(DIR, &options, &RepairOptions::default()).is_err(), "{fault}");
        assert_eq!(test_db.contents(), "b=B c=C d=D", "{fault}");
    }
}

/// Bit rot in a length hides the end of a log. Only a clean close proves that it had more records.
#[test]
fn truncated_log_of_a_clean_close() {
    let test_db = TestDb::with_writes(fill);
    let log = test_db.only(".log");
    let bytes = test_db.read(&log);
    test_db.write(&log, &bytes[..bytes.len() - 10]);
    let found = test_db.verify().problems;
    assert_eq!(found.len(), 1, "{found:?}");
    let report = test_db.repair();
    assert_eq!((&report.problems, report.logs_salvaged), (&found, 1), "{report}");
    assert_eq!(recovered_keys(&test_db).len(), 19);
}
