//! Worker: a thread with a runtime of its own. A connection stays on its worker.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::LocalSet;

use super::connection::LOGIN_TIME;
use super::output_memory::OutputMemory;
use super::stream::Stream;
use crate::resp::{ArgRange, Reply};
use crate::shared::Shared;
use crate::store::{Allowed, Scratch};
use crate::unix_sockets::{AcceptedStream, UnixStream};

/// Size of the buffer that all connections of a worker share, in bytes.
const READ_BUFFER: usize = 64 << 10;

/// Client on its way to a worker. The number of clients bounds their number.
#[derive(Debug)]
pub(crate) struct NewClient {
    /// Greater than the numbers of all clients that were accepted earlier.
    pub(crate) id: u64,
    pub(crate) connection: NewConnection,
}

/// Accepted socket.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) socket: Socket,
    pub(crate) origin: Origin,
}

/// Both ends of a socket.
#[derive(Debug)]
pub(crate) struct Origin {
    /// None for the Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) peer: String,
    pub(crate) local: String,
}

/// Socket without a runtime.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    /// TCP before the TLS handshake.
    Tls(std::net::TcpStream),
    Unix(AcceptedStream),
}

impl Socket {
    /// Sends an error and closes the socket.
    pub(crate) fn refuse(mut self, error: &[u8]) {
        // The client may have left already.
        let _ = match &mut self {
            Socket::Tcp(socket) => socket.write(error),
            // Plain bytes mean nothing to a TLS client.
            Socket::Tls(_) => return,
            Socket::Unix(socket) => socket.write(error),
        };
    }

    /// Registers the socket at the runtime of the current thread. A TLS handshake has a limited
    /// time.
    async fn open(self, shared: &Shared) -> std::io::Result<Stream> {
        Ok(match self {
            Socket::Tcp(socket) => Stream::Tcp(tokio::net::TcpStream::from_std(socket)?),
            Socket::Unix(socket) => Stream::Unix(UnixStream::from_std(socket)?),
            Socket::Tls(socket) => {
                let Some(tls) = &shared.tls else { return Err(std::io::ErrorKind::Unsupported.into()) };
                let _handshake = Handshake::begin(shared);
                let accept = tls.acceptor().accept(tokio::net::TcpStream::from_std(socket)?);
                let stream = tokio::time::timeout(LOGIN_TIME, accept).await??;
                Stream::Tls(Box::new(stream), false)
            }
        })
    }
}

/// Running TLS handshake. It counts as a client.
struct Handshake<'a>(&'a Shared);

impl Handshake<'_> {
    fn begin(shared: &Shared) -> Handshake<'_> {
        shared.handshakes.fetch_add(1, Ordering::Relaxed);
        Handshake(shared)
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory of a worker. Its connections use it in turn, and never across a wait.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(super) read_buffer: RefCell<Vec<u8>>,
    pub(super) reply: RefCell<Reply>,
    pub(super) scratch: RefCell<Scratch>,
    pub(super) arg_ranges: RefCell<Vec<ArgRange>>,
    pub(super) output_memory: RefCell<OutputMemory>,
    /// Bytes of replies that wait for the turns of other connections.
    pub(super) waiting_output: Cell<usize>,
}

impl Worker {
    /// Serves clients until the sender of `clients` is dropped.
    pub(crate) fn run(
        shared: &Arc<Shared>,
        slot: usize,
        mut clients: UnboundedReceiver<NewClient>,
    ) -> std::io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let worker = Rc::new(Worker {
            read_buffer: RefCell::new(vec![0; READ_BUFFER]),
            reply: RefCell::new(Reply::new()),
            scratch: RefCell::new(Scratch::new(slot, Allowed::Short)),
            arg_ranges: RefCell::new(Vec::new()),
            output_memory: RefCell::new(OutputMemory::default()),
            waiting_output: Cell::new(0),
        });
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            while let Some(NewClient { id, connection }) = clients.recv().await {
                let shared = Arc::clone(shared);
                let worker = Rc::clone(&worker);
                tokio::task::spawn_local(async move {
                    // A socket that cannot be registered, or fails its handshake, is closed.
                    if let Ok(stream) = connection.socket.open(&shared).await {
                        // A task of its own, without the memory of the handshake.
                        tokio::task::spawn_local(super::serve_connection(
                            shared,
                            worker,
                            stream,
                            id,
                            connection.origin,
                        ));
                    }
                });
            }
        });
        Ok(())
    }
}
