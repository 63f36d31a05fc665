//! Listener of `GET /metrics`: one small HTTP/1.1 response per connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use super::prometheus;
use crate::shared::{Phase, Shared};

/// Maximum size of a request, in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Maximum time of a request and its response.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Maximum number of requests at a time. Others wait.
const MAX_REQUESTS: usize = 8;
/// Media type of the response.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Binds the listener on the loopback address.
pub(crate) fn bind(port: u16) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers requests until the server ends.
pub(crate) fn run(shared: &Arc<Shared>, listener: std::net::TcpListener) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let slots = Arc::new(Semaphore::new(MAX_REQUESTS));
        let mut phase = shared.phase.subscribe();
        while !shared.is_draining() {
            let permit = Arc::clone(&slots).acquire_owned().await;
            let stream = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = phase.wait_for(|phase| *phase != Phase::Running) => break,
            };
            let Ok((stream, _)) = stream else { continue };
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                // A client that is slow or has left gets no response.
                let _ = tokio::time::timeout(MAX_TIME, answer(&shared, &stream)).await;
                drop(permit);
            });
        }
        Ok(())
    })
}

/// Reads one request and sends its response.
async fn answer(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    let request = read_request(stream).await?;
    let (status, media_type, body) = match respond(&request) {
        Ok(()) => ("200 OK", MEDIA_TYPE, prometheus::text(shared)),
        Err(status) => (status, "text/plain", format!("{status}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    write_all(stream, (head + &body).as_bytes()).await
}

async fn read_request(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        stream.ready(Interest::READABLE).await?;
        match stream.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => request.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if request.len() > MAX_REQUEST {
            break;
        }
    }
    Ok(request)
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.ready(Interest::WRITABLE).await?;
        match stream.try_write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Checks a request. The error is the status of the response.
fn respond(request: &[u8]) -> Result<(), &'static str> {
    let text = std::str::from_utf8(request).map_err(|_| "400 Bad Request")?;
    let (head, _) = text.split_once("\r\n\r\n").ok_or("400 Bad Request")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next();
    let path = words.next();
    let version = words.next();
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err("400 Bad Request");
    }
    let host =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("host"));
    // A web page under another name cannot read the metrics through a name that it controls.
    if !host.is_none_or(|(_, host)| is_local(host.trim())) {
        return Err("421 Misdirected Request");
    }
    match (method, path) {
        (Some("GET"), Some("/metrics")) => Ok(()),
        (Some("GET"), _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    }
}

/// True if the name of a host with its port is `localhost` or an address.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::respond;

    #[test]
    fn requests() {
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:9121\r\n\r\n", Ok(())),
            ("GET /metrics HTTP/1.0\r\n\r\n", Ok(())),
            ("GET /metrics HTTP/1.1\r\nHost: [::1]:9121\r\n\r\n", Ok(())),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", Err("421 Misdirected Request")),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", Err("404 Not Found")),
            ("POST /metrics HTTP/1.1\r\n\r\n", Err("405 Method Not Allowed")),
            ("GET /metrics\r\n\r\n", Err("400 Bad Request")),
            ("GET /metrics HTTP/1.1\r\n", Err("400 Bad Request")),
            ("", Err("400 Bad Request")),
        ] {
            assert_eq!(respond(request.as_bytes()), expected, "{request}");
        }
    }
}
