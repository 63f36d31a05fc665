//! Conditional writes.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{
    Db, Env, Error, MappedLogs, Options, ReadOptions, Snapshot, Unchanged, UnchangedKey, UnchangedRange,
    WriteBatch,
};

fn open() -> Db {
    let options = Options::default().create_if_missing(true).write_buffer_size(64 << 10);
    Db::open("db", &options.env(Env::in_memory())).unwrap()
}

fn put(key: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, b"written");
    batch
}

/// Returns the changed key, if `write_if` with this condition finds one.
fn conflict(db: &Db, condition: &Unchanged<'_>) -> Option<String> {
    match db.write_if(&put("target"), condition) {
        Ok(sequence) => {
            assert_eq!(sequence, db.snapshot().sequence());
            None
        }
        Err(Error::Conflict { key }) => Some(String::from_utf8(key).unwrap()),
        Err(error) => panic!("{error}"),
    }
}

fn keys<'a>(since: &'a Snapshot, keys: &'a [UnchangedKey<'a>]) -> Unchanged<'a> {
    Unchanged { since, keys, ranges: &[] }
}

fn range<'a>(since: &'a Snapshot, ranges: &'a [UnchangedRange<'a>]) -> Unchanged<'a> {
    Unchanged { since, keys: &[], ranges }
}

/// Place to which the writes go before the check.
type Move = fn(&Db);

static MOVES: [(&str, Move); 3] = [
    ("memtable", |_| ()),
    ("table", |db| db.flush().unwrap()),
    ("compacted table", |db| {
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
    }),
];

#[test]
fn write_of_a_key_or_range_is_found_wherever_it_is() {
    for (before, move_old) in MOVES {
        for (after, move_new) in MOVES {
            let db = open();
            for key in ["deleted", "overwritten", "same", "target"] {
                db.put(key, b"old").unwrap();
            }
            move_old(&db);
            let since = db.snapshot();
            db.put("overwritten", b"new").unwrap();
            db.delete("deleted").unwrap();
            db.put("created", b"new").unwrap();
            db.put("created, deleted", b"new").unwrap();
            db.delete("created, deleted").unwrap();
            move_new(&db);
            for key in ["overwritten", "deleted", "created", "created, deleted"] {
                let found = conflict(&db, &keys(&since, &[b"same".into(), key.as_bytes().into()]));
                assert_eq!(found.as_deref(), Some(key), "{before}, {after}");
                let end = format!("{key}\0");
                for only in [
                    (key.as_bytes()..end.as_bytes()).into(),
                    (key.as_bytes()..=key.as_bytes()).into(),
                    (Bound::Excluded(&key.as_bytes()[..key.len() - 1]), Bound::Excluded(end.as_bytes()))
                        .into(),
                ] {
                    let found = conflict(&db, &range(&since, &[only]));
                    assert_eq!(found.as_deref(), Some(key), "{before}, {after}");
                }
            }
            let untouched = [
                (..b"created".as_slice()).into(),
                (Bound::Excluded(b"deleted".as_slice()), Bound::Excluded(b"overwritten".as_slice())).into(),
                (b"overwrittenx".as_slice()..=b"same").into(),
                (b"u".as_slice()..).into(),
            ];
            let condition =
                Unchanged { since: &since, keys: &[b"same".into(), b"missing".into()], ranges: &untouched };
            assert_eq!(conflict(&db, &condition), None, "{before}, {after}");
            assert_eq!(db.get("target").unwrap().as_deref(), Some(b"written".as_slice()));
            // The batch itself was a write.
            assert_eq!(conflict(&db, &keys(&since, &[b"target".into()])).as_deref(), Some("target"));
        }
    }
}

#[test]
fn failed_condition_writes_nothing() {
    let db = open();
    let since = db.snapshot();
    db.put("a", b"1").unwrap();
    let last = db.snapshot().sequence();
    let mut batch = put("b");
    batch.put("c", b"");
    assert!(db.write_if(&batch, &keys(&since, &[b"a".into()])).unwrap_err().is_retryable());
    assert_eq!((db.get("b").unwrap(), db.snapshot().sequence()), (None, last));
    let other = open();
    let error = other.write_if(&batch, &keys(&since, &[])).unwrap_err();
    assert_eq!(error.kind(), terrace::ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn key_may_carry_a_later_sequence_number() {
    let db = open();
    let since = db.snapshot();
    db.put("a", b"1").unwrap();
    let read_at = db.last_change("a").unwrap().unwrap();
    let key = |since| UnchangedKey { key: b"a", since };
    assert_eq!(conflict(&db, &keys(&since, &[key(read_at - 1)])).as_deref(), Some("a"));
    assert_eq!(conflict(&db, &keys(&since, &[key(read_at)])), None);
}

#[test]
fn empty_batch_only_checks() {
    let db = open();
    let since = db.snapshot();
    db.put("a", b"1").unwrap();
    let empty = WriteBatch::new();
    assert!(db.write_if(&empty, &keys(&since, &[b"a".into()])).is_err());
    assert_eq!(db.write_if(&empty, &keys(&since, &[b"b".into()])).unwrap(), db.snapshot().sequence());
}

fn counter(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Four threads increment counters by read and conditional write, beside plain writers. The
/// condition of each increment has `extra` further keys that nobody writes, and perhaps a range.
#[track_caller]
fn check_increments(mapped_logs: MappedLogs, extra: usize, with_range: bool, rounds: u64) {
    const COUNTERS: u64 = 4;
    let mut options = Options::default().create_if_missing(true).write_buffer_size(64 << 10);
    options.mapped_logs = mapped_logs;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), &options).unwrap();
    let unwritten: Vec<String> = (0..extra).map(|n| format!("unwritten {n}")).collect();
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            let unwritten = &unwritten;
            let conflicts = &conflicts;
            scope.spawn(move || {
                for round in 0..rounds {
                    let name = format!("counter {}", (round + thread) % COUNTERS);
                    loop {
                        let since = db.snapshot();
                        let read = ReadOptions::default().snapshot(since.clone());
                        let value = counter(db.get_with(&name, &read).unwrap());
                        let mut batch = WriteBatch::new();
                        batch.put(&name, (value + 1).to_le_bytes());
                        batch.put(format!("filler {thread} {round}"), [0; 100]);
                        let end = format!("{name}\0");
                        let ranges = [(name.as_bytes()..end.as_bytes()).into()];
                        let mut keys: Vec<UnchangedKey<'_>> =
                            unwritten.iter().map(|key| key.as_bytes().into()).collect();
                        keys.extend((!with_range).then(|| UnchangedKey::from(name.as_bytes())));
                        let ranges = if with_range { &ranges[..] } else { &[] };
                        match db.write_if(&batch, &Unchanged { since: &since, keys: &keys, ranges }) {
                            Ok(_) => break,
                            Err(Error::Conflict { key }) => {
                                assert_eq!(key, name.as_bytes());
                                conflicts.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    db.put(format!("plain {thread} {}", round % 100), b"value").unwrap();
                }
            });
        }
    });
    let sum: u64 = (0..COUNTERS).map(|n| counter(db.get(format!("counter {n}")).unwrap())).sum();
    assert_eq!(sum, 4 * rounds, "{} conflicts", conflicts.into_inner());
}

#[test]
fn no_increment_is_lost() {
    check_increments(MappedLogs::Auto, 0, false, 5_000);
}

#[test]
fn no_increment_is_lost_with_appended_logs() {
    check_increments(MappedLogs::Never, 0, false, 5_000);
}

#[test]
fn no_increment_is_lost_with_many_keys() {
    check_increments(MappedLogs::Auto, 100, false, 1_000);
    check_increments(MappedLogs::Never, 100, false, 1_000);
}

#[test]
fn no_increment_is_lost_with_a_range() {
    check_increments(MappedLogs::Auto, 0, true, 1_000);
    check_increments(MappedLogs::Never, 0, true, 1_000);
}
