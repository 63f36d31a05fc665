//! Expiry under a clock of the test.

use std::sync::Arc;
use std::time::Duration;

use terrace::Env;
use terrace::env::ManualClock;

use crate::client::Client;
use crate::server::{Server, with_client};

/// Runs `body` with a client and the clock of a server.
fn with_clock(body: impl FnOnce(&mut Client, &ManualClock)) {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let dir = tempfile::tempdir().unwrap();
    let env = Env { clock: Arc::clone(&clock) as _, ..Env::system() };
    let server = Server::start(dir.path(), |config| {
        config.engine = terrace::Options::default().env(env);
        config.enable_debug = true;
    });
    body(&mut server.client(), &clock);
}

#[test]
fn key_ends_at_its_millisecond() {
    with_clock(|client, clock| {
        client.check(&[
            ("DEBUG SET-ACTIVE-EXPIRE 0", "OK"),
            ("SET a 1 PX 1500", "OK"),
            ("PTTL a", ":1500"),
            ("TTL a", ":2"),
            ("PEXPIRETIME a", ":1700000001500"),
        ]);
        clock.advance(Duration::from_millis(1499));
        client.check(&[("GET a", "'1'"), ("PTTL a", ":1")]);
        clock.advance(Duration::from_millis(1));
        client.check(&[
            ("GET a", "nil"),
            ("EXISTS a", ":0"),
            ("TTL a", ":-2"),
            ("KEYS *", "[]"),
            ("DBSIZE", ":0"),
            ("SETNX a 2", ":1"),
            ("TTL a", ":-1"),
        ]);
    });
}

#[test]
fn background_job_deletes_expired_keys_only() {
    with_clock(|client, clock| {
        client.check(&[
            ("SET old 1 EX 1", "OK"),
            ("SET replaced 1 EX 1", "OK"),
            ("SET replaced 2", "OK"),
            ("SET longer 1 EX 1", "OK"),
            ("EXPIRE longer 100", ":1"),
        ]);
        clock.advance(Duration::from_secs(2));
        let mut expired = String::new();
        for _ in 0..200 {
            expired = client.run("INFO stats");
            if expired.contains("expired_keys:1") {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(expired.contains("expired_keys:1"), "{expired}");
        client.check(&[("MGET old replaced longer", "[nil '2' '1']"), ("PTTL longer", ":98000")]);
    });
}

#[test]
fn clock_that_is_set_back() {
    with_clock(|client, clock| {
        client.check(&[("SET a 1 EX 10", "OK")]);
        clock.set_wall(1_600_000_000_000_000);
        client.check(&[("GET a", "'1'"), ("SET b 1 EX 10", "OK"), ("TTL b", ":10")]);
        clock.set_wall(1_700_000_011_000_000);
        client.check(&[("MGET a b", "[nil nil]")]);
    });
}

#[test]
fn conditions_and_forms() {
    with_clock(|client, _clock| {
        client.check(&[
            ("EXPIRE a 10", ":0"),
            ("SET a 1", "OK"),
            ("EXPIRE a 10 XX", ":0"),
            ("EXPIRE a 10 GT", ":0"),
            ("EXPIRE a 10 NX", ":1"),
            ("EXPIRE a 5 GT", ":0"),
            ("EXPIRE a 5 LT", ":1"),
            ("EXPIRE a 5 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
            ("EXPIRE a 5 XY", "-ERR Unsupported option XY"),
            ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("PERSIST a", ":1"),
            ("PERSIST a", ":0"),
            ("EXPIREAT a 1700000100", ":1"),
            ("EXPIRETIME a", ":1700000100"),
            ("SET a 2 KEEPTTL", "OK"),
            ("TTL a", ":100"),
            ("APPEND a 3", ":2"),
            ("TTL a", ":100"),
            ("GETEX a PERSIST", "'23'"),
            ("TTL a", ":-1"),
            ("SET a 2 EX 0", "-ERR invalid expire time in 'set' command"),
            ("SETEX a -1 x", "-ERR invalid expire time in 'setex' command"),
            ("SET a 2 EX 10 PX 10", "-ERR syntax error"),
            ("EXPIRE a -1", ":1"),
            ("EXISTS a", ":0"),
            ("SET a 1 PXAT 1000", "OK"),
            ("EXISTS a", ":0"),
        ]);
    });
}

#[test]
fn rename_and_copy_keep_the_expiry() {
    with_clock(|client, clock| {
        client.check(&[
            ("SET a 1 EX 10", "OK"),
            ("SET b 1 EX 100", "OK"),
            ("RENAME a b", "OK"),
            ("COPY b c", ":1"),
            ("MOVE c 1", ":1"),
        ]);
        clock.advance(Duration::from_secs(11));
        client.check(&[("EXISTS b", ":0"), ("SELECT 1", "OK"), ("EXISTS c", ":0")]);
    });
}

#[test]
fn expiry_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("SET a 1 EX 1000", "OK"), ("SET b 1 PX 1", "OK")]);
    drop(server);
    let server = Server::start(dir.path(), |_| {});
    let ttl = server.client().run("TTL a");
    assert!(["1000", "999", "998", "997"].iter().any(|text| ttl == format!(":{text}")), "{ttl}");
    server.client().check(&[("GET b", "nil")]);
}

#[test]
fn transaction_sees_one_time() {
    with_client(|client| {
        client.check(&[
            ("MULTI", "OK"),
            ("SET a 1 PX 5", "QUEUED"),
            ("PTTL a", "QUEUED"),
            ("PTTL a", "QUEUED"),
            ("EXEC", "[OK :5 :5]"),
        ]);
    });
}
