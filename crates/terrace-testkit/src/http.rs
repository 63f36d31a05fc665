//! Requests to servers under test over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time within which a running server answers.
const ANSWER: Duration = Duration::from_secs(2);

/// Returns the answer of a server to a GET, if it answers in time.
pub fn get(port: u16, path: &str) -> Option<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the answer of a server to a POST.
pub fn post(port: u16, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    let len = body.len();
    let request = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {len}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer
}
