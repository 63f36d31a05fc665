//! Keyspace events: the same messages as redis-server, and events of expired keys.

use std::time::Duration;

use crate::client::Client;
use crate::model::RedisServer;
use crate::server::Server;

/// Commands of strings and of all keys.
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

/// Commands of the other types.
static OBJECT_COMMANDS: &[&str] = &[
    "SETBIT bits 7 1",
    "BITFIELD bits SET u8 0 3",
    "BITFIELD bits GET u8 0",
    "BITFIELD bits SET u8 0 3",
    "SETBIT bits 7 1",
    "BITOP NOT bits2 bits",
    "BITOP NOT bits2 nokey",
    "PFADD hll a",
    "PFADD hll a",
    "PFMERGE hll2 hll",
    "HSET h f 1 g 2",
    "HSET h f 1",
    "HMSET h f 2",
    "HSETNX h f 3",
    "HSETNX h i 3",
    "HINCRBY h f 1",
    "HINCRBYFLOAT h f 0.5",
    "HDEL h nofield",
    "HDEL h f",
    "HDEL h g i",
    "SADD s 1 2 3",
    "SADD s 1",
    "SADD s2 1",
    "SREM s nomember",
    "SREM s 1",
    "SMOVE s s2 2",
    "SMOVE s s2 9",
    "SMOVE s s2 3",
    "SPOP s2 0",
    "SUNIONSTORE s3 s2",
    "SINTERSTORE s3 s2 nokey",
    "SDIFFSTORE s3 nokey",
    "SADD one 1",
    "SPOP one",
    "SPOP s2 9",
    "RPUSH l a b c d",
    "LPUSH l e",
    "LPUSHX l f",
    "RPUSHX nokey f",
    "LSET l 0 x",
    "LINSERT l BEFORE a y",
    "LINSERT l BEFORE nosuch y",
    "LREM l 0 nosuch",
    "LREM l 0 y",
    "LTRIM l 0 -1",
    "LTRIM l 1 -1",
    "LPOP l",
    "RPOP l 1",
    "LPOP l 0",
    "LMOVE l l2 LEFT RIGHT",
    "LMOVE l2 l2 LEFT RIGHT",
    "RPOPLPUSH l l2",
    "BLMOVE l l2 LEFT LEFT 0.01",
    "LMPOP 1 l2 LEFT COUNT 2",
    "BLPOP l2 0.01",
    "RPUSH l3 3 1 2",
    "SORT l3 STORE l4",
    "SORT nokey STORE l4",
    "LTRIM l3 9 9",
    "ZADD z 1 a 2 b 3 c",
    "ZADD z 1 a",
    "ZADD z 5 a",
    "ZADD z XX 5 new",
    "ZADD z INCR 1 a",
    "ZINCRBY z 1 a",
    "ZINCRBY z 0 a",
    "ZREM z nomember",
    "ZREM z a",
    "ZUNIONSTORE z2 1 z",
    "ZINTERSTORE z2 2 z nokey",
    "ZDIFFSTORE z2 1 nokey",
    "ZRANGESTORE z3 z 0 -1",
    "ZRANGESTORE z3 z 9 9",
    "ZADD z 4 d 5 e 6 f 7 g",
    "ZPOPMIN z",
    "ZPOPMAX z",
    "ZMPOP 1 z MIN",
    "BZPOPMIN z 0.01",
    "ZREMRANGEBYRANK z 0 0",
    "ZREMRANGEBYSCORE z 0 0",
    "ZREMRANGEBYSCORE z 0 100",
    "ZADD lex 0 a 0 b",
    "ZREMRANGEBYLEX lex - +",
    "GEOADD geo 8.5 47.4 zurich",
    "GEOSEARCHSTORE geo2 geo FROMLONLAT 8 47 BYRADIUS 100 km",
    "GEOSEARCHSTORE geo2 geo FROMLONLAT 8 47 BYRADIUS 1 m",
    "GEORADIUS geo 8 47 100 km STORE geo3",
    "XADD x 1-1 f v",
    "XADD x NOMKSTREAM MAXLEN 1 2-1 f v",
    "XADD nokey NOMKSTREAM 2-1 f v",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x2 g 0 MKSTREAM",
    "XGROUP CREATECONSUMER x g alice",
    "XGROUP CREATECONSUMER x g alice",
    "XREADGROUP GROUP g bob STREAMS x >",
    "XREADGROUP GROUP g carol STREAMS x 0",
    "XACK x g 2-1",
    "XCLAIM x g dave 0 2-1 FORCE",
    "XAUTOCLAIM x g erin 0 -",
    "XGROUP SETID x g 0",
    "XGROUP DELCONSUMER x g bob",
    "XGROUP DELCONSUMER x g nobody",
    "XGROUP DESTROY x g",
    "XGROUP DESTROY x g",
    "XSETID x 9-9",
    "XTRIM x MAXLEN 5",
    "XTRIM x MAXLEN 0",
    "XADD x 10-1 f v",
    "XDEL x 10-1",
    "XDEL x 10-1",
    "DEL x x2",
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
    // Redis reports misses of the inputs of write commands, too.
    let others = if letters.contains('m') { &[] } else { OBJECT_COMMANDS };
    for command in COMMANDS.iter().chain(others) {
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
    for letters in ["KEA", "EA", "Kg", "E$", "K$x", "A", "KEAn", "KEm", "Eh", "Ks", "El", "Kz", "Et", ""] {
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
