//! Unix sockets, on systems that have them.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{AcceptedStream, UnixListener, UnixStream};
#[cfg(windows)]
pub(crate) use windows::{AcceptedStream, UnixListener, UnixStream};
