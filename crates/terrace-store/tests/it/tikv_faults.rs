//! Histories of clients while regions split, leaders move, stores stop and answers are lost.
//!
//! Two stores, each with several threads, use one cluster of the double. The history of single keys
//! must be linearizable, the transactions serializable, and no acknowledged write may be lost.

use std::thread;
use std::time::Duration;

use crate::history::check_under_faults;
use crate::tikv_double::{Double, STORES, has_double};

/// Time of a fault. The other stores elect leaders within it.
const FAULT: Duration = Duration::from_millis(700);
/// Time between two faults.
const CALM: Duration = Duration::from_millis(300);
/// Rounds of all faults.
const ROUNDS: usize = 2;

/// Commands of the double that begin and end a fault.
static FAULTS: &[(&str, &str)] = &[
    ("/leaders", "/leaders"),
    ("/stop?store=0", "/start?store=0"),
    ("/lose?method=KvCommit&count=3", "/lose?method=KvCommit&count=0"),
    ("/lose?method=KvCommit&count=100", "/lose?method=KvCommit&count=0"),
    ("/stop?store=1", "/start?store=1"),
    ("/refuse?method=KvCommit&count=60", "/refuse?method=KvCommit&count=0"),
    ("/lose?method=KvPrewrite&count=30", "/leaders"),
    ("/stop?store=2", "/start?store=2"),
    ("/delay?ms=20", "/delay?ms=0"),
];

/// Keys in the middle of the ones that the clients use.
fn split(double: &Double, round: usize) {
    let names = [["single-2", "txn-\x03"], ["single-4", "txn-\x06"]];
    let names = names[round % names.len()].iter();
    double.split(names.map(|name| format!("faults\0k{name}").into_bytes()));
}

#[test]
fn histories_under_faults() {
    if !has_double() {
        return;
    }
    assert_eq!(STORES, 3);
    let double = Double::start();
    check_under_faults(&format!("{}?timeout=120", double.address("faults")), || {
        thread::sleep(CALM);
        for round in 0..ROUNDS {
            for (begin, end) in FAULTS {
                double.control(begin);
                thread::sleep(FAULT);
                double.control(end);
                thread::sleep(CALM);
            }
            split(&double, round);
        }
    });
}
