//! Repairs of whole directories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace::{Db, ErrorKind, Options, Problem, RepairOptions, repair};
use terrace_format::filename::FileName;

use super::db_checks::{self, Soundness};
use super::directory;
use crate::fuzz::input_format::InputFormat;
use crate::fuzz::{Target, archive};

pub(super) const TARGET: Target = Target {
    name: "repair",
    property: "repair makes a valid database of any directory, and an undamaged one keeps its contents",
    format: InputFormat::Archive,
    executions_per_case: 200,
    seed_inputs: directory::seeds,
    run,
};

fn run(input: &[u8]) {
    let files = archive::decode(input);
    let fs = db_checks::file_system_with(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
    let options = db_checks::options(Arc::clone(&fs));
    let soundness = db_checks::classify(&files, &options);
    let undamaged = soundness >= Soundness::Verified && are_all_tables_live(&files, &options);
    let before = Db::open_read_only(db_checks::DB_DIR, &options).ok().map(|db| db_checks::read_forward(&db));
    let dry_run = RepairOptions::default().dry_run(true);
    let planned = repair(db_checks::DB_DIR, &options, &dry_run).map(|report| report.changed);
    let report = match repair(db_checks::DB_DIR, &options, &RepairOptions::default()) {
        Ok(report) => report,
        // There is no database, or it uses another comparator.
        Err(error) => {
            return assert_eq!(error.kind(), ErrorKind::InvalidArgument, "repair failed: {error}");
        }
    };
    db_checks::assert_only_db_dir(&fs);
    assert_eq!(planned.ok(), Some(report.changed), "the dry run had another result: {report}");
    // Repair compacts level-0 tables whose numbers do not give their age, because they mislead
    // stock LevelDB.
    let unchanged = !report.changed || report.problems.is_empty() && report.tables_merged > 0;
    assert!(!undamaged || unchanged, "an undamaged database was changed: {report}");
    let after = db_checks::verify_report(&options).expect("a repaired database can be verified");
    // A log may end in an incomplete record, which the next open drops. A repair may leave it.
    let is_torn_record = |problem: &Problem| problem.message.contains("incomplete record");
    assert!(after.problems.iter().all(is_torn_record), "not valid after its repair: {after}\n{report}");
    let db = Db::open(db_checks::DB_DIR, &options)
        .unwrap_or_else(|error| panic!("a repaired database does not open: {error}\n{report}"));
    let now = db_checks::check_reads(&db, Soundness::Verified.max(soundness));
    if let (true, Some(Ok(before)), Some(now)) =
        (undamaged && soundness == Soundness::VerifiedWithoutOverlap, before, now)
    {
        assert!(
            before == now,
            "an undamaged database has other contents: {} entries, expected {}",
            now.len(),
            before.len()
        );
    }
    drop(db);
    let second =
        repair(db_checks::DB_DIR, &options, &RepairOptions::default()).expect("a second repair succeeds");
    assert!(!second.changed, "the second repair changed the database: {second}");
}

/// Returns true if every table in the directory is live. Other tables may belong to lost MANIFEST
/// edits.
fn are_all_tables_live(files: &BTreeMap<String, &[u8]>, options: &Options) -> bool {
    let Ok(db) = Db::open_read_only(db_checks::DB_DIR, options) else { return false };
    let live: BTreeSet<u64> =
        db.levels().iter().flat_map(|level| &level.files).map(|file| file.number).collect();
    let mut tables = files.keys().filter_map(|name| FileName::parse(name)).filter(FileName::is_table);
    tables.all(|table| table.number().is_some_and(|number| live.contains(&number)))
}
