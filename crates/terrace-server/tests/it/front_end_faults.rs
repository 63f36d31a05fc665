//! Front ends that end in the middle of commits, and clusters that fail meanwhile.
//!
//! ```text
//!   ledger      SIGKILL of a front end; another one has each acknowledged write
//!   histories   eight clients of three front ends, one of which is killed again and again, while
//!               regions split, leaders move, stores stop, and requests and answers are lost, or
//!               while the leader of etcd is killed or paused
//! ```
//!
//! `TERRACE_FRONT_END_OPERATIONS` chooses the number of operations in the histories.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_linearizability::server_clients::{Certainty, judge, record};
use terrace_server::Layout;
use terrace_testkit::etcd::EtcdCluster;
use terrace_testkit::tikv_double::Double;

use crate::ledger::{self, CLIENTS, Ledger};
use crate::model::number;
use crate::process::ServerProcess;
use crate::shared_store::{DISTRIBUTED, etcd_store, on_distributed_engines, split_keys};

/// Operations in the histories that `make test` checks.
const OPERATIONS: u64 = 1000;
/// First life of a front end with the ledger.
const FIRST_LIFE: Duration = Duration::from_millis(900);
/// Longest life of a front end with the ledger.
const MAX_LIFE: Duration = Duration::from_secs(60);
/// Maximum memory of a front end after the faults, in bytes.
const MAX_BYTES: usize = 512 << 20;
/// Longest life of the front end that is killed during a history, in milliseconds.
const LIFE_MILLIS: u64 = 900;

#[test]
fn killed_front_end_loses_no_acknowledged_write() {
    on_distributed_engines("a killed front end", |address| {
        let rounds = number("TERRACE_KILLS").unwrap_or(3);
        let mut ledgers = [Ledger::default(); CLIENTS];
        let survivor = ServerProcess::start_front_end(address);
        let mut kills = 0;
        // On a slow machine, a life may be too short for a write of each client.
        let mut life = FIRST_LIFE;
        while kills < rounds {
            let server = ServerProcess::start_front_end(address);
            let mut client = survivor.client();
            ledgers = ledger::verify(&mut client, Layout::Typed, &ledgers, &ledgers);
            ledger::delete_long_objects(&mut client, &mut ledgers);
            let time = life + Duration::from_millis(kills * 170 % 500);
            ledgers = ledger::write_until_kill(server, Layout::Typed, ledgers, time);
            if ledgers.iter().all(|ledger| ledger.is_used(Layout::Typed)) {
                kills += 1;
            } else {
                life *= 2;
                assert!(life < MAX_LIFE, "the load was no load: {ledgers:?}");
            }
        }
        ledger::verify(&mut survivor.client(), Layout::Typed, &ledgers, &ledgers);
    });
}

/// Sums of all histories.
#[derive(Debug, Default)]
struct Sums {
    operations: u64,
    lost: u64,
    unknown: u64,
    refused: u64,
    conflicts: u64,
    /// Histories without a proof of one order for all keys.
    only_by_key: u64,
}

/// Records and judges histories until there are `operations` and the faults have ended.
fn check_histories(
    operations: u64,
    has_faults: &AtomicBool,
    address: &(impl Fn(u64) -> SocketAddr + Sync),
) -> Sums {
    let mut sums = Sums::default();
    for round in 0.. {
        if sums.operations >= operations && !has_faults.load(Ordering::SeqCst) {
            break;
        }
        let history = record(round << 8, &format!("round:{round}:"), address).unwrap();
        match judge(&history.operations) {
            Ok(Certainty::Order) => {}
            Ok(Certainty::OrderOfKeys) => sums.only_by_key += 1,
            Err(violation) => {
                let lines: Vec<String> =
                    history.operations.iter().map(|operation| format!("{operation:?}")).collect();
                panic!("round {round}: {violation}\n{}", lines.join("\n"));
            }
        }
        sums.operations += history.operations.len() as u64;
        sums.lost += history.lost;
        sums.unknown += history.unknown;
        sums.refused += history.refused;
        sums.conflicts += history.conflicts;
    }
    sums
}

/// Kills a front end of `store` again and again, and starts the next one. Clients find its address
/// in `address`.
fn kill_again_and_again(store: &str, address: &Mutex<SocketAddr>, is_ended: &AtomicBool) {
    for round in 0_u64.. {
        let server = ServerProcess::start_front_end(store);
        *address.lock().unwrap() = server.address;
        std::thread::sleep(Duration::from_millis(100 + round * 370 % LIFE_MILLIS));
        server.kill();
        if is_ended.load(Ordering::SeqCst) {
            break;
        }
    }
}

/// Checks histories of two front ends of `store` and of a third one that is killed again and again.
/// Meanwhile, `faults` is called with the numbers of rounds, at least once. The time of a call in
/// the address exceeds every fault, so a commit without an answer is always resolved.
fn check_under_faults(store: &str, mut faults: impl FnMut(u64) + Send) {
    let operations = number("TERRACE_FRONT_END_OPERATIONS").unwrap_or(OPERATIONS);
    let started = Instant::now();
    let survivors = [(); 2].map(|()| ServerProcess::start_front_end(store));
    let victim = Mutex::new(survivors[0].address);
    let has_faults = AtomicBool::new(true);
    let is_ended = AtomicBool::new(false);
    let sums = std::thread::scope(|scope| {
        scope.spawn(|| kill_again_and_again(store, &victim, &is_ended));
        let faults = scope.spawn(|| {
            for round in 0.. {
                faults(round);
                has_faults.store(false, Ordering::SeqCst);
                if is_ended.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let sums = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check_histories(operations, &has_faults, &|client| match client % 3 {
                2 => *victim.lock().unwrap(),
                number => survivors[number as usize].address,
            })
        }));
        is_ended.store(true, Ordering::SeqCst);
        faults.join().unwrap();
        sums.unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    });
    let used = survivors.each_ref().map(ServerProcess::memory);
    println!("{sums:?} within {} seconds, {used:?} bytes of two front ends", started.elapsed().as_secs());
    assert!(used.iter().flatten().all(|bytes| *bytes < MAX_BYTES), "{used:?} bytes after the faults");
    assert_eq!(sums.unknown, 0, "a commit without an answer was not resolved: {sums:?}");
    assert!(sums.lost > 0 && sums.conflicts > 0, "the faults hit nothing: {sums:?}");
}

#[test]
fn histories_while_the_double_of_tikv_fails() {
    let double_engine = &DISTRIBUTED[1];
    if !double_engine.is_available("histories of front ends under faults") {
        return;
    }
    let double = Double::start();
    double.split(split_keys("faults", 20));
    check_under_faults(&format!("{}?timeout=120", double.address("faults")), |round| {
        double.run_faults(|| {});
        // Keys of a history at this time or later.
        double.split(
            (0..3).map(|later| format!("faults\0k\x01\0\0round:{}:k1", 10 * round + later).into_bytes()),
        );
    });
}

/// Time of a fault. A new leader needs about one second.
const FAULT: Duration = Duration::from_millis(1500);
/// Time between two faults.
const CALM: Duration = Duration::from_millis(600);

#[test]
fn histories_while_the_leader_of_etcd_dies_or_pauses() {
    if etcd_store("histories of front ends under faults").is_none() {
        return;
    }
    let mut cluster = EtcdCluster::start(3);
    let store = format!("{}?timeout=120", cluster.address("faults"));
    check_under_faults(&store, move |_| {
        let leader = cluster.leader();
        cluster.servers[leader].kill();
        std::thread::sleep(FAULT);
        cluster.servers[leader].start();
        std::thread::sleep(CALM);
        let leader = cluster.leader();
        cluster.servers[leader].signal("STOP");
        std::thread::sleep(FAULT);
        cluster.servers[leader].signal("CONT");
        std::thread::sleep(CALM);
    });
}
