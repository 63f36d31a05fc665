//! Logs and MANIFESTs that are assembled byte by byte, read by every reader that this machine has.
//!
//! The answers decide how Terrace marks its files: `docs/design/0010-readers-of-the-format.md`.

use std::path::Path;

use terrace_format::key::{InternalKey, ValueType};
use terrace_format::log::{LogItem, LogReader};
use terrace_format::version_edit::VersionEdit;
use terrace_testkit::crafted::{CraftedDb, CraftedLog};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock_leveldb::stock_leveldb_or_skip;

use super::format_reader::{AvailableReader, available_readers};

/// Size of a log block.
const BLOCK: usize = 32_768;

/// Number of the log of each row.
const LOG: u64 = 3;

/// Keys that a reader finds, or a part of its refusal.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Keys(&'static str),
    Refusal(&'static str),
}

use Outcome::{Keys, Refusal};

/// A database, the keys that most readers find, and the readers with another outcome.
struct Row {
    name: &'static str,
    database: CraftedDb,
    keys: &'static str,
    exceptions: &'static [(&'static str, Outcome)],
}

impl Row {
    fn new(name: &'static str, database: CraftedDb, keys: &'static str) -> Row {
        Row { name, database, keys, exceptions: &[] }
    }

    fn with_log(name: &'static str, log: &CraftedLog, keys: &'static str) -> Row {
        Row::new(name, CraftedDb::new().log(LOG, log), keys)
    }

    fn except(self, exceptions: &'static [(&'static str, Outcome)]) -> Row {
        Row { exceptions, ..self }
    }

    fn expected(&self, reader: &str) -> Outcome {
        let exception = self.exceptions.iter().find(|(name, _)| *name == reader);
        exception.map_or(Keys(self.keys), |(_, outcome)| *outcome)
    }
}

fn read(reader: &AvailableReader, database: &CraftedDb) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    database.write_to(dir.path());
    let entries = reader.reader.read(dir.path())?;
    Ok(entries.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn check(rows: &[Row]) {
    for row in rows {
        for reader in available_readers() {
            let found = read(reader, &row.database);
            let agrees = match (row.expected(reader.name), &found) {
                (Keys(keys), Ok(found)) => keys == found,
                (Refusal(text), Err(found)) => found.contains(text),
                _ => false,
            };
            assert!(agrees, "{}: {}: {found:?}", row.name, reader.name);
        }
    }
}

fn a_and_b() -> CraftedLog {
    CraftedLog::new().batch(1, &[("a", "1")]).batch(2, &[("b", "2")])
}

/// A log whose second record begins in the first block and ends in the second.
fn b_crosses_blocks() -> CraftedLog {
    let value = "v".repeat(20_000);
    CraftedLog::new().batch(1, &[("a", &value)]).batch(2, &[("b", &value)])
}

#[test]
fn empty_batch_in_any_place_is_ignored() {
    let big = "v".repeat(20_000);
    let at_block_start =
        CraftedLog::new().batch(1, &[("a", &big)]).batch(2, &[("b", &"v".repeat(BLOCK - 20_000 - 49))]);
    assert_eq!(at_block_start.bytes().len(), BLOCK);
    check(&[
        Row::with_log("no empty batch", &a_and_b(), "a b"),
        Row::with_log(
            "first",
            &CraftedLog::new().batch(1, &[]).batch(1, &[("a", "1")]).batch(2, &[("b", "2")]),
            "a b",
        ),
        Row::with_log(
            "in the middle",
            &CraftedLog::new().batch(1, &[("a", "1")]).batch(2, &[]).batch(2, &[("b", "2")]),
            "a b",
        ),
        Row::with_log("last", &a_and_b().batch(3, &[]), "a b"),
        Row::with_log("only", &CraftedLog::new().batch(1, &[]), ""),
        Row::with_log(
            "at the start of a block",
            &at_block_start.batch(3, &[]).batch(3, &[("c", "3")]),
            "a b c",
        ),
    ]);
}

#[test]
fn zeros_after_the_last_record_are_ignored() {
    check(&[
        Row::with_log("to the end of the block", &a_and_b().pad_to_block(), "a b"),
        Row::with_log("100 bytes", &a_and_b().append_zeros(100), "a b"),
        Row::with_log("5 bytes", &a_and_b().append_zeros(5), "a b"),
        Row::with_log("1 MiB", &a_and_b().append_zeros(1 << 20), "a b"),
        Row::new(
            "and a later log",
            CraftedDb::new()
                .log(LOG, &a_and_b().pad_to_block())
                .log(LOG + 1, &CraftedLog::new().batch(3, &[("c", "3")])),
            "a b c",
        ),
    ]);
}

#[test]
fn zeros_between_records_end_the_log_for_rusty_leveldb() {
    let split = a_and_b().pad_to_block().batch(3, &[("c", "3")]);
    let exceptions: &[_] = &[("rusty-leveldb", Keys("a b"))];
    check(&[
        Row::with_log("a record at the next block", &split, "a b c").except(exceptions),
        Row::with_log(
            "an empty batch at the next block",
            &a_and_b().pad_to_block().batch(3, &[]).batch(3, &[("c", "3")]),
            "a b c",
        )
        .except(exceptions),
    ]);
}

#[test]
fn incomplete_record_is_ignored_only_at_the_end_of_the_file() {
    let half = a_and_b().batch(3, &[("c", "333333")]).truncate(75);
    const PARANOID: &str = "LevelDB with paranoid checks";
    check(&[
        Row::with_log("half of a record", &half, "a b"),
        Row::with_log("first fragment", &b_crosses_blocks().truncate(BLOCK), "a"),
        Row::with_log("first fragment and half of the last", &b_crosses_blocks().truncate(BLOCK + 300), "a"),
        Row::with_log("half of a record, then zeros", &half.clone().pad_to_block(), "a b")
            .except(&[(PARANOID, Refusal("checksum mismatch"))]),
        Row::with_log(
            "first fragment, then zeros",
            &b_crosses_blocks().truncate(BLOCK).append_zeros(BLOCK),
            "a",
        )
        .except(&[(PARANOID, Refusal("error in middle of record"))]),
    ]);
}

#[test]
fn deletion_of_a_missing_table_is_refused_by_rocksdb() {
    let edit = VersionEdit { deleted_files: vec![(6, 0)], ..VersionEdit::default() };
    let database = CraftedDb::new().log(LOG, &a_and_b()).manifest_record(&encode(&edit));
    const REFUSAL: Outcome = Refusal("Cannot delete table file #0 from level 6");
    check(&[Row::new("table 0 of level 6", database, "a b")
        .except(&[("RocksDB", REFUSAL), ("RocksDB for writing", REFUSAL)])]);
}

/// User key of a compact pointer that marks a closed log.
const CLOSE_MARK: &[u8] = b"terrace closed log 000003 at 54";

fn close_mark(level: usize) -> CraftedDb {
    let internal_key = InternalKey::new(CLOSE_MARK, 0, ValueType::Value);
    let edit = VersionEdit { compact_pointers: vec![(level, internal_key)], ..VersionEdit::default() };
    CraftedDb::new().log(LOG, &a_and_b()).manifest_record(&encode(&edit))
}

fn encode(edit: &VersionEdit) -> Vec<u8> {
    let mut record = Vec::new();
    edit.encode(&mut record);
    record
}

#[test]
fn compact_pointer_with_any_text_is_accepted() {
    check(&[Row::new("level 6", close_mark(6), "a b"), Row::new("level 0", close_mark(0), "a b")]);
}

/// LevelDB's next MANIFEST contains the compact pointer in its first edit, and another edit
/// follows. So a mark counts only if it is in the last edit.
#[test]
fn leveldb_carries_a_compact_pointer_into_its_next_manifest() {
    let Some(stock) = stock_leveldb_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    close_mark(6).write_to(dir.path());
    drop(stock.open(dir.path(), &Settings::default()).unwrap());
    let edits = edits_of_live_manifest(dir.path());
    let has_mark =
        |edit: &VersionEdit| edit.compact_pointers.iter().any(|(_, key)| key.user_key() == CLOSE_MARK);
    assert!(has_mark(&edits[0]), "{edits:?}");
    assert!(edits.len() > 1 && !edits[1..].iter().any(has_mark), "{edits:?}");
}

fn edits_of_live_manifest(dir: &Path) -> Vec<VersionEdit> {
    let current = std::fs::read_to_string(dir.join("CURRENT")).unwrap();
    let manifest = std::fs::read(dir.join(current.trim_end())).unwrap();
    let mut reader = LogReader::new(manifest.as_slice());
    let mut edits = Vec::new();
    while let Some(LogItem::Record { data, .. }) = reader.next().unwrap() {
        edits.push(VersionEdit::decode(data).unwrap());
    }
    edits
}
