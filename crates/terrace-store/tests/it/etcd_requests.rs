//! Number of requests of each call, counted by the server.

use std::thread;

use terrace_store::{KeyRange, Store, TransactionOptions, WriteBatch, WriteOptions};

use crate::cluster::{EtcdCluster, has_etcd, new_store};

/// Reads and transactions during `work`.
fn counted(cluster: &EtcdCluster, work: impl FnOnce()) -> (u64, u64) {
    let before = cluster.requests();
    work();
    let after = cluster.requests();
    (after.0 - before.0, after.1 - before.1)
}

fn read_all(store: &dyn Store) -> usize {
    let mut iter = store.iter(&KeyRange::all()).unwrap();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    count
}

#[test]
fn requests_of_calls() {
    if !has_etcd("requests to etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let store = &*new_store(&cluster);
    // The first write creates the lease of the commit markers.
    store.put(b"a", b"1").unwrap();
    let check = |expect: (u64, u64), work: &dyn Fn()| assert_eq!(counted(&cluster, work), expect);
    check((1, 0), &|| drop(store.get(b"a").unwrap()));
    check((0, 1), &|| store.put(b"a", b"2").unwrap());
    check((0, 1), &|| {
        let mut batch = WriteBatch::new();
        (0..100).for_each(|n| {
            batch.put([n], "v");
        });
        store.write(&batch, &WriteOptions::default()).unwrap();
    });
    check((0, 1), &|| store.delete_range(&KeyRange::all(), &WriteOptions::default()).unwrap());
    // Snapshot, one get, and the commit.
    check((1, 2), &|| {
        store
            .transact(&TransactionOptions::default(), |transaction| {
                transaction.get(b"a")?;
                transaction.put(b"a", b"3")
            })
            .unwrap();
    });
    for from in (0..5000).step_by(100) {
        let mut batch = WriteBatch::new();
        (from..from + 100).for_each(|n| {
            batch.put(format!("k{n:04}"), "v");
        });
        store.write(&batch, &WriteOptions::default()).unwrap();
    }
    // The snapshot, and pages of 32, 64, .., 1,024 entries.
    check((1 + 9, 0), &|| assert_eq!(read_all(store), 5001));
}

fn put(store: &dyn Store, key: &[u8]) {
    store.put(key, b"v").unwrap();
}

/// Write that depends on a key.
fn put_new(store: &dyn Store, key: &[u8]) {
    let put = store.transact(&TransactionOptions::default(), |transaction| {
        assert_eq!(transaction.get(key)?, None);
        transaction.put(key, b"v")
    });
    put.unwrap();
}

#[test]
fn concurrent_writers_share_transactions() {
    if !has_etcd("group commit to etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let threads = 48;
    let writes = 20;
    // The get of `put_new` is a transaction of etcd, too.
    for (write, reads_of_write) in [(put as fn(&dyn Store, &[u8]), 0), (put_new, 1)] {
        let store = &*new_store(&cluster);
        let (_, transactions) = counted(&cluster, || {
            thread::scope(|scope| {
                for thread in 0..threads {
                    scope.spawn(move || {
                        (0..writes).for_each(|n| write(store, format!("{thread}-{n}").as_bytes()));
                    });
                }
            });
        });
        assert_eq!(read_all(store), threads * writes);
        let all = (threads * writes) as u64;
        let commits = transactions - reads_of_write * all;
        assert!(commits < all / 2, "{commits} commits of {all} writes");
    }
}
