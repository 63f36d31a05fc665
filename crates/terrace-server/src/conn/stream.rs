//! Socket of a client: TCP, TLS or Unix.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::unix_sockets::UnixStream;

/// Socket of a client, registered at the runtime of a worker.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// The flag is true while encrypted bytes wait for space in the socket.
    Tls(Box<TlsStream<TcpStream>>, bool),
}

impl Stream {
    /// Reads into `buffer`. Returns 0 at the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let result = match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Tls(stream, _) => Pin::new(&mut **stream).poll_read(cx, &mut buffer),
        };
        result.map_ok(|()| buffer.filled().len())
    }

    /// Writes a part of `bytes`.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream, is_unflushed) => {
                let written = Pin::new(&mut **stream).poll_write(cx, bytes);
                *is_unflushed = true;
                self.poll_flush(cx)?;
                written
            }
        }
    }

    /// True if encrypted bytes wait for space in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(_, true))
    }

    /// Sends encrypted bytes that wait for space in the socket. Other sockets have none.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Stream::Tls(stream, is_unflushed) = self
            && *is_unflushed
        {
            match Pin::new(&mut **stream).poll_flush(cx) {
                Poll::Ready(result) => {
                    result?;
                    *is_unflushed = false;
                }
                Poll::Pending => {}
            }
        }
        Ok(())
    }
}
