//! Whole tables.

use terrace::{Db, ErrorKind};
use terrace_format::compress::{SNAPPY, ZSTD};
use terrace_format::edit::{NewFile, VersionEdit};
use terrace_format::filename::current;
use terrace_format::key::{InternalKey, Kind, MAX_SEQUENCE};
use terrace_testkit::fabricate::{Filter, Log, Table};

use super::contents::{self, State};
use crate::fuzz::Target;
use crate::fuzz::form::Form;

pub(super) const TARGET: Target = Target {
    name: "table",
    shows: "a table that a check finds sound reads the same in every way, and any other one is survived",
    form: Form::Table,
    runs: 1_000,
    seeds,
    run,
};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let seven = || {
        ('a'..='g').fold(Table::new(), |table, letter| {
            let (key, sequence) = (format!("key-{letter}"), u64::from(letter));
            let table = table.put(&key, sequence, &letter.to_string().repeat(9));
            if letter == 'c' { table.delete(&key, 5) } else { table }
        })
    };
    let tables = [
        seven(),
        seven().filter(Filter::PerRange),
        seven().filter(Filter::WholeTable).codec(&SNAPPY),
        seven().codec(&ZSTD).index_extra(b"more").gap(3),
        seven().meta("a.properties", b"..").hidden(),
        Table::new().put("", 1, ""),
    ];
    tables.iter().map(Table::encode).collect()
}

/// A database around it: alone on a level that is searched by the manifest's bounds, and read as any other.
fn run(input: &[u8]) {
    let log = manifest(input.len() as u64);
    let current = current::encode(2);
    let files = [("CURRENT", &current[..]), ("MANIFEST-000002", log.bytes()), ("000009.ldb", input)];
    let options = contents::options(contents::files(files));
    let clean = contents::examined(&options).is_some_and(|report| report.is_clean());
    let state = if clean { State::Plain } else { State::Doubtful };
    let db = match Db::open_read_only(contents::PLACE, &options) {
        Ok(db) => db,
        Err(error) => panic!("its database does not open: {error}"),
    };
    contents::read(&db, state);
    let sizes = db.approximate_sizes(&[(b"", b"\xff"), (b"key-c", b"key-e")]);
    assert!(sizes.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Corruption), "{sizes:?}");
}

/// A manifest that knows of the table alone, and leaves every key and number to it.
fn manifest(size: u64) -> Log {
    let smallest = InternalKey::new(b"", MAX_SEQUENCE, Kind::Put);
    let largest = InternalKey::new(&[0xff; 40], 0, Kind::Delete);
    let edit = VersionEdit {
        comparator: Some(b"leveldb.BytewiseComparator".to_vec()),
        log_number: Some(3),
        next_file: Some(10),
        last_sequence: Some(MAX_SEQUENCE),
        added: vec![(3, NewFile { number: 9, size, smallest, largest })],
        ..VersionEdit::default()
    };
    let mut record = Vec::new();
    edit.encode(&mut record);
    Log::new().record(&record)
}
