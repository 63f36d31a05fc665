//! Whole tables.

use terrace::{Db, ErrorKind, Options};
use terrace_format::compress::{SNAPPY, ZSTD};
use terrace_format::filename::current;
use terrace_format::key::{InternalKey, MAX_SEQUENCE_NUMBER, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};
use terrace_testkit::crafted::{CraftedFilter, CraftedLog, CraftedTable};
use terrace_testkit::differential::Entry;

use super::db_checks::{self, Soundness};
use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "table",
    property: "all reads of a valid table agree, and any other table causes no panic",
    format: InputFormat::Table,
    executions_per_case: 1_000,
    seed_inputs: seeds,
    run,
};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let seven_keys = || {
        ('a'..='g').fold(CraftedTable::new(), |table, letter| {
            let key = format!("key-{letter}");
            let sequence = u64::from(letter);
            let table = table.put(&key, sequence, &letter.to_string().repeat(9));
            if letter == 'c' { table.delete(&key, 5) } else { table }
        })
    };
    let tables = [
        seven_keys(),
        seven_keys().filter(CraftedFilter::PerRange),
        seven_keys().filter(CraftedFilter::WholeTable).codec(&SNAPPY),
        seven_keys().codec(&ZSTD).index_value_suffix(b"more").block_gap(3),
        seven_keys().meta_block("a.properties", b"..").unreachable_prefix(),
        CraftedTable::new().put("", 1, ""),
    ];
    tables.iter().map(CraftedTable::encode).collect()
}

/// Returns options for a database around the table. It is alone on a level, whose search uses the
/// bounds in the MANIFEST.
fn database_of(table: &[u8], smallest: InternalKey, largest: InternalKey) -> Options {
    let log = manifest_of_one_table(table.len() as u64, smallest, largest);
    let current = current::encode(2);
    let files = [("CURRENT", &current[..]), ("MANIFEST-000002", log.bytes()), ("000009.ldb", table)];
    db_checks::options(db_checks::file_system_with(files))
}

/// Returns the entries of the table, or the first error of a scan. Its bounds are puts of these user
/// keys with the sequence number 0.
pub(super) fn entries_of(table: &[u8], smallest: &[u8], largest: &[u8]) -> Result<Vec<Entry>, String> {
    let bound = |key| InternalKey::new(key, 0, ValueType::Value);
    let options = database_of(table, bound(smallest), bound(largest));
    let db = Db::open_read_only(db_checks::DB_DIR, &options).map_err(|error| error.to_string())?;
    db_checks::read_forward(&db)
}

fn run(input: &[u8]) {
    // Bounds that allow any key and sequence number.
    let smallest = InternalKey::new(b"", MAX_SEQUENCE_NUMBER, ValueType::Value);
    let largest = InternalKey::new(&[0xff; 40], 0, ValueType::Deletion);
    let options = database_of(input, smallest, largest);
    let clean = db_checks::verify_report(&options).is_some_and(|report| report.is_clean());
    let soundness = if clean { Soundness::VerifiedWithoutOverlap } else { Soundness::Unverified };
    let db = match Db::open_read_only(db_checks::DB_DIR, &options) {
        Ok(db) => db,
        Err(error) => panic!("the database does not open: {error}"),
    };
    db_checks::check_reads(&db, soundness);
    let sizes = db.approximate_sizes(&[(b"", b"\xff"), (b"key-c", b"key-e")]);
    assert!(sizes.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Corruption), "{sizes:?}");
}

/// Returns a MANIFEST with only this table.
fn manifest_of_one_table(size: u64, smallest: InternalKey, largest: InternalKey) -> CraftedLog {
    let edit = VersionEdit {
        comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
        log_number: Some(3),
        next_file_number: Some(10),
        last_sequence: Some(MAX_SEQUENCE_NUMBER),
        new_files: vec![(3, NewFile { number: 9, size, smallest, largest })],
        ..VersionEdit::default()
    };
    let mut record = Vec::new();
    edit.encode(&mut record);
    CraftedLog::new().record(&record)
}
