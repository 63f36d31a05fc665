//! Messages to systemd, and sockets from it.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::unix_sockets::UnixListener;

/// Sends a message such as `READY=1`. Without systemd, or after a failure, nothing happens.
pub(crate) fn notify(message: &str) {
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET") {
        // The server works without the supervisor's knowledge.
        let _ = send(path.as_encoded_bytes(), message);
    }
}

fn send(path: &[u8], message: &str) -> io::Result<()> {
    let address = match path {
        [b'@', name @ ..] => terrace_env::sockets::abstract_address(name)?,
        path => SocketAddr::from_pathname(String::from_utf8_lossy(path).as_ref())?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

/// Period in which systemd expects `WATCHDOG=1`: half of its limit.
pub(crate) fn watchdog_period() -> Option<Duration> {
    let pid = std::env::var("WATCHDOG_PID").ok();
    if pid.is_some_and(|pid| pid != std::process::id().to_string()) {
        return None;
    }
    let us: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (us > 1).then(|| Duration::from_micros(us / 2))
}

/// Sockets that systemd has opened for this process.
#[derive(Default)]
pub(crate) struct ActivatedSockets {
    pub(crate) tcp: Vec<std::net::TcpListener>,
    pub(crate) unix: Option<UnixListener>,
}

impl ActivatedSockets {
    /// Takes the sockets of `LISTEN_FDS`: TCP sockets, and at most one Unix socket.
    ///
    /// # Errors
    ///
    /// A socket is of another kind, or there is a second Unix socket.
    pub(crate) fn take() -> io::Result<ActivatedSockets> {
        let mut inherited = listenfd::ListenFd::from_env();
        let mut sockets = ActivatedSockets::default();
        for index in 0..inherited.len() {
            match inherited.take_tcp_listener(index) {
                Ok(listener) => sockets.tcp.extend(listener),
                Err(_) if sockets.unix.is_none() => {
                    let listener = inherited.take_unix_listener(index)?;
                    sockets.unix = listener.map(UnixListener::from_std).transpose()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(sockets)
    }

    /// True without sockets from systemd.
    pub(crate) fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.unix.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_to_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let receiver = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        let mut buffer = [0; 32];
        let len = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1");
        assert!(send(b"/nonexistent/notify", "READY=1").is_err());
    }
}
