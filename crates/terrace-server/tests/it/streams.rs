//! Streams: random commands like redis-server, clients that wait, and trims by nodes.

use std::time::Duration;

use crate::client::Client;
use crate::model::RedisServer;
use crate::ordered::entries;
use crate::ordered_model::{KEYS, compare};
use crate::server::{Server, with_client};

/// Commands of entries. The IDs are given, because those of the clock differ.
pub(crate) static ENTRIES: &[&str] = &[
    "XADD $stream $add field $value",
    "XADD $stream $add field $value other $value",
    "XADD $stream $add field",
    "XADD $stream NOMKSTREAM $add field $value",
    "XADD $stream MAXLEN !0|1|3|5|-1|x $add field $value",
    "XADD $stream MAXLEN = 4 $add field $value",
    "XADD $stream MINID $id $add field $value",
    "XADD $stream MAXLEN 3 MINID 0 $add field $value",
    "XADD $stream MAXLEN 3 LIMIT 1 $add field $value",
    "XADD $stream LIMIT 1 $add field $value",
    "XLEN $stream",
    "XRANGE $stream $id $id ?COUNT ?1|2|0|-1|x",
    "XRANGE $stream - +",
    "XREVRANGE $stream $id $id ?COUNT ?1|2",
    "XREVRANGE $stream + - COUNT $integer",
    "XDEL $stream $id $id",
    "XDEL $stream $id",
    "XTRIM $stream MAXLEN ?= !2|5|0|x",
    "XTRIM $stream MINID $id",
    "XTRIM $stream ?LIMIT ?2",
    "XTRIM $stream MAXLEN ~ 0",
    "XSETID $stream $id",
    "XSETID $stream $id ENTRIESADDED !7|2|0|-1|x",
    "XSETID $stream 9-20 ENTRIESADDED 30 MAXDELETEDID $id",
    "XREAD ?COUNT ?1|2|0 STREAMS $stream $id",
    "XREAD COUNT !1|2|-1|x STREAMS $stream $stream $id $id",
    "XREAD BLOCK !1|x|-1 STREAMS $stream $",
    "XREAD STREAMS $stream $stream $id",
    "XREAD BLOCK 1 STREAMS $stream >",
    "XREAD GROUP g c STREAMS $stream >",
    "XREAD NOACK STREAMS $stream 0",
];

/// Commands of consumer groups.
pub(crate) static GROUPS: &[&str] = &[
    "XGROUP CREATE $stream $group !0|$|1-1|9-2|x ?MKSTREAM|BAD",
    "XGROUP CREATE $stream $group !0|$ ?ENTRIESREAD ?0|3|-1|-2|x",
    "XGROUP CREATE $stream $group $ MKSTREAM ENTRIESREAD 2",
    "XGROUP SETID $stream $group !0|$|-|5-1|9-1|x ?ENTRIESREAD ?2|-1",
    "XGROUP DESTROY $stream group2",
    "XGROUP CREATECONSUMER $stream $group $consumer",
    "XGROUP DELCONSUMER $stream $group $consumer",
    "XGROUP !CREATE|NOSUCH|DESTROY $stream",
    "XREADGROUP GROUP $group $consumer STREAMS $stream >",
    "XREADGROUP GROUP $group $consumer COUNT !1|2|3 STREAMS $stream >",
    "XREADGROUP GROUP $group $consumer NOACK COUNT 1 STREAMS $stream >",
    "XREADGROUP GROUP $group $consumer ?COUNT ?2|x STREAMS $stream $id",
    "XREADGROUP GROUP $group $consumer COUNT 1 STREAMS $stream $stream > >",
    "XREADGROUP GROUP $group $consumer COUNT 1 STREAMS $stream $stream > 0",
    "XREADGROUP GROUP $group $consumer BLOCK 1 STREAMS $stream >",
    "XREADGROUP GROUP $group $consumer STREAMS $stream $",
    "XREADGROUP COUNT 1 STREAMS $stream $stream $stream > > >",
    "XACK $stream $group $id $id",
    "XACK $stream $group 5-1 9-1 9-2 9-2",
    "XPENDING $stream $group",
    "XPENDING $stream $group $id $id $integer ?$consumer",
    "XPENDING $stream $group IDLE !0|100000|x - + 10 ?$consumer",
    "XPENDING $stream $group - +",
    "XCLAIM $stream $group $consumer 0 $id $id ?JUSTID|FORCE ?JUSTID|FORCE",
    "XCLAIM $stream $group $consumer !0|100000|-1|x 9-1 9-2 ?RETRYCOUNT ?5|-1|x",
    "XCLAIM $stream $group $consumer 0 9-1 9-1 5-1 ?IDLE|TIME 1000 ?FORCE",
    "XCLAIM $stream $group $consumer 0 9-1 LASTID $id",
    "XCLAIM $stream $group $consumer 0 9-1 NOSUCH",
    "XAUTOCLAIM $stream $group $consumer !0|100000|x $id ?COUNT ?1|2|0|x ?JUSTID",
    "XAUTOCLAIM $stream $group $consumer 0 - JUSTID",
    "XINFO STREAM $stream",
    "XINFO STREAM $stream FULL ?COUNT ?1|0|-1|x",
    "XINFO GROUPS $stream",
    "XINFO CONSUMERS $stream $group",
    "XINFO STREAM $stream BAD",
    "RENAME $stream $stream",
    "COPY $stream $stream REPLACE",
    "OBJECT ENCODING $stream",
    "SORT $stream",
    "EXPIRE $stream 100000",
];

/// Replaces times: integers before another integer or after the names of times. Replaces the
/// numbers of nodes, which this server does not have.
pub(crate) fn without_times(command: &[String], reply: &str) -> Option<String> {
    const MASKED: [&str; 4] = ["'idle'", "'seen-time'", "'radix-tree-keys'", "'radix-tree-nodes'"];
    match command[0].as_str() {
        "XINFO" => {}
        // Redis checks subcommands when it queues them.
        "XGROUP" if command.len() == 3 && reply.is_empty() => return None,
        "XPENDING" if command.len() > 3 => {}
        _ => return Some(reply.into()),
    }
    // The reply of EXEC would have other integers, too.
    if reply.is_empty() {
        return None;
    }
    let words: Vec<&str> = reply.split(' ').collect();
    let mut masked = words.clone();
    for (at, word) in masked.iter_mut().enumerate() {
        let is_before_integer = words.get(at + 1).is_some_and(|next| next.starts_with(':'));
        let is_named = at > 0 && MASKED.iter().any(|name| words[at - 1].ends_with(name));
        if word.starts_with(':') && (is_before_integer || is_named) {
            *word = ":?";
        }
    }
    Some(masked.join(" "))
}

#[test]
fn entries_like_redis() {
    compare(&[ENTRIES, ENTRIES, ENTRIES, KEYS], 2506, 6000, 1500, without_times);
}

#[test]
fn groups_like_redis() {
    compare(&[ENTRIES, GROUPS, GROUPS, GROUPS, KEYS], 2507, 10_000, 2000, without_times);
}

/// Both servers, or None without redis-server.
fn both_servers(dir: &tempfile::TempDir) -> Option<(RedisServer, Server)> {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its replies are not compared");
        return None;
    };
    Some((redis, Server::start(dir.path(), |_| {})))
}

/// Runs `body` with two clients of each server and compares the replies that it returns.
fn check_like_redis(body: impl Fn(&mut Client, &mut Client) -> Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let Some((redis, server)) = both_servers(&dir) else { return };
    let [expected, found] = [redis.address, server.address].map(|address| {
        let [mut first, mut second] = [(); 2].map(|()| Client::connect(address));
        body(&mut first, &mut second)
    });
    assert_eq!(found, expected);
}

/// Waits until a client of the server waits.
fn wait_for_blocked(client: &mut Client) {
    for _ in 0..2000 {
        if client.run("INFO clients").contains("blocked_clients:1") {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no client waits");
}

#[test]
fn clients_that_wait() {
    let reads = [
        "XREAD BLOCK 20000 STREAMS s $",
        "XREAD BLOCK 20000 COUNT 1 STREAMS other s 5-0 1-1",
        "XREADGROUP GROUP g alice BLOCK 20000 STREAMS s >",
        "XREADGROUP GROUP g alice BLOCK 20000 NOACK COUNT 1 STREAMS s >",
    ];
    let writes: [&[&str]; 9] = [
        &["XADD s 2-1 f v"],
        &["MULTI", "XADD s 2-1 f v", "XADD s 2-2 f v", "EXEC"],
        &["EVAL return{redis.call('XADD','s','2-1','f','v'),redis.call('XADD','s','2-2','f','v')} 0"],
        &["DEL s", "XADD s 9-1 f v"],
        &["SET s text", "DEL s", "XADD s 9-1 f v"],
        &["XGROUP DESTROY s g", "XADD s 9-1 f v"],
        &["XADD t 7-1 f v", "RENAME t s", "XADD s 9-1 f v"],
        &["FLUSHALL", "XADD s 9-1 f v"],
        &["XTRIM s MAXLEN 0", "XSETID s 5-5", "XADD s 9-1 f v"],
    ];
    for read in reads {
        for write in writes {
            check_like_redis(|reader, writer| {
                writer.run("FLUSHALL");
                let mut replies = vec![format!("{read} {write:?}")];
                replies.push(writer.run("XADD s 1-1 f v"));
                replies.push(writer.run("XGROUP CREATE s g $"));
                reader.send(&read.split(' ').collect::<Vec<_>>());
                wait_for_blocked(writer);
                replies.extend(write.iter().map(|line| writer.run(line)));
                replies.push(reader.reply());
                replies.push(writer.run("XPENDING s g"));
                replies.push(writer.run("XINFO GROUPS s"));
                replies
            });
        }
    }
}

/// Redis replies an empty list of entries to XREAD. Here, the client waits for an entry.
#[test]
fn entry_that_is_deleted_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let [mut reader, mut writer] = [(); 2].map(|()| server.client());
    reader.send(&["XREAD", "BLOCK", "20000", "STREAMS", "s", "$"]);
    wait_for_blocked(&mut writer);
    for line in ["MULTI", "XADD s 2-1 f v", "XDEL s 2-1", "EXEC", "XADD s 3-1 f v"] {
        writer.run(line);
    }
    assert_eq!(reader.reply(), "[['s' [['3-1' ['f' 'v']]]]]");
}

#[test]
fn waits_that_end_without_an_entry() {
    check_like_redis(|reader, _| {
        let mut replies = Vec::new();
        for line in [
            "XREAD BLOCK 5 STREAMS s $",
            "XGROUP CREATE s g $ MKSTREAM",
            "XREADGROUP GROUP g c BLOCK 5 STREAMS s >",
            "XREADGROUP GROUP g c BLOCK 5 STREAMS s s > >",
            "XINFO CONSUMERS s g",
            "MULTI",
            "XREAD BLOCK 0 STREAMS s $",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
            "EXEC",
            "EVAL return{redis.call('XREAD','BLOCK','0','STREAMS','s','$')} 0",
            "EVAL return(redis.call('XRANGE','s','-','+')) 0",
        ] {
            replies.push(format!("{line}: {}", reader.run(line)));
        }
        replies
    });
}

#[test]
fn trims_by_nodes() {
    check_like_redis(|client, _| {
        let fill = |client: &mut Client, stream: &str, options: &str| {
            for number in 1..=250 {
                client.run(&format!("XADD {stream} {options} {number}-1 f {number}"));
            }
            client.run(&format!("XLEN {stream}"))
        };
        let mut replies = vec![
            fill(client, "bounded", "MAXLEN ~ 120"),
            fill(client, "limited", "MAXLEN ~ 10 LIMIT 50"),
            fill(client, "unlimited", "MAXLEN ~ 10 LIMIT 0"),
        ];
        for trim in ["MAXLEN ~ 200", "MAXLEN ~ 60", "MINID ~ 150", "MINID ~ 210-5", "MAXLEN ~ 0 LIMIT 100"] {
            fill(client, "s", "");
            for _ in 0..2 {
                replies.push(client.run(&format!("XTRIM s {trim}")));
                replies.push(client.run("XRANGE s - + COUNT 1"));
            }
            client.run("DEL s");
        }
        fill(client, "mixed", "");
        // Exact trims leave a part of the first node.
        for trim in ["MAXLEN 222", "MAXLEN ~ 180", "MAXLEN ~ 60", "MINID 240", "MINID ~ 245", "MAXLEN ~ 0"] {
            replies.push(client.run(&format!("XTRIM mixed {trim}")));
        }
        client.run("CONFIG SET stream-node-max-entries 10");
        replies.push(fill(client, "small", "MAXLEN ~ 55 LIMIT 30"));
        replies
    });
}

#[test]
fn ids_of_the_clock() {
    with_client(|client| {
        let first = client.run("XADD s * f v");
        assert_eq!(client.run("XADD s * f v").len(), first.len());
        let ms: u64 = first.trim_matches('\'').split('-').next().unwrap().parse().unwrap();
        assert!(ms > 1_600_000_000_000);
        let later = (ms + 1_000_000_000).to_string();
        client.check(&[
            (&format!("XADD s {later}-5 f v"), &format!("'{later}-5'")),
            // The clock is before the last ID.
            ("XADD s * f v", &format!("'{later}-6'")),
            (&format!("XADD s {later}-* f v"), &format!("'{later}-7'")),
            (
                "XADD s 18446744073709551615-18446744073709551615 f v",
                "'18446744073709551615-18446744073709551615'",
            ),
            ("XADD s * f v", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
            ("XLEN s", ":6"),
            ("TYPE s", "stream"),
        ]);
    });
}

#[test]
fn records_of_the_format_document() {
    let document = include_str!("../../../../docs/format/serve.md");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[
        ("XADD Bern 5-1 temp 20", "'5-1'"),
        ("XGROUP CREATE Bern g 0", "OK"),
        ("XCLAIM Bern g c 0 5-1 TIME 1700000000000 RETRYCOUNT 3 FORCE", "[['5-1' ['temp' '20']]]"),
    ]);
    drop(server);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
    for (key, value) in entries(dir.path()).iter().filter(|(key, _)| key[0] != 0) {
        // The time of the consumer's last command differs.
        let is_consumer = key[0] == 0x14 && key[9] == 2;
        let value = if is_consumer { " ..".repeat(8) + &hex(&value[8..]) } else { hex(value) };
        let line = format!(" {}:{value}\n", hex(key));
        assert!(document.contains(&line), "the document has no line {line}");
    }
}

/// Waits until the directory has no records of members.
fn wait_for_garbage_collection(dir: &std::path::Path) {
    for _ in 0..200 {
        let server = Server::start(dir, |_| {});
        std::thread::sleep(Duration::from_millis(100));
        drop(server);
        if entries(dir).iter().all(|(key, _)| key[0] != 0x14) {
            return;
        }
    }
    panic!("garbage remains");
}

#[test]
fn deleted_streams_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    for _ in 0..50 {
        client.run("XADD s * f v");
    }
    client.check(&[
        ("XGROUP CREATE s g 0", "OK"),
        ("COPY s t", ":1"),
        ("XLEN t", ":50"),
        ("XGROUP DESTROY t g", ":1"),
        ("XINFO GROUPS t", "[]"),
        ("DEL s t", ":2"),
    ]);
    drop(client);
    drop(server);
    wait_for_garbage_collection(dir.path());
}

#[test]
fn large_streams() {
    with_client(|client| {
        for number in 1..=5000 {
            client.send(&["XADD", "s", &format!("{number}-0"), "f", "v"]);
        }
        (0..5000).for_each(|_| drop(client.reply()));
        client.run("XGROUP CREATE s g 0");
        assert_eq!(client.run("XRANGE s - +").matches("['f' 'v']").count(), 5000);
        assert_eq!(client.run("XREADGROUP GROUP g c STREAMS s >").matches("['f' 'v']").count(), 5000);
        client.check(&[
            ("XPENDING s g", "[:5000 '1-0' '5000-0' [['c' '5000']]]"),
            ("XTRIM s MAXLEN 2", ":4998"),
            ("XAUTOCLAIM s g d 0 - COUNT 1 JUSTID", "['2-0' [] ['1-0']]"),
            ("XGROUP DELCONSUMER s g c", ":4999"),
            ("XPENDING s g", "[:0 nil nil nil]"),
        ]);
    });
}

#[test]
fn keys_of_commands() {
    check_like_redis(|client, _| {
        let lines = [
            "EVAL x 2 a b c",
            "EVALSHA x 0",
            "ZUNION 2 a b",
            "ZUNIONSTORE d 2 a b WEIGHTS 1 2",
            "LMPOP 1 a LEFT",
            "BLMPOP 0 2 a b LEFT",
            "SINTERCARD 1 a",
            "XREAD COUNT 1 STREAMS a b 0 0",
            "XREADGROUP GROUP STREAMS c STREAMS a >",
            "XGROUP CREATE s g 0",
            "XINFO STREAM s",
            "OBJECT ENCODING k",
            "MEMORY USAGE k",
            "SORT a BY store STORE b",
            "GEORADIUS g 1 1 1 m STORE x",
            "SET a b",
            "SET a b GET",
            "GET a",
            "MSET a 1 b 2",
            "BITOP NOT a b",
            "BITFIELD a GET u8 0",
            "BITFIELD a SET u8 0 1",
            "LMOVE a b LEFT LEFT",
            "RENAME a b",
            "DEL a b",
            "PFMERGE a b",
            "SINTERSTORE a b c",
            "PING x",
            "GET a b",
            "LMPOP 0 a LEFT",
            "NOSUCH x",
        ];
        let line = |command: &str, line: &&str| format!("COMMAND {command} {line}");
        let lines = ["GETKEYS", "GETKEYSANDFLAGS"].map(|command| lines.map(|inner| line(command, &inner)));
        lines.iter().flatten().map(|line| format!("{line}: {}", client.run(line))).collect()
    });
}

#[test]
fn sizes_of_objects() {
    with_client(|client| {
        for number in 100..200 {
            client.run(&format!("HSET h field{number} value{number}"));
            client.run(&format!("ZADD z {number} member{number}"));
        }
        let mut size = |line: &str| -> u64 { client.run(line).trim_start_matches(':').parse().unwrap() };
        // Members of one size give the exact size. The first records of a sorted set have scores.
        let exact = size("MEMORY USAGE h SAMPLES 0");
        assert_eq!(exact, 4 + 18 + 100 * (9 + 8 + 8));
        assert_eq!(size("MEMORY USAGE h"), exact);
        assert_eq!(size("MEMORY USAGE z SAMPLES 0"), size("MEMORY USAGE z"));
        client.check(&[("MEMORY USAGE none", "nil"), ("MEMORY USAGE h SAMPLES -1", "-ERR syntax error")]);
    });
}
