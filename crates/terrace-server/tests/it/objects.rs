//! Objects: their records, their garbage, and the commands for all types.

use std::path::Path;
use std::time::Duration;

use terrace::{Db, Options};
use terrace_server::{Layout, SyncMode};

use crate::client::{Client, encode};
use crate::process::ServerProcess;
use crate::server::{Server, with_client};

/// Entries of the directory `dir` that no server uses.
fn entries(dir: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::open(dir, &Options::default()).unwrap();
    let entries = db.iter().map(Result::unwrap).collect();
    db.close().unwrap();
    entries
}

/// Number of entries whose keys begin with `first`.
fn count(dir: &Path, first: u8) -> usize {
    entries(dir).iter().filter(|(key, _)| key[0] == first).count()
}

/// Sequence number of the last write.
fn sequence(client: &mut Client) -> u64 {
    let info = client.run("INFO terrace");
    let (_, rest) = info.split_once("terrace_last_sequence:").unwrap();
    rest.split('\\').next().unwrap().parse().unwrap()
}

/// Stores a hash with `fields` fields at `key`.
fn fill(client: &mut Client, key: &str, fields: usize) {
    let mut pipeline = Vec::new();
    for field in 0..fields {
        pipeline.extend(encode(&["HSET", key, &format!("field:{field:06}"), "value"]));
    }
    client.send_bytes(&pipeline);
    for _ in 0..fields {
        client.reply();
    }
}

/// Waits until the server has collected all garbage. Returns the keys of the remaining entries.
fn keys_without_garbage(dir: &Path) -> Vec<String> {
    for _ in 0..100 {
        let server = Server::start(dir, |_| {});
        std::thread::sleep(Duration::from_millis(50));
        drop(server);
        if count(dir, 3) == 0 {
            return entries(dir).iter().map(|(key, _)| key.escape_ascii().to_string()).collect();
        }
    }
    panic!("the garbage remains")
}

/// Keys of the records of an empty directory that has had objects.
const EMPTY: [&str; 3] = [r"\x00terrace.serve", r"\x00terrace.serve\x01", r"\x00terrace.serve\x02"];

#[test]
fn example_of_the_format_document() {
    let document = include_str!("../../../../docs/format/serve.md");
    let dir = tempfile::tempdir().unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
    let check = || {
        for (key, value) in entries(dir.path()) {
            if !key.ends_with(b"\x02") {
                let line = format!(" {}:{}\n", hex(&key), hex(&value));
                assert!(document.contains(&line), "the document has no line {line}");
            }
        }
    };
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    server.client().check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("HSET Chur lat 46.85 lon 9.53", ":2")]);
    drop(server);
    assert_eq!(entries(dir.path()).len(), 6);
    check();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    server.client().check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("DEL Chur", ":1")]);
    drop(server);
    check();
    assert_eq!(keys_without_garbage(dir.path()), EMPTY);
}

/// The server finds a replaced object before and after its job has read all keys.
#[test]
fn replaced_objects_are_found_after_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    ["a", "b", "c"].iter().for_each(|key| fill(&mut server.client(), key, 5));
    drop(server);
    for (commands, pause) in [
        (["SET a 1", "RENAME b renamed"], 0),
        (["SET renamed 1", "RENAME c moved"], 300),
        (["SET moved 1", "SET other 1"], 300),
    ] {
        let server = Server::start(dir.path(), |_| {});
        std::thread::sleep(Duration::from_millis(pause));
        server.client().check(&commands.map(|command| (command, "OK")));
    }
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("DEL a renamed moved other", ":4")]);
    drop(server);
    assert_eq!(keys_without_garbage(dir.path()), EMPTY);
}

#[test]
fn large_objects_change_their_keys_in_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut client = server.client();
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("SET string 1", "OK")]);
    for (command, reply) in [
        ("RENAME a b", "OK"),
        ("MOVE a 1", ":1"),
        ("DEL a", ":1"),
        ("UNLINK a", ":1"),
        ("SET a 1", "OK"),
        ("GETSET a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("MSET a 1", "OK"),
        ("SETEX a 100 1", "OK"),
        ("RENAME string a", "OK"),
        ("COPY a c DB 2", ":1"),
        ("EXPIRE a 100", ":1"),
        ("EXPIRE a -1", ":1"),
        ("FLUSHDB", "OK"),
        ("SWAPDB 0 3", "OK"),
    ] {
        client.run("DEL a");
        fill(&mut client, "a", 300);
        let before = sequence(&mut client);
        client.check(&[(command, reply)]);
        let written = sequence(&mut client) - before;
        assert!(written <= if command.starts_with("COPY") { 302 } else { 4 }, "{command}: {written}");
    }
    client.check(&[("SELECT 2", "OK"), ("HLEN c", ":300"), ("HGET c field:000123", "'value'")]);
    client.check(&[("FLUSHALL", "OK")]);
    drop(client);
    drop(server);
    assert!(count(dir.path(), 0x10) >= 300);
    assert_eq!(keys_without_garbage(dir.path()), EMPTY);
}

#[test]
fn garbage_collection_continues_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let mut client = server.client();
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("SADD kept a", ":1")]);
    fill(&mut client, "large", 20_000);
    fill(&mut client, "small", 10);
    fill(&mut client, "flushed", 10);
    client.check(&[("DEL large small", ":2"), ("MOVE kept 1", ":1"), ("FLUSHDB", "OK")]);
    server.kill();
    assert_eq!(count(dir.path(), 0x10), 20_020);
    assert_eq!(count(dir.path(), 3), 3);
    // The process ends while the collection is running, several times.
    for round in 0..3 {
        let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
        std::thread::sleep(Duration::from_millis(round));
        server.kill();
    }
    let keys = keys_without_garbage(dir.path());
    assert_eq!(&keys[..3], EMPTY);
    assert_eq!(keys[3..], [r"\x01\x00\x01kept", r"\x11\x00\x00\x00\x00\x00\x00\x00\x01a"]);
}

#[test]
fn object_numbers_are_not_used_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
        let mut client = server.client();
        client.check(&[("DEL h", if numbers.is_empty() { ":0" } else { ":1" }), ("HSET h f v", ":1")]);
        server.kill();
        let entries = entries(dir.path());
        numbers.extend(entries.iter().filter(|(key, _)| key[0] == 1).map(|(_, value)| value[1..9].to_vec()));
    }
    assert_eq!(numbers.len(), 4);
    assert!(numbers.is_sorted_by(|a, b| a < b));
}

#[test]
fn directory_of_the_first_version() {
    let dir = tempfile::tempdir().unwrap();
    drop(Server::start(dir.path(), |_| {}));
    let first = entries(dir.path());
    // Format 1, no flags: the marker of the version without objects.
    assert_eq!(first[0].1[..4], [0, 1, 0, 0]);
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("SET a 1", "OK")]);
    drop(server);
    assert_eq!(entries(dir.path())[0].1[..4], [0, 1, 0, 0]);
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("SADD s a", ":1"), ("DEL s", ":1")]);
    drop(server);
    assert_eq!(entries(dir.path())[0].1[..4], [0, 1, 0, 1]);
}

#[test]
fn damaged_record_of_a_hash() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("HSET a f 1", ":1"), ("HSET b f 1 g 2", ":2"), ("HSET c f 1", ":1")]);
    drop(server);
    let entries = entries(dir.path());
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    for (key, value) in entries {
        match &*key {
            b"\x01\0\0a" => db.put(key, &value[..value.len() - 1]).unwrap(),
            [0x10, .., b'g'] => db.delete(key).unwrap(),
            _ => {}
        }
    }
    db.close().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[
        ("HGET a f", "-ERR damaged: the record of the key 'a' has no valid header"),
        ("HGETALL b", "-ERR damaged: the value of the key 'b' has 1 members, expected 2"),
        ("COPY a d", "-ERR damaged: the record of the key 'a' has no valid header"),
        ("HGETALL c", "['f' '1']"),
        ("TYPE a", "hash"),
        ("KEYS *", "['a' 'b' 'c']"),
        ("SET a 1", "OK"),
        ("DEL b", ":1"),
        ("MGET a b c", "['1' nil nil]"),
    ]);
}

/// Regression: a count that the members do not justify made commands overflow, or take memory for
/// each counted member. The count of a record is a byte of a file like any other.
#[test]
fn impossible_counts() {
    for count in [0, (1 << 48) + 1, u64::MAX] {
        let dir = tempfile::tempdir().unwrap();
        damage_counts(dir.path(), count);
        let server = Server::start(dir.path(), |_| {});
        let mut client = server.client();
        for (key, lines) in USES_OF_COUNTS {
            let expected = format!("-ERR damaged: the record of the key '{key}' has no valid header");
            lines.iter().filter(|_| count > 0 || *key != "x").for_each(|line| {
                assert_eq!(client.run(line), expected, "{line}, count {count}");
            });
        }
        client.check(&[("DEL h s", ":2"), ("SET l 1", "OK"), ("SET z 1", "OK"), ("PING", "PONG")]);
        drop(server);
        let left = keys_without_garbage(dir.path());
        assert!(!left.iter().any(|key| key.starts_with(r"\x10")), "members of h remain: {left:?}");
    }
}

/// Regression: SRANDMEMBER and SPOP took memory for each wanted member before they looked at the
/// limit on replies.
#[test]
fn counts_beyond_the_members() {
    let dir = tempfile::tempdir().unwrap();
    damage_counts(dir.path(), 1 << 40);
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let members = "-ERR the members exceed 256 MiB";
    let elements = "-ERR the elements of the command exceed 256 MiB";
    client.check(&[
        ("SRANDMEMBER s 20000000", members),
        ("SPOP s 20000000", members),
        ("HRANDFIELD h 20000000", members),
        ("ZRANDMEMBER z 20000000", "-ERR the members of the command exceed 256 MiB"),
        ("LTRIM l 20000000 -1", elements),
        ("LRANGE l 0 -1", "-ERR damaged: an element of the list is missing"),
        ("PING", "PONG"),
    ]);
}

/// Commands that compute with the number of members, by the key that they use.
static USES_OF_COUNTS: &[(&str, &[&str])] = &[
    ("h", &["HSET h g 2", "HDEL h f", "HGETALL h", "HRANDFIELD h 3", "HSCAN h 0", "HLEN h", "COPY h c"]),
    ("s", &["SADD s b", "SREM s a", "SPOP s", "SPOP s 9", "SRANDMEMBER s 9", "SMEMBERS s", "SINTER s s"]),
    ("l", &["RPUSH l b", "LPUSH l b", "LPOP l", "RPOP l 9", "LTRIM l 1 -2", "LLEN l", "LINSERT l AFTER a b"]),
    ("z", &["ZADD z 2 b", "ZREM z a", "ZPOPMAX z", "ZREVRANK z a", "ZRANGE z 0 -1", "ZREMRANGEBYRANK z 0 9"]),
    ("x", &["XADD x 6-1 f v", "XDEL x 5-1", "XTRIM x MAXLEN 1", "XLEN x", "XINFO STREAM x", "DUMP x"]),
];

/// Creates a database in `dir` with an object of each type, whose record has the count `count`.
fn damage_counts(dir: &Path, count: u64) {
    let server = Server::start(dir, |_| {});
    server.client().check(&[
        ("HSET h f 1", ":1"),
        ("SADD s a", ":1"),
        ("RPUSH l a", ":1"),
        ("ZADD z 1 a", ":1"),
        ("XADD x 5-1 f v", "'5-1'"),
    ]);
    drop(server);
    let records = entries(dir);
    let db = Db::open(dir, &Options::default()).unwrap();
    for (key, mut value) in records.into_iter().filter(|(key, _)| key[0] == 1) {
        // After the header and the number of the object.
        value[9..17].copy_from_slice(&count.to_be_bytes());
        db.put(key, value).unwrap();
    }
    db.close().unwrap();
}

#[test]
fn expired_objects_do_not_return() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut client = server.client();
    client.check(&[
        ("DEBUG SET-ACTIVE-EXPIRE 0", "OK"),
        ("HSET h old 1", ":1"),
        ("SADD s old", ":1"),
        ("PEXPIRE h 1", ":1"),
        ("PEXPIRE s 1", ":1"),
    ]);
    std::thread::sleep(Duration::from_millis(10));
    client.check(&[
        ("HGETALL h", "[]"),
        ("TYPE h", "none"),
        ("HSET h new 1", ":1"),
        ("HGETALL h", "['new' '1']"),
        ("TTL h", ":-1"),
        ("MULTI", "OK"),
        ("EXISTS s", "QUEUED"),
        ("SADD s new", "QUEUED"),
        ("SMEMBERS s", "QUEUED"),
        ("EXEC", "[:0 :1 ['new']]"),
        ("SADD t old", ":1"),
        ("PEXPIRE t 1", ":1"),
    ]);
    std::thread::sleep(Duration::from_millis(10));
    client.check(&[("DEL h s", ":2"), ("SET t 1", "OK"), ("DEBUG SET-ACTIVE-EXPIRE 1", "OK")]);
    client.check(&[("DEL t", ":1")]);
    drop(client);
    drop(server);
    assert_eq!(keys_without_garbage(dir.path()), EMPTY);
}

#[test]
fn watched_objects() {
    with_client(|client| {
        client.check(&[("HSET h f 1", ":1"), ("SADD s a b", ":2")]);
        for (change, expected) in [
            ("HSET h f 1", "nil"),
            ("HSET h g 2", "nil"),
            ("HINCRBY h f 1", "nil"),
            ("HDEL h none", "[OK]"),
            ("HSETNX h f 3", "[OK]"),
            ("SADD s a", "[OK]"),
            ("SADD s c", "nil"),
            ("SREM s c", "nil"),
            ("SMOVE s s a", "[OK]"),
            ("SPOP s 0", "[OK]"),
            ("SPOP s 9", "nil"),
            ("DEL h", "nil"),
        ] {
            let watched = format!("WATCH {}", change.split(' ').nth(1).unwrap());
            client.check(&[(&watched, "OK")]);
            assert!(!client.run(change).starts_with('-'), "{change}");
            client.check(&[("MULTI", "OK"), ("SET mine 1", "QUEUED"), ("EXEC", expected)]);
        }
    });
}

#[test]
fn transactions_see_their_own_members() {
    with_client(|client| {
        client.check(&[
            ("MULTI", "OK"),
            ("SET h 1", "QUEUED"),
            ("DEL h", "QUEUED"),
            ("HSET h a 1 b 2", "QUEUED"),
            ("HDEL h a", "QUEUED"),
            ("HSET h c 3", "QUEUED"),
            ("HGETALL h", "QUEUED"),
            ("RENAME h i", "QUEUED"),
            ("COPY i j", "QUEUED"),
            ("SET i 1", "QUEUED"),
            ("HLEN j", "QUEUED"),
            ("EXEC", "[OK :1 :2 :1 :1 ['b' '2' 'c' '3'] OK :1 OK :2]"),
            ("HGETALL j", "['b' '2' 'c' '3']"),
            ("GET i", "'1'"),
        ]);
    });
}

#[test]
fn raw_layout_has_no_objects() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.layout = Some(Layout::Raw));
    let refused = |name: &str| {
        format!(
            "-ERR not in raw mode: a value of the type {name} needs entries of its own, and this directory belongs to another program"
        )
    };
    server.client().check(&[
        ("SET a 1", "OK"),
        ("HSET a f 1", &refused("hash")),
        ("HGET b f", &refused("hash")),
        ("SADD b f", &refused("set")),
        ("SINTER a b", &refused("set")),
        ("SUNIONSTORE a b", &refused("set")),
        ("KEYS *", "['a']"),
    ]);
}

#[test]
fn types_and_encodings() {
    with_client(|client| {
        client.check(&[
            ("HSET h f 1", ":1"),
            ("SADD ints 1 2 3", ":3"),
            ("SADD words 1 a", ":2"),
            ("OBJECT ENCODING h", "'listpack'"),
            ("OBJECT ENCODING ints", "'intset'"),
            ("OBJECT ENCODING words", "'hashtable'"),
            ("SREM words a", ":1"),
            ("OBJECT ENCODING words", "'hashtable'"),
            ("SCAN 0 TYPE hash", "['0' ['h']]"),
            ("SCAN 0 TYPE set", "['0' ['ints' 'words']]"),
            ("TYPE ints", "set"),
            ("TERRACE.RANGE - + VALUES", "[nil ['h' nil 'ints' nil 'words' nil]]"),
            ("HSET h g", "-ERR wrong number of arguments for 'hset' command"),
            ("APPEND h x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("MGET h ints", "[nil nil]"),
            ("TERRACE.DELRANGE - [h", "OK"),
            ("HLEN h", ":0"),
        ]);
        let long = "x".repeat(65);
        client.check(&[(&format!("HSET h f {long}"), ":1"), ("OBJECT ENCODING h", "'hashtable'")]);
        fill(client, "many", 513);
        client.check(&[("OBJECT ENCODING many", "'hashtable'"), ("HLEN many", ":513")]);
    });
}

#[test]
fn scans_of_members() {
    with_client(|client| {
        fill(client, "h", 2000);
        client.check(&[("HSCAN h 0 MATCH *:001234 COUNT 5000", "['0' ['field:001234' 'value']]")]);
        let mut cursor = "0".to_string();
        let mut fields = std::collections::BTreeSet::new();
        loop {
            let reply = client.run(&format!("HSCAN h {cursor} COUNT 70"));
            let words: Vec<&str> = reply.split('\'').collect();
            cursor = words[1].into();
            fields
                .extend(words.iter().filter(|word| word.starts_with("field:")).map(|word| word.to_string()));
            // Deletions do not disturb the scan.
            client.run(&format!("HDEL h {}", fields.iter().next_back().unwrap()));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(fields.len(), 2000);
        client.check(&[(
            "HSCAN h 999999",
            "-ERR the cursor was discarded: the server keeps 65,536 positions, start again with 0",
        )]);
    });
}

#[test]
fn random_members() {
    with_client(|client| {
        let members: Vec<String> = (0..3000).map(|number| format!("m{number}")).collect();
        let words: Vec<&str> = members.iter().map(String::as_str).collect();
        assert_eq!(client.call(&[&["SADD", "s"], &*words].concat()), ":3000");
        let words = |reply: String| -> Vec<String> {
            reply.split('\'').filter(|word| word.starts_with('m')).map(String::from).collect()
        };
        let some = words(client.run("SRANDMEMBER s 100"));
        let different: std::collections::BTreeSet<_> = some.iter().collect();
        assert_eq!((some.len(), different.len()), (100, 100));
        assert_eq!(words(client.run("SRANDMEMBER s -5000")).len(), 5000);
        let popped = words(client.run("SPOP s 1000"));
        assert_eq!(popped.len(), 1000);
        client.check(&[("SCARD s", ":2000"), (&format!("SISMEMBER s {}", popped[7]), ":0")]);
        for _ in 0..100 {
            let member = client.run("SPOP s");
            client.check(&[(&format!("SISMEMBER s {}", member.trim_matches('\'')), ":0")]);
        }
        client.check(&[("SCARD s", ":1900"), ("SUNIONSTORE s s", ":1900"), ("SCARD s", ":1900")]);
        assert_eq!(words(client.run("SPOP s 99999")).len(), 1900);
        client.check(&[("EXISTS s", ":0")]);
        // Each member of a small set is found.
        client.check(&[("SADD t m1 m2 m300 m4", ":4")]);
        let found: std::collections::BTreeSet<String> =
            (0..200).map(|_| client.run("SRANDMEMBER t")).collect();
        assert_eq!(found.len(), 4);
    });
}
