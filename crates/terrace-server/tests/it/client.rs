//! Client of the tests: it sends commands and formats replies as text.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Connection of a test.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to a server.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    /// Sets the maximum time between two parts of a reply.
    pub(crate) fn set_timeout(&self, time: Duration) {
        self.stream.get_ref().set_read_timeout(Some(time)).unwrap();
    }

    /// Address at which the server sees this client.
    pub(crate) fn local_address(&self) -> SocketAddr {
        self.stream.get_ref().local_addr().unwrap()
    }

    /// Sends bytes.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    /// Sends bytes. The server may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a command.
    pub(crate) fn send(&mut self, args: &[impl AsRef<[u8]>]) {
        self.send_bytes(&encode(args));
    }

    /// Sends a command and returns the text of its reply.
    pub(crate) fn call(&mut self, args: &[impl AsRef<[u8]>]) -> String {
        self.send(args);
        self.reply()
    }

    /// Sends the words of `line` as a command.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.call(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs each command and compares its reply.
    #[track_caller]
    pub(crate) fn check(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            assert_eq!(self.run(line), *expected, "{line}");
        }
    }

    /// Returns the text of the next reply.
    pub(crate) fn reply(&mut self) -> String {
        self.try_reply().unwrap()
    }

    /// Returns the text of the next reply, or the error of the connection.
    pub(crate) fn try_reply(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let Some((kind, rest)) = line.split_first().filter(|_| line.ends_with(b"\r\n")) else {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        let text = String::from_utf8_lossy(&rest[..rest.len() - 2]).into_owned();
        let len = || text.parse::<i64>().unwrap();
        Ok(match kind {
            b'+' => text,
            b'-' => format!("-{text}"),
            b':' => format!(":{text}"),
            b',' => format!(",{text}"),
            b'#' => format!("#{text}"),
            b'(' => format!("({text}"),
            b'_' => "nil".into(),
            b'$' if len() < 0 => "nil".into(),
            b'*' if len() < 0 => "nil".into(),
            b'$' | b'=' => {
                let mut bytes = vec![0; len() as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                format!("'{}'", bytes[..bytes.len() - 2].escape_ascii())
            }
            b'*' => self.items(len(), "[", "]")?,
            b'~' => self.items(len(), "~[", "]")?,
            b'>' => self.items(len(), ">[", "]")?,
            b'%' => self.items(2 * len(), "{", "}")?,
            other => panic!("unexpected reply {other}"),
        })
    }

    /// Returns the bytes until the next line end, with it.
    pub(crate) fn line_bytes(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        line
    }

    fn items(&mut self, count: i64, begin: &str, end: &str) -> std::io::Result<String> {
        let items: std::io::Result<Vec<String>> = (0..count).map(|_| self.try_reply()).collect();
        Ok(format!("{begin}{}{end}", items?.join(" ")))
    }

    /// True if the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads everything until the server closes the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        // A reset after the reply ends the bytes, too.
        let _ = self.stream.read_to_end(&mut rest);
        rest.escape_ascii().to_string()
    }
}

/// Encodes a command.
pub(crate) fn encode(args: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
