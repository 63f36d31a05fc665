//! Whole tables.

use terrace::{Db, ErrorKind};
use terrace_format::compress::{SNAPPY, ZSTD};
use terrace_format::filename::current;
use terrace_format::key::{InternalKey, MAX_SEQUENCE_NUMBER, ValueType};
use terrace_format::version_edit::{NewFile, VersionEdit};
use terrace_testkit::crafted::{CraftedFilter, CraftedLog, CraftedTable};

use super::db_checks::{self, Soundness};
use crate::fuzz::Target;
use crate::fuzz::input_format::InputFormat;

pub(super) const TARGET: Target = Target {
    name: "table",
    property: "a table that a check finds sound reads the same in every way, and any other one is survived",
    format: InputFormat::Table,
    executions_per_case: 1_000,
    seed_inputs: seeds,
    run,
};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let seven = || {
        ('a'..='g').fold(CraftedTable::new(), |table, letter| {
            let (key, sequence) = (format!("key-{letter}"), u64::from(letter));
            let table = table.put(&key, sequence, &letter.to_string().repeat(9));
            if letter == 'c' { table.delete(&key, 5) } else { table }
        })
    };
    let tables = [
        seven(),
        seven().filter(CraftedFilter::PerRange),
        seven().filter(CraftedFilter::WholeTable).codec(&SNAPPY),
        seven().codec(&ZSTD).index_value_suffix(b"more").block_gap(3),
        seven().meta_block("a.properties", b"..").unreachable_prefix(),
        CraftedTable::new().put("", 1, ""),
    ];
    tables.iter().map(CraftedTable::encode).collect()
}

/// A database around it: alone on a level that is searched by the manifest's bounds, and read as any other.
fn run(input: &[u8]) {
    let log = manifest_of_one_table(input.len() as u64);
    let current = current::encode(2);
    let files = [("CURRENT", &current[..]), ("MANIFEST-000002", log.bytes()), ("000009.ldb", input)];
    let options = db_checks::options(db_checks::file_system_with(files));
    let clean = db_checks::verify_report(&options).is_some_and(|report| report.is_clean());
    let state = if clean { Soundness::VerifiedWithoutOverlap } else { Soundness::Unverified };
    let db = match Db::open_read_only(db_checks::DB_DIR, &options) {
        Ok(db) => db,
        Err(error) => panic!("its database does not open: {error}"),
    };
    db_checks::check_reads(&db, state);
    let sizes = db.approximate_sizes(&[(b"", b"\xff"), (b"key-c", b"key-e")]);
    assert!(sizes.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Corruption), "{sizes:?}");
}

/// A manifest that knows of the table alone, and leaves every key and number to it.
fn manifest_of_one_table(size: u64) -> CraftedLog {
    let smallest = InternalKey::new(b"", MAX_SEQUENCE_NUMBER, ValueType::Value);
    let largest = InternalKey::new(&[0xff; 40], 0, ValueType::Deletion);
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
