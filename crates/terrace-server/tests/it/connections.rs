//! Logins, settings, limits of clients, and the end of the server.

use std::time::Duration;

use terrace_server::SyncMode;

use crate::client::Client;
use crate::server::{Server, with_client};

#[test]
fn password() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.password = Some("secret".into()));
    let mut client = server.client();
    client.check(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH other secret", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH default secret", "OK"),
        ("GET a", "nil"),
    ]);
    let mut other = server.client();
    assert!(other.run("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert!(other.run("HELLO 3 AUTH default secret SETNAME me").starts_with('{'));
    other.check(&[("CLIENT GETNAME", "'me'"), ("CONFIG SET requirepass new", "OK")]);
    server.client().check(&[("AUTH new", "OK")]);
}

#[test]
fn many_login_attempts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.password = Some("secret".into()));
    let mut client = server.client();
    let replies: Vec<String> = (0..30).map(|_| client.run("AUTH wrong")).collect();
    assert!(replies.iter().any(|reply| reply.starts_with("-ERR too many login attempts")));
}

/// The eleventh client of a pool could not log in within a second, because right passwords counted
/// as attempts, too.
#[test]
fn pool_of_clients_logs_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.password = Some("secret".into()));
    for _ in 0..50 {
        server.client().check(&[("AUTH secret", "OK"), ("PING", "PONG")]);
    }
}

#[test]
fn client_before_its_login_sends_little() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.password = Some("secret".into()));
    for (bytes, expected) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length\\r\\n"),
        (b"*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\\r\\n"),
    ] {
        let mut client = server.client();
        client.send_bytes(bytes);
        assert_eq!(client.rest(), expected);
    }
}

#[cfg(unix)]
#[test]
fn unix_socket() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = Server::start(&dir.path().join("db"), |config| {
        config.port = None;
        config.unix_socket = Some(path.clone());
    });
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn unusable_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("first"), |_| {});
    let port = server.address.port();
    let error = Server::try_start(&dir.path().join("second"), |config| config.port = Some(port));
    assert!(error.is_err_and(|error| error.to_string().starts_with("listen on 127.0.0.1:")));
    let error = Server::try_start(&dir.path().join("third"), |config| {
        config.unix_socket = Some(dir.path().join("x".repeat(200)));
    });
    let reason = if cfg!(unix) { "SUN_LEN" } else { "no Unix sockets" };
    assert!(error.is_err_and(|error| error.to_string().contains(reason)));
    let error =
        Server::try_start(&dir.path().join("fourth"), |config| config.bind = vec![[0, 0, 0, 0].into()]);
    assert!(error.is_err_and(|error| error.to_string().contains("--requirepass")));
}

#[test]
fn too_many_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.max_clients = 2);
    let mut first = server.client();
    let mut second = server.client();
    first.check(&[("PING", "PONG")]);
    second.check(&[("PING", "PONG")]);
    assert_eq!(server.client().rest(), "-ERR max number of clients reached\\r\\n");
}

#[test]
fn list_and_kill() {
    with_client(|client| {
        client.check(&[("CLIENT SETNAME me", "OK"), ("CLIENT ID", ":1")]);
        let list = client.run("CLIENT LIST");
        assert!(list.contains("id=1 addr=127.0.0.1:") && list.contains(" name=me "), "{list}");
        client.check(&[
            (
                "CLIENT SETNAME a\u{7f}b",
                "-ERR Client names cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT KILL ID 99", ":0"),
            ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
            ("CLIENT KILL ID 1 SKIPME no", ":1"),
        ]);
        assert!(client.is_closed());
    });
}

/// Redis promises that a later connection has a greater number.
#[test]
fn numbers_follow_the_order_of_connections() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut clients: Vec<_> = (0..50).map(|_| server.client()).collect();
    for (client, id) in clients.iter_mut().zip(1..) {
        client.check(&[("CLIENT ID", &format!(":{id}"))]);
    }
}

#[test]
fn killed_from_another_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut victim = server.client();
    let id = victim.run("CLIENT ID");
    server.client().check(&[(&format!("CLIENT KILL ID {}", &id[1..]), ":1")]);
    assert!(victim.is_closed());
}

#[test]
fn replies_can_be_switched_off() {
    with_client(|client| {
        client.send_bytes(b"CLIENT REPLY OFF\r\nSET a 1\r\nCLIENT REPLY ON\r\n");
        assert_eq!(client.reply(), "OK");
        client.send_bytes(b"CLIENT REPLY SKIP\r\nSET a 2\r\nGET a\r\n");
        assert_eq!(client.reply(), "'2'");
    });
}

#[test]
fn settings() {
    with_client(|client| {
        client.check(&[
            ("CONFIG GET appendfsync", "['appendfsync' 'everysec']"),
            ("CONFIG SET appendfsync always", "OK"),
            ("CONFIG SET appendfsync never", "-ERR CONFIG SET failed (possibly related to argument 'appendfsync') - argument(s) must be one of the following: everysec, always, no"),
            ("CONFIG GET appendfsync", "['appendfsync' 'always']"),
            ("CONFIG SET maxmemory 100", "OK"),
            ("CONFIG GET maxmemory", "['maxmemory' '100']"),
            ("CONFIG SET port 1", "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config"),
            ("CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
            ("CONFIG GET nosuch", "[]"),
            ("SET a 1", "OK"),
        ]);
        assert!(client.run("INFO server").contains("redis_version:7.0.15"));
        assert!(client.run("INFO keyspace").contains("db0:keys=1,expires=0"));
        assert!(client.run("DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed."));
    });
}

#[test]
fn every_sync_mode() {
    for sync in [SyncMode::Always, SyncMode::EverySecond, SyncMode::No] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), |config| config.sync = sync);
        let mut client = server.client();
        for number in 0..100 {
            client.send(&["SET", &format!("key:{number}"), "x"]);
        }
        for _ in 0..100 {
            assert_eq!(client.reply(), "OK");
        }
        client.check(&[
            ("WAITAOF 1 0 0", "[:1 :0]"),
            ("MULTI", "OK"),
            ("INCR a", "QUEUED"),
            ("EXEC", "[:1]"),
        ]);
    }
}

#[test]
fn pending_replies_are_sent_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut idle = server.client();
    let mut client = server.client();
    client.check(&[("SET a 1", "OK")]);
    client.send_bytes(b"GET a\r\nSHUTDOWN\r\n");
    assert_eq!(client.reply(), "'1'");
    assert!(client.is_closed() && idle.is_closed());
    server.join().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("GET a", "'1'")]);
}

/// Regression: a timeout of more seconds than the clock has ended the server at its first client.
#[test]
fn idle_timeout_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.timeout = u64::MAX);
    server.client().check(&[("PING", "PONG"), ("SET a 1", "OK")]);
    server.client().check(&[("GET a", "'1'")]);
}

#[test]
fn idle_connection_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.timeout = 1);
    let mut client = server.client();
    client.check(&[("PING", "PONG")]);
    assert!(client.is_closed());
}

#[test]
fn large_values_and_long_pipelines() {
    with_client(|client| {
        let value = "v".repeat(5 << 20);
        assert_eq!(client.call(&["SET", "large", &value]), "OK");
        assert_eq!(client.call(&["STRLEN", "large"]), ":5242880");
        assert_eq!(client.call(&["GET", "large"]).len(), value.len() + 2);
        let mut pipeline = Vec::new();
        for number in 0..20_000 {
            pipeline.extend(crate::client::encode(&["INCRBY", "n", &number.to_string()]));
        }
        client.send_bytes(&pipeline);
        let last = (0..20_000).map(|_| client.reply()).last();
        assert_eq!(last.as_deref(), Some(":199990000"));
    });
}

#[test]
fn slow_command_with_quotes_in_a_pipeline() {
    with_client(|client| {
        client.send_bytes(b"SET \"a b\" 1\r\nKEYS \"a \\x62\"\r\nGET 'a b'\r\nDBSIZE\r\n");
        let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
        assert_eq!(replies, ["OK", "['a b']", "'1'", ":1"]);
    });
}

#[test]
fn client_that_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.call(&["SET", "a", &"v".repeat(1 << 20)]);
    let mut lazy: Client = server.client();
    for _ in 0..200 {
        lazy.send(&["GET", "a"]);
    }
    std::thread::sleep(Duration::from_millis(300));
    let info = client.run("INFO memory");
    let buffered = info.split("used_memory_clients:").nth(1).unwrap();
    let buffered: usize = buffered.split("\\r").next().unwrap().parse().unwrap();
    assert!(buffered < 64 << 20, "{buffered}");
    for _ in 0..200 {
        assert_eq!(lazy.reply().len(), (1 << 20) + 2);
    }
}
