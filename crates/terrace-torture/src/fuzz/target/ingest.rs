//! Table files that an ingest receives.

use terrace::{Db, ErrorKind, IngestOptions};
use terrace_env::FileSystem;
use terrace_format::compress::SNAPPY;
use terrace_testkit::crafted::{CraftedFilter, CraftedTable};

use super::db_checks::{self, Soundness};
use super::table;
use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

/// Path of the file, outside of the database.
const INPUT_PATH: &str = "input.ldb";

/// Kinds of the errors for a file. Others would hide the reason from the caller.
const EXPECTED_ERRORS: [ErrorKind; 3] =
    [ErrorKind::Corruption, ErrorKind::InvalidArgument, ErrorKind::NotSupported];

pub(super) const TARGET: Target = Target {
    name: "ingest",
    property: "an ingest of a file returns an error and adds nothing, or adds exactly its entries",
    format: InputFormat::Table,
    executions_per_case: 1_000,
    seed_inputs: seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let seven_keys = || {
        ('a'..='g').fold(CraftedTable::new(), |table, letter| {
            table.put(&format!("key-{letter}"), 0, &letter.to_string().repeat(9))
        })
    };
    let comparator = "terrace.comparator";
    let tables = [
        seven_keys(),
        seven_keys().filter(CraftedFilter::PerRange).codec(&SNAPPY),
        seven_keys().meta_block(comparator, b"leveldb.BytewiseComparator"),
        seven_keys().meta_block(comparator, b"other"),
        seven_keys().delete("key-h", 0),
        CraftedTable::new().put("", 0, ""),
    ];
    tables.iter().map(CraftedTable::encode).chain(table::seeds()).collect()
}

fn run(input: &[u8]) {
    let fs = db_checks::file_system_with([]);
    let mut file = fs.create(INPUT_PATH.as_ref()).expect("creating files in memory succeeds");
    file.append(input).and_then(|()| file.close()).expect("writing files in memory succeeds");
    let options = db_checks::options(fs).create_if_missing(true);
    let db = Db::open(db_checks::DB_DIR, &options).expect("the database is new");
    if let Err(error) = db.ingest(&[INPUT_PATH], &IngestOptions::default()) {
        assert!(EXPECTED_ERRORS.contains(&error.kind()), "{error}");
        assert_eq!(db_checks::read_forward(&db), Ok(Vec::new()), "a refused file has added entries");
        return;
    }
    let Some(found) = db_checks::check_reads(&db, Soundness::VerifiedWithoutOverlap) else { return };
    let first = found.first().map_or(&[][..], |(key, _)| key);
    let last = found.last().map_or(&[][..], |(key, _)| key);
    let expected = table::entries_of(input, first, last);
    assert_eq!(Ok(found.clone()), expected, "the entries differ from those of the file");
    db.close().expect("nothing is wrong with the database");
    let report = db_checks::verify_report(&options).expect("the database can be read");
    assert!(report.is_clean(), "{report:?}");
}
