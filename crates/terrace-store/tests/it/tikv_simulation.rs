//! Simulation of a larger cluster: requests and times of the calls by regions and latency.
//!
//! The double delays each request. The times are those of the protocol, not of TiKV: the double
//! itself takes 0.2 to 0.5 milliseconds for a request.

use std::thread;
use std::time::Instant;

use terrace_store::{KeyRange, Store, TransactionOptions};

use crate::tikv_double::{Double, has_double};
use crate::tikv_requests::{FULL, PAGE, counted, read, store_in_regions};

/// Calls of each kind. One in four of them reads the pages of a scan.
const CALLS: usize = 40;
/// Number of threads that write in transactions: as many as a front end has.
const WRITERS: usize = 64;
/// Number of transactions of each thread.
const ROUNDS: usize = 8;

/// Prints a row for `calls` executions of `call`.
fn measure(double: &Double, place: &str, name: &str, calls: usize, call: impl Fn(usize)) {
    let started = Instant::now();
    let mut elapsed = started.elapsed();
    let requests = counted(double, || {
        let started = Instant::now();
        (0..calls).for_each(&call);
        elapsed = started.elapsed();
    });
    let each = |count: u64| count as f64 / calls as f64;
    println!(
        "{place} {name:<5} {:>5.2} requests {:>5.2} timestamps {:>8.2} ms",
        each(requests.of_regions()),
        each(requests.timestamps),
        elapsed.as_secs_f64() * 1000.0 / calls as f64
    );
}

/// Prints the rate of transactions of many threads, each of which has a key of its own.
fn measure_transactions(place: &str, store: &dyn Store) {
    let run = |rounds: usize| {
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    for _ in 0..rounds {
                        let outcome = store.transact(&TransactionOptions::default(), |transaction| {
                            let key = format!("{:06}", writer * 41);
                            let value = transaction.get(key.as_bytes())?.unwrap_or_default();
                            transaction.put(key.as_bytes(), &value)
                        });
                        outcome.unwrap();
                    }
                });
            }
        });
    };
    // Each lane has a first commit.
    run(2);
    let started = Instant::now();
    run(ROUNDS);
    let rate = (WRITERS * ROUNDS) as f64 / started.elapsed().as_secs_f64();
    println!("{place} {rate:.0} transactions per second of {WRITERS} threads");
}

fn simulate(double: &Double, store: &dyn Store, regions: usize, ms: &str) {
    double.control(&format!("/delay?ms={ms}"));
    let place = format!("{regions:>5} regions {ms:>4} ms");
    let key = |n: usize| format!("{:06}", n * 97 % FULL);
    measure(double, &place, "get", CALLS, |n| drop(store.get(key(n).as_bytes()).unwrap()));
    measure(double, &place, "put", CALLS, |n| store.put(key(n).as_bytes(), b"x").unwrap());
    let range = KeyRange::new("000000", "004096");
    measure(double, &place, "scan", CALLS / 4, |_| read(store, &range, true, FULL - PAGE));
    measure_transactions(&place, store);
    double.control("/delay?ms=0");
}

#[test]
#[ignore = "prints figures of the design note"]
fn calls_by_regions_and_latency() {
    if !has_double() {
        return;
    }
    for regions in [1, 200, 2000] {
        let double = Double::start();
        let store = &*store_in_regions(&double, regions);
        (0..8).for_each(|n| store.put(format!("{n:06}").as_bytes(), b"w").unwrap());
        read(store, &KeyRange::all(), true, FULL);
        for ms in ["0", "0.2", "1", "10"] {
            simulate(&double, store, regions, ms);
        }
    }
}
