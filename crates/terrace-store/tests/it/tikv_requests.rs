//! Number of requests of each call, counted by the double, for any number of regions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use terrace_store::{KeyRange, OpenOptions, Store, TransactionOptions, WriteBatch, WriteOptions, open};

use crate::tikv_double::{Double, has_double, new_store};

/// Entries of one region that is full. The others have few.
pub(crate) const FULL: usize = 4096;
/// Most entries of a page.
pub(crate) const PAGE: usize = 1024;

/// Requests during `work`: reads, writes and timestamps.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    gets: u64,
    scans: u64,
    prewrites: u64,
    commits: u64,
    pub(crate) timestamps: u64,
    regions: u64,
}

impl Requests {
    /// Reads and writes of regions.
    pub(crate) fn of_regions(&self) -> u64 {
        self.gets + self.scans + self.prewrites + self.commits
    }
}

/// Number of requests once no more of them arrive: commits of secondary keys and pages that are
/// read ahead go on after their call.
fn settled_counts(double: &Double) -> BTreeMap<String, u64> {
    let mut before = double.counts();
    loop {
        thread::sleep(Duration::from_millis(150));
        let after = double.counts();
        if after == before {
            return after;
        }
        before = after;
    }
}

pub(crate) fn counted(double: &Double, work: impl FnOnce()) -> Requests {
    let before = settled_counts(double);
    work();
    let after = settled_counts(double);
    let count = |names: &[&str]| {
        let number = |counts: &BTreeMap<String, u64>| -> u64 {
            names.iter().map(|name| counts.get(*name).copied().unwrap_or_default()).sum()
        };
        number(&after) - number(&before)
    };
    Requests {
        gets: count(&["KvGet", "KvBatchGet"]),
        scans: count(&["KvScan"]),
        prewrites: count(&["KvPrewrite"]),
        commits: count(&["KvCommit"]),
        timestamps: count(&["Tso"]),
        regions: count(&["GetRegion", "GetPrevRegion"]),
    }
}

/// Creates a store in `regions` regions: the keys of the first one are "000000" to "004095", and
/// each of the others has one key.
pub(crate) fn store_in_regions(double: &Double, regions: usize) -> Arc<dyn Store> {
    // The batch has a request for each region. Beside other tests on two processors, it can take
    // more than the 15 s of the default.
    let address = format!("{}?timeout=60", double.address("regions"));
    let store = open(&address, &OpenOptions::default().create_if_missing(true)).unwrap();
    let prefix = b"regions\0k";
    let name = |number: usize| format!("{number:06}");
    double.split((1..regions).map(|number| [&prefix[..], name(FULL + number - 1).as_bytes()].concat()));
    let mut batch = WriteBatch::new();
    for number in 0..FULL + regions - 1 {
        batch.put(name(number), "v");
    }
    store.write(&batch, &WriteOptions::default()).unwrap();
    store
}

/// Reads `count` entries in one direction.
pub(crate) fn read(store: &dyn Store, range: &KeyRange, is_forward: bool, count: usize) {
    let mut iter = store.iter(range).unwrap();
    if is_forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    for _ in 0..count {
        assert!(iter.valid(), "{:?}", iter.status());
        if is_forward { iter.next() } else { iter.prev() }
    }
    iter.status().unwrap();
}

fn check_requests(regions: usize) {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = &*store_in_regions(&double, regions);
    // Each lane has a first commit, and the library learns each region once.
    for number in 0..8 {
        store.put(format!("{number:06}").as_bytes(), b"w").unwrap();
    }
    read(store, &KeyRange::all(), true, FULL);
    read(store, &KeyRange::new("000000", "004096"), false, FULL);

    let get = counted(&double, || drop(store.get(b"000007").unwrap()));
    assert!(matches!(get, Requests { gets: 1, scans: 0, prewrites: 0, timestamps: 1, .. }), "{get:?}");
    let put = counted(&double, || store.put(b"000007", b"x").unwrap());
    let writes = put.prewrites + put.commits;
    assert!((2..=4).contains(&writes) && put.timestamps == 2 && put.gets + put.scans == 0, "{put:?}");
    // Pages of 32, 64, .. and 1,024 entries, and perhaps the next one.
    let first_pages = 5;
    for is_forward in [true, false] {
        let range = KeyRange::new("000000", "004096");
        let scan = counted(&double, || read(store, &range, is_forward, FULL));
        let pages = (first_pages + FULL / PAGE + 1) as u64;
        assert!(scan.scans <= pages, "forward {is_forward}: {scan:?}, at most {pages} pages");
        assert_eq!((scan.gets, scan.prewrites, scan.timestamps, scan.regions), (0, 0, 1, 0), "{scan:?}");
    }
    let first = counted(&double, || read(store, &KeyRange::all(), true, 10));
    assert!(first.scans <= 2, "{first:?}");
}

#[test]
fn requests_of_calls_in_one_region() {
    check_requests(1);
}

#[test]
fn requests_of_calls_in_200_regions() {
    check_requests(200);
}

#[test]
fn requests_of_calls_in_2000_regions() {
    check_requests(2000);
}

#[test]
fn sparse_regions_are_read_in_groups() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let regions = 200;
    let store = &*store_in_regions(&double, regions);
    // One key in each region. A page asks 1, 2, 4 and 8 regions. The next one begins with the last
    // of them.
    let range = KeyRange::new("004096", "009999");
    read(store, &range, true, regions - 1);
    let scan = counted(&double, || read(store, &range, true, regions - 1));
    assert!(scan.scans as usize <= regions * 5 / 4, "{scan:?}");
}

#[test]
fn concurrent_writers_share_transactions() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = &*new_store(&double, 1);
    let threads = 48;
    let writes = 20;
    let requests = counted(&double, || {
        thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    (0..writes).for_each(|n| store.put(format!("{thread}-{n}").as_bytes(), b"v").unwrap());
                });
            }
        });
    });
    read(store, &KeyRange::all(), true, threads * writes);
    let all = (threads * writes) as u64;
    assert!(requests.prewrites < all / 2, "{requests:?} for {all} writes");
}

/// Each transaction of a server depends on one of a few keys that all of them read, and TiKV locks
/// these keys.
///
/// Regression: each write had a transaction of its own, which began before it waited for a lane.
/// Meanwhile, others locked its key, so it failed: 64 clients of a server needed 3.8 attempts for a
/// SET, and with a slower cluster they got errors.
#[test]
fn writes_with_common_keys_share_transactions() {
    const CLIENTS: usize = 64;
    const WRITES: usize = 10;
    if !has_double() {
        return;
    }
    let double = Double::start();
    let store = open(&double.address("guards"), &OpenOptions::default().create_if_missing(true)).unwrap();
    let guards: Vec<String> = (0..CLIENTS).map(|n| format!("guard{n:02}")).collect();
    for guard in &guards {
        store.put(guard.as_bytes(), b"").unwrap();
    }
    let next = AtomicUsize::new(0);
    let used = counted(&double, || {
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let store = &store;
                let guards = &guards;
                let next = &next;
                scope.spawn(move || {
                    for write in 0..WRITES {
                        let guard = &guards[next.fetch_add(1, Ordering::Relaxed) % CLIENTS];
                        let key = format!("key{client}-{write}");
                        let write = store.transact(&TransactionOptions::default(), |transaction| {
                            transaction.get(guard.as_bytes())?;
                            transaction.put(key.as_bytes(), b"1")
                        });
                        write.unwrap();
                    }
                });
            }
        });
    });
    let writes = (CLIENTS * WRITES) as u64;
    assert!(used.prewrites < writes / 2, "{} attempts of {writes} writes", used.prewrites);
}
