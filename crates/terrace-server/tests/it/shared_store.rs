//! Distributed engines under test, with addresses of new stores for front ends.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_store::ENGINES;
use terrace_testkit::etcd::{EtcdCluster, has_etcd};
use terrace_testkit::tikv_double::{Double, has_double};

/// Variable with the placement drivers of a real cluster, in which the stores of the tests stay.
const REAL_TIKV: &str = "TIKV_PD_ADDRS";

/// Engine whose stores front ends can share.
pub(crate) struct DistributedEngine {
    name: &'static str,
    scheme: &'static str,
    /// Whether its program is here. Prints NOT TESTED otherwise.
    can_run: fn(what: &str) -> bool,
    /// Returns the address of a new store. The cluster ends with the test program.
    pub(crate) new_store: fn() -> String,
}

/// Engines under test.
pub(crate) static DISTRIBUTED: &[DistributedEngine] = &[
    DistributedEngine { name: "etcd", scheme: "etcd", can_run: has_etcd, new_store: new_etcd_store },
    DistributedEngine {
        name: "the double of TiKV, one region",
        scheme: "tikv",
        can_run: |_| has_double(),
        new_store: || shared_double().address(&new_prefix()),
    },
    DistributedEngine {
        name: "the double of TiKV, 200 regions",
        scheme: "tikv",
        can_run: |_| has_double(),
        new_store: || {
            let prefix = new_prefix();
            shared_double().split(split_keys(&prefix, 200));
            shared_double().address(&prefix)
        },
    },
    DistributedEngine {
        name: "a real TiKV",
        scheme: "tikv",
        can_run: has_real_tikv,
        new_store: || {
            let hosts = std::env::var(REAL_TIKV).unwrap();
            format!("tikv://{hosts}/{}", new_prefix())
        },
    },
];

impl DistributedEngine {
    /// Returns true if the engine runs here. Otherwise prints that `what` is not tested.
    pub(crate) fn is_available(&self, what: &str) -> bool {
        let what = format!("{what}, on {}", self.name);
        if !ENGINES.iter().any(|engine| engine.scheme == self.scheme && engine.is_built_in()) {
            let scheme = self.scheme;
            let is_required = std::env::var_os("TERRACE_REQUIRE_STOCK").is_some();
            assert!(!is_required, "the engine {scheme} is missing");
            let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}: built without the feature {scheme}");
            return false;
        }
        (self.can_run)(&what)
    }
}

/// Runs `body` with the address of a new store of each engine.
pub(crate) fn on_distributed_engines(what: &str, body: impl Fn(&str)) {
    for engine in DISTRIBUTED.iter().filter(|engine| engine.is_available(what)) {
        println!("on {}", engine.name);
        body(&(engine.new_store)());
    }
}

/// Address of a new store in etcd, if it can run here.
pub(crate) fn etcd_store(what: &str) -> Option<String> {
    DISTRIBUTED[0].is_available(what).then(new_etcd_store)
}

/// Prefix that no other store has, also in a cluster that lives longer than the tests.
fn new_prefix() -> String {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let started = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    format!("front-ends/{started}-{}", STORES.fetch_add(1, Ordering::Relaxed))
}

fn new_etcd_store() -> String {
    static CLUSTER: OnceLock<EtcdCluster> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| {
        let cluster = EtcdCluster::start_with(1, None, &["--max-txn-ops", "10000"]);
        cluster.leader();
        cluster
    });
    format!("{}?max-txn-ops=10000", cluster.address(&new_prefix()))
}

fn shared_double() -> &'static Double {
    static SHARED: OnceLock<Double> = OnceLock::new();
    SHARED.get_or_init(Double::start)
}

fn has_real_tikv(what: &str) -> bool {
    let is_there = std::env::var_os(REAL_TIKV).is_some();
    if !is_there {
        let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}: {REAL_TIKV} is not set");
    }
    is_there
}

/// Stored keys at which the records of a server in the store `prefix` are split: between keys that
/// the tests use, objects, types of objects, and commit markers.
pub(crate) fn split_keys(prefix: &str, regions: usize) -> impl Iterator<Item = Vec<u8>> {
    let names = (b'a'..=b'z').map(|first| char::from(first).to_string());
    let numbered = (0..8).flat_map(|n| ["account", "key", "list"].map(|name| format!("{name}:{n}")));
    // Each front end reserves a block of 65,536 numbers.
    let numbers = (0..6_u64).flat_map(|block| (1..6).map(move |n| (block << 16) + n));
    let members = numbers.flat_map(|number| {
        (0x10..0x15_u8).map(move |tag| [&[b'k', tag][..], &number.to_be_bytes()].concat())
    });
    let others = [2, 3, 4].map(|tag| vec![b'k', tag]);
    let markers = (0..16).map(|digit| format!("c{digit:x}").into_bytes());
    let records = names.chain(numbered).map(|key| [b"k\x01\0\0", key.as_bytes()].concat());
    let keys: Vec<Vec<u8>> = records.chain(others).chain(members).chain(markers).collect();
    assert!(keys.len() >= regions - 1, "{} keys for {regions} regions", keys.len());
    let root = format!("{prefix}\0").into_bytes();
    keys.into_iter().take(regions - 1).map(move |key| [&root[..], &key].concat())
}
