//! Commits whose answers are lost: each takes effect once, or the caller hears that it is unknown.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use terrace_store::{Error, OpenOptions, Store, TransactionOptions, open};

use crate::cluster::{EtcdCluster, has_etcd, shared_server};
use crate::proxy::{DELAY, Network, Proxy};

/// Opens a store through `proxy`.
fn open_through(proxy: &Proxy, prefix: &str, options: &str) -> Arc<dyn Store> {
    let address = format!("etcd://127.0.0.1:{}/{prefix}{options}", proxy.port);
    open(&address, &OpenOptions::default().create_if_missing(true)).expect("the proxy forwards")
}

/// Loses the answers of everything that `work` sends in its first two seconds.
fn with_lost_answers<T: Send>(proxy: &Proxy, work: impl FnOnce() -> T + Send) -> T {
    proxy.set(Network::AnswersLost);
    thread::scope(|scope| {
        let work = scope.spawn(work);
        thread::sleep(Duration::from_secs(2));
        proxy.set(Network::Open);
        work.join().expect("the work ends")
    })
}

fn add_one(store: &dyn Store) -> Result<(), Error> {
    store.transact(&TransactionOptions::default().attempts(1), |transaction| {
        let before = transaction.get(b"counter")?.map_or(0, |bytes| bytes[0]);
        transaction.put(b"counter", &[before + 1])
    })
}

#[test]
fn commit_without_an_answer_counts_once() {
    if !has_etcd("lost answers of etcd") {
        return;
    }
    let proxy = Proxy::start(shared_server().servers[0].client_port);
    let store = open_through(&proxy, "answers", "?timeout=60");
    add_one(&*store).unwrap();
    // The snapshot of the next transaction must not wait for the lost answers, only its commit.
    let mut transaction = store.begin(&TransactionOptions::default()).unwrap();
    let before = transaction.get(b"counter").unwrap().unwrap()[0];
    transaction.put(b"counter", &[before + 1]).unwrap();
    with_lost_answers(&proxy, || transaction.commit()).unwrap();
    assert_eq!(store.get(b"counter").unwrap().unwrap(), [2]);
    with_lost_answers(&proxy, || store.put(b"blind", b"1")).unwrap();
    assert_eq!(store.get(b"blind").unwrap().unwrap(), b"1");
    add_one(&*store).unwrap();
    assert_eq!(store.get(b"counter").unwrap().unwrap(), [3]);
}

#[test]
fn late_commit_has_no_effect() {
    if !has_etcd("late commits of etcd") {
        return;
    }
    let port = shared_server().servers[0].client_port;
    let proxy = Proxy::start(port);
    let address = format!("etcd://127.0.0.1:{},127.0.0.1:{port}/late?timeout=60", proxy.port);
    let store = open(&address, &OpenOptions::default().create_if_missing(true)).unwrap();
    store.put(b"a", b"1").unwrap();
    proxy.set(Network::RequestsLate);
    // The first attempt is on its way while the second one goes to the server without the proxy.
    store.put(b"a", b"2").unwrap();
    store.put(b"a", b"3").unwrap();
    thread::sleep(2 * DELAY);
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"3", "the late request wrote 2 again");
}

#[test]
fn unreachable_cluster_leaves_the_commit_unknown() {
    if !has_etcd("unknown commits of etcd") {
        return;
    }
    let server = shared_server();
    let proxy = Proxy::start(server.servers[0].client_port);
    let store = open_through(&proxy, "unknown-commits", "?timeout=1");
    store.put(b"a", b"1").unwrap();
    proxy.set(Network::AnswersLost);
    let error = store.put(b"a", b"2").unwrap_err();
    assert!(matches!(error, Error::CommitUnknown(_)) && !error.is_retryable(), "{error}");
    // Another client reads the result: the request had arrived.
    let other = open(&server.address("unknown-commits"), &OpenOptions::default()).unwrap();
    assert_eq!(other.get(b"a").unwrap().unwrap(), b"2");
    assert!(matches!(store.get(b"a"), Err(Error::Unavailable(_))));
    proxy.set(Network::Open);
    store.put(b"a", b"3").unwrap();
    assert_eq!(other.get(b"a").unwrap().unwrap(), b"3");
}

#[test]
fn stopped_cluster_is_unavailable_and_returns() {
    if !has_etcd("stops of etcd") {
        return;
    }
    let mut cluster = EtcdCluster::start(1);
    let address = format!("{}?timeout=1", cluster.address("stops"));
    let store = open(&address, &OpenOptions::default().create_if_missing(true)).unwrap();
    store.put(b"a", b"1").unwrap();
    cluster.servers[0].kill();
    assert!(matches!(store.get(b"a"), Err(Error::Unavailable(_))));
    let error = store.put(b"a", b"2").unwrap_err();
    assert!(matches!(error, Error::CommitUnknown(_) | Error::Unavailable(_)), "{error}");
    cluster.servers[0].start();
    crate::cluster::wait(&cluster.address("stops"));
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1", "no server was running");
    store.put(b"a", b"3").unwrap();
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"3");
}

#[test]
fn closed_store_leaves_no_markers() {
    if !has_etcd("markers of etcd") {
        return;
    }
    let server = shared_server();
    let port = server.servers[0].client_port;
    let prefix = b"markers\0c";
    let options = OpenOptions::default().create_if_missing(true);
    let store = open(&server.address("markers"), &options).unwrap();
    store.put(b"a", b"1").unwrap();
    assert_eq!(crate::cluster::count_with_http(port, prefix), 1);
    drop(store);
    assert_eq!(crate::cluster::count_with_http(port, prefix), 0);
    assert_eq!(open(&server.address("markers"), &options).unwrap().get(b"a").unwrap().unwrap(), b"1");
}
