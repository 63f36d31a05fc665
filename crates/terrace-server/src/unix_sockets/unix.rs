//! Unix sockets of tokio.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::task::{Context, Poll};

use terrace_env::FileSystem;
pub(crate) use tokio::net::UnixStream;

/// Socket of an accepted client, without a runtime.
pub(crate) type AcceptedStream = std::os::unix::net::UnixStream;

/// Unix socket that accepts clients.
pub(crate) struct UnixListener(tokio::net::UnixListener);

impl UnixListener {
    /// Binds a Unix socket. A socket that no process listens on any more is replaced. Another file
    /// is an error, and stays.
    pub(crate) fn bind(fs: &dyn FileSystem, path: &Path) -> io::Result<UnixListener> {
        use std::os::unix::net::UnixListener as StdUnixListener;
        let listener = match StdUnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // A connection to a regular file is refused as one to an unused socket.
                if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                    return Err(io::Error::other("the path exists and is no socket"));
                }
                if AcceptedStream::connect(path).is_ok() {
                    return Err(error);
                }
                fs.remove(path).map_err(io::Error::other)?;
                StdUnixListener::bind(path)?
            }
            other => other?,
        };
        UnixListener::from_std(listener)
    }

    /// Registers a listener at the runtime of the current thread.
    pub(crate) fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<UnixListener> {
        listener.set_nonblocking(true)?;
        Ok(UnixListener(tokio::net::UnixListener::from_std(listener)?))
    }

    /// Returns the next client.
    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<AcceptedStream>> {
        self.0.poll_accept(cx).map(|accepted| accepted.and_then(|(stream, _)| stream.into_std()))
    }

    /// Returns the path of the socket, or an empty text if it has none.
    pub(crate) fn path(&self) -> String {
        let address = self.0.local_addr().ok();
        let path = address.and_then(|address| Some(address.as_pathname()?.display().to_string()));
        path.unwrap_or_default()
    }
}
