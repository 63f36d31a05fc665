//! Histories of clients while regions split, leaders move, stores stop and answers are lost.
//!
//! Two stores, each with several threads, use one cluster of the double. The history of single keys
//! must be linearizable, the transactions serializable, and no acknowledged write may be lost.

use crate::history::check_under_faults;
use crate::tikv_double::{Double, STORES, has_double};

/// Rounds of all faults.
const ROUNDS: usize = 2;

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
        for round in 0..ROUNDS {
            double.run_faults(|| {});
            split(&double, round);
        }
    });
}
