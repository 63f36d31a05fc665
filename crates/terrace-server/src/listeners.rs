//! Sockets that accept clients: TCP, TLS, Unix.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpListener;

use crate::config::{ServeError, ServerConfig};
use crate::conn::{NewConnection, Origin, Socket};
use crate::systemd::ActivatedSockets;
use crate::unix_sockets::{AcceptedStream, UnixListener};

/// Sockets that accept clients.
pub(crate) struct Listeners {
    tcp: Vec<TcpListener>,
    tls: Vec<TcpListener>,
    unix: Option<UnixListener>,
}

impl Listeners {
    /// Binds all addresses of the configuration. Sockets from systemd take the place of those for
    /// plain TCP and of the Unix socket.
    pub(crate) fn bind(config: &ServerConfig) -> Result<Listeners, ServeError> {
        let activated =
            if config.is_program { ActivatedSockets::take() } else { Ok(ActivatedSockets::default()) };
        let activated =
            activated.map_err(|error| ServeError::Listen("the sockets of systemd".into(), error))?;
        let tls = bind_all(&config.bind, config.tls.as_ref().map(|tls| tls.port))?;
        if !activated.is_empty() {
            return Listeners::from_activated(activated, tls)
                .map_err(|error| ServeError::Listen("the sockets of systemd".into(), error));
        }
        let tcp = bind_all(&config.bind, config.port)?;
        let unix = match &config.unix_socket {
            Some(path) => {
                let listener = UnixListener::bind(&*config.engine.env.fs, path);
                Some(listener.map_err(|error| ServeError::Listen(path.display().to_string(), error))?)
            }
            None => None,
        };
        Ok(Listeners { tcp, tls, unix })
    }

    fn from_activated(activated: ActivatedSockets, tls: Vec<TcpListener>) -> io::Result<Listeners> {
        let tcp = activated.tcp.into_iter().map(register).collect::<io::Result<_>>()?;
        Ok(Listeners { tcp, tls, unix: activated.unix })
    }

    /// Addresses of plain TCP.
    pub(crate) fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Addresses of TLS.
    pub(crate) fn tls_addresses(&self) -> Vec<SocketAddr> {
        self.tls.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Waits for the next client.
    pub(crate) async fn accept(&self) -> io::Result<NewConnection> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<NewConnection>> {
        let plain = self.tcp.iter().map(|listener| (listener, false));
        for (listener, is_tls) in plain.chain(self.tls.iter().map(|listener| (listener, true))) {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(accepted.and_then(|(stream, _)| tcp_connection(stream, is_tls)));
            }
        }
        match &self.unix {
            Some(listener) => listener
                .poll_accept(cx)
                .map(|accepted| accepted.map(|stream| unix_connection(stream, &listener.path()))),
            None => Poll::Pending,
        }
    }
}

fn bind_all(addresses: &[IpAddr], port: Option<u16>) -> Result<Vec<TcpListener>, ServeError> {
    let mut listeners = Vec::new();
    for address in addresses.iter().filter(|_| port.is_some()) {
        let address = SocketAddr::new(*address, port.unwrap_or_default());
        let listener = bind_tcp(address).map_err(|error| ServeError::Listen(address.to_string(), error))?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    register(std::net::TcpListener::bind(address)?)
}

/// Registers a listener at the runtime of the current thread.
fn register(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn tcp_connection(stream: tokio::net::TcpStream, is_tls: bool) -> io::Result<NewConnection> {
    /// Idle time after which the system checks whether the client still exists.
    const KEEPALIVE: Duration = Duration::from_secs(300);
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE))?;
    let peer = stream.peer_addr()?;
    let local = stream.local_addr()?;
    let origin = Origin { address: Some(peer.ip()), peer: peer.to_string(), local: local.to_string() };
    let stream = stream.into_std()?;
    Ok(NewConnection { socket: if is_tls { Socket::Tls(stream) } else { Socket::Tcp(stream) }, origin })
}

fn unix_connection(stream: AcceptedStream, path: &str) -> NewConnection {
    let name = format!("{path}:0");
    let origin = Origin { address: None, peer: name.clone(), local: name };
    NewConnection { socket: Socket::Unix(stream), origin }
}
