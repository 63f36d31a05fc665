//! Input that no honest client sends. The server stays available and its memory small.

use crate::server::Server;

/// Sends `bytes` to a server, returns everything that it sends until it closes the connection, and
/// checks that it serves others.
fn replies_to(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    // The server may close the connection before the end of the bytes.
    let _ = client.try_send(bytes);
    let replies = client.rest();
    server.client().check(&[("PING", "PONG")]);
    replies
}

#[test]
fn nested_arrays() {
    let replies = replies_to(&b"*1\r\n".repeat(10_000));
    assert!(replies.is_empty() || replies.contains("expected \\'$\\', got \\'*\\'"), "{replies}");
}

#[test]
fn announced_512_mebibytes() {
    assert_eq!(replies_to(b"*1\r\n$536870912\r\n"), "-ERR Protocol error: invalid bulk length\\r\\n");
    assert_eq!(replies_to(b"*536870912\r\n"), "-ERR Protocol error: invalid multibulk length\\r\\n");
}

#[test]
fn announced_arguments_that_never_come() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut clients: Vec<_> = (0..50)
        .map(|_| {
            let mut client = server.client();
            client.send_bytes(b"*1048576\r\n$67108864\r\nabc");
            client
        })
        .collect();
    let mut other = server.client();
    other.check(&[("PING", "PONG")]);
    let info = other.run("INFO memory");
    let buffered = info.split("used_memory_clients:").nth(1).unwrap();
    let buffered: usize = buffered.split("\\r").next().unwrap().parse().unwrap();
    assert!(buffered < 1 << 20, "{buffered}");
    clients.clear();
}

#[test]
fn web_browser() {
    let request = b"GET / HTTP/1.1\r\nHost: localhost:6379\r\nAccept: */*\r\n\r\nSET a 1\r\n";
    let replies = replies_to(request);
    assert!(!replies.contains("+OK"), "{replies}");
    let replies = replies_to(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n");
    assert!(!replies.contains("+OK"), "{replies}");
}

#[test]
fn tls_client() {
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefgh\n\r\nQUIT\r\n";
    // The first byte ends the connection, and the rest of the bytes is no command.
    assert_eq!(replies_to(hello), "-ERR Protocol error: TLS bytes on a port without TLS\\r\\n");
}

#[test]
fn one_byte_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n\x00\xff\r\n!\r\n" {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.reply(), "OK");
    client.check(&[("GET a", r"'\x00\xff\r\n!'")]);
}

#[test]
fn random_bytes() {
    use terrace::env::{Random, SeededRandom};
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let random = SeededRandom::new(25);
    for _ in 0..200 {
        let mut client = server.client();
        let alphabet = b"*$:+-0123456789\r\nPINGsetget \"'\\x\xff\0";
        let bytes: Vec<u8> = (0..random.uniform(400))
            .map(|_| alphabet[random.uniform(alphabet.len() as u64) as usize])
            .collect();
        let _ = client.try_send(&bytes);
    }
    server.client().check(&[("PING", "PONG")]);
}
