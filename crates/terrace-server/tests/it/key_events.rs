//! Keyspace events: the same messages as redis-server, and events of expired keys.

use std::time::Duration;

use crate::client::Client;
use crate::model::RedisServer;
use crate::server::Server;

/// Commands whose events both servers send.
static COMMANDS: &[&str] = &[
    "SET a 1",
    "SET a 2 EX 100",
    "SET a 3 KEEPTTL",
    "SET a 3 NX",
    "SET b 3 NX",
    "SET b 4 XX GET",
    "GET a",
    "GET nokey",
    "EXISTS nokey",
    "TTL nokey",
    "TYPE nokey",
    "STRLEN nokey",
    "MGET a nokey nokey2",
    "APPEND a x",
    "APPEND fresh x",
    "SETRANGE a 1 yy",
    "SETRANGE a 1 zz",
    "INCR n",
    "DECRBY n 4",
    "INCRBYFLOAT n 1.5",
    "SETNX a 1",
    "SETNX c 1",
    "SETEX d 100 v",
    "PSETEX d 100000 v",
    "GETSET d w",
    "GETEX d EX 100",
    "GETEX d PERSIST",
    "GETEX d",
    "GETEX d PXAT 1",
    "GETDEL c",
    "MSET e 1 f 2",
    "MSETNX e 1 g 2",
    "MSETNX g 1 h 2",
    "EXPIRE e 100",
    "EXPIRE e 100 NX",
    "PERSIST e",
    "PERSIST e",
    "EXPIRE e -1",
    "EXPIREAT f 1",
    "RENAME a b",
    "RENAMENX b fresh2",
    "COPY fresh2 copied",
    "COPY g copied REPLACE",
    "COPY g h DB 1 REPLACE",
    "MOVE g 2",
    "DEL h nokey",
    "UNLINK copied fresh2",
    "INCR text",
    "DEL text",
];

/// Messages of a subscriber until the marker.
fn messages(subscriber: &mut Client) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let message = subscriber.reply();
        if message.contains("'end'") {
            return found;
        }
        found.push(message);
    }
}

/// Runs the commands, each on its own or in one MULTI, and returns all messages.
fn events(address: std::net::SocketAddr, letters: &str, is_transaction: bool) -> Vec<String> {
    let mut client = Client::connect(address);
    let mut subscriber = Client::connect(address);
    assert_eq!(client.run("FLUSHALL"), "OK");
    assert_eq!(client.call(&["CONFIG", "SET", "notify-keyspace-events", letters]), "OK");
    subscriber.run("PSUBSCRIBE __key* end");
    subscriber.reply();
    if is_transaction {
        client.run("MULTI");
    }
    for command in COMMANDS {
        client.run(command);
    }
    if is_transaction {
        client.run("EXEC");
    }
    client.run("PUBLISH end x");
    messages(&mut subscriber)
}

#[test]
fn same_messages_as_redis() {
    let Some(redis) = RedisServer::start() else {
        println!("NOT TESTED: redis-server 7.0 is not installed");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    for letters in ["KEA", "EA", "Kg", "E$", "K$x", "A", "KEAn", "KEm", ""] {
        for is_transaction in [false, true] {
            let expected = events(redis.address, letters, is_transaction);
            assert_eq!(
                events(server.address, letters, is_transaction),
                expected,
                "{letters} {is_transaction}"
            );
            let is_silent = letters.is_empty() || letters == "A";
            assert_eq!(expected.is_empty(), is_silent, "{letters}");
        }
    }
}

#[test]
fn expired_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let mut subscriber = server.client();
    client.check(&[("CONFIG SET notify-keyspace-events Ex", "OK"), ("SELECT 3", "OK")]);
    subscriber.run("SUBSCRIBE __keyevent@3__:expired");
    client.check(&[("SET a 1 PX 50", "OK"), ("SET b 1 PX 50", "OK"), ("DEL b", ":1")]);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(subscriber.reply(), "['message' '__keyevent@3__:expired' 'a']");
    subscriber.run("UNSUBSCRIBE");
}

#[test]
fn unknown_letter() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[
        (
            "CONFIG SET notify-keyspace-events KEq",
            "-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
        ),
        ("CONFIG GET notify-keyspace-events", "['notify-keyspace-events' '']"),
    ]);
}
