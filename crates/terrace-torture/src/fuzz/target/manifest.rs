//! Whole manifests.

use std::collections::BTreeSet;

use terrace::Db;
use terrace_format::edit::VersionEdit;
use terrace_format::filename::{FileName, current};
use terrace_format::log::{Item, LogReader};
use terrace_testkit::fabricate::catalogue;

use super::contents;
use crate::fuzz::Target;
use crate::fuzz::form::Form;

pub(super) const TARGET: Target = Target {
    name: "manifest",
    shows: "levels that a manifest leads to are sorted, disjoint, and name each table once",
    form: Form::Log,
    runs: 2_000,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let cases = catalogue::cases();
    let manifests = cases.iter().filter_map(|case| case.database.files().remove("MANIFEST-000002"));
    let mut seeds: Vec<Vec<u8>> = manifests.collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

fn run(input: &[u8]) {
    let current = current::encode(2);
    let tables: Vec<String> =
        tables(input).iter().map(|number| FileName::Table(*number).to_string()).collect();
    // Nobody reads them: a table is opened when something is looked up.
    let empty = tables.iter().map(|name| (name.as_str(), &b""[..]));
    let fs = contents::files(empty.chain([("CURRENT", &current[..]), ("MANIFEST-000002", input)]));
    let options = contents::options(fs);
    let Ok(db) = Db::open_read_only(contents::PLACE, &options) else { return };
    for level in db.levels() {
        let numbers: BTreeSet<u64> = level.files.iter().map(|file| file.number).collect();
        assert_eq!(numbers.len(), level.files.len(), "a table stands twice on level {}", level.level);
        let disjoint = level.files.windows(2).all(|pair| pair[0].largest <= pair[1].smallest);
        assert!(level.level == 0 || disjoint, "tables overlap on level {}", level.level);
    }
}

/// As many of the tables that it ever adds as one would care to make.
fn tables(input: &[u8]) -> BTreeSet<u64> {
    const MOST: usize = 64;
    let (mut reader, mut tables) = (LogReader::new(input), BTreeSet::new());
    while let Ok(Some(item)) = reader.next() {
        let Item::Record { data, .. } = item else { continue };
        let Ok(edit) = VersionEdit::decode(data) else { continue };
        tables.extend(edit.added.iter().map(|(_, file)| file.number).take(MOST));
        if tables.len() > MOST {
            break;
        }
    }
    tables
}
