//! Cases of logs: zeros, incomplete records, several logs.

use super::{ExpectedOutcome, FormatCase, expect_entries};
use crate::crafted::{CraftedDb, CraftedLog};
use crate::stock_leveldb::StatusCode;

fn db_with_log(log: &CraftedLog) -> CraftedDb {
    CraftedDb::new().log(3, log)
}

/// Appends `count` batches of one put each, with values of `value_len` bytes, and returns the
/// entries too.
fn append_batches(mut log: CraftedLog, count: u64, value_len: usize) -> (CraftedLog, Vec<(String, String)>) {
    let mut entries = Vec::new();
    for n in 1..=count {
        let key = format!("k{n:04}");
        let value = "v".repeat(value_len);
        log = log.batch(n, &[(&key, &value)]);
        entries.push((key, value));
    }
    (log, entries)
}

pub(super) fn cases() -> Vec<FormatCase> {
    let (short, short_entries) = append_batches(CraftedLog::new(), 5, 10);
    let (split, split_entries) = append_batches(CraftedLog::new(), 40, 3_000);
    let (whole, whole_entries) = append_batches(CraftedLog::new().unsplit_records(), 40, 3_000);
    let torn = |log: CraftedLog, len: usize| {
        let big = "b".repeat(100_000);
        let start = log.bytes().len();
        log.batch(6, &[("torn", &big)]).truncate(start + len)
    };
    let corruption = ExpectedOutcome::OpenFails(StatusCode::Corruption);
    vec![
        FormatCase::new("an empty database", CraftedDb::new(), expect_entries::<&str, &str>(&[])),
        FormatCase::new("an empty log", db_with_log(&CraftedLog::new()), expect_entries::<&str, &str>(&[])),
        FormatCase::new(
            "a log of only zeros",
            db_with_log(&CraftedLog::new().append_zeros(1 << 20)),
            expect_entries::<&str, &str>(&[]),
        ),
        FormatCase::new(
            "a tail of zeros",
            db_with_log(&short.clone().append_zeros(4 << 20)),
            expect_entries(&short_entries),
        ),
        FormatCase::new(
            "a tail of zeros up to the block end",
            db_with_log(&short.clone().pad_to_block()),
            expect_entries(&short_entries),
        ),
        FormatCase::new(
            "records split over blocks",
            db_with_log(&split.clone().append_zeros(32 << 10)),
            expect_entries(&split_entries),
        ),
        FormatCase::new("zeros at the ends of blocks", db_with_log(&whole), expect_entries(&whole_entries)),
        FormatCase::new(
            "a log that ends inside a header",
            db_with_log(&torn(short.clone(), 3)),
            expect_entries(&short_entries),
        ),
        FormatCase::new(
            "a log that ends inside a record",
            db_with_log(&torn(short.clone(), 90_000)),
            expect_entries(&short_entries),
        ),
        FormatCase::new(
            "an incomplete record, then zeros",
            db_with_log(&torn(short.clone(), 65_536).append_zeros(65_536)),
            expect_entries(&short_entries),
        )
        .expect_paranoid(corruption.clone()),
        FormatCase::new(
            "a flipped bit",
            db_with_log(&short.clone().flip_bit(20)),
            expect_entries::<&str, &str>(&[]),
        )
        .expect_paranoid(corruption.clone()),
        FormatCase::new(
            "a batch with an unknown tag",
            db_with_log(&short.clone().record(&unknown_tag())),
            expect_entries(&short_entries),
        )
        .expect_paranoid(corruption.clone()),
        FormatCase::new(
            "a record too short for a batch",
            db_with_log(&short.record(b"short")),
            expect_entries(&short_entries),
        )
        .expect_paranoid(corruption),
        several_live_logs(),
        sequence_gaps(),
        log_before_log_number(),
        later_log_with_older_version(),
        recycled_log(),
        gap_before_records(),
    ]
}

/// Returns a batch with one operation of an unknown type.
fn unknown_tag() -> Vec<u8> {
    [&6u64.to_le_bytes()[..], &1u32.to_le_bytes(), &[7, 1, b'k']].concat()
}

fn several_live_logs() -> FormatCase {
    let database = CraftedDb::new()
        .log(3, &CraftedLog::new().batch(1, &[("a", "1"), ("b", "1")]).append_zeros(1 << 16))
        .log(4, &CraftedLog::new().batch(3, &[("b", "2"), ("c", "2")]))
        .log(7, &CraftedLog::new().batch(5, &[("c", "3")]).append_zeros(1 << 16));
    FormatCase::new("several live logs", database, expect_entries(&[("a", "1"), ("b", "2"), ("c", "3")]))
}

/// A repair or a lost log leaves gaps between sequence numbers, which are valid.
fn sequence_gaps() -> FormatCase {
    let database = CraftedDb::new()
        .log(3, &CraftedLog::new().batch(1, &[("a", "1")]).batch(100, &[("a", "2")]))
        .log(4, &CraftedLog::new().batch(1_000, &[("b", "1")]));
    FormatCase::new("gaps between sequence numbers", database, expect_entries(&[("a", "2"), ("b", "1")]))
}

fn log_before_log_number() -> FormatCase {
    let database = CraftedDb::new()
        .log(2, &CraftedLog::new().batch(1, &[("dead", "1")]))
        .log(3, &CraftedLog::new().batch(2, &[("a", "1")]));
    FormatCase::new("an obsolete log", database, expect_entries(&[("a", "1")]))
}

/// One log per thread would produce such files. Get in stock LevelDB trusts the log number, and its
/// iterator the sequence number.
fn later_log_with_older_version() -> FormatCase {
    let database = CraftedDb::new()
        .log(3, &CraftedLog::new().batch(10, &[("k", "new")]))
        .log(4, &CraftedLog::new().batch(5, &[("k", "old")]));
    FormatCase::new("a later log with an older version", database, expect_entries(&[("k", "new")]))
        .leveldb_disagrees()
}

/// A log that overwrites an old one: after the last new record, old records become visible.
/// Therefore Terrace never overwrites a log.
fn recycled_log() -> FormatCase {
    let log = CraftedLog::new().batch(10, &[("a", "new")]).batch(2, &[("a", "old"), ("b", "old")]);
    FormatCase::new(
        "a log that overwrites an older one",
        db_with_log(&log),
        expect_entries(&[("a", "new"), ("b", "old")]),
    )
}

/// An unfilled reservation before a record: the rest of its block is lost, and later blocks are
/// read. Therefore a write is acknowledged only when all earlier ones are in the log.
fn gap_before_records() -> FormatCase {
    let log =
        CraftedLog::new().batch(1, &[("a", "1")]).append_zeros(27).batch(3, &[("c", "1")]).pad_to_block();
    let log = log.batch(4, &[("d", "1")]);
    FormatCase::new("a gap before records", db_with_log(&log), expect_entries(&[("a", "1"), ("d", "1")]))
}
