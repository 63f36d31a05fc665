//! Proxy between a client and a server, which cuts the network on demand.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// State of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Network {
    /// All bytes arrive.
    Open,
    /// All connections are closed, and new ones are refused.
    Closed,
    /// Connections stay open, and no byte arrives.
    Silent,
    /// Requests arrive, and their answers are lost.
    AnswersLost,
    /// Each packet of a request arrives late, also after the client has given up.
    RequestsLate,
}

/// Interval in which connections notice another state of the network.
const POLL: Duration = Duration::from_millis(20);

/// Delay of late requests. It exceeds the time of an attempt.
pub(crate) const DELAY: Duration = Duration::from_secs(3);

/// Listener that forwards connections to a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    network: AtomicU8,
    is_ended: AtomicBool,
}

impl State {
    fn is(&self, network: Network) -> bool {
        self.network.load(Ordering::SeqCst) == network as u8
    }
}

impl Proxy {
    pub(crate) fn start(server_port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let state =
            Arc::new(State { network: AtomicU8::new(Network::Open as u8), is_ended: AtomicBool::new(false) });
        listener.set_nonblocking(true).expect("a listener");
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, server_port, &shared));
        Proxy { port, state }
    }

    pub(crate) fn set(&self, network: Network) {
        self.state.network.store(network as u8, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_ended.store(true, Ordering::SeqCst);
    }
}

fn accept(listener: &TcpListener, server_port: u16, state: &Arc<State>) {
    while !state.is_ended.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((client, _)) if !state.is(Network::Closed) => forward(client, server_port, state),
            Ok(_) => {}
            Err(_) => thread::sleep(POLL),
        }
    }
}

fn forward(client: TcpStream, server_port: u16, state: &Arc<State>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else { return };
    let Ok(pair) = client.try_clone().and_then(|c| Ok((c, server.try_clone()?))) else { return };
    for stream in [&client, &server] {
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(POLL));
    }
    let requests = Arc::clone(state);
    let answers = Arc::clone(state);
    thread::spawn(move || pump(client, server, &requests, true));
    thread::spawn(move || pump(pair.1, pair.0, &answers, false));
}

/// Copies bytes until an end of the connection, or drops them as the state of the network says.
fn pump(mut from: TcpStream, mut to: TcpStream, state: &State, is_request: bool) {
    let mut buffer = [0; 16 << 10];
    // A connection that lost bytes is useless afterwards.
    let mut has_lost = false;
    while !state.is_ended.load(Ordering::SeqCst) && !state.is(Network::Closed) {
        let is_lossy = state.is(Network::Silent) || (!is_request && state.is(Network::AnswersLost));
        if has_lost && !is_lossy {
            break;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) if is_lossy => has_lost = true,
            Ok(len) => {
                let mut bytes = buffer[..len].to_vec();
                if is_request && state.is(Network::RequestsLate) {
                    collect(&mut from, &mut bytes);
                    thread::sleep(DELAY);
                }
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Appends what arrives without a pause, so that a whole request is delayed once.
fn collect(from: &mut TcpStream, bytes: &mut Vec<u8>) {
    let mut buffer = [0; 16 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..len]);
    }
}
