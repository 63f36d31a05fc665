//! Clusters of etcd on this machine.

use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use tempfile::TempDir;
use terrace_store::{OpenOptions, Store, open};

use crate::http::get;

/// Time within which a cluster must start.
const START: Duration = Duration::from_secs(60);

/// Program of a server.
const ETCD: &str = "etcd";

/// Returns true if etcd is installed. Otherwise prints that `what` is not tested, or fails where
/// all programs are required.
pub(crate) fn has_etcd(what: &str) -> bool {
    let is_there = Command::new(ETCD).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if is_there.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "etcd is missing");
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}: etcd is missing (Debian's etcd-server)");
    false
}

/// Starts the server in its arguments and prints its number. Ends it with SIGKILL at the end of
/// the standard input, so that no server outlives the tests.
const GUARD: &str = r#""$@" >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -KILL $!; wait $!"#;

/// A server of a cluster.
pub(crate) struct Server {
    arguments: Vec<String>,
    /// The guard, and the number of the server's process.
    process: Option<(Child, String)>,
    pub(crate) client_port: u16,
}

impl Server {
    pub(crate) fn start(&mut self) {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "sh", ETCD]).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = command.spawn().expect("sh starts");
        let mut number = String::new();
        let output = guard.stdout.take().expect("the output is a pipe");
        std::io::BufReader::new(output).read_line(&mut number).expect("a number");
        self.process = Some((guard, number.trim().to_owned()));
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some((mut guard, _)) = self.process.take() {
            drop(guard.stdin.take());
            guard.wait().expect("the guard ends after its server");
        }
    }

    /// Sends a signal, such as STOP or CONT.
    pub(crate) fn signal(&self, name: &str) {
        let (_, number) = self.process.as_ref().expect("the server runs");
        let status = Command::new("kill").args(["-s", name, number]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Servers that form a cluster.
pub(crate) struct EtcdCluster {
    pub(crate) servers: Vec<Server>,
    _directory: TempDir,
    stores: AtomicU64,
}

/// Files of a cluster with TLS.
pub(crate) struct TlsServer {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_authority: PathBuf,
}

impl EtcdCluster {
    /// Starts `size` servers, and waits until a write succeeds.
    pub(crate) fn start(size: usize) -> EtcdCluster {
        let cluster = EtcdCluster::start_with(size, None);
        cluster.wait(&cluster.address("start"));
        cluster
    }

    /// Starts `size` servers without a wait.
    pub(crate) fn start_with(size: usize, tls: Option<&TlsServer>) -> EtcdCluster {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ports: Vec<(u16, u16)> = free_ports(2 * size).chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let peers: Vec<String> = (0..size).map(|n| format!("n{n}=http://127.0.0.1:{}", ports[n].1)).collect();
        let mut servers = Vec::new();
        for (number, (client_port, peer_port)) in ports.into_iter().enumerate() {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let client_url = format!("{scheme}://127.0.0.1:{client_port}");
            let peer_url = format!("http://127.0.0.1:{peer_port}");
            let data = directory.path().join(format!("n{number}"));
            let mut arguments: Vec<String> = [
                ("--name", format!("n{number}")),
                ("--data-dir", data.display().to_string()),
                ("--listen-client-urls", client_url.clone()),
                ("--advertise-client-urls", client_url),
                ("--listen-peer-urls", peer_url.clone()),
                ("--initial-advertise-peer-urls", peer_url),
                ("--initial-cluster", peers.join(",")),
                ("--heartbeat-interval", "50".into()),
                ("--election-timeout", "500".into()),
            ]
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect();
            if let Some(TlsServer { certificate, key, client_authority }) = tls {
                for (name, path) in [
                    ("--cert-file", certificate),
                    ("--key-file", key),
                    ("--trusted-ca-file", client_authority),
                ] {
                    arguments.extend([name.to_owned(), path.display().to_string()]);
                }
                arguments.push("--client-cert-auth".into());
            }
            let mut server = Server { arguments, process: None, client_port };
            server.start();
            servers.push(server);
        }
        EtcdCluster { servers, _directory: directory, stores: AtomicU64::new(0) }
    }

    /// Waits until a store at `address` can be created.
    pub(crate) fn wait(&self, address: &str) {
        let started = Instant::now();
        loop {
            match open(address, &OpenOptions::default().create_if_missing(true)) {
                Ok(_) => return,
                Err(error) => assert!(started.elapsed() < START, "the cluster does not start: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<String> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.client_port)).collect();
        hosts.join(",")
    }

    pub(crate) fn address(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.hosts())
    }

    /// Creates an empty store with a prefix of its own.
    pub(crate) fn new_store(&self) -> Arc<dyn Store> {
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        let address = self.address(&format!("store-{number}"));
        open(&address, &OpenOptions::default().create_if_missing(true)).expect("a new store")
    }

    /// Returns the index of the leader, once there is one among the running servers.
    pub(crate) fn leader(&self) -> usize {
        let started = Instant::now();
        loop {
            let found =
                self.servers.iter().position(|server| server.is_running() && is_leader(server.client_port));
            if let Some(leader) = found {
                return leader;
            }
            assert!(started.elapsed() < START, "the cluster has no leader");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Asks a server by its metrics.
fn is_leader(port: u16) -> bool {
    get(port, "/metrics").is_some_and(|metrics| metrics.contains("\netcd_server_is_leader 1\n"))
}

/// Returns ports that no program uses now.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}

/// Single server that the tests share. It ends with the test program.
pub(crate) fn shared_server() -> &'static EtcdCluster {
    static SHARED: OnceLock<EtcdCluster> = OnceLock::new();
    SHARED.get_or_init(|| EtcdCluster::start(1))
}

/// Puts a key through the HTTP gateway of a server, without a client library.
pub(crate) fn put_with_http(port: u16, key: &[u8], value: &[u8]) {
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, BASE64.encode(key), BASE64.encode(value));
    let answer = post(port, "/v3/kv/put", &body);
    assert!(answer.contains(" 200 OK"), "{answer}");
}

/// Removes the history before the newest revision of the cluster.
pub(crate) fn compact_with_http(port: u16, revision: u64) {
    let answer = post(port, "/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    assert!(answer.contains(" 200 OK"), "{answer}");
}

pub(crate) fn post(port: u16, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let len = body.len();
    let request = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer
}

/// Counts the keys with `prefix` through the HTTP gateway of a server.
pub(crate) fn count_with_http(port: u16, prefix: &[u8]) -> u64 {
    let mut end = prefix.to_vec();
    *end.last_mut().expect("a prefix has bytes") += 1;
    let start = BASE64.encode(prefix);
    let end = BASE64.encode(&end);
    let body = format!(r#"{{"key":"{start}","range_end":"{end}","count_only":true}}"#);
    let answer = post(port, "/v3/kv/range", &body);
    let count = answer.split_once(r#""count":""#).and_then(|(_, rest)| rest.split_once('"'));
    count.map_or(0, |(count, _)| count.parse().expect("a number"))
}
