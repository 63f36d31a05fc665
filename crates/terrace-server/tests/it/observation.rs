//! MONITOR, SLOWLOG, LATENCY, MEMORY, INFO of commands, CLIENT PAUSE, checkpoints, snapshots.

use std::time::{Duration, Instant};

use crate::page::wait_for;
use crate::server::{Server, in_both_layouts, with_client};

#[test]
fn monitor_shows_commands_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut monitor = server.client();
    monitor.check(&[("MONITOR", "OK")]);
    let mut client = server.client();
    client.run("AUTH secret");
    client.run("CONFIG GET port");
    client.run("NOSUCH");
    client.check(&[("MULTI", "OK"), ("SET a 1", "QUEUED"), ("EXEC", "[OK]"), ("CLIENT ID", ":2")]);
    let shown: Vec<String> = (0..5).map(|_| monitor.reply()).collect();
    let commands: Vec<&str> = shown.iter().map(|line| line.split_once("] ").unwrap().1).collect();
    let expected =
        [r#""AUTH" "(redacted)""#, r#""MULTI""#, r#""SET" "a" "1""#, r#""EXEC""#, r#""CLIENT" "ID""#];
    assert_eq!(commands, expected);
    assert!(shown[0].contains(" [0 127.0.0.1:"), "{}", shown[0]);
    assert!(client.run("CLIENT LIST").contains("flags=O"));
    monitor.check(&[("RESET", "RESET"), ("PING", "PONG")]);
}

#[test]
fn slow_log() {
    with_client(|client| {
        client.check(&[
            ("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3", "OK"),
            ("CLIENT SETNAME me", "OK"),
            ("SET a 1", "OK"),
            ("MULTI", "OK"),
            ("GET a", "QUEUED"),
            ("EXEC", "['1']"),
            ("CONFIG SET slowlog-log-slower-than -1", "OK"),
            ("SLOWLOG LEN", ":3"),
        ]);
        let entries = client.run("SLOWLOG GET");
        assert!(entries.contains("['GET' 'a'] '127.0.0.1:"), "{entries}");
        assert!(entries.contains("'me']") && !entries.contains("EXEC"), "{entries}");
        client.check(&[
            ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
            ("SLOWLOG RESET", "OK"),
            ("SLOWLOG GET -1", "[]"),
            (
                "CONFIG SET slowlog-max-len -1",
                "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument must be between 0 and 100000 inclusive",
            ),
        ]);
    });
}

#[test]
fn slow_events() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.enable_debug = true);
    let mut client = server.client();
    client.check(&[
        ("LATENCY LATEST", "[]"),
        ("CONFIG SET latency-monitor-threshold 20", "OK"),
        ("DEBUG SLEEP 0.03", "OK"),
        ("PING", "PONG"),
    ]);
    let latest = client.run("LATENCY LATEST");
    assert!(latest.starts_with("[['command' :"), "{latest}");
    assert!(client.run("LATENCY HISTORY command").starts_with("[[:"));
    assert!(client.run("LATENCY GRAPH command").contains('#'));
    assert!(client.run("LATENCY DOCTOR").contains("command: 1 samples"));
    client.check(&[
        ("LATENCY GRAPH none", "-ERR No samples available for event 'none'"),
        ("LATENCY RESET other", ":0"),
        ("LATENCY RESET", ":1"),
        ("LATENCY HISTORY command", "[]"),
    ]);
    let histogram = client.run("LATENCY HISTOGRAM debug nosuch");
    assert!(histogram.starts_with("['debug' ['calls' :1 'histogram_usec' [:"), "{histogram}");
}

#[test]
fn counts_of_commands_and_errors() {
    with_client(|client| {
        client.check(&[("SET a x", "OK"), ("GET a", "'x'"), ("GET a", "'x'")]);
        client.run("INCR a");
        client.run("GET");
        client.run("NOSUCH");
        let info = client.run("INFO commandstats");
        assert!(info.contains("cmdstat_get:calls=2,usec="), "{info}");
        assert!(info.contains("rejected_calls=1,failed_calls=0"), "{info}");
        assert!(info.contains("cmdstat_incr:calls=1,") && info.contains("failed_calls=1"), "{info}");
        assert!(client.run("INFO errorstats").contains("errorstat_ERR:count=3"));
        assert!(client.run("INFO latencystats").contains("latency_percentiles_usec_get:p50="));
        assert!(!client.run("INFO").contains("cmdstat_"));
        client.check(&[("CONFIG RESETSTAT", "OK")]);
        assert!(!client.run("INFO commandstats").contains("cmdstat_get"));
    });
}

#[test]
fn memory_of_values() {
    in_both_layouts(|client| {
        client.check(&[("SET key 0123456789", "OK"), ("MEMORY USAGE nokey", "nil"), ("MEMORY PURGE", "OK")]);
        let bytes: usize = client.run("MEMORY USAGE key SAMPLES 5")[1..].parse().unwrap();
        assert!((13..=20).contains(&bytes), "{bytes}");
        client.check(&[("MEMORY USAGE key SAMPLES -1", "-ERR syntax error")]);
        assert!(client.run("MEMORY STATS").contains("'engine.block-cache' :"));
        assert!(client.run("MEMORY DOCTOR").contains("memory budget"));
    });
}

#[test]
fn paused_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    let start = Instant::now();
    client.check(&[("CLIENT PAUSE 300 WRITE", "OK"), ("GET a", "nil")]);
    assert!(start.elapsed() < Duration::from_millis(250));
    client.check(&[("SET a 1", "OK")]);
    assert!(start.elapsed() >= Duration::from_millis(300));
    // Another connection ends the pause of writes.
    let mut other = server.client();
    client.check(&[("CLIENT PAUSE 60000 WRITE", "OK")]);
    client.send(&["SET", "a", "2"]);
    other.check(&[("CLIENT UNPAUSE", "OK")]);
    assert_eq!(client.reply(), "OK");
    client.check(&[
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative"),
        ("CLIENT PAUSE 1 x", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
    ]);
    let start = Instant::now();
    client.check(&[("CLIENT PAUSE 200", "OK"), ("PING", "PONG")]);
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[test]
fn end_of_the_server_during_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.check(&[("CLIENT PAUSE 60000", "OK")]);
    client.send(&["SET", "a", "1"]);
    std::thread::sleep(Duration::from_millis(50));
    server.handle.shut_down();
    let start = Instant::now();
    server.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let copies = dir.path().join("copies");
    std::fs::create_dir(&copies).unwrap();
    let server = Server::start(&dir.path().join("db"), |config| config.checkpoints = Some(copies.clone()));
    let mut client = server.client();
    client.check(&[
        ("SET a 1", "OK"),
        ("TERRACE.CHECKPOINT monday", "OK"),
        ("SET a 2", "OK"),
        ("SAVE", "OK"),
    ]);
    client.check(&[("BGSAVE", "Background saving started"), ("TERRACE.COMPACT", "OK")]);
    client.check(&[("BGREWRITEAOF", "Background append only file rewriting started")]);
    assert!(client.run("TERRACE.CHECKPOINT monday").starts_with("-ERR "));
    assert!(client.run("TERRACE.CHECKPOINT ../monday").starts_with("-ERR the name of a checkpoint"));
    assert_ne!(client.run("LASTSAVE"), ":0");
    assert_eq!(std::fs::read_dir(&copies).unwrap().count(), 3);
    let copy = Server::start(&copies.join("monday"), |_| {});
    copy.client().check(&[("GET a", "'1'")]);
}

#[test]
fn checkpoint_without_a_directory() {
    with_client(|client| {
        client.check(&[
            ("TERRACE.CHECKPOINT monday", "-ERR checkpoints need the option --checkpoints DIR"),
            ("SAVE", "OK"),
        ]);
    });
}

#[test]
fn reads_of_a_snapshot() {
    in_both_layouts(|client| {
        client.check(&[
            ("SET a 1", "OK"),
            ("TERRACE.SNAPSHOT OPEN", ":1"),
            ("SET a 2", "OK"),
            ("SET b 2", "OK"),
            ("TERRACE.SNAPSHOT READ 1 GET a", "'1'"),
            ("TERRACE.SNAPSHOT READ 1 MGET a b", "['1' nil]"),
            ("TERRACE.SNAPSHOT READ 1 KEYS *", "['a']"),
            ("TERRACE.SNAPSHOT READ 1 DBSIZE", ":1"),
            ("DBSIZE", ":2"),
            ("GET a", "'2'"),
            (
                "TERRACE.SNAPSHOT READ 1 SET a 3",
                "-ERR TERRACE.SNAPSHOT READ runs commands that only read, and not 'set'",
            ),
            ("TERRACE.SNAPSHOT CLOSE 1", ":1"),
            ("TERRACE.SNAPSHOT CLOSE 1", ":0"),
            ("TERRACE.SNAPSHOT READ 1 GET a", "-ERR no such snapshot: it was closed, or its time has ended"),
        ]);
    });
}

#[test]
fn snapshot_survives_flush_and_swap() {
    with_client(|client| {
        client.check(&[
            ("SET a 1 PX 150", "OK"),
            ("TERRACE.SNAPSHOT OPEN 30", ":1"),
            ("SWAPDB 0 1", "OK"),
            ("TERRACE.SNAPSHOT READ 1 GET a", "'1'"),
            ("FLUSHALL", "OK"),
            ("TERRACE.SNAPSHOT READ 1 GET a", "'1'"),
        ]);
        std::thread::sleep(Duration::from_millis(200));
        client.check(&[("TERRACE.SNAPSHOT READ 1 GET a", "'1'"), ("TERRACE.SNAPSHOT OPEN 0", ":2")]);
        assert!(client.run("TERRACE.SNAPSHOT READ 2 GET a").starts_with("-ERR no such snapshot"));
        for _ in 0..63 {
            assert!(client.run("TERRACE.SNAPSHOT OPEN").starts_with(':'));
        }
        client.check(&[("TERRACE.SNAPSHOT OPEN", "-ERR 64 snapshots are open")]);
    });
}

#[test]
fn events_of_the_engine() {
    with_client(|client| {
        client.check(&[("SET a 1", "OK"), ("TERRACE.COMPACT", "OK")]);
        // The thread of the flush reports its end after other threads see the table.
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut events = client.run("TERRACE.EVENTS");
        while !events.contains("Level-0 table") && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            events = client.run("TERRACE.EVENTS");
        }
        assert!(events.contains("Level-0 table"), "{events}");
        assert_eq!(client.run("TERRACE.EVENTS 0"), "[]");
    });
}

/// Subcommands have counts of their own, under the names of Redis.
#[test]
fn counts_of_subcommands() {
    with_client(|client| {
        client.check(&[("CONFIG RESETSTAT", "OK"), ("CLIENT ID", ":1")]);
        assert!(client.run("CLIENT LIST").contains(" qbuf=26 "));
        assert!(client.run("CLIENT INFO").contains(" cmd=client|info "));
        client.check(&[("OBJECT ENCODING none", "nil"), ("MULTI", "OK"), ("CONFIG GET port", "QUEUED")]);
        client.run("EXEC");
        client.run("CONFIG GET");
        let stats = client.run("INFO commandstats");
        for (name, counts) in [
            ("client|list", "calls=1,"),
            ("object|encoding", "calls=1,"),
            ("config|resetstat", "calls=1,"),
            ("config|get", "calls=1,"),
        ] {
            assert!(stats.contains(&format!("cmdstat_{name}:{counts}")), "{name}: {stats}");
        }
        // A wrong number of arguments is refused before the command runs, as in Redis.
        let refused = stats.split("\\r\\n").find(|line| line.starts_with("cmdstat_config|get:")).unwrap();
        assert!(refused.contains(",rejected_calls=1,failed_calls=0"), "{refused}");
        assert!(!stats.contains("cmdstat_client:"), "{stats}");
        let histogram = client.run("LATENCY HISTOGRAM client");
        assert!(histogram.contains("'client|id' ['calls' :1") && histogram.contains("'client|list'"));
        assert!(client.run("LATENCY HISTOGRAM client|id").starts_with("['client|id' "));
    });
}

#[test]
fn percentiles_of_commands() {
    with_client(|client| {
        let percentiles = "CONFIG SET latency-tracking-info-percentiles";
        assert_eq!(client.call(&["CONFIG", "SET", "latency-tracking-info-percentiles", "0.0 50.0"]), "OK");
        client.check(&[
            ("SET a 1", "OK"),
            ("CONFIG GET latency-tracking-info-percentiles", "['latency-tracking-info-percentiles' '0 50']"),
        ]);
        let stats = client.run("INFO latencystats");
        assert!(stats.contains("latency_percentiles_usec_set:p0=") && stats.contains(",p50="), "{stats}");
        assert!(client.run(&format!("{percentiles} 101")).starts_with("-ERR CONFIG SET failed"));
        client.check(&[("CONFIG SET latency-tracking no", "OK")]);
        assert!(!client.run("INFO latencystats").contains("usec_set"));
    });
}

#[test]
fn failures_of_clients_that_wait() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut waiting = server.client();
    waiting.check(&[("CLIENT ID", ":1")]);
    waiting.send(&["BLPOP", "list", "0"]);
    let mut client = server.client();
    wait_for(|| client.run("CLIENT UNBLOCK 1 ERROR") == ":1");
    assert!(waiting.reply().starts_with("-UNBLOCKED "));
    assert!(client.run("INFO errorstats").contains("errorstat_UNBLOCKED:count=1"));
    assert!(client.run("INFO commandstats").contains("rejected_calls=0,failed_calls=1"));
    assert!(client.run("INFO cpu").contains("used_cpu_user:"));

    client.check(&[("XGROUP CREATE stream group $ MKSTREAM", "OK")]);
    waiting.send(&["XREADGROUP", "GROUP", "group", "me", "BLOCK", "0", "STREAMS", "stream", ">"]);
    wait_for(|| client.run("INFO clients").contains("blocked_clients:1"));
    client.check(&[("XGROUP DESTROY stream group", ":1")]);
    assert!(waiting.reply().starts_with("-NOGROUP "));
    let stats = client.run("INFO commandstats");
    let row = stats.split("cmdstat_xreadgroup:").nth(1).unwrap().split("\\r").next().unwrap();
    assert!(row.ends_with("rejected_calls=0,failed_calls=1"), "{row}");
}

/// An error of a command is counted once, although the script returns it.
#[test]
fn errors_of_scripts() {
    with_client(|client| {
        for (script, counts) in [
            ("return redis.call('select',99)", ["select:calls=1", "eval:calls=1", "1", "1"]),
            ("return redis.pcall('select',99)", ["select:calls=1", "eval:calls=1", "1", "1"]),
            ("redis.pcall('select',99) return 1", ["select:calls=1", "eval:calls=1", "1", "0"]),
            ("return redis.error_reply('ERR x')", ["eval:calls=1", "eval:calls=1", "1", "1"]),
        ] {
            client.check(&[("CONFIG RESETSTAT", "OK")]);
            client.call(&["EVAL", script, "0"]);
            let [inner, outer, inner_failed, outer_failed] = counts;
            let stats = client.run("INFO commandstats");
            for (calls, failed) in [(inner, inner_failed), (outer, outer_failed)] {
                let row = stats.split(&format!("cmdstat_{calls},")).nth(1).unwrap();
                let row = row.split("\\r\\n").next().unwrap();
                assert!(row.ends_with(&format!("failed_calls={failed}")), "{script}: {calls}: {row}");
            }
            let errors = client.run("INFO errorstats");
            assert!(errors.contains("errorstat_ERR:count=1"), "{script}: {errors}");
        }
    });
}
