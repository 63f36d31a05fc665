//! Options of sockets that each system has in its own form.

use std::io;
#[cfg(unix)]
use std::os::fd::AsFd as AsSocket;
#[cfg(unix)]
use std::os::unix::net::SocketAddr;
#[cfg(windows)]
use std::os::windows::io::AsSocket;
use std::time::Duration;

use crate::system::platform;

/// Returns the address of a Unix socket with a name outside of the file system.
///
/// # Errors
///
/// `Unsupported` on a system without such names.
#[cfg(unix)]
pub fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    platform::abstract_address(name)
}

/// Closes a TCP connection whose peer does not acknowledge data for `timeout`.
///
/// # Errors
///
/// Those of the system for a closed socket or one of another kind.
pub fn set_unsent_timeout(socket: &impl AsSocket, timeout: Duration) -> io::Result<()> {
    #[cfg(unix)]
    let socket = socket.as_fd();
    #[cfg(windows)]
    let socket = socket.as_socket();
    platform::set_unsent_timeout(socket, timeout)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn timeout_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_unsent_timeout(&stream, Duration::from_secs(20)).unwrap();
    }
}
