//! Whole directories, repaired.

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
    property: "whatever lies in a directory, a repair makes a sound database of it, and a sound one keeps its contents",
    format: InputFormat::Archive,
    executions_per_case: 200,
    seed_inputs: directory::seeds,
    run,
};

fn run(input: &[u8]) {
    let files = archive::decode(input);
    let fs = db_checks::file_system_with(files.iter().map(|(name, bytes)| (name.as_str(), *bytes)));
    let options = db_checks::options(Arc::clone(&fs));
    let state = db_checks::classify(&files, &options);
    let sound = state >= Soundness::Verified && are_all_tables_live(&files, &options);
    let before = Db::open_read_only(db_checks::DB_DIR, &options).ok().map(|db| db_checks::read_forward(&db));
    let how = RepairOptions { dry_run: true };
    let plan = repair(db_checks::DB_DIR, &options, &how).map(|report| report.changed);
    let report = match repair(db_checks::DB_DIR, &options, &RepairOptions::default()) {
        Ok(report) => report,
        // No database, or another comparator's.
        Err(error) => {
            return assert_eq!(error.kind(), ErrorKind::InvalidArgument, "can't be repaired: {error}");
        }
    };
    db_checks::assert_only_db_dir(&fs);
    assert_eq!(plan.ok(), Some(report.changed), "a dry run said otherwise: {report}");
    // Level-0 tables whose numbers don't tell their age mislead stock LevelDB, and are merged.
    let kept = !report.changed || report.problems.is_empty() && report.tables_merged > 0;
    assert!(!sound || kept, "a sound database was changed: {report}");
    let after = db_checks::verify_report(&options).expect("a repaired database can be looked at");
    // A log may end in a record that was being written: the next open leaves it out, and a repair need not.
    let torn = |problem: &Problem| problem.message.contains("incomplete record");
    assert!(after.problems.iter().all(torn), "not sound when it was repaired: {after}\n{report}");
    let db = Db::open(db_checks::DB_DIR, &options)
        .unwrap_or_else(|error| panic!("does not open when it was repaired: {error}\n{report}"));
    let now = db_checks::check_reads(&db, Soundness::Verified.max(state));
    if let (true, Some(Ok(before)), Some(now)) =
        (sound && state == Soundness::VerifiedWithoutOverlap, before, now)
    {
        assert!(
            before == now,
            "a sound database has other contents: {} entries, were {}",
            now.len(),
            before.len()
        );
    }
    drop(db);
    let again = repair(db_checks::DB_DIR, &options, &RepairOptions::default())
        .expect("what was repaired can be again");
    assert!(!again.changed, "there was more to repair: {again}");
}

/// True if every table in the directory is live: others may be what is left of a manifest whose end is lost.
fn are_all_tables_live(files: &BTreeMap<String, &[u8]>, options: &Options) -> bool {
    let Ok(db) = Db::open_read_only(db_checks::DB_DIR, options) else { return false };
    let live: BTreeSet<u64> =
        db.levels().iter().flat_map(|level| &level.files).map(|file| file.number).collect();
    let mut tables = files.keys().filter_map(|name| FileName::parse(name)).filter(FileName::is_table);
    tables.all(|table| table.number().is_some_and(|number| live.contains(&number)))
}
