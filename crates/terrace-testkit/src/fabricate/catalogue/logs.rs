//! Logs: zeros, stumps, several at once.

use super::{Case, Outcome, holds};
use crate::fabricate::{Fabricated, Log};
use crate::stock::StockClass;

fn one(log: &Log) -> Fabricated {
    Fabricated::new().log(3, log)
}

/// `count` puts of one batch each, of values that long, and what they leave.
fn fill(mut log: Log, count: u64, value_len: usize) -> (Log, Vec<(String, String)>) {
    let mut entries = Vec::new();
    for n in 1..=count {
        let (key, value) = (format!("k{n:04}"), "v".repeat(value_len));
        log = log.batch(n, &[(&key, &value)]);
        entries.push((key, value));
    }
    (log, entries)
}

pub(super) fn cases() -> Vec<Case> {
    let (short, short_entries) = fill(Log::new(), 5, 10);
    let (split, split_entries) = fill(Log::new(), 40, 3_000);
    let (whole, whole_entries) = fill(Log::new().whole(), 40, 3_000);
    let torn = |log: Log, len: usize| {
        let big = "b".repeat(100_000);
        let start = log.bytes().len();
        log.batch(6, &[("torn", &big)]).cut(start + len)
    };
    let refused = Outcome::Refused(StockClass::Corruption);
    vec![
        Case::new("an empty database", Fabricated::new(), holds::<&str, &str>(&[])),
        Case::new("an empty log", one(&Log::new()), holds::<&str, &str>(&[])),
        Case::new("a log of zeros only", one(&Log::new().zeros(1 << 20)), holds::<&str, &str>(&[])),
        Case::new("a tail of zeros", one(&short.clone().zeros(4 << 20)), holds(&short_entries)),
        Case::new(
            "a tail of zeros to the block's end",
            one(&short.clone().to_next_block()),
            holds(&short_entries),
        ),
        Case::new("records split over blocks", one(&split.clone().zeros(32 << 10)), holds(&split_entries)),
        Case::new("zeros at the ends of blocks", one(&whole), holds(&whole_entries)),
        Case::new("a log that ends inside a header", one(&torn(short.clone(), 3)), holds(&short_entries)),
        Case::new(
            "a log that ends inside a record",
            one(&torn(short.clone(), 90_000)),
            holds(&short_entries),
        ),
        Case::new(
            "a torn record, then zeros",
            one(&torn(short.clone(), 65_536).zeros(65_536)),
            holds(&short_entries),
        )
        .paranoid(refused.clone()),
        Case::new("a flipped bit", one(&short.clone().flip(20)), holds::<&str, &str>(&[]))
            .paranoid(refused.clone()),
        Case::new(
            "a batch with an unknown tag",
            one(&short.clone().record(&unknown_tag())),
            holds(&short_entries),
        )
        .paranoid(refused.clone()),
        Case::new("a record too short for a batch", one(&short.record(b"short")), holds(&short_entries))
            .paranoid(refused),
        several(),
        numbers_with_a_gap(),
        behind_the_manifest(),
        backwards(),
        recycled(),
        a_hole(),
    ]
}

/// A batch of one operation that is neither a put nor a delete.
fn unknown_tag() -> Vec<u8> {
    [&6u64.to_le_bytes()[..], &1u32.to_le_bytes(), &[7, 1, b'k']].concat()
}

fn several() -> Case {
    let database = Fabricated::new()
        .log(3, &Log::new().batch(1, &[("a", "1"), ("b", "1")]).zeros(1 << 16))
        .log(4, &Log::new().batch(3, &[("b", "2"), ("c", "2")]))
        .log(7, &Log::new().batch(5, &[("c", "3")]).zeros(1 << 16));
    Case::new("several live logs", database, holds(&[("a", "1"), ("b", "2"), ("c", "3")]))
}

/// A repair or a lost log leaves such numbers behind; nothing says that they run on.
fn numbers_with_a_gap() -> Case {
    let database = Fabricated::new()
        .log(3, &Log::new().batch(1, &[("a", "1")]).batch(100, &[("a", "2")]))
        .log(4, &Log::new().batch(1_000, &[("b", "1")]));
    Case::new("numbers with gaps between them", database, holds(&[("a", "2"), ("b", "1")]))
}

fn behind_the_manifest() -> Case {
    let database = Fabricated::new()
        .log(2, &Log::new().batch(1, &[("dead", "1")]))
        .log(3, &Log::new().batch(2, &[("a", "1")]));
    Case::new("a log that the manifest has done with", database, holds(&[("a", "1")]))
}

/// As one log per thread would leave it: stock LevelDB's get trusts the log's number, its iterator the sequence.
fn backwards() -> Case {
    let database = Fabricated::new()
        .log(3, &Log::new().batch(10, &[("k", "new")]))
        .log(4, &Log::new().batch(5, &[("k", "old")]));
    Case::new("a later log with an older version", database, holds(&[("k", "new")])).not_by_stock()
}

/// A log written over an old one: where the new records end, the old ones come back to life. This is why no log is ever
/// written over.
fn recycled() -> Case {
    let log = Log::new().batch(10, &[("a", "new")]).batch(2, &[("a", "old"), ("b", "old")]);
    Case::new("a log written over an older one", one(&log), holds(&[("a", "new"), ("b", "old")]))
}

/// A record that was reserved and never filled, in front of one that was: the rest of its block is lost, and later blocks
/// are read. This is why no write is acknowledged before all that stand in front of it are in the log.
fn a_hole() -> Case {
    let log = Log::new().batch(1, &[("a", "1")]).zeros(27).batch(3, &[("c", "1")]).to_next_block();
    let log = log.batch(4, &[("d", "1")]);
    Case::new("a hole in front of records", one(&log), holds(&[("a", "1"), ("d", "1")]))
}
