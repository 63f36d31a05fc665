//! Whole MANIFESTs.

use std::collections::BTreeSet;

use terrace::Db;
use terrace_format::filename::{FileName, current};
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::format_cases;

use super::db_checks;
use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "manifest",
    property: "the levels of a valid MANIFEST are sorted, disjoint, and contain each table once",
    format: InputFormat::Log,
    executions_per_case: 2_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let cases = format_cases::cases();
    let manifests = cases.iter().filter_map(|case| case.database.files().remove("MANIFEST-000002"));
    let mut seeds: Vec<Vec<u8>> = manifests.collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

fn run(input: &[u8]) {
    let current = current::encode(2);
    let tables: Vec<String> =
        added_tables(input).iter().map(|number| FileName::Table(*number).to_string()).collect();
    // The tables may be empty, because a table is opened only by a read.
    let empty = tables.iter().map(|name| (name.as_str(), &b""[..]));
    let fs =
        db_checks::file_system_with(empty.chain([("CURRENT", &current[..]), ("MANIFEST-000002", input)]));
    let options = db_checks::options(fs);
    let Ok(db) = Db::open_read_only(db_checks::DB_DIR, &options) else { return };
    for level in db.levels() {
        let numbers: BTreeSet<u64> = level.files.iter().map(|file| file.number).collect();
        assert_eq!(numbers.len(), level.files.len(), "a table is twice on level {}", level.level);
        let disjoint = level.files.windows(2).all(|pair| pair[0].largest <= pair[1].smallest);
        assert!(level.level == 0 || disjoint, "tables overlap on level {}", level.level);
    }
}

/// Returns the numbers of the tables that the edits add, up to a limit.
fn added_tables(input: &[u8]) -> BTreeSet<u64> {
    const MAX_TABLES: usize = 64;
    let mut reader = LogReader::new(input);
    let mut tables = BTreeSet::new();
    while let Ok(Some(item)) = reader.next() {
        let LogItem::Record { data, .. } = item else { continue };
        let Ok(edit) = VersionEdit::decode(data) else { continue };
        tables.extend(edit.new_files.iter().map(|(_, file)| file.number).take(MAX_TABLES));
        if tables.len() > MAX_TABLES {
            break;
        }
    }
    tables
}
