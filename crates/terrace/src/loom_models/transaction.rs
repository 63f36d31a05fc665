//! Models of conditional writes and of the locks of transactions.

use std::time::Duration;

use terrace_env::ManualClock;
use terrace_sync::thread;

use super::whole_database::{files, options};
use crate::db::{Db, Unchanged};
use crate::error::Error;
use crate::options::{Options, ReadOptions};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::txn::lock_manager::{KeyLockMode, LockManager};
use terrace_format::batch::WriteBatch;

fn increment(db: &Db) {
    loop {
        let snapshot = db.snapshot();
        let read = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
        let value = db.get_with(b"a", &read).unwrap().map_or(0, |bytes| bytes[0]);
        let mut batch = WriteBatch::new();
        batch.put(b"a", [value + 1]);
        let condition = Unchanged { since: &snapshot, keys: &[b"a".into()], ranges: &[] };
        match db.write_if(&batch, &condition) {
            Ok(_) => return,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Two threads increment a counter, each by a read and a conditional write.
pub(super) fn two_increments() {
    let db = Db::open("/db", &options()).unwrap();
    let clone = db.clone();
    let other = thread::spawn(move || increment(&clone));
    increment(&db);
    other.join().unwrap();
    assert_eq!(db.get(b"a").unwrap(), Some(vec![2]), "an increment is lost");
    db.close().unwrap();
}

/// A plain write runs beside a conditional write that watches a range.
pub(super) fn watched_range() {
    let fs = files();
    let db = Db::open("/db", &Options { env: super::whole_database::env(fs), ..options() }).unwrap();
    let snapshot = db.snapshot();
    let clone = db.clone();
    let other = thread::spawn(move || clone.put(b"a", b"1").unwrap());
    let mut batch = WriteBatch::new();
    batch.put(b"b", b"1");
    let condition = Unchanged { since: &snapshot, keys: &[], ranges: &[(..b"b".as_slice()).into()] };
    let outcome = db.write_if(&batch, &condition);
    other.join().unwrap();
    let [a, b] = [b"a", b"b"].map(|key| db.last_change(key).unwrap());
    match outcome {
        Ok(sequence) => assert!(b == Some(sequence) && a > b, "the condition did not hold"),
        Err(Error::Conflict { .. }) => assert_eq!(b, None, "a refused write is visible"),
        Err(error) => panic!("{error}"),
    }
    drop(snapshot);
    db.close().unwrap();
}

/// Two transactions lock two keys in opposite orders.
pub(super) fn opposite_lock_orders() {
    let manager = Arc::new(LockManager::new());
    let holders = Arc::new(AtomicU64::new(0));
    let run = |first: &'static [u8], second: &'static [u8]| {
        let manager = Arc::clone(&manager);
        let holders = Arc::clone(&holders);
        move || {
            let id = manager.new_transaction();
            let clock = ManualClock::default();
            let lock = |key| manager.lock(id, key, KeyLockMode::Exclusive, Duration::from_secs(1), &clock);
            lock(first).unwrap();
            let has_both = match lock(second) {
                Ok(_) => {
                    assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0, "both hold both locks");
                    holders.fetch_sub(1, Ordering::Relaxed);
                    true
                }
                Err(Error::Deadlock { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            manager.unlock_all(id, [first, second].into_iter());
            has_both
        }
    };
    let other = thread::spawn(run(b"b", b"a"));
    let has_first = run(b"a", b"b")();
    let has_second = other.join().unwrap();
    assert!(has_first || has_second, "both transactions are refused");
}
