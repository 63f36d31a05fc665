//! Stores in clusters of etcd, and requests through the HTTP gateway of a server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use terrace_store::{OpenOptions, Store, open};
pub(crate) use terrace_testkit::etcd::{EtcdCluster, TlsServer, has_etcd};
use terrace_testkit::http::post;

/// Time within which a cluster must start.
const START: Duration = Duration::from_secs(60);

/// Waits until a store at `address` can be created.
pub(crate) fn wait(address: &str) {
    let started = Instant::now();
    loop {
        match open(address, &OpenOptions::default().create_if_missing(true)) {
            Ok(_) => return,
            Err(error) => assert!(started.elapsed() < START, "the cluster does not start: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Creates an empty store of `cluster` with a prefix of its own.
pub(crate) fn new_store(cluster: &EtcdCluster) -> Arc<dyn Store> {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let number = STORES.fetch_add(1, Ordering::Relaxed);
    let address = cluster.address(&format!("store-{number}"));
    open(&address, &OpenOptions::default().create_if_missing(true)).expect("a new store")
}

/// Single server that the tests share. It ends with the test program.
pub(crate) fn shared_server() -> &'static EtcdCluster {
    static SHARED: OnceLock<EtcdCluster> = OnceLock::new();
    SHARED.get_or_init(|| EtcdCluster::start(1))
}

/// Puts a key through the HTTP gateway of a server, without a client library.
pub(crate) fn put_with_http(port: u16, key: &[u8], value: &[u8]) {
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, BASE64.encode(key), BASE64.encode(value));
    let answer = post(port, "/v3/kv/put", &body);
    assert!(answer.contains(" 200 OK"), "{answer}");
}

/// Removes the history before the newest revision of the cluster.
pub(crate) fn compact_with_http(port: u16, revision: u64) {
    let answer = post(port, "/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    assert!(answer.contains(" 200 OK"), "{answer}");
}

/// Counts the keys with `prefix` through the HTTP gateway of a server.
pub(crate) fn count_with_http(port: u16, prefix: &[u8]) -> u64 {
    let mut end = prefix.to_vec();
    *end.last_mut().expect("a prefix has bytes") += 1;
    let start = BASE64.encode(prefix);
    let end = BASE64.encode(&end);
    let body = format!(r#"{{"key":"{start}","range_end":"{end}","count_only":true}}"#);
    let answer = post(port, "/v3/kv/range", &body);
    let count = answer.split_once(r#""count":""#).and_then(|(_, rest)| rest.split_once('"'));
    count.map_or(0, |(count, _)| count.parse().expect("a number"))
}
