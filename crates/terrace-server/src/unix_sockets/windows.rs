//! Types without values: Windows has no Unix sockets here.

use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use terrace_env::FileSystem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Socket of an accepted client. No value exists.
#[derive(Debug)]
pub(crate) enum AcceptedStream {}

/// Unix socket that accepts clients. No value exists.
pub(crate) enum UnixListener {}

/// Unix socket of a client. No value exists.
#[derive(Debug)]
pub(crate) enum UnixStream {}

impl UnixListener {
    /// Returns an error.
    pub(crate) fn bind(_fs: &dyn FileSystem, _path: &Path) -> io::Result<UnixListener> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
    }

    pub(crate) fn poll_accept(&self, _cx: &mut Context<'_>) -> Poll<io::Result<AcceptedStream>> {
        match *self {}
    }

    pub(crate) fn path(&self) -> String {
        match *self {}
    }
}

impl UnixStream {
    pub(crate) fn from_std(stream: AcceptedStream) -> io::Result<UnixStream> {
        match stream {}
    }
}

impl Write for AcceptedStream {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

impl AsyncRead for UnixStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match *self.get_mut() {}
    }
}

impl AsyncWrite for UnixStream {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, _bytes: &[u8]) -> Poll<io::Result<usize>> {
        match *self.get_mut() {}
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self.get_mut() {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self.get_mut() {}
    }
}
