//! Connections of an HTTP listener, with limits of number, time and size.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use terrace_env::sockets::set_unsent_timeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use super::HttpResponse;
use crate::shared::{Phase, Shared};

/// Maximum number of connections. Others wait.
const MAX_CONNECTIONS: usize = 128;
/// Maximum time for the headers of a request, and for an idle connection.
const MAX_HEADER_TIME: Duration = Duration::from_secs(10);
/// Maximum size of the headers of a request, in bytes. The limit of the address is 64 KiB.
const MAX_HEADER_BYTES: usize = 96 << 10;
/// Maximum number of headers.
const MAX_HEADERS: usize = 64;
/// Time after which a connection ends whose client does not accept bytes.
const MAX_UNSENT_TIME: Duration = Duration::from_secs(20);
/// Number of threads that may wait for the database.
const READER_THREADS: usize = 4;

/// Binds the listener on the loopback address.
pub(crate) fn bind(port: u16) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers requests with `respond` until the server ends.
pub(crate) fn run<F, R>(shared: &Shared, listener: std::net::TcpListener, respond: F) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = HttpResponse> + Send,
{
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(READER_THREADS).build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut phase = shared.phase.subscribe();
        while !shared.is_draining() {
            let accepted = tokio::select! {
                accepted = next_connection(&listener, &slots) => accepted,
                _ = phase.wait_for(|phase| *phase != Phase::Running) => break,
            };
            let Some((stream, permit)) = accepted else { continue };
            let respond = respond.clone();
            tokio::spawn(async move {
                serve_connection(stream, respond).await;
                drop(permit);
            });
        }
        Ok(())
    })
}

async fn next_connection(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    /// Pause after an error, for example too many open files.
    const PAUSE: Duration = Duration::from_millis(10);
    let permit = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(_) => {
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

async fn serve_connection<F, R>(stream: TcpStream, respond: F)
where
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = HttpResponse>,
{
    if stream.set_nodelay(true).is_err() || set_unsent_timeout(&stream, MAX_UNSENT_TIME).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .title_case_headers(true)
        .header_read_timeout(MAX_HEADER_TIME)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks the protocol or has left gets no response.
    let _ = connection.await;
}
