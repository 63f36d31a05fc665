//! Memory of a front end whose clients scan: it depends on the 64 threads, not on the clients.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_testkit::SetOnDrop;

use crate::client::Client;
use crate::idle_connections::memory;
use crate::process::ServerProcess;
use crate::shared_store::DISTRIBUTED;

/// Clients that scan at the same time.
const CLIENTS: usize = 1000;
/// Number of keys of the store. A scan of all has a reply of 500 KB.
const KEYS: usize = 1000;
/// Length of the name of a key, in bytes.
const NAME: usize = 500;
/// Maximum memory beyond that of the idle clients, in bytes. All replies together have twice as
/// many.
const MAX_BYTES: usize = 256 << 20;
/// Threads of the test that read replies.
const READERS: usize = 4;
/// Maximum time until the next part of a reply. On a machine with other work, the last client waits
/// for the scans of all others.
const MAX_TIME: Duration = Duration::from_secs(200);

/// Calls `body`, and returns the maximum memory of the process meanwhile.
fn with_maximum(process: u32, body: impl FnOnce()) -> usize {
    let is_ended = AtomicBool::new(false);
    let maximum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let _set_at_end = SetOnDrop(&is_ended);
        scope.spawn(|| {
            while !is_ended.load(Ordering::Relaxed) {
                maximum.fetch_max(memory(process), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        body();
    });
    maximum.into_inner()
}

/// Scans all keys with each client. The clients send first, and read later.
fn scan(clients: &mut [Client]) {
    let count = KEYS.to_string();
    clients.iter().for_each(|client| client.set_timeout(MAX_TIME));
    clients.iter_mut().for_each(|client| client.send(&["SCAN", "0", "COUNT", &count]));
    let complete = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for part in clients.chunks_mut(CLIENTS.div_ceil(READERS)) {
            let complete = &complete;
            scope.spawn(move || {
                for client in part {
                    let reply = client.reply();
                    assert!(reply.matches("key:").count() == KEYS, "{} bytes", reply.len());
                    complete.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(complete.into_inner(), CLIENTS);
}

#[test]
fn thousand_clients_that_scan() {
    let double_of_200_regions = &DISTRIBUTED[2];
    if !double_of_200_regions.is_available("memory of a front end") {
        return;
    }
    let server = ServerProcess::start_front_end(&(double_of_200_regions.new_store)());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for first in (0..KEYS).step_by(50) {
        let pairs = (first..first + 50).flat_map(|n| [format!("key:{n:0NAME$}"), n.to_string()]);
        let command: Vec<String> = ["MSET".to_owned()].into_iter().chain(pairs).collect();
        assert_eq!(clients[0].call(&command), "OK");
    }
    clients.iter_mut().for_each(|client| client.check(&[("PING", "PONG")]));
    let before = memory(server.process_id());
    let maximum = with_maximum(server.process_id(), || scan(&mut clients));
    let used = maximum.saturating_sub(before);
    println!("{before} bytes before the scans, {used} bytes more at most");
    assert!(used < MAX_BYTES, "{used} bytes for {CLIENTS} clients that scan");
}
