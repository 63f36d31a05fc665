//! Lists and sorted sets: their records, large values, random members, damage.

use std::collections::BTreeSet;
use std::path::Path;

use terrace::{Db, Options};

use crate::client::Client;
use crate::server::{Server, with_client};

/// Number of members of a large value, more than a worker reads in one turn.
const LARGE: usize = 3000;

/// Entries of the directory `dir` that no server uses.
pub(crate) fn entries(dir: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::open(dir, &Options::default()).unwrap();
    let entries = db.iter().map(Result::unwrap).collect();
    db.close().unwrap();
    entries
}

#[test]
fn records_of_the_format_document() {
    let document = include_str!("../../../../docs/format/serve.md");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.check(&[("ZADD Chur -1 a 46.85 b", ":2"), ("LPUSH Bern x y", ":2")]);
    drop(client);
    drop(server);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
    for (key, value) in entries(dir.path()).iter().filter(|(key, _)| key[0] != 0) {
        let line = format!(" {}:{}\n", hex(key), hex(value));
        assert!(document.contains(&line), "the document has no line {line}");
    }
}

/// Fills the list `l` with the numbers from 0 on.
fn fill_list(client: &mut Client) -> Vec<String> {
    let numbers: Vec<String> = (0..LARGE).map(|number| number.to_string()).collect();
    let command: Vec<&str> = ["RPUSH", "l"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    assert_eq!(client.call(&command), format!(":{LARGE}"));
    numbers
}

fn list_text(elements: &[String]) -> String {
    format!("[{}]", elements.iter().map(|element| format!("'{element}'")).collect::<Vec<_>>().join(" "))
}

#[test]
fn large_list() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let mut expected = fill_list(&mut client);
    for at in [10, LARGE - 10] {
        let pivot = at.to_string();
        client.call(&["LINSERT", "l", "BEFORE", &pivot, "new"]);
        let position = expected.iter().position(|element| *element == pivot).unwrap();
        expected.insert(position, "new".into());
        assert_eq!(client.run("LRANGE l 0 -1"), list_text(&expected));
    }
    for removed in ["5", "2990", "1500", "new"] {
        client.call(&["LREM", "l", "0", removed]);
        expected.retain(|element| element != removed);
        assert_eq!(client.run("LRANGE l 0 -1"), list_text(&expected));
    }
    client.check(&[("LPOS l 2999 RANK -1", ":2996"), ("LINDEX l -1", "'2999'")]);
    assert_eq!(client.run("LTRIM l 100 149"), "OK");
    assert_eq!(client.run("LRANGE l 0 -1"), list_text(&expected[100..150]));
    client.check(&[
        ("RPUSH l end", ":51"),
        ("LINDEX l -1", "'end'"),
        ("LTRIM l 5 1", "OK"),
        ("EXISTS l", ":0"),
    ]);
}

/// Fills the sorted set `z` with members whose scores are half of their numbers.
fn fill_set(client: &mut Client) {
    let pairs = (0..LARGE).flat_map(|number| [(number / 2).to_string(), format!("m{number:04}")]);
    let command: Vec<String> = ["ZADD".to_owned(), "z".to_owned()].into_iter().chain(pairs).collect();
    assert_eq!(client.call(&command), format!(":{LARGE}"));
}

#[test]
fn large_sorted_set() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    fill_set(&mut client);
    for rank in [0, 1, 700, 1499, 1500, 2300, LARGE - 1] {
        let member = format!("m{rank:04}");
        assert_eq!(client.call(&["ZRANK", "z", &member]), format!(":{rank}"));
        assert_eq!(client.call(&["ZREVRANK", "z", &member]), format!(":{}", LARGE - 1 - rank));
        assert_eq!(client.run(&format!("ZRANGE z {rank} {rank}")), format!("['{member}']"));
    }
    client.check(&[
        ("ZCOUNT z (0 +inf", &format!(":{}", LARGE - 2)),
        ("ZREVRANGE z 0 1", "['m2999' 'm2998']"),
        ("OBJECT ENCODING z", "'skiplist'"),
        ("ZREMRANGEBYRANK z 10 2989", ":2980"),
        ("ZRANGE z 9 10", "['m0009' 'm2990']"),
        ("ZREMRANGEBYSCORE z -inf inf", ":20"),
        ("EXISTS z", ":0"),
    ]);
}

#[test]
fn scan_of_a_large_sorted_set() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    fill_set(&mut client);
    let mut cursor = "0".to_owned();
    let mut found = BTreeSet::new();
    loop {
        let reply = client.call(&["ZSCAN", "z", &cursor, "COUNT", "700", "MATCH", "m*5"]);
        let words: Vec<&str> = reply.split(['[', ']', ' ', '\'']).filter(|word| !word.is_empty()).collect();
        cursor = words[0].to_owned();
        for pair in words[1..].chunks(2) {
            assert!(found.insert(pair[0].to_owned()), "{} twice", pair[0]);
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), LARGE / 10);
}

#[test]
fn random_members() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.run("ZADD z 1 a 2 b 3 c 4 d 5 e");
    let mut seen = BTreeSet::new();
    for count in 1..5 {
        for _ in 0..30 {
            let reply = client.run(&format!("ZRANDMEMBER z {count}"));
            let members: BTreeSet<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
            assert_eq!(members.len(), count, "{reply}");
            seen.extend(members.into_iter().map(String::from));
        }
    }
    assert_eq!(seen.len(), 5);
    let reply = client.run("ZRANDMEMBER z -20 WITHSCORES");
    assert_eq!(reply.split(' ').count(), 40);
    client.check(&[
        ("ZRANDMEMBER z 9 WITHSCORES", "['a' '1' 'b' '2' 'c' '3' 'd' '4' 'e' '5']"),
        ("ZRANDMEMBER z 0", "[]"),
        ("ZRANDMEMBER z -9223372036854775807 WITHSCORES", "-ERR value is out of range"),
        ("ZRANDMEMBER z -9000000000000", "-ERR the members of the command exceed 256 MiB"),
    ]);
}

#[test]
fn missing_element_of_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("RPUSH l a b c", ":3"), ("RPUSH other x", ":1")]);
    drop(server);
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let key = db.iter().map(Result::unwrap).find(|(key, value)| key[0] == 0x13 && value == b"b").unwrap().0;
    db.delete(&key).unwrap();
    db.close().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let damaged = "-ERR damaged: an element of the list is missing";
    server.client().check(&[
        ("LRANGE l 0 -1", damaged),
        ("LINDEX l 1", damaged),
        ("LPOP l", "'a'"),
        ("LPOP l", damaged),
        ("RPOP l", "'c'"),
        ("LPOP other", "'x'"),
        ("DEL l", ":1"),
    ]);
}

#[test]
fn raw_layout_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.layout = Some(terrace_server::Layout::Raw));
    let mut client = server.client();
    for line in ["LPUSH a x", "ZADD a 1 x", "GEOADD a 1 1 x", "BLPOP a 1", "ZUNIONSTORE a 1 b"] {
        let reply = client.run(line);
        assert!(reply.starts_with("-ERR not in raw mode") || line.starts_with("ZUNION"), "{line}: {reply}");
    }
}

/// Symptom: ZREMRANGEBYLEX removed members of other scores before its begin. Cause: `+` was the end
/// of all scores. Guarantee: it ends the lowest score.
#[test]
fn ranges_of_members_with_different_scores() {
    with_client(|client| {
        client.check(&[
            ("ZADD z 3 c 4 d 5 e", ":3"),
            ("ZLEXCOUNT z [zz +", ":0"),
            ("ZRANGEBYLEX z [c +", "['c']"),
            ("ZRANGEBYLEX z - +", "['c' 'd' 'e']"),
            ("ZREMRANGEBYLEX z [zz +", ":0"),
            ("ZREMRANGEBYLEX z - +", ":3"),
        ]);
    });
}
