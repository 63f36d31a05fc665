//! HTTP client of the tests, as small as a test can read it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::server::Server;

/// Response to a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Headers with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Value of a header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&self.body));
        })
    }
}

/// Sends the bytes of one request and reads its response.
pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> Option<Response> {
    let mut stream = connect(address);
    // The server may refuse a request before its end.
    let _ = stream.write_all(request);
    read_response(&mut BufReader::new(stream))
}

/// Connects to the server.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads a response. None if the server closed the connection before.
pub(crate) fn read_response(reader: &mut impl BufRead) -> Option<Response> {
    let (status, headers) = read_head(reader)?;
    let len = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; len.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Response { status, headers, body })
}

/// Reads the status and the headers of a response.
pub(crate) fn read_head(reader: &mut impl BufRead) -> Option<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    Some((status, headers))
}

/// Browser that has opened the link of a server.
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    /// Header `Cookie`.
    pub(crate) cookie: String,
}

impl Browser {
    /// Opens the link that the server printed at its start.
    pub(crate) fn open(server: &Server) -> Browser {
        Browser::follow(server.addresses.page.as_deref().unwrap())
    }

    /// Opens a link.
    pub(crate) fn follow(link: &str) -> Browser {
        let (address, path) = split_link(link);
        let response = exchange(address, &get(address, path, "")).unwrap();
        assert_eq!(response.status, 303, "{response:?}");
        assert_eq!(response.header("location"), "/");
        let cookie = response.header("set-cookie");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        Browser { address, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    /// Requests a path.
    pub(crate) fn get(&self, path: &str) -> Response {
        let request = get(self.address, path, &format!("Cookie: {}\r\n", self.cookie));
        exchange(self.address, &request).unwrap()
    }

    /// Requests a path of the API, which has a result.
    #[track_caller]
    pub(crate) fn api(&self, path: &str) -> Value {
        let response = self.get(&format!("/api/v1/{path}"));
        assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
        response.json()
    }

    /// Sends a change like the page does.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        let origin = format!("X-Terrace: 1\r\nOrigin: http://{}\r\n", self.address);
        self.post_with(path, &origin, &body.to_string())
    }

    /// Sends a change with the given headers.
    pub(crate) fn post_with(&self, path: &str, headers: &str, body: &str) -> Response {
        let address = self.address;
        let request = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: {address}\r\nCookie: {}\r\nConnection: close\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.cookie,
            body.len()
        );
        exchange(address, request.as_bytes()).unwrap()
    }

    /// Opens an event stream. Returns None if the server refuses it.
    pub(crate) fn events(&self) -> Option<Events> {
        let mut stream = connect(self.address);
        let request = get(self.address, "/api/v1/events", &format!("Cookie: {}\r\n", self.cookie));
        stream.write_all(&request).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader)?;
        (status == 200).then_some(Events { reader })
    }
}

/// Splits a link into the address of the server and the path.
pub(crate) fn split_link(link: &str) -> (SocketAddr, &str) {
    let (address, query) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert!(query.starts_with("?token="), "{link}");
    (address.parse().unwrap(), &link[link.len() - query.len() - 1..])
}

/// Bytes of a GET request with further headers.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n").into_bytes()
}

/// Event stream.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
}

impl Events {
    /// Waits for the next event `name` and returns its data.
    pub(crate) fn next(&mut self, name: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if line.trim_end() == format!("event: {name}") {
                break;
            }
        }
        // The length of a chunk may be before the data, but never within a message.
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap()
    }
}
