//! Limits of etcd are checked before a request, and a batch of the maximum size is accepted.

use terrace_store::{Condition, Error, KeyRange, WriteBatch, WriteOptions};

use crate::cluster::{compact_with_http, has_etcd, new_store, shared_server};

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
}

#[test]
fn snapshot_older_than_the_compaction() {
    if !has_etcd("compaction of etcd") {
        return;
    }
    let cluster = crate::cluster::EtcdCluster::start(1);
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
