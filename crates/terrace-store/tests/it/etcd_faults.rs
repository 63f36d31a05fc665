//! Histories of clients while servers die, stop and disappear.
//!
//! Two stores, each with several threads, use three servers through proxies. Meanwhile the leader
//! is killed with SIGKILL or paused with SIGSTOP, or the network is cut. The history of single keys
//! must be linearizable, the transactions serializable, and no acknowledged write may be lost.

use std::thread;
use std::time::Duration;

use crate::cluster::{EtcdCluster, has_etcd};
use crate::history::check_under_faults;
use crate::proxy::{Network, Proxy};

/// Time of a fault. A new leader needs about one second.
const FAULT: Duration = Duration::from_millis(1200);
/// Time of a pause. The clients give up, and the leader finds their requests when it continues.
const PAUSE: Duration = Duration::from_millis(3000);
/// Time between two faults.
const CALM: Duration = Duration::from_millis(600);

/// A fault of the leader.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Pause,
    Cut(Network),
}

static FAULTS: &[Fault] = &[
    Fault::Kill,
    Fault::Cut(Network::AnswersLost),
    Fault::Pause,
    Fault::Cut(Network::Closed),
    Fault::Kill,
    Fault::Cut(Network::Silent),
];

fn inject(fault: Fault, cluster: &mut EtcdCluster, proxies: &[Proxy]) {
    let leader = cluster.leader();
    match fault {
        Fault::Kill => cluster.servers[leader].kill(),
        Fault::Pause => cluster.servers[leader].signal("STOP"),
        // The clients lose all servers, so that commits end without an answer.
        Fault::Cut(network) => proxies.iter().for_each(|proxy| proxy.set(network)),
    }
    thread::sleep(if matches!(fault, Fault::Pause) { PAUSE } else { FAULT });
    match fault {
        Fault::Kill => cluster.servers[leader].start(),
        Fault::Pause => cluster.servers[leader].signal("CONT"),
        Fault::Cut(_) => proxies.iter().for_each(|proxy| proxy.set(Network::Open)),
    }
    thread::sleep(CALM);
}

#[test]
fn histories_under_faults() {
    if !has_etcd("faults of etcd") {
        return;
    }
    let mut cluster = EtcdCluster::start(3);
    let proxies: Vec<Proxy> = cluster.servers.iter().map(|server| Proxy::start(server.client_port)).collect();
    let hosts: Vec<String> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port)).collect();
    check_under_faults(&format!("etcd://{}/faults?timeout=120", hosts.join(",")), || {
        thread::sleep(CALM);
        for fault in FAULTS {
            inject(*fault, &mut cluster, &proxies);
        }
    });
}
