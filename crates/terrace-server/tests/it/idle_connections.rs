//! Ten thousand idle or slow connections: the memory of each, and the service for others.

use crate::client::Client;
use crate::process::ServerProcess;
use terrace_server::{Layout, SyncMode};

/// Number of idle connections. With the first ones, fewer than the limit of 10,000 clients.
const CONNECTIONS: usize = 9_800;
/// Number of the first connections, after which the memory is measured: pools are filled.
const WARM_UP: usize = 100;
/// Maximum memory of a connection in the server process, in bytes.
const MAX_BYTES: usize = 2 << 10;

/// Maximum memory of a connection with an unfinished command, in bytes.
const MAX_UNFINISHED_BYTES: usize = 4 << 10;

/// Anonymous memory of a process in bytes.
pub(crate) fn memory(process: u32) -> usize {
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

/// Starts a server and connects as many clients as the limit of open files permits.
fn with_connections(body: impl FnOnce(&ServerProcess, Vec<Client>, Vec<Client>, usize)) {
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
    let others = connect(connections);
    body(&server, first, others, before);
}

#[test]
fn memory_of_a_connection() {
    with_connections(|server, _first, idle, before| {
        let used = memory(server.process_id()).saturating_sub(before) / idle.len();
        println!("{} connections, {used} bytes each", idle.len());
        assert!(used <= MAX_BYTES, "{used} bytes for each of {} connections", idle.len());
        server.client().check(&[("SET a 1", "OK"), ("GET a", "'1'")]);
    });
}

/// Each client sends a byte, then the next client: at most a byte per second for each of them on a
/// slow machine. The server serves another client in between.
#[test]
fn one_byte_at_a_time_of_ten_thousand_clients() {
    with_connections(|server, _first, mut slow, before| {
        let mut other = server.client();
        let command = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
        for (index, byte) in command.iter().enumerate() {
            for client in &mut slow {
                client.send_bytes(&[*byte]);
            }
            other.check(&[("SET a 1", "OK"), ("GET a", "'1'")]);
            if index == command.len() / 2 {
                let used = memory(server.process_id()).saturating_sub(before) / slow.len();
                println!("{} connections, {used} bytes each", slow.len());
                assert!(used <= MAX_UNFINISHED_BYTES, "{used} bytes for an unfinished command");
            }
        }
        for client in &mut slow {
            assert!(client.reply().starts_with(':'));
        }
        other.check(&[("GET n", &format!("'{}'", slow.len()))]);
    });
}
