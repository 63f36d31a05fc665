//! Old versions of TiKV: the option `gc` moves the safe point, by one client at a time.

use std::time::{Duration, Instant};

use terrace_store::{Error, OpenOptions, open};

use crate::tikv_double::{Double, has_double};

/// Number of moves of the safe point that the test waits for.
const MOVES: u64 = 4;
/// Time within which the moves must happen: one each second.
const PATIENCE: Duration = Duration::from_secs(60);

fn moves(double: &Double) -> u64 {
    double.counts().get("UpdateGCSafePoint").copied().unwrap_or_default()
}

#[test]
fn clients_move_the_safe_point_in_turn() {
    if !has_double() {
        return;
    }
    let double = Double::start();
    let create = OpenOptions::default().create_if_missing(true);
    let plain = open(&double.address("old"), &create).unwrap();
    plain.put(b"a", b"1").unwrap();
    let long = plain.snapshot().unwrap();
    plain.put(b"a", b"2").unwrap();
    let started = Instant::now();
    let address = format!("{}?timeout=1&snapshots=1&gc=2", double.address("old"));
    let clients = [(); 3].map(|()| open(&address, &create).unwrap());
    let short = clients[0].snapshot().unwrap();
    while moves(&double) < MOVES {
        assert!(started.elapsed() < PATIENCE, "{} moves of the safe point", moves(&double));
        std::thread::sleep(Duration::from_millis(50));
    }
    // The record lets one of three clients do the work of a second.
    let most = started.elapsed().as_secs() + 2;
    assert!(moves(&double) <= most, "{} moves in {most} seconds", moves(&double));
    // The old version is gone, which a snapshot of the default age does not notice.
    assert_eq!(long.get(b"a").unwrap(), None);
    assert!(matches!(short.get(b"a"), Err(Error::SnapshotTooOld(_))), "{:?}", short.get(b"a"));
    for client in &clients {
        assert_eq!(client.get(b"a").unwrap().unwrap(), b"2");
        client.put(b"a", b"2").unwrap();
    }
}
