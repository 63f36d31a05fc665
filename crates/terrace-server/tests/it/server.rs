//! Server of the tests, in a thread of the test.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use terrace_server::{Addresses, ServeError, ServerConfig, ServerHandle, SharedStoreConfig, serve};

use crate::client::Client;

/// Running server. It ends with this value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Addresses,
    pub(crate) handle: ServerHandle,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Server {
    /// Starts a server with a free port for the directory `dir`.
    pub(crate) fn start(dir: &Path, change: impl FnOnce(&mut ServerConfig)) -> Server {
        Server::try_start(dir, change).unwrap()
    }

    /// Starts a server, or returns why it cannot start.
    pub(crate) fn try_start(
        dir: &Path,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Result<Server, ServeError> {
        Server::start_with(ServerConfig::new(dir), change)
    }

    /// Starts a front end of the store at `address`, which it creates if it does not exist.
    pub(crate) fn start_front_end(
        address: &str,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Result<Server, ServeError> {
        let store = SharedStoreConfig { address: address.to_owned(), create: true };
        Server::start_with(ServerConfig::new_for_store(store), change)
    }

    fn start_with(
        mut config: ServerConfig,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Result<Server, ServeError> {
        config.port = Some(0);
        config.workers = Some(2);
        change(&mut config);
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            serve(&config, |addresses, handle| sender.send((addresses.clone(), handle)).unwrap())
        });
        match receiver.recv() {
            Ok((addresses, handle)) => {
                let address = addresses.tcp.first().copied().unwrap_or(SocketAddr::from(([0; 4], 0)));
                Ok(Server { address, addresses, handle, thread: Some(thread) })
            }
            Err(_) => Err(thread.join().unwrap().unwrap_err()),
        }
    }

    /// Connects a client.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Waits for the end of the server.
    pub(crate) fn join(mut self) -> Result<(), ServeError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.handle.shut_down();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}

/// Runs `body` with a client of a server on a new directory, in the typed and in the raw layout.
pub(crate) fn in_both_layouts(body: impl Fn(&mut Client)) {
    for layout in [terrace_server::Layout::Typed, terrace_server::Layout::Raw] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), |config| config.layout = Some(layout));
        body(&mut server.client());
    }
}

/// Runs `body` with a client of a server on a new directory.
pub(crate) fn with_client(body: impl FnOnce(&mut Client)) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    body(&mut server.client());
}
