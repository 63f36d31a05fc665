//! MULTI, EXEC, DISCARD, WATCH.

use std::time::Duration;

use crate::page::wait_for;
use crate::server::{Server, in_both_layouts};

#[test]
fn commands_see_earlier_ones() {
    in_both_layouts(|client| {
        client.check(&[
            ("SET gone 1", "OK"),
            ("MULTI", "OK"),
            ("SET a 1", "QUEUED"),
            ("INCR a", "QUEUED"),
            ("DEL gone", "QUEUED"),
            ("EXISTS gone a", "QUEUED"),
            ("KEYS *", "QUEUED"),
            ("PFDEBUG a b", "-ERR the command 'pfdebug' is not supported by Terrace"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("GET a", "nil"),
            ("MULTI", "OK"),
            ("SET a 1", "QUEUED"),
            ("INCR a", "QUEUED"),
            ("DEL gone", "QUEUED"),
            ("EXISTS gone a", "QUEUED"),
            ("KEYS *", "QUEUED"),
            ("DBSIZE", "QUEUED"),
            ("EXEC", "[OK :2 :1 :1 ['a'] :1]"),
            ("GET a", "'2'"),
        ]);
    });
}

#[test]
fn errors_of_transactions() {
    in_both_layouts(|client| {
        client.check(&[
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("MULTI", "OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("SET a x", "QUEUED"),
            ("INCR a", "QUEUED"),
            ("SET b y", "QUEUED"),
            ("EXEC", "[OK -ERR value is not an integer or out of range OK]"),
            ("MULTI", "OK"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
            ("SET a z", "QUEUED"),
            ("DISCARD", "OK"),
            ("MGET a b", "['x' 'y']"),
            ("MULTI", "OK"),
            ("SET a", "-ERR wrong number of arguments for 'set' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "OK"),
            ("EXEC", "[]"),
        ]);
    });
}

/// Watches `watched`, runs `other` on another connection, and returns the reply of EXEC.
fn exec_after(watched: &str, other: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut client = server.client();
    let mut second = server.client();
    client.check(&[("MSET a 1 b 2", "OK"), (&format!("WATCH {watched}"), "OK")]);
    for line in other {
        let reply = second.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    client.check(&[("MULTI", "OK"), ("SET mine 1", "QUEUED")]);
    client.run("EXEC")
}

#[test]
fn changes_of_watched_keys() {
    for change in
        ["SET a 1", "DEL a", "RENAME a c", "INCR a", "FLUSHDB", "FLUSHALL", "SWAPDB 0 1", "EXPIRE a 100"]
            .into_iter()
            .chain(["SETBIT a 7 0", "SETBIT a 8 0", "BITFIELD a SET u8 0 50", "BITFIELD a SET u8 8 0"])
    {
        assert_eq!(exec_after("a", &[change]), "nil", "{change}");
    }
    assert_eq!(exec_after("x", &["SET x 1", "DEL x"]), "nil");
    // The watch stays with the database, whose namespace changes.
    assert_eq!(exec_after("x", &["FLUSHDB", "SET x 1"]), "nil");
    assert_eq!(exec_after("x", &["SWAPDB 0 1", "SET x 1"]), "nil");
    assert_eq!(exec_after("x", &["SWAPDB 0 1", "SELECT 1", "SET x 1"]), "[OK]");
    assert_eq!(exec_after("a", &["TERRACE.DELRANGE - +"]), "nil");
    assert_eq!(exec_after("a", &["MULTI", "SET a 2", "EXEC"]), "nil");
}

#[test]
fn other_commands() {
    for change in ["SET b 1", "GET a", "SETNX a 2", "DEL x", "SELECT 1"]
        .into_iter()
        // The string is `1`, 49 as a number.
        .chain(["SETBIT a 7 1", "BITFIELD a SET u8 0 49", "BITFIELD a OVERFLOW FAIL INCRBY u8 0 999"])
    {
        assert_eq!(exec_after("a", &[change]), "[OK]", "{change}");
    }
    assert_eq!(exec_after("x", &["FLUSHDB"]), "[OK]");
    assert_eq!(exec_after("a", &["SELECT 1", "SET a 5"]), "[OK]");
    assert_eq!(exec_after("a", &["MULTI", "SET a 2", "DISCARD"]), "[OK]");
}

#[test]
fn flushes_and_swaps_within_multi() {
    crate::server::with_client(|client| {
        client.check(&[
            ("MSET a 1 b 2", "OK"),
            ("MULTI", "OK"),
            ("SET c 3", "QUEUED"),
            ("FLUSHALL", "QUEUED"),
            ("DBSIZE", "QUEUED"),
            ("SET d 4", "QUEUED"),
            ("SWAPDB 0 5", "QUEUED"),
            ("SET e 5", "QUEUED"),
            ("FLUSHDB", "QUEUED"),
            ("RPUSH f 6", "QUEUED"),
            ("EXEC", "[OK OK :0 OK OK OK OK :1]"),
            ("KEYS *", "['f']"),
            ("SELECT 5", "OK"),
            ("KEYS *", "['d']"),
            ("EVAL redis.call('flushall')return(redis.call('dbsize')) 0", ":0"),
            ("DBSIZE", ":0"),
        ]);
    });
    // Changes before and after the flush, in either namespace.
    assert_eq!(exec_after("a", &["MULTI", "FLUSHDB", "EXEC"]), "nil");
    assert_eq!(exec_after("x", &["MULTI", "SET x 1", "FLUSHDB", "EXEC"]), "nil");
    assert_eq!(exec_after("x", &["MULTI", "FLUSHDB", "SET x 1", "EXEC"]), "nil");
    assert_eq!(exec_after("x", &["MULTI", "FLUSHALL", "SET y 1", "EXEC"]), "[OK]");
}

/// Two clients: the lines of the first one begin with a space.
#[track_caller]
fn check_stale(lines: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut clients = [server.client(), server.client()];
    clients[1].check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("SET a 1 PX 1", "OK")]);
    std::thread::sleep(Duration::from_millis(10));
    for (line, expected) in lines {
        clients[usize::from(!line.starts_with(' '))].check(&[(line, expected)]);
    }
    clients[0].check(&[("MULTI", "OK"), ("SET mine 1", "QUEUED"), ("EXEC", "[OK]")]);
}

#[test]
fn watch_of_an_expired_key() {
    check_stale(&[(" WATCH a", "OK"), ("FLUSHDB", "OK")]);
    check_stale(&[(" WATCH a", "OK"), ("SWAPDB 0 1", "OK")]);
    check_stale(&[(" SELECT 1", "OK"), (" WATCH a", "OK"), ("SWAPDB 0 1", "OK")]);
    check_stale(&[(" WATCH a", "OK"), ("DEL a", ":0")]);
}

#[test]
fn deletion_of_a_watched_expired_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut client = server.client();
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("SET a 1 PX 1", "OK")]);
    std::thread::sleep(Duration::from_millis(10));
    client.check(&[("WATCH a", "OK"), ("DEBUG SET-ACTIVE-EXPIRE 1", "OK")]);
    wait_for(|| client.run("INFO stats").contains("expired_keys:1"));
    client.check(&[("MULTI", "OK"), ("PING", "QUEUED"), ("EXEC", "[PONG]")]);
}

#[test]
fn expiry_of_a_watched_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.check(&[("SET a 1 PX 30", "OK"), ("WATCH a", "OK")]);
    std::thread::sleep(Duration::from_millis(40));
    client.check(&[("MULTI", "OK"), ("SET b 1", "QUEUED"), ("EXEC", "nil")]);
    client.check(&[("WATCH b", "OK"), ("SET b 2", "OK"), ("UNWATCH", "OK")]);
    client.check(&[("MULTI", "OK"), ("GET b", "QUEUED"), ("EXEC", "['2']")]);
}

#[test]
fn counters_of_eight_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..200 {
                    client.check(&[("MULTI", "OK"), ("INCR a", "QUEUED"), ("INCR b", "QUEUED")]);
                    let reply = client.run("EXEC");
                    let numbers = reply.trim_matches(['[', ']']).split_once(' ').unwrap();
                    assert_eq!(numbers.0, numbers.1);
                    client.run("INCR c");
                }
            });
        }
    });
    server.client().check(&[("MGET a b c", "['1600' '1600' '1600']")]);
}

#[test]
fn increments_of_eight_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..20 {
                    client.send_bytes(&crate::client::encode(&["INCR", "n"]).repeat(500));
                    for _ in 0..500 {
                        client.reply();
                    }
                }
            });
        }
    });
    server.client().check(&[("GET n", "'80000'")]);
}

#[test]
fn long_transactions_and_commands() {
    in_both_layouts(|client| {
        let mut pipeline = crate::client::encode(&["MULTI"]);
        pipeline.extend(crate::client::encode(&["INCR", "n"]).repeat(3000));
        pipeline.extend(crate::client::encode(&["EXEC"]));
        client.send_bytes(&pipeline);
        for _ in 0..3001 {
            client.reply();
        }
        assert!(client.reply().ends_with(" :3000]"));
        let keys: Vec<String> = (0..3000).map(|number| format!("key:{number}")).collect();
        let pairs: Vec<&str> = keys.iter().flat_map(|key| [key.as_str(), "x"]).collect();
        assert_eq!(client.call(&[&["MSET"], &*pairs].concat()), "OK");
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(client.call(&[&["EXISTS"], &*names].concat()), ":3000");
        assert_eq!(client.call(&[&["DEL"], &*names].concat()), ":3000");
    });
}
