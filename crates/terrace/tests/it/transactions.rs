//! Transactions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use terrace::{
    Db, Env, Error, ErrorKind, Isolation, Options, ReadOptions, Result, Transaction, TransactionOptions,
    WriteBatch,
};

#[cfg(unix)]
use crate::process;

fn open() -> Db {
    let options = Options::default().create_if_missing(true).write_buffer_size(64 << 10);
    Db::open("db", &options.env(Env::in_memory())).unwrap()
}

fn serializable() -> TransactionOptions {
    TransactionOptions::default()
}

fn snapshot() -> TransactionOptions {
    TransactionOptions::default().isolation(Isolation::Snapshot)
}

fn text(value: Option<Vec<u8>>) -> Option<String> {
    value.map(|bytes| String::from_utf8(bytes).unwrap())
}

#[track_caller]
fn assert_conflict(result: Result<u64>, key: &str) {
    match result {
        Err(Error::Conflict { key: found }) => assert_eq!(found, key.as_bytes()),
        other => panic!("{other:?}"),
    }
}

/// Symptom: a commit succeeded although another writer had written a key of `get_for_update`.
/// Cause: the call did not record the read of an own write.
#[test]
fn get_for_update_of_an_own_write() {
    for options in [serializable(), snapshot()] {
        let db = open();
        let mut transaction = db.begin(&options);
        transaction.put("a", "own").unwrap();
        assert_eq!(text(transaction.get_for_update("a").unwrap()).as_deref(), Some("own"));
        db.put("a", "other").unwrap();
        assert_conflict(transaction.commit(), "a");
    }
}

#[test]
fn commit_fails_if_a_read_key_changed() {
    for change in [|db: &Db| db.put("a", "1"), |db: &Db| db.delete("a"), |db: &Db| db.put("a", "0")] {
        let db = open();
        db.put("a", "0").unwrap();
        let mut transaction = db.begin(&serializable());
        assert_eq!(text(transaction.get("a").unwrap()).as_deref(), Some("0"));
        change(&db).unwrap();
        assert_eq!(text(transaction.get("a").unwrap()).as_deref(), Some("0"), "a repeated read");
        transaction.put("b", "1").unwrap();
        assert_conflict(transaction.commit(), "a");
        assert_eq!(db.get("b").unwrap(), None);
    }
}

#[test]
fn absent_key_and_empty_range_count_as_read() {
    let db = open();
    let mut transaction = db.begin(&serializable());
    assert!(!transaction.contains("a").unwrap());
    db.put("a", "1").unwrap();
    transaction.put("b", "1").unwrap();
    assert_conflict(transaction.commit(), "a");

    let mut transaction = db.begin(&serializable());
    let prefix = ReadOptions::default().prefix("order/");
    assert_eq!(transaction.iter_with(&prefix).unwrap().count(), 0);
    db.put("order/17", "").unwrap();
    transaction.put("orders", "0").unwrap();
    assert_conflict(transaction.commit(), "order/17");
}

/// Each of two doctors may leave if the other one stays.
#[test]
fn write_skew_is_possible_only_under_snapshot_isolation() {
    for (options, expected) in [(serializable(), 1), (snapshot(), 0)] {
        for by_scan in [false, true] {
            let db = open();
            db.put("on call/1", "").unwrap();
            db.put("on call/2", "").unwrap();
            let leave = |own: &str| {
                let mut transaction = db.begin(&options);
                let present = if by_scan {
                    transaction.iter_with(&ReadOptions::default().prefix("on call/")).unwrap().count()
                } else {
                    let keys = ["on call/1", "on call/2"];
                    transaction.multi_get(&keys).unwrap().iter().flatten().count()
                };
                assert_eq!(present, 2);
                transaction.delete(own).unwrap();
                transaction
            };
            let first = leave("on call/1");
            let second = leave("on call/2");
            first.commit().unwrap();
            let second = second.commit();
            assert_eq!(second.is_ok(), expected == 0, "{second:?}");
            assert_eq!(db.prefix("on call/").count(), expected);
        }
    }
}

#[test]
fn snapshot_isolation_loses_no_update() {
    let db = open();
    let mut transaction = db.begin(&snapshot());
    assert!(transaction.get("a").unwrap().is_none());
    assert!(transaction.get("c").unwrap().is_none());
    transaction.put("a", "1").unwrap();
    db.put("c", "other").unwrap();
    db.put("a", "2").unwrap();
    assert_conflict(transaction.commit(), "a");
    assert_eq!(text(db.get("a").unwrap()).as_deref(), Some("2"));

    let mut transaction = db.begin(&snapshot());
    transaction.get_for_update("a").unwrap();
    transaction.put("b", "1").unwrap();
    db.put("a", "3").unwrap();
    assert_conflict(transaction.commit(), "a");
}

#[test]
fn untracked_reads_blind_writes_and_read_only_transactions_never_conflict() {
    let db = open();
    let mut untracked = db.begin(&serializable());
    let mut blind = db.begin(&serializable());
    let mut read_only = db.begin(&serializable());
    untracked.get_untracked("a").unwrap();
    untracked.put("b", "1").unwrap();
    blind.put("a", "blind").unwrap();
    read_only.get("a").unwrap();
    db.put("a", "plain").unwrap();
    untracked.commit().unwrap();
    read_only.commit().unwrap();
    let sequence = blind.commit().unwrap();
    assert_eq!(sequence, db.snapshot().sequence());
    assert_eq!(text(db.get("a").unwrap()).as_deref(), Some("blind"));
}

#[test]
fn savepoint_undoes_writes_and_keeps_reads() {
    let db = open();
    db.put("a", "0").unwrap();
    let mut transaction = db.begin(&serializable());
    transaction.put("a", "1").unwrap();
    let first = transaction.savepoint();
    for n in 0..20 {
        transaction.put(format!("{n}"), "").unwrap();
    }
    transaction.delete("a").unwrap();
    transaction.get("read after the savepoint").unwrap();
    let second = transaction.savepoint();
    transaction.rollback_to(first).unwrap();
    assert_eq!(text(transaction.get("a").unwrap()).as_deref(), Some("1"));
    assert_eq!(transaction.iter().unwrap().count(), 1);
    assert_eq!(transaction.rollback_to(second).unwrap_err().kind(), ErrorKind::InvalidArgument);
    transaction.put("b", "1").unwrap();
    transaction.rollback_to(first).unwrap();
    let other = db.begin(&serializable()).savepoint();
    assert_eq!(transaction.rollback_to(other).unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.put("read after the savepoint", "").unwrap();
    assert_conflict(transaction.commit(), "read after the savepoint");
}

#[test]
fn memory_is_limited() {
    let db = open();
    let options = serializable().memory(10_000);
    let too_large =
        |result: Result<()>| matches!(result, Err(Error::TransactionTooLarge { limit: 10_000, .. }));
    let mut transaction = db.begin(&options);
    transaction.put("kept", [0; 9_000]).unwrap();
    assert!(too_large(transaction.put("refused", [0; 2_000])));
    transaction.commit().unwrap();
    assert!(db.get("kept").unwrap().is_some() && db.get("refused").unwrap().is_none());

    let mut transaction = db.begin(&options);
    let refused = (0..1_000).find(|n| transaction.get(format!("key {n}")).is_err());
    assert!(refused.is_some_and(|n| n > 50), "{refused:?}");
    for n in 0..1_000 {
        db.put(format!("{n:03}"), "").unwrap();
    }
    let mut transaction = db.begin(&options);
    let mut cursor = transaction.raw_iter().unwrap();
    db.put("z", "").unwrap();
    let refused = (0..1_000).find(|n| {
        cursor.seek(format!("{:03}", 999 - n).as_bytes());
        cursor.status().is_err()
    });
    assert!(refused.is_some_and(|n| n > 50), "{refused:?}");
    assert!(too_large(cursor.status()));
}

/// Symptom: a transaction that scanned the same few keys again and again became too large.
#[test]
fn repeated_scans_take_no_more_memory() {
    for (written, is_conflict) in [("107", true), ("299", true), ("106", false), ("305", false)] {
        let db = open();
        for n in 0..400 {
            db.put(format!("{n:03}"), "").unwrap();
        }
        let mut transaction = db.begin(&serializable().memory(2_000));
        for n in 0..2_000u32 {
            let begin = 107 + n * 77 % 190;
            let bounds = ReadOptions::default().lower_bound(format!("{begin:03}"));
            let bounds = bounds.upper_bound(format!("{:03}", begin + 7));
            assert_eq!(transaction.iter_with(&bounds).unwrap().map(Result::unwrap).count(), 7);
        }
        transaction.put("own", "").unwrap();
        db.put(written, "").unwrap();
        match is_conflict {
            true => assert_conflict(transaction.commit(), written),
            false => drop(transaction.commit().unwrap()),
        }
    }
}

#[test]
fn savepoints_count_as_memory() {
    let db = open();
    let mut transaction = db.begin(&serializable().memory(10_000));
    let savepoints: Vec<_> = (0..1_000).map(|_| transaction.savepoint()).collect();
    let refused = transaction.put("a", "");
    assert!(matches!(refused, Err(Error::TransactionTooLarge { limit: 10_000, .. })), "{refused:?}");
    transaction.rollback_to(savepoints[10]).unwrap();
    transaction.put("a", "").unwrap();
    transaction.commit().unwrap();
}

/// Order that does not distinguish capital letters.
#[derive(Debug)]
struct WithoutCase;

impl terrace::Comparator for WithoutCase {
    fn name(&self) -> &str {
        "test.WithoutCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

/// Symptom: after two writes of equal keys with different bytes, an iterator of the transaction
/// showed the bytes of the first one.
#[test]
fn newest_write_decides_the_bytes_of_equal_keys() {
    let options = Options::default().create_if_missing(true).env(Env::in_memory());
    let db = Db::open("db", &options.comparator(std::sync::Arc::new(WithoutCase))).unwrap();
    db.put("BERN", "0").unwrap();
    let mut transaction = db.begin(&serializable());
    transaction.put("bern", "1").unwrap();
    assert_eq!(transaction.iter().unwrap().next().unwrap().unwrap().0, b"bern");
    for (key, value) in [("Bern", "2"), ("chur", "3"), ("BeRn", "4"), ("Chur", "5")] {
        transaction.put(key, value).unwrap();
    }
    let shown: Vec<_> = transaction.iter().unwrap().map(Result::unwrap).collect();
    let expected = [("BeRn", "4"), ("Chur", "5")];
    assert_eq!(shown, expected.map(|(key, value)| (key.into(), value.into())));
    let mut cursor = transaction.raw_iter().unwrap();
    cursor.seek_to_last();
    assert_eq!(cursor.key(), b"Chur");
    cursor.prev();
    assert_eq!(cursor.key(), b"BeRn");
    transaction.commit().unwrap();
    let stored: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert_eq!(stored, shown, "the database shows the same");
}

#[test]
fn large_transaction() {
    const MANY: u32 = 1_000_000;
    let db = open();
    db.transact(|transaction| {
        for n in 0..MANY {
            transaction.put(n.to_be_bytes(), [1; 16])?;
        }
        assert_eq!(transaction.get(77u32.to_be_bytes())?, Some(vec![1; 16]));
        for n in 0..1_000u32 {
            transaction.get((n * 1_000).to_be_bytes())?;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(db.iter().count(), MANY as usize);

    let mut limited = db.begin(&serializable());
    let refused = (0..MANY).find_map(|n| limited.contains(n.to_be_bytes()).err());
    assert!(matches!(refused, Some(Error::TransactionTooLarge { .. })), "{refused:?}");

    let mut reader = db.begin(&serializable().memory(1 << 30));
    for n in 0..MANY {
        assert!(reader.contains(n.to_be_bytes()).unwrap());
    }
    reader.put("target", "").unwrap();
    db.put((MANY - 1).to_be_bytes(), "changed").unwrap();
    match reader.commit() {
        Err(Error::Conflict { key }) => assert_eq!(key, (MANY - 1).to_be_bytes()),
        other => panic!("{other:?}"),
    }
}

/// A put that exceeds the limit is not part of the transaction, and neither is a read.
#[test]
fn refused_key_of_100_mib_changes_nothing() {
    let db = open();
    let key = vec![b'k'; 100 << 20];
    let mut transaction = db.begin(&serializable());
    for refused in [
        transaction.put(&key, "").err(),
        transaction.delete(&key).err(),
        transaction.get(&key).err(),
        transaction.contains(&key).err(),
        transaction.get_into(&key, &mut Vec::new()).err(),
    ] {
        assert!(matches!(refused, Some(Error::TransactionTooLarge { .. })), "{refused:?}");
    }
    db.put(&key, "1").unwrap();
    transaction.put("small", "1").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn reads_without_copies_see_own_writes() {
    let db = open();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    for options in [serializable(), snapshot(), serializable().locking(true)] {
        let mut transaction = db.begin(&options);
        transaction.put("c", "own").unwrap();
        transaction.delete("b").unwrap();
        let mut value = b"old".to_vec();
        for (key, expected) in [("a", Some("1")), ("b", None), ("c", Some("own")), ("d", None)] {
            assert_eq!(transaction.get_into(key, &mut value).unwrap(), expected.is_some());
            assert_eq!(value, expected.unwrap_or_default().as_bytes());
            assert_eq!(transaction.contains(key).unwrap(), expected.is_some());
        }
        db.put("d", "").unwrap();
        let conflicts = transaction.commit().is_err();
        assert_eq!(conflicts, options.isolation == Isolation::Serializable, "both reads are checked");
        db.delete("d").unwrap();
        db.delete("c").unwrap();
        db.put("b", "2").unwrap();
    }
}

#[test]
fn body_that_fails_or_panics_writes_nothing() {
    let db = open();
    let failed = db.transact(|transaction| {
        transaction.put("a", "1")?;
        Err::<(), _>(Error::NotFound("of the caller".into()))
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::NotFound);
    let locking = serializable().locking(true);
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        db.transact_with(&locking, |transaction| -> Result<()> {
            transaction.put("a", "1")?;
            panic!("of the caller")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(db.get("a").unwrap(), None);
    db.transact_with(&locking.lock_timeout(Duration::ZERO), |transaction| transaction.put("a", "2")).unwrap();
}

#[test]
fn closed_database_refuses_the_commit() {
    let db = open();
    let mut transaction = db.begin(&serializable());
    transaction.get("a").unwrap();
    transaction.put("a", "1").unwrap();
    db.shutdown().unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::NotSupported);
}

#[test]
fn attempts_are_limited() {
    let db = open();
    let mut runs = 0;
    let result = db.transact_with(&serializable().attempts(7), |transaction| {
        runs += 1;
        transaction.get("a")?;
        db.put("a", format!("{runs}"))?;
        transaction.put("b", "")
    });
    assert!(result.unwrap_err().is_retryable());
    assert_eq!(runs, 7);
}

#[test]
fn deadlock_is_found_at_once() {
    let db = open();
    let options = serializable().locking(true).lock_timeout(Duration::from_secs(60));
    let barrier = std::sync::Barrier::new(2);
    let lock_both = |first: &str, second: &str| -> Result<u64> {
        let mut transaction = db.begin(&options);
        transaction.get_for_update(first)?;
        barrier.wait();
        transaction.put(second, "")?;
        transaction.commit()
    };
    let results = std::thread::scope(|scope| {
        let other = scope.spawn(|| lock_both("b", "a"));
        [lock_both("a", "b"), other.join().unwrap()]
    });
    let deadlocks = results.iter().filter(|result| matches!(result, Err(Error::Deadlock { .. }))).count();
    assert_eq!((deadlocks, results.iter().filter(|result| result.is_ok()).count()), (1, 1), "{results:?}");
}

#[test]
fn lock_timeout_names_the_key_and_ends_the_transaction() {
    let db = open();
    let options = serializable().locking(true).lock_timeout(Duration::from_millis(10));
    let mut holder = db.begin(&options);
    holder.put("a", "1").unwrap();
    let mut waiter = db.begin(&options);
    waiter.put("b", "2").unwrap();
    assert!(matches!(waiter.get("a"), Err(Error::LockTimeout { key }) if key == b"a"));
    // The timeout has released the lock of the waiter.
    holder.put("b", "1").unwrap();
    assert!(matches!(waiter.put("c", "2"), Err(Error::LockTimeout { key }) if key == b"a"));
    assert!(matches!(waiter.commit(), Err(Error::LockTimeout { key }) if key == b"a"));
    holder.commit().unwrap();
    assert_eq!(text(db.get("b").unwrap()).as_deref(), Some("1"));
}

#[test]
fn shared_locks_exclude_only_writers() {
    let db = open();
    let options = serializable().locking(true).lock_timeout(Duration::from_millis(10));
    let mut readers = [db.begin(&options), db.begin(&options)];
    for reader in &mut readers {
        reader.get("a").unwrap();
    }
    let mut writer = db.begin(&options);
    assert!(matches!(writer.put("a", ""), Err(Error::LockTimeout { .. })));
    let [first, mut second] = readers;
    drop(first);
    second.put("a", "extended").unwrap();
    second.commit().unwrap();
}

/// Locks do not stop plain writers, but the commit notices them, also in a transaction that reads
/// at several moments and writes nothing.
#[test]
fn locked_reads_are_checked() {
    let db = open();
    let options = serializable().locking(true);
    let mut transaction = db.begin(&options);
    transaction.get("a").unwrap();
    db.put("b", "1").unwrap();
    assert_eq!(text(transaction.get("b").unwrap()).as_deref(), Some("1"), "the newest value");
    db.put("a", "1").unwrap();
    assert_conflict(transaction.commit(), "a");
}

#[test]
fn hot_counter_is_exact() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 2_000;
    let db = open();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    db.transact(|transaction| {
                        let value = transaction.get("counter")?.unwrap_or_else(|| vec![0; 8]);
                        let next = u64::from_le_bytes(value.try_into().unwrap()) + 1;
                        transaction.put("counter", next.to_le_bytes())
                    })
                    .unwrap();
                    if round % 16 == thread {
                        // A plain writer that changes nothing in between.
                        db.put(format!("other {thread}"), [0; 50]).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(db.get("counter").unwrap().unwrap(), (THREADS * ROUNDS).to_le_bytes());
}

/// Transfers between accounts keep the sum in every state, and scans see it.
#[test]
fn sum_of_accounts_is_constant_in_every_scan() {
    const ACCOUNTS: u64 = 20;
    let db = open();
    let mut batch = WriteBatch::new();
    (0..ACCOUNTS).for_each(|n| _ = batch.put(n.to_be_bytes(), 100u64.to_le_bytes()));
    db.write(&batch).unwrap();
    let balance = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..1_000u64 {
                    let from = (round * 7 + thread) % ACCOUNTS;
                    let to = (round * 11 + thread * 3 + 1) % ACCOUNTS;
                    db.transact(|transaction| {
                        let total: u64 = transaction
                            .iter()?
                            .map(|entry| entry.map(|(_, value)| balance(value)))
                            .sum::<Result<u64>>()?;
                        assert_eq!(total, ACCOUNTS * 100);
                        let source = balance(transaction.get(from.to_be_bytes())?.unwrap());
                        if from != to && source > 0 {
                            let target = balance(transaction.get(to.to_be_bytes())?.unwrap());
                            transaction.put(from.to_be_bytes(), (source - 1).to_le_bytes())?;
                            transaction.put(to.to_be_bytes(), (target + 1).to_le_bytes())?;
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(db.iter().map(|entry| balance(entry.unwrap().1)).sum::<u64>(), ACCOUNTS * 100);
}

/// Step of a comparison with an ordered map.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Get(u8),
    Savepoint,
    RollbackTo(usize),
    Iterate { lower: Option<u8>, upper: Option<u8>, moves: Vec<Move> },
}

#[derive(Debug, Clone, Copy)]
enum Move {
    First,
    Last,
    Seek(u8),
    Next,
    Prev,
}

fn any_step() -> impl Strategy<Value = Step> {
    let key = 0..24u8;
    let moves = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => key.clone().prop_map(Move::Seek),
        4 => Just(Move::Next),
        4 => Just(Move::Prev),
    ];
    let bound = prop::option::of(key.clone());
    prop_oneof![
        6 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => key.clone().prop_map(Step::Delete),
        3 => key.prop_map(Step::Get),
        1 => Just(Step::Savepoint),
        1 => (0..8usize).prop_map(Step::RollbackTo),
        2 => (bound.clone(), bound, prop::collection::vec(moves, 1..20))
            .prop_map(|(lower, upper, moves)| Step::Iterate { lower, upper, moves }),
    ]
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn check_iterator(transaction: &mut Transaction, map: &Map, bounds: [Option<u8>; 2], moves: &[Move]) {
    let [lower, upper] = bounds.map(|bound| bound.map(|key| vec![key]));
    let mut options = ReadOptions::default();
    options.lower_bound.clone_from(&lower);
    options.upper_bound.clone_from(&upper);
    let mut cursor = transaction.raw_iter_with(&options).unwrap();
    let is_empty = lower.is_some() && upper.is_some() && lower >= upper;
    let within: Vec<_> = match is_empty {
        true => vec![],
        false => map
            .range((
                lower.map_or(Bound::Unbounded, Bound::Included),
                upper.map_or(Bound::Unbounded, Bound::Excluded),
            ))
            .collect(),
    };
    let mut position = None;
    for step in moves {
        match *step {
            Move::First => {
                cursor.seek_to_first();
                position = (!within.is_empty()).then_some(0);
            }
            Move::Last => {
                cursor.seek_to_last();
                position = within.len().checked_sub(1);
            }
            Move::Seek(key) => {
                cursor.seek(&[key]);
                position = within.iter().position(|(found, _)| found[0] >= key);
            }
            Move::Next => {
                cursor.next();
                position = position.map(|index| index + 1).filter(|index| *index < within.len());
            }
            Move::Prev => {
                cursor.prev();
                position = position.and_then(|index: usize| index.checked_sub(1));
            }
        }
        let found = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
        let expected = position.map(|index| (within[index].0.clone(), within[index].1.clone()));
        assert_eq!(found, expected, "after {step:?} of {moves:?}");
        cursor.status().unwrap();
    }
}

fn check_steps(stored: &[(u8, u8)], steps: &[Step]) {
    let db = open();
    let mut map = Map::new();
    for &(key, value) in stored {
        db.put([key], [value]).unwrap();
        map.insert(vec![key], vec![value]);
    }
    if stored.len() % 2 == 1 {
        db.flush().unwrap();
    }
    let mut transaction = db.begin(&serializable());
    let mut savepoints = Vec::new();
    for step in steps {
        match step {
            Step::Put(key, value) => {
                transaction.put([*key], [*value]).unwrap();
                map.insert(vec![*key], vec![*value]);
            }
            Step::Delete(key) => {
                transaction.delete([*key]).unwrap();
                map.remove(&vec![*key]);
            }
            Step::Get(key) => {
                assert_eq!(transaction.get([*key]).unwrap().as_ref(), map.get(&vec![*key]), "{key}");
            }
            Step::Savepoint => savepoints.push((transaction.savepoint(), map.clone())),
            Step::RollbackTo(index) => {
                savepoints.truncate(index + 1);
                if let Some((savepoint, earlier)) = savepoints.last() {
                    transaction.rollback_to(*savepoint).unwrap();
                    map.clone_from(earlier);
                }
            }
            Step::Iterate { lower, upper, moves } => {
                check_iterator(&mut transaction, &map, [*lower, *upper], moves);
            }
        }
    }
    transaction.commit().unwrap();
    let all: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(all, map.into_iter().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn transaction_agrees_with_an_ordered_map(
        stored in prop::collection::vec((0..24u8, any::<u8>()), 0..20),
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        check_steps(&stored, &steps);
    }
}

/// Size of a value that has memory once, but not twice, below the limit of `ulimit -v`, which is in
/// KiB.
const LARGE_VALUE_BYTES: usize = 2 << 30;
const ADDRESS_SPACE_KIB: usize = 3 << 20;

/// Runs a task in another process with at most `kib` KiB of address space.
#[cfg(unix)]
fn run_with_limit(kib: usize, task: &str, directory: &Path) {
    let limited = |command: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {kib} && {command}")]);
        shell
    };
    let mut probe = limited("exec \"$0\" --list");
    let probe = probe.args(terrace_testkit::emulator::words()).arg(std::env::current_exe().unwrap());
    if !probe.output().unwrap().status.success() {
        eprintln!("NOT TESTED: {task}: the test program needs more address space than the limit");
        return;
    }
    assert_eq!(process::run_by(limited("exec \"$0\" \"$@\""), task, directory), "ok");
}

/// Symptom: after a large put without memory, a transaction read another value for its key, and its
/// commit failed even after a rollback to an earlier savepoint. Cause: the index of the writes
/// contained the put, and the batch stayed marked. Guarantee: the put is an error, and the
/// transaction continues without it.
#[cfg(unix)]
#[test]
fn put_without_memory() {
    let directory = tempfile::tempdir().unwrap();
    run_with_limit(ADDRESS_SPACE_KIB, "put without memory", directory.path());
}

/// Task of the process of [`put_without_memory`].
pub(crate) fn check_put_without_memory(path: &Path) -> Result<()> {
    let db = Db::open(path, &Options::default().create_if_missing(true))?;
    let mut transaction = db.begin(&serializable().memory(usize::MAX));
    let key = |n| format!("key{n}");
    (0..20).try_for_each(|n| transaction.put(key(n), "old"))?;
    let savepoint = transaction.savepoint();
    let read = |transaction: &mut Transaction| {
        [3, 4].map(|n| text(transaction.get(key(n)).unwrap()).unwrap()).join(" ")
    };
    // The first read builds the index.
    assert_eq!(read(&mut transaction), "old old");
    // Zeros that no thread reads take no pages.
    let refused = transaction.put(key(3), vec![0; LARGE_VALUE_BYTES]);
    assert_eq!(read(&mut transaction), "old old");
    transaction.put(key(4), "new")?;
    assert_eq!(read(&mut transaction), "old new");
    assert!(refused.unwrap_err().to_string().contains("no memory for 2147483"));
    transaction.rollback_to(savepoint)?;
    assert_eq!(read(&mut transaction), "old old");
    transaction.put(key(3), "new")?;
    transaction.commit()?;
    assert_eq!(db.get(key(3))?.as_deref(), Some(b"new".as_slice()));
    assert_eq!(db.get(key(4))?.as_deref(), Some(b"old".as_slice()));
    Ok(())
}

/// Symptom: reads of a transaction ended the process if there was no memory for the copy of a
/// value. Cause: they allocated it infallibly, unlike reads of the database. Guarantee: they return
/// an error.
#[cfg(target_os = "linux")]
#[test]
fn reads_without_memory() {
    let directory = tempfile::tempdir().unwrap();
    run_with_limit(4_000_000, "read in a transaction without memory", directory.path());
}

/// Task of the other process, whose address space is limited: compares the reads of large values
/// without memory.
pub(crate) fn read_without_memory(path: &Path) -> Result<()> {
    const VALUE_LEN: usize = 64 << 20;
    let db = Db::open(path.join("db"), &Options::default().create_if_missing(true))?;
    let value = vec![b'v'; VALUE_LEN];
    db.put("stored", &value)?;
    let mut transaction = db.begin(&TransactionOptions::default().memory(1 << 30));
    transaction.put("own", &value)?;
    let mut iter = transaction.raw_iter()?;
    drop(value);
    let mut ballast = Vec::new();
    let mut chunk = Vec::<u8>::new();
    while chunk.try_reserve_exact(VALUE_LEN / 4).is_ok() {
        ballast.push(std::mem::take(&mut chunk));
    }
    // Leaves enough memory for everything but a value.
    ballast.pop();
    iter.seek_to_first();
    let lens = [(iter.key().len(), iter.value().len())];
    let mut results = Vec::new();
    for key in ["own", "stored"] {
        results.push(("get", transaction.get(key).map(drop)));
        results.push(("get_into", transaction.get_into(key, &mut Vec::new()).map(drop)));
        results.push(("get_for_update", transaction.get_for_update(key).map(drop)));
        results.push(("get_untracked", transaction.get_untracked(key).map(drop)));
        results.push(("multi_get", transaction.multi_get(&[key]).map(drop)));
        let options = ReadOptions::default().prefix(key);
        let mut entries = transaction.iter_with(&options)?;
        results.push(("iter", entries.next().unwrap().map(drop)));
        assert!(entries.next().is_none(), "an error is the last item");
    }
    drop(ballast);
    assert_eq!(lens, [(3, VALUE_LEN)], "an iterator does not copy a value");
    for (call, result) in results {
        let error = result.expect_err(call);
        assert!(
            error.is_retryable() && error.to_string().contains("no memory for 67108864 bytes"),
            "{error}"
        );
    }
    Ok(())
}
