//! `terrace demo`: starts a small cluster on this machine, for a first trial.
//!
//! ```text
//!   redis-cli --> front end 1 --+--> n1 --+
//!   redis-cli --> front end 2 --+--> n2 --+  etcd, each node has all data
//!                               +--> n3 --+
//! ```
//!
//! The program only starts and ends processes. `terrace serve --store` is the front end.
//!
//! A node of etcd stores the addresses of the others in its data. These addresses are sockets in
//! the directory, so the next start may have other ports, and the directory another path.

mod guarded_process;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use terrace_bench::run::stop_signal::StopSignal;
use terrace_env::{Clock, Env, FileError, LockMode, SystemClock};
use terrace_store::ENGINES;

use self::guarded_process::GuardedProcess;
use crate::cli::Run;
use crate::failure::{CommandResult, Failure};
use crate::terminal;

/// Start a small cluster on this machine: etcd and two servers
///
/// Three nodes of etcd have the data, and two servers share them. The program prints the ports and
/// waits. Ctrl-C or SIGTERM ends all processes. The data stays in DIR, and the next start continues
/// with it. The nodes need the program etcd, of Debian's package etcd-server.
#[derive(Args)]
pub(crate) struct Demo {
    /// Kind of the cluster
    kind: Kind,
    /// Directory of the data; it is created if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "terrace-demo")]
    dir: PathBuf,
    /// First port: the servers get the next two, and etcd gets PORT+11 to PORT+13
    #[arg(long, value_name = "PORT", default_value_t = 7000, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port: u16,
}

/// Kind of a demonstration.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Three nodes of etcd and two servers
    Cluster,
}

/// Number of etcd's nodes. One of them may fail.
const NODES: u16 = 3;
/// Number of servers.
const FRONT_ENDS: u16 = 2;
/// Limit of etcd on the operations of a transaction. MULTI and commands with many elements need
/// more than etcd's default of 128.
const MAX_TXN_OPS: &str = "10000";
/// Time within which the nodes of an earlier start must end: the leader looks for a successor.
const END_OF_NODES: Duration = Duration::from_secs(20);
/// Time within which its servers must end.
const END_OF_SERVERS: Duration = Duration::from_secs(2);
/// Pause between two looks at the signals, and at an earlier start.
const PAUSE: Duration = Duration::from_millis(100);

impl Run for Demo {
    fn run(self) -> CommandResult {
        match self.kind {
            Kind::Cluster => self.run_cluster(),
        }
    }
}

impl Demo {
    fn run_cluster(&self) -> CommandResult {
        check_engine()?;
        check_etcd()?;
        self.wait_for_earlier_start()?;
        let dir = create_directory(&self.dir).map_err(|error| Failure::File(error.to_string()))?;
        // Before the first process: a signal ends all of them.
        let stop = StopSignal::on_signals().map_err(Failure::for_signals)?;
        let nodes = (1..=NODES).map(|number| self.start_node(&dir, number));
        let nodes = nodes.collect::<Result<Vec<GuardedProcess>, Failure>>()?;
        let front_ends = (1..=FRONT_ENDS).map(|number| self.start_front_end(number));
        let mut front_ends = front_ends.collect::<Result<Vec<GuardedProcess>, Failure>>()?;
        for front_end in &mut front_ends {
            if !front_end.wait_for_line("ready: ") {
                let logs = dir.join("n1.log");
                return Err(Failure::File(format!("a server has ended; etcd's log is {}", logs.display())));
            }
        }
        self.announce(&dir, &nodes, &front_ends)?;
        while stop.signal().is_none() {
            SystemClock.sleep(PAUSE);
        }
        // The servers first, so that they finish their replies. Then the drop ends the nodes.
        drop(front_ends);
        drop(nodes);
        Ok(())
    }

    fn front_end_port(&self, number: u16) -> u16 {
        self.port + number
    }

    fn client_port(&self, number: u16) -> u16 {
        self.port + 10 + number
    }

    /// Waits until no other program uses the directory and the ports. The processes of a killed
    /// demonstration take a moment to end.
    fn wait_for_earlier_start(&self) -> CommandResult {
        wait_while_refused(END_OF_NODES, || {
            (1..=NODES).try_for_each(|number| check_unused(&self.dir, number))
        })?;
        wait_while_refused(END_OF_SERVERS, || self.check_ports())
    }

    fn check_ports(&self) -> CommandResult {
        let front_ends = (1..=FRONT_ENDS).map(|number| self.front_end_port(number));
        for port in front_ends.chain((1..=NODES).map(|number| self.client_port(number))) {
            TcpListener::bind(("127.0.0.1", port))
                .map_err(|error| Failure::File(format!("port {port}: {error}; --port chooses others")))?;
        }
        Ok(())
    }

    /// Address of the store.
    fn address(&self) -> String {
        let hosts: Vec<String> =
            (1..=NODES).map(|number| format!("127.0.0.1:{}", self.client_port(number))).collect();
        format!("etcd://{}/demo?max-txn-ops={MAX_TXN_OPS}", hosts.join(","))
    }

    fn start_node(&self, dir: &Path, number: u16) -> Result<GuardedProcess, Failure> {
        // etcd takes the host and the port of such an address for the name of a file.
        let peer = |number: u16| format!("unix://peer:{number}");
        let client = format!("http://127.0.0.1:{}", self.client_port(number));
        let peers: Vec<String> = (1..=NODES).map(|number| format!("n{number}={}", peer(number))).collect();
        let mut command = Command::new("etcd");
        command.current_dir(dir);
        command.arg("--name").arg(format!("n{number}"));
        command.arg("--data-dir").arg(dir.join(format!("n{number}")));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer(number)]);
        command.args(["--initial-advertise-peer-urls", &peer(number)]);
        command.args(["--initial-cluster", &peers.join(","), "--max-txn-ops", MAX_TXN_OPS]);
        // Terrace removes no history by itself.
        command.args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "10m"]);
        command.args(["--logger", "zap", "--log-outputs"]).arg(dir.join(format!("n{number}.log")));
        GuardedProcess::start(&command, Stdio::null())
    }

    fn start_front_end(&self, number: u16) -> Result<GuardedProcess, Failure> {
        let mut command = Command::new(std::env::current_exe().map_err(Failure::for_own_path)?);
        command.args(["serve", "--store", &self.address(), "--create"]);
        command.args(["--port", &self.front_end_port(number).to_string()]);
        GuardedProcess::start(&command, Stdio::inherit())
    }

    /// Prints the addresses and what to try.
    fn announce(&self, dir: &Path, nodes: &[GuardedProcess], front_ends: &[GuardedProcess]) -> CommandResult {
        let mut out = terminal::output();
        for (number, node) in (1..).zip(nodes) {
            let port = self.client_port(number);
            writeln!(out, "etcd n{number}: 127.0.0.1:{port}, process {}", node.id())?;
        }
        for (number, front_end) in (1..).zip(front_ends) {
            let port = self.front_end_port(number);
            writeln!(out, "server {number}: 127.0.0.1:{port}, process {}", front_end.id())?;
        }
        let first = self.front_end_port(1);
        let second = self.front_end_port(2);
        writeln!(out, "data: {}", dir.display())?;
        writeln!(out, "try: redis-cli -p {first} SET city Bern; redis-cli -p {second} GET city")?;
        writeln!(out, "try: kill -9 {}, and repeat both", nodes.first().map_or("", GuardedProcess::id))?;
        writeln!(out, "end: Ctrl-C")?;
        out.flush()?;
        Ok(())
    }
}

/// Creates the directory `dir`, if it does not exist. Returns its absolute path.
fn create_directory(dir: &Path) -> terrace_env::Result<PathBuf> {
    let fs = Env::default().fs;
    if !fs.is_dir(dir)? {
        fs.create_dir(dir)?;
    }
    Ok(fs.absolute(dir))
}

/// Repeats `check` until it succeeds, or for `time`.
fn wait_while_refused(time: Duration, check: impl Fn() -> CommandResult) -> CommandResult {
    let started = SystemClock.monotonic();
    while check().is_err() && SystemClock.monotonic().saturating_sub(started) < time {
        SystemClock.sleep(PAUSE);
    }
    check()
}

/// Fails if a node of another start uses the data of the node `number`.
fn check_unused(dir: &Path, number: u16) -> CommandResult {
    let fs = Env::default().fs;
    let data = dir.join(format!("n{number}/member/snap/db"));
    let file_failure = |error: FileError| Failure::File(error.to_string());
    if !fs.exists(&data).map_err(file_failure)? {
        return Ok(());
    }
    match fs.lock(&data, LockMode::Shared) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(Failure::Locked(format!(
            "{}: another cluster uses it; end that one first, or give another DIR",
            dir.display()
        ))),
        Err(error) => Err(file_failure(error)),
    }
}

/// Fails if this build lacks the engine.
fn check_engine() -> CommandResult {
    let is_built_in = ENGINES.iter().any(|engine| engine.scheme == "etcd" && engine.is_built_in());
    match is_built_in {
        true => Ok(()),
        false => Err(Failure::Usage(
            "this build lacks the feature etcd; cargo build --package terrace-cli --features etcd has it"
                .into(),
        )),
    }
}

/// Fails if etcd is not installed.
fn check_etcd() -> CommandResult {
    let started = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match started {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::File(
            "the program etcd is not in PATH; Debian has it in a package: apt-get install etcd-server".into(),
        )),
    }
}
