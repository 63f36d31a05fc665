//! The engines under test, each with empty stores.

use std::sync::Arc;

use tempfile::TempDir;
use terrace_store::{OpenOptions, Store, open};

/// An engine that the tests run on.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    /// Whether the engine runs here. Prints NOT TESTED otherwise.
    pub(crate) is_available: fn() -> bool,
    pub(crate) new_store: fn() -> TestStore,
}

/// Empty store, with the directory of its files.
pub(crate) struct TestStore {
    pub(crate) store: Arc<dyn Store>,
    _directory: Option<TempDir>,
}

/// Engines under test. The first one is the model.
pub(crate) static FIXTURES: &[Fixture] = &[
    Fixture { name: "memory", is_available: || true, new_store: memory },
    Fixture { name: "local", is_available: || true, new_store: local },
    #[cfg(feature = "etcd")]
    Fixture { name: "etcd, one server", is_available: || crate::cluster::has_etcd("etcd"), new_store: etcd },
    #[cfg(feature = "etcd")]
    Fixture {
        name: "etcd, three servers",
        is_available: || crate::cluster::has_etcd("etcd, three servers"),
        new_store: etcd_of_three,
    },
    #[cfg(feature = "tikv")]
    Fixture {
        name: "tikv double, one region",
        is_available: crate::tikv_double::has_double,
        new_store: tikv_of_one_region,
    },
    #[cfg(feature = "tikv")]
    Fixture {
        name: "tikv double, 200 regions",
        is_available: crate::tikv_double::has_double,
        new_store: tikv_of_many_regions,
    },
    #[cfg(feature = "tikv")]
    Fixture { name: "TiKV", is_available: crate::tikv_double::has_real_tikv, new_store: real_tikv },
];

pub(crate) fn memory() -> TestStore {
    TestStore { store: open("memory:", &OpenOptions::default()).expect("a store"), _directory: None }
}

fn local() -> TestStore {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let address = format!("local:{}", directory.path().join("db").display());
    let store = open(&address, &OpenOptions::default().create_if_missing(true)).expect("a store");
    TestStore { store, _directory: Some(directory) }
}

#[cfg(feature = "etcd")]
fn etcd() -> TestStore {
    TestStore { store: crate::cluster::new_store(crate::cluster::shared_server()), _directory: None }
}

#[cfg(feature = "etcd")]
fn etcd_of_three() -> TestStore {
    use crate::cluster::EtcdCluster;
    use std::sync::OnceLock;
    static SHARED: OnceLock<EtcdCluster> = OnceLock::new();
    TestStore {
        store: crate::cluster::new_store(SHARED.get_or_init(|| EtcdCluster::start(3))),
        _directory: None,
    }
}

#[cfg(feature = "tikv")]
fn tikv_of_one_region() -> TestStore {
    TestStore { store: crate::tikv_double::new_store(crate::tikv_double::shared(), 1), _directory: None }
}

#[cfg(feature = "tikv")]
fn tikv_of_many_regions() -> TestStore {
    TestStore {
        store: crate::tikv_double::new_store(crate::tikv_double::shared_of_many_regions(), 200),
        _directory: None,
    }
}

#[cfg(feature = "tikv")]
fn real_tikv() -> TestStore {
    TestStore { store: crate::tikv_double::new_real_store(), _directory: None }
}

/// Addresses of a store with the prefix `name` in each available cluster.
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(crate) fn cluster_addresses(name: &str) -> Vec<String> {
    let mut addresses = Vec::new();
    #[cfg(feature = "etcd")]
    if crate::cluster::has_etcd("etcd") {
        addresses.push(crate::cluster::shared_server().address(name));
    }
    #[cfg(feature = "tikv")]
    if crate::tikv_double::has_double() {
        addresses.push(crate::tikv_double::shared().address(name));
    }
    addresses
}

/// Runs `case` on an empty store of every engine.
#[track_caller]
pub(crate) fn on_every_engine(case: impl Fn(&dyn Store)) {
    for fixture in FIXTURES.iter().filter(|fixture| (fixture.is_available)()) {
        let test = (fixture.new_store)();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&*test.store)));
        assert!(outcome.is_ok(), "on the engine {}", fixture.name);
    }
}
