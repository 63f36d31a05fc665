//! Server in a process of its own, which a test can kill.
//!
//! The process is this test binary, with the name of the only test and the directory in a variable.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use terrace_server::{Layout, ServerConfig, SharedStoreConfig, SyncMode, serve};

use crate::client::Client;

const DIR: &str = "TERRACE_TEST_SERVER_DIR";
const SYNC: &str = "TERRACE_TEST_SERVER_SYNC";
const LAYOUT: &str = "TERRACE_TEST_SERVER_LAYOUT";
const STORE: &str = "TERRACE_TEST_SERVER_STORE";
const READY: &str = "ready at ";

/// Process of a server. It is killed with this value.
pub(crate) struct ServerProcess {
    pub(crate) address: SocketAddr,
    child: Child,
    /// Kept open: after a minute, the runner of tests writes a line, which fails on a closed pipe.
    _output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server for the directory `dir`.
    pub(crate) fn start(dir: &Path, layout: Layout, sync: SyncMode) -> ServerProcess {
        let layout = if layout == Layout::Raw { "raw" } else { "typed" };
        ServerProcess::spawn(|command| command.env(DIR, dir).env(SYNC, sync.name()).env(LAYOUT, layout))
    }

    /// Starts a front end of the store at `address`, which it creates if it does not exist.
    pub(crate) fn start_front_end(address: &str) -> ServerProcess {
        ServerProcess::spawn(|command| command.env(STORE, address))
    }

    fn spawn(configure: impl FnOnce(&mut Command) -> &mut Command) -> ServerProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process::server_of_another_test", "--exact", "--nocapture", "--include-ignored"]);
        let mut child = configure(&mut command).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = output.by_ref().lines().map(Result::unwrap).find_map(|line| {
            let (_, address) = line.split_once(READY)?;
            Some(address.parse().unwrap())
        });
        ServerProcess { address: address.expect("the server starts"), child, _output: output }
    }

    /// Connects a client.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Number of the process.
    #[cfg(target_os = "linux")]
    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Anonymous memory of the process in bytes, where the system tells it.
    pub(crate) fn memory(&self) -> Option<usize> {
        #[cfg(target_os = "linux")]
        return Some(crate::idle_connections::memory(self.process_id()));
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// Kills the process, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail after `kill`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "other tests start it as a process"]
fn server_of_another_test() {
    let mut config = match (std::env::var(DIR), std::env::var(STORE)) {
        (_, Ok(address)) => ServerConfig::new_for_store(SharedStoreConfig { address, create: true }),
        (Ok(dir), _) => ServerConfig::new(dir),
        _ => return,
    };
    config.port = Some(0);
    config.workers = Some(2);
    config.enable_debug = true;
    config.allow_flush = true;
    if let (Ok(sync), Ok(layout)) = (std::env::var(SYNC), std::env::var(LAYOUT)) {
        config.sync = SyncMode::by_name(&sync).unwrap();
        config.layout = Some(if layout == "raw" { Layout::Raw } else { Layout::Typed });
    }
    serve(&config, |addresses, _| println!("\n{READY}{}", addresses.tcp[0])).unwrap();
}
