//! Replies that Redis' own test suite asks for, and that no other test here compares.

use std::time::Duration;

use crate::page::wait_for;
use crate::server::{Server, with_client};

#[test]
fn monitor_shows_scripts_before_their_commands() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut monitor = server.client();
    monitor.check(&[("MONITOR", "OK")]);
    let mut client = server.client();
    client.check(&[("EVAL redis.call('set',KEYS[1],ARGV[1]) 1 foo bar", "nil")]);
    assert!(monitor.reply().contains("\"EVAL\""));
    let line = monitor.reply();
    assert!(line.contains("lua]") && line.ends_with("\"set\" \"foo\" \"bar\""), "{line}");
    assert!(client.run("INFO commandstats").contains("cmdstat_set:calls=1,"));
}

#[test]
fn confirmations_of_subscriptions_are_no_replies() {
    with_client(|client| {
        client.send(&["CLIENT", "REPLY", "OFF"]);
        client.send(&["SET", "a", "1"]);
        assert_eq!(client.run("SUBSCRIBE c"), "['subscribe' 'c' :1]");
        assert_eq!(client.run("UNSUBSCRIBE c"), "['unsubscribe' 'c' :0]");
        client.send(&["GET", "a"]);
        assert_eq!(client.run("CLIENT REPLY ON"), "OK");
    });
}

#[test]
fn writes_that_a_pause_holds() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let mut held: Vec<_> = (0..4).map(|_| server.client()).collect();
    held[3].check(&[("MULTI", "OK"), ("INCR n", "QUEUED")]);
    let mut reader = server.client();
    reader.check(&[("MULTI", "OK"), ("GET n", "QUEUED")]);
    client.check(&[("PFADD h x", ":1"), ("CLIENT PAUSE 100000 WRITE", "OK")]);
    reader.check(&[("EXEC", "[nil]"), ("GET n", "nil")]);
    for (client, line) in held.iter_mut().zip(["SET a 1", "PFCOUNT h", "PUBLISH c x", "EXEC"]) {
        client.send(&line.split(' ').collect::<Vec<_>>());
    }
    // Each wait has short interruptions.
    let is_held = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        client.run("INFO clients").contains("blocked_clients:4")
    });
    assert!(is_held);
    client.check(&[("CLIENT UNPAUSE", "OK")]);
    let replies: Vec<String> = held.iter_mut().map(|client| client.reply()).collect();
    assert_eq!(replies, ["OK", ":1", ":0", "[:1]"]);
}

#[test]
fn config_set_changes_everything_or_nothing() {
    with_client(|client| {
        client.check(&[
            ("CONFIG SET maxmemory 10mb timeout 7", "OK"),
            ("CONFIG GET maxmemory", "['maxmemory' '10485760']"),
            (
                "CONFIG SET maxmemory 1 timeout x",
                "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer",
            ),
            (
                "CONFIG SET timeout 1 TIMEOUT 2",
                "-ERR CONFIG SET failed (possibly related to argument 'TIMEOUT') - duplicate parameter",
            ),
            ("CONFIG GET maxmemory timeout", "['maxmemory' '10485760' 'timeout' '7']"),
            ("CONFIG SET hash-max-ziplist-entries 5", "OK"),
            ("CONFIG GET hash-max-listpack-entries", "['hash-max-listpack-entries' '5']"),
            (
                "CONFIG SET databases 16",
                "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
            ),
        ]);
    });
}

#[test]
fn refused_exec_ends_multi() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let mut busy = server.client();
    client.check(&[("CONFIG SET lua-time-limit 10", "OK"), ("MULTI", "OK"), ("INCR n", "QUEUED")]);
    busy.send(&["EVAL", "while true do end", "0"]);
    let mut other = server.client();
    wait_for(|| other.run("PING").starts_with("-BUSY "));
    let reply = client.run("EXEC");
    assert!(reply.starts_with("-EXECABORT Transaction discarded because of: BUSY "), "{reply}");
    client.check(&[("SCRIPT KILL", "OK")]);
    assert!(busy.reply().starts_with("-ERR "));
    client.check(&[("PING", "PONG"), ("GET n", "nil")]);
}

#[test]
fn random_keys_of_few() {
    with_client(|client| {
        client.check(&[("MSET foo 1 bar 2", "OK")]);
        let found: std::collections::BTreeSet<String> = (0..100).map(|_| client.run("RANDOMKEY")).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["'bar'", "'foo'"]);
    });
}

#[test]
fn keys_of_commands() {
    with_client(|client| {
        for (line, expected) in [
            ("ZUNIONSTORE a 2 b c", "['a' 'b' 'c']"),
            ("EVAL x 2 a b c", "['a' 'b']"),
            ("EVAL x 0", "[]"),
            ("SORT a STORE b STORE c", "['a' 'c']"),
            ("MEMORY USAGE a", "['a']"),
            ("LMPOP 2 a b LEFT", "['a' 'b']"),
            ("PING", "-ERR wrong number of arguments for 'command|getkeys' command"),
            ("PING x", "-ERR The command has no key arguments"),
        ] {
            client.check(&[(&format!("COMMAND GETKEYS {line}"), expected)]);
        }
        client.check(&[
            ("COMMAND LIST FILTERBY PATTERN xr*ge", "['xrange' 'xrevrange']"),
            ("COMMAND LIST FILTERBY PATTERN config|g*", "['config|get']"),
            ("COMMAND LIST FILTERBY ACLCAT nothing", "[]"),
            ("COMMAND LIST FILTERBY MODULE nothing", "[]"),
            ("MODULE LIST", "[]"),
            ("MODULE LOAD a.so", "-ERR modules are not supported by Terrace"),
            ("COMMAND LIST FILTERBY ACLCAT hyperloglog FILTERBY", "-ERR syntax error"),
        ]);
        assert!(client.run("COMMAND INFO sort").contains("movablekeys"));
        assert!(client.run("COMMAND LIST FILTERBY ACLCAT hyperloglog").contains("'pfadd' 'pfcount'"));
        assert!(client.run("COMMAND LIST FILTERBY ACLCAT scripting").contains("'script|kill'"));
    });
}

#[test]
fn examples_of_the_protocol() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut client = server.client();
    client.check(&[
        ("DEBUG PROTOCOL map", "[:0 :0 :1 :1 :2 :0]"),
        ("DEBUG PROTOCOL bignum", "'1234567999999999999999999999999999999'"),
        (r"EVAL return{big_number='1\n2'} 0", "'1 2'"),
        ("SADD s a b", ":2"),
        ("SADD t b a", ":2"),
    ]);
    let digests = client.run("DEBUG DIGEST-VALUE s t x");
    let words: Vec<&str> = digests.trim_matches(['[', ']']).split(' ').collect();
    assert!(words[0] == words[1] && words[0].len() == 40 && words[2] == "0".repeat(40), "{digests}");
    client.run("HELLO 3");
    client.check(&[
        ("DEBUG PROTOCOL map", "{:0 #f :1 #t :2 #f}"),
        ("DEBUG PROTOCOL bignum", "(1234567999999999999999999999999999999"),
        ("DEBUG PROTOCOL null", "nil"),
        ("DEBUG PROTOCOL push", ">['server-cpu-usage' :42]"),
    ]);
    assert!(client.run("DEBUG PROTOCOL x").starts_with("-ERR Wrong protocol type name."));
}
