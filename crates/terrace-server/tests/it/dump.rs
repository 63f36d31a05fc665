//! DUMP and RESTORE: redis-server restores our payloads, and we restore those of redis-server.

use crate::client::Client;
use crate::model::RedisServer;
use crate::server::{Server, with_client};

/// Bytes of a reply in the form `'a\x00'`.
fn unescape(reply: &str) -> Vec<u8> {
    let text = reply.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).expect(reply);
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'\\' => match rest.next().unwrap() {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            },
            other => other,
        };
        bytes.push(byte);
    }
    bytes
}

fn payload(client: &mut Client, key: &str) -> Vec<u8> {
    unescape(&client.call(&["DUMP", key]))
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> String {
    client.call(&[b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"])
}

/// Contents of a key in a form that does not depend on the order of members.
fn contents(client: &mut Client, key: &str) -> Vec<String> {
    let command = match client.run(&format!("TYPE {key}")).as_str() {
        "string" => format!("GET {key}"),
        "hash" => format!("HGETALL {key}"),
        "set" => format!("SMEMBERS {key}"),
        "list" => format!("LRANGE {key} 0 -1"),
        "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
        "stream" => return stream_contents(client, key),
        other => panic!("type {other} of {key}"),
    };
    let reply = client.run(&command);
    let reply = reply.strip_prefix("['").and_then(|list| list.strip_suffix("']")).unwrap_or(&reply);
    let mut items: Vec<String> = reply.split("' '").map(String::from).collect();
    if !command.starts_with('L') {
        items.sort_unstable();
    }
    items
}

/// Entries and groups of a stream, without the number of nodes.
fn stream_contents(client: &mut Client, key: &str) -> Vec<String> {
    let full = client.run(&format!("XINFO STREAM {key} FULL COUNT 0"));
    let (length, _) = full.split_once(" 'radix-tree-keys'").unwrap();
    let (_, rest) = full.split_once("'last-generated-id'").unwrap();
    vec![length.into(), rest.into()]
}

/// Fills redis-server with streams: deleted entries, different fields, groups.
fn fill_streams(redis: &mut Client) -> Vec<&'static str> {
    for number in 1..=300 {
        redis.run(&format!("XADD stream {number}-1 field {number} other text{number}"));
    }
    let text = "x".repeat(5000);
    for line in [
        "XADD stream 400-1 other 1 field 12345678901234",
        "XADD stream 400-18446744073709551615 a 1 b 2 c 3",
        "XDEL stream 5-1 150-1 300-1",
        "XTRIM stream MINID 3",
        "XGROUP CREATE stream group 0",
        "XGROUP CREATE stream unknown 20-1",
        "XGROUP CREATE stream empty $",
        "XGROUP CREATECONSUMER stream group nobody",
        "XREADGROUP GROUP group alice COUNT 7 STREAMS stream >",
        "XREADGROUP GROUP group bob COUNT 3 STREAMS stream >",
        "XREADGROUP GROUP group alice COUNT 1 STREAMS stream 0",
        "XADD emptied 1-1 f v",
        "XDEL emptied 1-1",
        "XGROUP CREATE created group $ MKSTREAM",
    ] {
        assert!(!redis.run(line).starts_with('-'), "{line}");
    }
    redis.run(&format!("XADD long 1-1 {text} {text}"));
    redis.run("XADD long 2-1 a b");
    vec!["stream", "emptied", "created", "long"]
}

/// Fills redis-server with values of each encoding. Returns the keys.
fn fill(redis: &mut Client) -> Vec<&'static str> {
    let long = "the same text again and again ".repeat(40).replace(' ', "_");
    for line in [
        "SET int8 -5",
        "SET int16 -1234",
        "SET int32 123456789",
        "SET int64 12345678901234",
        "SET short abc",
        "HSET hash f v g -7 h 123456 i 12345678901234",
        "SADD intset 1 -2 300",
        "SADD intset32 1 -70000",
        "SADD intset64 1 12345678901234",
        "SADD set a b 5",
        "RPUSH list a 5 -1 4095 -4096 70000 -8388608 2147483648 b",
        "ZADD zset 1 a -2.5 b inf c 0 d",
    ] {
        assert!(!redis.run(line).starts_with('-'), "{line}");
    }
    redis.run(&format!("SET compressed {long}"));
    for len in [31, 32, 63, 64] {
        redis.run(&format!("HSET hash field{len} {}", "w".repeat(len)));
    }
    redis.run(&format!("HSET hashtable f {long} g {}", "x".repeat(20_000)));
    redis.run(&format!("RPUSH plain {} a {}", "y".repeat(200), "z".repeat(5000)));
    for number in 0..1000 {
        redis.run(&format!("SADD many {number} m{number}"));
        redis.run(&format!("HSET listpack field{} {number}", number % 300));
        redis.run(&format!("RPUSH quicklist element{number} {}", number * 77));
        redis.run(&format!("ZADD skiplist {number}.25 member{number}"));
    }
    vec![
        "int8",
        "int16",
        "int32",
        "int64",
        "short",
        "hash",
        "intset",
        "intset32",
        "intset64",
        "set",
        "list",
        "zset",
        "compressed",
        "hashtable",
        "plain",
        "many",
        "listpack",
        "quicklist",
        "skiplist",
    ]
}

#[test]
fn payloads_of_both_servers() {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its payloads are not restored");
        return;
    };
    let mut theirs = Client::connect(redis.address);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut ours = server.client();
    let keys = [fill(&mut theirs), fill_streams(&mut theirs)].concat();
    for key in keys {
        let expected = contents(&mut theirs, key);
        assert_eq!(restore(&mut ours, key, &payload(&mut theirs, key)), "OK", "{key}");
        let kind = theirs.run(&format!("TYPE {key}"));
        assert_eq!(ours.run(&format!("TYPE {key}")), kind, "{key}");
        if !["list", "zset"].contains(&kind.as_str()) {
            assert_eq!(contents(&mut ours, key), expected, "{key}");
        }
        assert_eq!(restore(&mut theirs, "copy", &payload(&mut ours, key)), "OK", "{key}");
        assert_eq!(contents(&mut theirs, "copy"), expected, "{key}");
    }
}

#[test]
fn options_and_errors_of_restore() {
    with_client(|client| {
        client.check(&[
            ("DUMP none", "nil"),
            ("HSET h f v", ":1"),
            ("SET s 1", "OK"),
            ("RESTORE k 0 x", "-ERR DUMP payload version or checksum are wrong"),
            ("RESTORE k -1 x", "-ERR Invalid TTL value, must be >= 0"),
            ("RESTORE k x x", "-ERR value is not an integer or out of range"),
            ("RESTORE s 0 x", "-BUSYKEY Target key name already exists."),
            ("RESTORE s 0 x NO", "-ERR syntax error"),
            ("RESTORE k 0 x FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ]);
        let payload = payload(client, "h");
        for damaged in 0..payload.len() {
            let mut other = payload.clone();
            other[damaged] ^= 1;
            let reply = client.call(&[b"RESTORE", &b"k"[..], b"0", &other]);
            assert_eq!(reply, "-ERR DUMP payload version or checksum are wrong");
        }
        let with_ttl = |client: &mut Client, ttl: &str, option: &str| {
            client.call(&[b"RESTORE", &b"s"[..], ttl.as_bytes(), &payload, b"REPLACE", option.as_bytes()])
        };
        assert_eq!(with_ttl(client, "100000", "REPLACE"), "OK");
        client.check(&[("TTL s", ":100"), ("HGETALL s", "['f' 'v']")]);
        assert_eq!(with_ttl(client, "9000000000000", "ABSTTL"), "OK");
        client.check(&[("PEXPIRETIME s", ":9000000000000")]);
        assert_eq!(with_ttl(client, "1000", "ABSTTL"), "OK");
        client.check(&[("EXISTS s", ":0"), ("HLEN h", ":1")]);
    });
}

#[test]
fn sort_of_a_set() {
    with_client(|client| {
        client.check(&[
            ("SADD s 3 1 20", ":3"),
            ("MSET w_1 9 w_3 -1 w_20 x", "OK"),
            ("HSET o_1 name one", ":1"),
            ("SORT s", "['1' '3' '20']"),
            ("SORT s DESC LIMIT 0 2", "['20' '3']"),
            ("SORT s ALPHA", "['1' '20' '3']"),
            ("SORT s BY w_*", "-ERR One or more scores can't be converted into double"),
            ("SORT s BY w_* ALPHA GET # GET w_*", "['3' '-1' '1' '9' '20' 'x']"),
            ("SORT s GET o_*->name", "['one' nil nil]"),
            ("SORT s LIMIT 1 x", "-ERR value is not an integer or out of range"),
            ("SORT_RO s STORE d", "-ERR syntax error"),
            ("SORT s STORE d", ":3"),
            ("TYPE d", "list"),
            ("SORT d DESC", "['20' '3' '1']"),
            ("SORT d BY none LIMIT 1 1", "['3']"),
            ("SORT none STORE d", ":0"),
            ("EXISTS d", ":0"),
            ("SORT w_1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ]);
    });
}
