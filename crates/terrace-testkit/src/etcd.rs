//! Clusters of etcd on this machine.

use std::io::{BufRead, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use terrace_env::{Clock, SystemClock};

use crate::http::{get, post};

/// Time within which a cluster must start.
const START: Duration = Duration::from_secs(60);

/// Program of a server.
const ETCD: &str = "etcd";

/// Returns true if etcd is installed. Otherwise prints that `what` is not tested, or fails where
/// all programs are required.
pub fn has_etcd(what: &str) -> bool {
    let is_there = Command::new(ETCD).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if is_there.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "etcd is missing");
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}: etcd is missing (Debian's etcd-server)");
    false
}

/// Starts the server in its arguments and prints its number. Ends it with SIGKILL at the end of
/// the standard input, so that no server outlives the tests. Without the line [`KEEP`] before this
/// end, the test program has ended, and the guard deletes the data.
const GUARD: &str = r#"
    data=$1
    shift
    "$@" >/dev/null 2>&1 &
    echo $!
    read -r word
    kill -KILL $!
    wait $!
    test "$word" = keep || { rm -rf "$data"; rmdir "$(dirname "$data")"; }"#;
/// Line for a guard: the data of the server stays.
const KEEP: &[u8] = b"keep\n";

/// A server of a cluster.
pub struct Server {
    data: PathBuf,
    arguments: Vec<String>,
    /// The guard, and the number of the server's process.
    process: Option<(Child, String)>,
    /// Port for clients.
    pub client_port: u16,
}

impl Server {
    /// Starts the process.
    pub fn start(&mut self) {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "sh"]).arg(&self.data).arg(ETCD).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = command.spawn().expect("sh starts");
        let mut number = String::new();
        let output = guard.stdout.take().expect("the output is a pipe");
        std::io::BufReader::new(output).read_line(&mut number).expect("a number");
        self.process = Some((guard, number.trim().to_owned()));
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some((mut guard, _)) = self.process.take() {
            let mut input = guard.stdin.take().expect("the input is a pipe");
            input.write_all(KEEP).expect("the guard reads");
            drop(input);
            guard.wait().expect("the guard ends after its server");
        }
    }

    /// Sends a signal, such as STOP or CONT.
    pub fn signal(&self, name: &str) {
        let (_, number) = self.process.as_ref().expect("the server runs");
        let status = Command::new("kill").args(["-s", name, number]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -s {name}");
    }

    /// Returns true from the start to the kill.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Servers that form a cluster.
pub struct EtcdCluster {
    /// Servers in the order of their names.
    pub servers: Vec<Server>,
    _directory: TempDir,
}

/// Files of a cluster with TLS.
pub struct TlsServer {
    /// Certificate of the servers.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Authority of the clients.
    pub client_authority: PathBuf,
}

impl EtcdCluster {
    /// Starts `size` servers, and waits until they have a leader.
    pub fn start(size: usize) -> EtcdCluster {
        let cluster = EtcdCluster::start_with(size, None, &[]);
        cluster.leader();
        cluster
    }

    /// Creates the user `root` with a password. The servers then refuse requests without a user.
    pub fn require_password(&self, password: &str) {
        let user = format!(r#"{{"name":"root","password":"{password}"}}"#);
        for (path, body) in [
            ("user/add", user.as_str()),
            ("user/grant", r#"{"user":"root","role":"root"}"#),
            ("enable", "{}"),
        ] {
            let answer = post(self.servers[0].client_port, &format!("/v3/auth/{path}"), body);
            assert!(answer.contains(" 200 OK"), "{path}: {answer}");
        }
    }

    /// Starts `size` servers with further arguments, without a wait.
    pub fn start_with(size: usize, tls: Option<&TlsServer>, further: &[&str]) -> EtcdCluster {
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
            .chain(further.iter().map(|argument| (*argument).to_owned()))
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
            let mut server = Server { data, arguments, process: None, client_port };
            server.start();
            servers.push(server);
        }
        EtcdCluster { servers, _directory: directory }
    }

    /// Hosts of an address, with their ports.
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.client_port)).collect();
        hosts.join(",")
    }

    /// Address of the store with the prefix `prefix`.
    pub fn address(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.hosts())
    }

    /// Requests that the first server has handled: reads and transactions.
    pub fn requests(&self) -> (u64, u64) {
        let metrics = get(self.servers[0].client_port, "/metrics").expect("the server answers");
        let count = |method: &str| -> u64 {
            let name = format!("grpc_method=\"{method}\",grpc_service=\"etcdserverpb.KV\"");
            let lines = metrics.lines().filter(|line| line.starts_with("grpc_server_started_total"));
            let found = lines.filter(|line| line.contains(&name)).map(|line| {
                let number = line.rsplit(' ').next().expect("a line has a value");
                number.parse::<f64>().expect("a number") as u64
            });
            found.sum()
        };
        (count("Range"), count("Txn"))
    }

    /// Returns the index of the leader, once there is one among the running servers.
    pub fn leader(&self) -> usize {
        let started = SystemClock.monotonic();
        loop {
            let found =
                self.servers.iter().position(|server| server.is_running() && is_leader(server.client_port));
            if let Some(leader) = found {
                return leader;
            }
            let waited = SystemClock.monotonic().saturating_sub(started);
            assert!(waited < START, "the cluster has no leader");
            SystemClock.sleep(Duration::from_millis(50));
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
