//! Ten thousand idle connections: the memory of each, and the service for others.

use crate::process::ServerProcess;
use terrace_server::{Layout, SyncMode};

/// Number of idle connections. With the first ones, fewer than the limit of 10,000 clients.
const CONNECTIONS: usize = 9_800;
/// Number of the first connections, after which the memory is measured: pools are filled.
const WARM_UP: usize = 100;
/// Maximum memory of a connection in the server process, in bytes.
const MAX_BYTES: usize = 2 << 10;

/// Anonymous memory of a process in bytes.
fn memory(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Number of descriptors that a process may open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn memory_of_a_connection() {
    let available = descriptors();
    let connections = CONNECTIONS.min(available.saturating_sub(200) / 2);
    if connections < CONNECTIONS {
        eprintln!("only {connections} connections: the limit of open files is {available}");
    }
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let connect = |count: usize| -> Vec<_> {
        let connected = (0..count).map(|_| {
            let mut client = server.client();
            client.check(&[("PING", "PONG")]);
            client
        });
        connected.collect()
    };
    let first = connect(WARM_UP);
    let before = memory(server.process_id());
    let idle = connect(connections);
    let used = memory(server.process_id()).saturating_sub(before) / connections;
    println!("{connections} connections, {used} bytes each");
    assert!(used <= MAX_BYTES, "{used} bytes for each of {connections} connections");
    server.client().check(&[("SET a 1", "OK"), ("GET a", "'1'")]);
    drop((first, idle));
}
