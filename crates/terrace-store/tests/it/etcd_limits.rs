//! Limits of etcd are checked before a request, and a batch of the maximum size is accepted.

use std::sync::Mutex;

use terrace_store::{Condition, Error, KeyRange, TransactionOptions, WriteBatch, WriteOptions};

use crate::cluster::{EtcdCluster, compact_with_http, has_etcd, new_store, shared_server};

#[test]
fn batches_at_and_above_the_limits() {
    if !has_etcd("limits of etcd") {
        return;
    }
    let store = new_store(shared_server());
    let limits = store.limits();
    let write = |operations: usize, value_len: usize| {
        let mut batch = WriteBatch::new();
        (0..operations).for_each(|n| {
            batch.put(format!("{n:05}"), vec![7; value_len]);
        });
        batch.delete("gone");
        store.write(&batch, &WriteOptions::default())
    };
    write(limits.batch_operations - 1, 10).unwrap();
    assert!(matches!(
        write(limits.batch_operations, 10),
        Err(Error::BatchTooLarge { unit: "operations", .. })
    ));
    write(1, limits.value_bytes).unwrap();
    assert!(matches!(
        write(1, limits.value_bytes + 1),
        Err(Error::BatchTooLarge { unit: "bytes of a value", .. })
    ));
    // 100 values fill a batch to its last bytes.
    let value_len = limits.batch_bytes / 100 - 250;
    write(100, value_len).unwrap();
    assert!(matches!(write(100, value_len + 300), Err(Error::BatchTooLarge { unit: "bytes", .. })));
    let long = vec![b'k'; limits.key_bytes];
    store.put(&long, b"1").unwrap();
    assert_eq!(store.get(&long).unwrap().unwrap(), b"1");
    assert!(store.put(&[&long[..], b"k"].concat(), b"1").is_err());
}

#[test]
fn large_values_shrink_the_pages() {
    if !has_etcd("large values in etcd") {
        return;
    }
    let store = new_store(shared_server());
    for n in 0..70 {
        store.put(format!("a{n:03}").as_bytes(), b"small").unwrap();
    }
    let count = 70;
    for n in 0..count {
        store.put(format!("b{n:03}").as_bytes(), &vec![n as u8; 1 << 20]).unwrap();
    }
    let mut iter = store.iter(&KeyRange::all()).unwrap();
    iter.seek_to_first();
    let mut seen = 0;
    while iter.valid() {
        assert!(iter.key()[0] == b'a' || iter.value() == vec![(seen - 70) as u8; 1 << 20]);
        seen += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(seen, 70 + count);
}

#[test]
fn conditions_above_the_limit() {
    if !has_etcd("conditions of etcd") {
        return;
    }
    let store = new_store(shared_server());
    let since = store.snapshot().unwrap();
    let keys: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let write = |keys: &[&[u8]]| {
        let mut batch = WriteBatch::new();
        batch.put("done", "1");
        store.write_if(&batch, &Condition { since: &*since, keys, ranges: &[] }, &WriteOptions::default())
    };
    assert!(matches!(write(&keys), Err(Error::BatchTooLarge { found: 200, limit: 127, .. })));
    assert_eq!(store.get(b"done").unwrap(), None);
    write(&keys[..127]).unwrap();
    // The bytes of the compared keys and of the written values share one request.
    let long: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n; 60 << 10]).collect();
    let long: Vec<&[u8]> = long.iter().map(Vec::as_slice).collect();
    let mut batch = WriteBatch::new();
    batch.put("large", vec![7; 1 << 20]);
    let condition = Condition { since: &*since, keys: &long, ranges: &[] };
    let outcome = store.write_if(&batch, &condition, &WriteOptions::default());
    assert!(
        matches!(outcome, Err(Error::BatchTooLarge { unit: "bytes with the condition", .. })),
        "{outcome:?}"
    );
    assert_eq!(store.get(b"large").unwrap(), None);
}

/// Writers whose requests are too large together were all refused, although each of them fits.
/// Cause: the cluster had a lower limit than the group commit. Each write has its own result.
#[test]
fn group_that_exceeds_the_limit_of_the_cluster_is_divided() {
    if !has_etcd("lower limits of etcd") {
        return;
    }
    let cluster = EtcdCluster::start_with(1, None, &["--max-request-bytes", "100000"]);
    cluster.leader();
    let store = &*new_store(&cluster);
    std::thread::scope(|scope| {
        for writer in 0..48u8 {
            scope.spawn(move || {
                for number in 0..4u8 {
                    store.put(&[writer, number], &[writer; 30_000]).unwrap();
                }
            });
        }
    });
    let refused = store.put(b"large", &[1; 200_000]);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    assert_eq!(store.get(&[47, 3]).unwrap().unwrap(), [47; 30_000]);
}

/// A write was reported as refused, and had taken effect. Cause: etcd executes the transactions
/// that exceed its quota first, and answers them with the error. A refused write has no effect.
#[test]
fn refused_writes_beyond_the_quota_have_no_effect() {
    if !has_etcd("quota of etcd") {
        return;
    }
    let cluster = EtcdCluster::start_with(1, None, &["--quota-backend-bytes", "16777216"]);
    cluster.leader();
    let store = &*new_store(&cluster);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..32u8 {
            let outcomes = &outcomes;
            scope.spawn(move || {
                for number in 0..250u8 {
                    let key = [writer, number];
                    let outcome = store.transact(&TransactionOptions::default(), |transaction| {
                        transaction.put(&key, &[writer; 64 << 10])
                    });
                    let is_refused = outcome.is_err();
                    outcomes.lock().unwrap().push((key, outcome));
                    if is_refused {
                        return;
                    }
                }
            });
        }
    });
    let mut refused = 0;
    for (key, outcome) in outcomes.into_inner().unwrap() {
        let is_found = store.get(&key).unwrap().is_some();
        match outcome {
            Ok(()) => assert!(is_found, "{key:?}"),
            Err(Error::OutOfSpace(reason)) => {
                assert!(!is_found, "{key:?}: {reason}");
                refused += 1;
            }
            Err(Error::CommitUnknown(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn snapshot_older_than_the_compaction() {
    if !has_etcd("compaction of etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let store = new_store(&cluster);
    store.put(b"a", b"1").unwrap();
    let snapshot = store.snapshot().unwrap();
    store.put(b"a", b"2").unwrap();
    compact_with_http(cluster.servers[0].client_port, store.snapshot().unwrap().position());
    assert!(matches!(snapshot.get(b"a"), Err(Error::SnapshotTooOld(_))), "{:?}", snapshot.get(b"a"));
    let mut iter = snapshot.iter(&KeyRange::all()).unwrap();
    iter.seek_to_first();
    assert!(!iter.valid() && matches!(iter.status(), Err(Error::SnapshotTooOld(_))));
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"2");
}
