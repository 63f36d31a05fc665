//! Commits whose answers are lost, and commits that never arrive.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use terrace_store::{Condition, Error, OpenOptions, Store, WriteBatch, WriteOptions, open};

use crate::tikv_double::{Double, has_double, hex};
use crate::tikv_requests::store_in_regions;

/// More requests than the client library repeats.
const ALL: usize = 1000;

fn store(double: &Double, timeout: u64) -> Arc<dyn Store> {
    let address = format!("{}?timeout={timeout}", double.address("answers"));
    let store = open(&address, &OpenOptions::default().create_if_missing(true)).expect("the double runs");
    store.put(b"first", b"1").unwrap();
    store
}

fn batch(key: &str, value: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

#[test]
fn lost_answers_of_a_commit_that_took_effect() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store(&double, 30);
    double.control(&format!("/lose?method=KvCommit&count={ALL}"));
    store.put(b"a", b"1").unwrap();
    let since = store.snapshot().unwrap();
    let condition = Condition { since: &*since, keys: &[b"a"], ranges: &[] };
    let position = store.write_if(&batch("a", "2"), &condition, &WriteOptions::default()).unwrap();
    assert!(since.position() < position && position < store.snapshot().unwrap().position());
    double.control("/lose?method=KvCommit&count=0");
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"2");
    // The position is exact: a condition that begins with it holds.
    let outcome = store.write_if(&batch("a", "3"), &condition, &WriteOptions::default());
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
}

#[test]
fn commit_that_never_arrives() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store(&double, 60);
    double.control(&format!("/refuse?method=KvCommit&count={ALL}"));
    let writer = Arc::clone(&store);
    let write = thread::spawn(move || writer.put(b"a", b"1"));
    // The locks of the attempt expire after three seconds.
    thread::sleep(Duration::from_millis(500));
    double.control("/refuse?method=KvCommit&count=0");
    write.join().unwrap().unwrap();
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
}

#[test]
fn commit_without_an_answer_for_too_long() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store(&double, 1);
    for method in ["KvCommit", "KvGet"] {
        double.control(&format!("/lose?method={method}&count={ALL}"));
    }
    let outcome = store.put(b"a", b"1");
    assert!(matches!(outcome, Err(Error::CommitUnknown(_))), "{outcome:?}");
    for method in ["KvCommit", "KvGet"] {
        double.control(&format!("/lose?method={method}&count=0"));
    }
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
    store.put(b"a", b"2").unwrap();
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"2");
}

#[test]
fn prewrite_that_never_arrives_has_no_effect() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store(&double, 1);
    double.control(&format!("/refuse?method=KvPrewrite&count={ALL}"));
    let outcome = store.put(b"a", b"1");
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    double.control("/refuse?method=KvPrewrite&count=0");
    assert_eq!(store.get(b"a").unwrap(), None);
}

#[test]
fn stores_that_stop_and_return() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store(&double, 1);
    for number in 0..crate::tikv_double::STORES {
        double.control(&format!("/stop?store={number}"));
    }
    assert!(matches!(store.get(b"first"), Err(Error::Unavailable(_))), "{:?}", store.get(b"first"));
    let outcome = store.put(b"first", b"2");
    assert!(matches!(outcome, Err(Error::Unavailable(_) | Error::CommitUnknown(_))), "{outcome:?}");
    for number in 0..crate::tikv_double::STORES {
        double.control(&format!("/start?store={number}"));
    }
    assert_eq!(store.get(b"first").unwrap().unwrap(), b"1");
    store.put(b"first", b"3").unwrap();
    assert_eq!(store.get(b"first").unwrap().unwrap(), b"3");
}

#[test]
fn lock_without_a_primary_lock_is_removed() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store(&double, 30);
    // A program that dies between the prewrites of two regions leaves such a lock.
    double.control(&format!("/orphan?key={}", hex(b"answers\0ka")));
    assert_eq!(store.get(b"a").unwrap(), None);
    double.control(&format!("/orphan?key={}", hex(b"answers\0kb")));
    store.put(b"b", b"1").unwrap();
    assert_eq!(store.get(b"b").unwrap().unwrap(), b"1");
}

/// Front ends took gigabytes after an orphaned lock. Cause: the library got the whole range of a
/// transaction, and after each failed region it began again with all later ones. Each request for
/// locks has a single region.
#[test]
fn failed_removal_of_an_orphan_does_not_multiply_requests() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = store_in_regions(&double, 200);
    // The keys are written while their first one is committed. A read waits for the rest.
    store.get(b"000007").unwrap();
    double.control(&format!("/orphan?key={}", hex(b"regions\0k000007")));
    double.control("/refuse?method=KvScanLock&count=8");
    let mut batch = batch("000007", "new");
    batch.put("004200", "new");
    store.write(&batch, &WriteOptions::default()).unwrap();
    assert_eq!(store.get(b"000007").unwrap().unwrap(), b"new");
    let requests = double.counts().get("KvScanLock").copied().unwrap_or_default();
    assert!((9..60).contains(&requests), "{requests} requests for the locks of three regions");
}
