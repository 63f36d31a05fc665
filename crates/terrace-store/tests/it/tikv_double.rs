//! Stores in clusters of the double of TiKV, and in a real cluster.
//!
//! A real cluster is one for tests only, because the stores of the tests stay in it.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

use terrace_store::{OpenOptions, Store, open};
use terrace_testkit::rng::Rng;
pub(crate) use terrace_testkit::tikv_double::{Double, STORES, has_double, hex};

/// Environment variable with the placement drivers of a real cluster.
const REAL: &str = "TIKV_PD_ADDRS";

/// Number of stores that the tests have created.
static NEXT_STORE: AtomicU64 = AtomicU64::new(0);

/// Returns true if the environment names a real cluster. Otherwise prints NOT TESTED once.
pub(crate) fn has_real_tikv() -> bool {
    static PRINTED: Once = Once::new();
    let is_there = std::env::var_os(REAL).is_some();
    if !is_there {
        PRINTED.call_once(|| {
            let _ = writeln!(std::io::stderr(), "NOT TESTED: stores in a real TiKV: {REAL} is not set");
        });
    }
    is_there
}

/// Creates an empty store in the real cluster.
pub(crate) fn new_real_store() -> Arc<dyn Store> {
    let hosts = std::env::var(REAL).expect("has_real_tikv has found it");
    let run = std::process::id();
    let number = NEXT_STORE.fetch_add(1, Ordering::Relaxed);
    let unique = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros();
    let address = format!("tikv://{hosts}/terrace-test/{run}-{unique}-{number}");
    open(&address, &OpenOptions::default().create_if_missing(true)).expect("a new store")
}

/// Creates an empty store with a prefix of its own, whose keys are in `regions` regions.
pub(crate) fn new_store(double: &Double, regions: usize) -> Arc<dyn Store> {
    let prefix = format!("store-{}", NEXT_STORE.fetch_add(1, Ordering::Relaxed));
    double.split(split_keys(&prefix, regions));
    open(&double.address(&prefix), &OpenOptions::default().create_if_missing(true)).expect("a new store")
}

/// Keys at which the store with `prefix` is split: short keys of all bytes, and some of the names
/// that the tests use.
fn split_keys(prefix: &str, regions: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = Rng::new(regions as u64);
    let mut keys: Vec<Vec<u8>> = (1..regions)
        .map(|number| match number % 4 {
            0 => format!("k{:05}", rng.below(2500)).into_bytes(),
            1 => vec![rng.next_u64() as u8, rng.next_u64() as u8],
            2 => format!("c{:02}", rng.below(100)).into_bytes(),
            _ => vec![number as u8],
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let root = format!("{prefix}\0k").into_bytes();
    keys.into_iter().map(move |key| [&root[..], &key].concat())
}

/// Double with one region that the tests share. It ends with the test program.
pub(crate) fn shared() -> &'static Double {
    static SHARED: OnceLock<Double> = OnceLock::new();
    SHARED.get_or_init(Double::start)
}

/// Double with many regions that the tests share.
pub(crate) fn shared_of_many_regions() -> &'static Double {
    static SHARED: OnceLock<Double> = OnceLock::new();
    SHARED.get_or_init(Double::start)
}
