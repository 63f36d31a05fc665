//! Front ends of a shared store: the same replies, and several servers at once.
//!
//! The tests print NOT TESTED for engines that cannot run here.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_server::ServeError;
use terrace_testkit::etcd::EtcdCluster;

use crate::client::Client;
use crate::model::{self, Place};
use crate::ordered_model::{GEO, KEYS, LISTS, SORTED_SETS, as_it_is, compare_at};
use crate::page::wait_for;
use crate::real_clients::run_job;
use crate::server::Server;
use crate::shared_store::{DISTRIBUTED, etcd_store, on_distributed_engines};
use crate::streams::{ENTRIES, GROUPS, without_times};

/// Runs `body` with two front ends of one store, on each distributed engine.
fn with_two(what: &str, body: impl Fn(&Server, &Server)) {
    on_distributed_engines(what, |address| {
        let start = || Server::start_front_end(address, |_| {}).unwrap();
        let first = start();
        let second = start();
        body(&first, &second);
    });
}

/// Runs `body` with a front end of `memory:`, and with one of each distributed engine.
fn on_all_engines(what: &str, body: impl Fn(&Server)) {
    body(&Server::start_front_end("memory:", |_| {}).unwrap());
    on_distributed_engines(what, |address| body(&Server::start_front_end(address, |_| {}).unwrap()));
}

/// Share of the model's steps that `make test` runs.
const MEMORY_STEPS: usize = 4000;
const DISTRIBUTED_STEPS: usize = 1000;
/// The store ends with its only front end.
const NO_RESTART: usize = usize::MAX;

/// Compares the replies with those of redis-server, for new stores.
fn compare_all(new_store: impl Fn() -> String, seed: u64, steps: usize, period: usize) {
    model::compare(Place::Store(&new_store()), seed, 2 * steps, period);
    let compare = |groups: &[&[&str]], seed, steps, normalized| {
        compare_at(Place::Store(&new_store()), groups, seed, [steps, period], normalized);
    };
    compare(&[LISTS, LISTS, LISTS, KEYS], seed + 1, steps, as_it_is);
    compare(&[SORTED_SETS, SORTED_SETS, SORTED_SETS, KEYS], seed + 2, steps, as_it_is);
    compare(&[GEO, GEO, GEO, KEYS], seed + 3, steps / 2, as_it_is);
    compare(&[ENTRIES, GROUPS, GROUPS, KEYS], seed + 4, steps, without_times);
}

#[test]
fn replies_like_redis_on_memory() {
    compare_all(|| "memory:".to_owned(), 2601, MEMORY_STEPS, NO_RESTART);
}

#[test]
fn replies_like_redis_on_distributed_engines() {
    for (engine, seed) in DISTRIBUTED.iter().zip([2621, 2651, 2661, 2671]) {
        if engine.is_available("replies like redis-server") {
            compare_all(engine.new_store, seed, DISTRIBUTED_STEPS, DISTRIBUTED_STEPS / 2);
        }
    }
}

/// Runs the jobs of clients, each on an empty store.
fn run_jobs(clients: &[&str]) {
    for client in clients {
        on_distributed_engines(client, |address| {
            run_job(&Server::start_front_end(address, |_| {}).unwrap(), &[client]);
        });
    }
}

#[test]
fn clients_that_users_have() {
    run_jobs(&["redis-cli", "redis-py", "redis-py-scripts", "node-redis"]);
}

#[test]
fn queues_of_jobs() {
    run_jobs(&["rq", "celery"]);
}

#[test]
fn writes_of_one_front_end_show_at_the_other() {
    with_two("two front ends", |first, second| {
        let mut first = first.client();
        let mut second = second.client();
        first.check(&[("SET a 1", "OK"), ("HSET h f 1 g 2", ":2"), ("RPUSH l x y z", ":3")]);
        second.check(&[("GET a", "'1'"), ("HGETALL h", "['f' '1' 'g' '2']"), ("LPOP l", "'x'")]);
        first.check(&[
            ("LRANGE l 0 -1", "['y' 'z']"),
            ("DBSIZE", ":3"),
            ("SELECT 1", "OK"),
            ("SET b 2", "OK"),
        ]);
        second.check(&[("SWAPDB 0 1", "OK"), ("GET b", "'2'")]);
        first.check(&[("GET a", "'1'"), ("SELECT 0", "OK"), ("GET b", "'2'"), ("FLUSHALL", "OK")]);
        second.check(&[("DBSIZE", ":0"), ("GET b", "nil"), ("SET b 3", "OK")]);
        first.check(&[("GET b", "'3'"), ("SET e 1 PX 30", "OK")]);
        std::thread::sleep(Duration::from_millis(50));
        second.check(&[("GET e", "nil"), ("EXISTS e", ":0")]);
    });
}

/// Runs `body` on eight threads, half of them with clients of either server.
fn with_clients(first: &Server, second: &Server, body: impl Fn(u64, &mut Client) + Sync) {
    std::thread::scope(|scope| {
        for id in 0..8 {
            let server = if id % 2 == 0 { first } else { second };
            let body = &body;
            scope.spawn(move || body(id, &mut server.client()));
        }
    });
}

#[test]
fn counters_of_all_types_add_up() {
    with_two("concurrent counters", |first, second| {
        with_clients(first, second, |_, client| {
            for _ in 0..25 {
                for line in ["INCR plain", "HINCRBY hash f 1", "ZINCRBY scores 1 m", "RPUSH list x"] {
                    let reply = client.run(line);
                    assert!(!reply.starts_with('-'), "{line}: {reply}");
                }
            }
        });
        second.client().check(&[
            ("GET plain", "'200'"),
            ("HGET hash f", "'200'"),
            ("ZSCORE scores m", "'200'"),
            ("LLEN list", ":200"),
        ]);
    });
}

#[test]
fn elements_and_entries_go_to_one_client_each() {
    with_two("concurrent consumers", |first, second| {
        let mut client = first.client();
        for n in 0..120 {
            client.run(&format!("RPUSH queue {n}"));
            client.run(&format!("SADD set {n}"));
            client.run(&format!("XADD stream * n {n}"));
        }
        client.check(&[("XGROUP CREATE stream group 0", "OK")]);
        let taken = Mutex::new([Vec::new(), Vec::new(), Vec::new()]);
        with_clients(first, second, |id, client| {
            for _ in 0..15 {
                let read = format!("XREADGROUP GROUP group c{id} COUNT 1 STREAMS stream >");
                let replies = [client.run("LPOP queue"), client.run("SPOP set"), client.run(&read)];
                for (taken, reply) in taken.lock().unwrap().iter_mut().zip(replies) {
                    taken.push(reply);
                }
            }
        });
        for mut taken in taken.into_inner().unwrap() {
            taken.sort();
            let all = taken.len();
            taken.dedup();
            assert_eq!((all, taken.len()), (120, 120), "an element was taken twice");
        }
        client.check(&[("LLEN queue", ":0"), ("SCARD set", ":0")]);
        assert!(client.run("XPENDING stream group").starts_with("[:120 "));
    });
}

#[test]
fn transfers_keep_the_sum() {
    with_two("concurrent transactions", |first, second| {
        let mut client = first.client();
        for account in 0..4 {
            client.run(&format!("SET account:{account} 100"));
        }
        let aborted = AtomicU64::new(0);
        with_clients(first, second, |id, client| {
            for round in 0..12 {
                let from = (id + round) % 4;
                let to = (id + 3 * round + 1) % 4;
                client.run("MULTI");
                client.run(&format!("DECRBY account:{from} {}", round + 1));
                client.run(&format!("INCRBY account:{to} {}", round + 1));
                assert!(client.run("EXEC").starts_with("[:"));
                // The same with WATCH, which the client repeats.
                client.run(&format!("WATCH account:{from} account:{to}"));
                let read = |client: &mut Client, account| -> i64 {
                    client.run(&format!("GET account:{account}")).trim_matches('\'').parse().unwrap()
                };
                let left = read(client, from);
                let right = read(client, to);
                if from == to {
                    client.run("UNWATCH");
                    continue;
                }
                client.run("MULTI");
                client.run(&format!("SET account:{from} {}", left - 1));
                client.run(&format!("SET account:{to} {}", right + 1));
                if client.run("EXEC") == "nil" {
                    aborted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let sums = second.client().run("MGET account:0 account:1 account:2 account:3");
        let sum: i64 = sums.split('\'').filter_map(|part| part.parse::<i64>().ok()).sum();
        assert_eq!(sum, 400, "{sums}");
        assert!(aborted.into_inner() > 0, "no WATCH met another writer, so the test tests nothing");
    });
}

#[test]
fn watch_sees_every_write_of_the_other_front_end() {
    with_two("WATCH", |first, second| {
        let mut first = first.client();
        let mut second = second.client();
        first.check(&[("SET s 1", "OK"), ("HSET h f 1", ":1"), ("RPUSH l a b", ":2"), ("ZADD z 1 m", ":1")]);
        for (watched, write, is_change) in [
            ("s", "SET s 2", true),
            // The same value is a change, as in Redis.
            ("s", "SET s 2", true),
            ("s", "EXPIRE s 1000", true),
            ("s", "GET s", false),
            ("s", "SET other 1", false),
            ("h", "HSET h f 2", true),
            ("h", "HSET h g 2", true),
            ("l", "LSET l 0 c", true),
            ("z", "ZADD z 2 m", true),
            ("z", "ZADD z 2 m", false),
            ("missing", "SET missing 1", true),
            ("missing", "DEL missing", true),
            ("missing", "FLUSHDB", false),
            ("s", "SET s 1", true),
            ("s", "FLUSHALL", true),
        ] {
            first.run(&format!("WATCH unrelated {watched}"));
            second.run(write);
            first.check(&[("MULTI", "OK"), ("PING", "QUEUED"), ("SET done 1", "QUEUED")]);
            let expected = if is_change { "nil" } else { "[PONG OK]" };
            assert_eq!(first.run("EXEC"), expected, "WATCH {watched}, {write}");
        }
    });
}

/// Regression: EXEC was executed, although the client had read a value that another front end
/// had deleted again. A key that does not exist has no version, so the two states of WATCH and
/// EXEC were equal. A wrong history led to it.
#[test]
fn watched_key_that_the_other_front_end_creates_and_deletes() {
    with_two("WATCH of a new key", |first, second| {
        let mut first = first.client();
        let mut second = second.client();
        first.check(&[("RPUSH list 1", ":1")]);
        let script = "EVAL return(redis.call([[get]],KEYS[1])) 1 new";
        for read in ["GET new", "MGET other new", "EXISTS new", script] {
            first.check(&[("WATCH list new", "OK"), ("GET new", "nil")]);
            second.check(&[("SET new 1", "OK")]);
            let reply = first.run(read);
            assert!(reply.contains('1'), "{read}: {reply}");
            second.check(&[("DEL new", ":1")]);
            first.check(&[("MULTI", "OK"), ("SET done 1", "QUEUED"), ("EXEC", "nil")]);
        }
        // The watch has ended with EXEC.
        first.check(&[("WATCH new", "OK"), ("GET new", "nil"), ("MULTI", "OK"), ("SET done 1", "QUEUED")]);
        assert_eq!(first.run("EXEC"), "[OK]");
        // Commands that read other keys, and those without keys.
        first.check(&[("WATCH new", "OK"), ("PING", "PONG"), ("LLEN list", ":1"), ("SET done 2", "OK")]);
        first.check(&[("MULTI", "OK"), ("SET done 1", "QUEUED"), ("EXEC", "[OK]")]);
    });
}

#[test]
fn scan_continues_at_the_other_front_end() {
    with_two("SCAN", |first, second| {
        let mut first = first.client();
        let mut second = second.client();
        for n in 0..50 {
            first.run(&format!("SET key:{n:02} 1"));
        }
        let mut cursor = "0".to_owned();
        let mut seen = Vec::new();
        loop {
            std::mem::swap(&mut first, &mut second);
            let reply = first.run(&format!("SCAN {cursor} COUNT 7"));
            let words: Vec<&str> =
                reply.split('\'').filter(|word| !word.trim_matches(['[', ']', ' ']).is_empty()).collect();
            cursor = words[0].to_owned();
            seen.extend(words[1..].iter().map(|word| (*word).to_owned()));
            if cursor == "0" {
                break;
            }
        }
        let expected: Vec<String> = (0..50).map(|n| format!("key:{n:02}")).collect();
        assert_eq!(seen, expected);
    });
}

#[test]
fn waiting_clients_of_a_front_end() {
    on_all_engines("BLPOP", |server| {
        let mut waiting = server.client();
        let mut writing = server.client();
        waiting.send(&["BLPOP", "l", "10"]);
        std::thread::sleep(Duration::from_millis(50));
        writing.check(&[("RPUSH l a b", ":2")]);
        assert_eq!(waiting.reply(), "['l' 'a']");
        waiting.send(&["BLMOVE", "m", "to", "LEFT", "LEFT", "10"]);
        std::thread::sleep(Duration::from_millis(50));
        writing.check(&[("MULTI", "OK"), ("RPUSH m x", "QUEUED"), ("EXEC", "[:1]")]);
        assert_eq!(waiting.reply(), "'x'");
        writing.check(&[("LRANGE to 0 -1", "['x']"), ("LRANGE l 0 -1", "['b']")]);
        waiting.send(&["SUBSCRIBE", "news"]);
        waiting.reply();
        writing.check(&[("MULTI", "OK"), ("PUBLISH news hello", "QUEUED"), ("EXEC", "[:1]")]);
        assert_eq!(waiting.reply(), "['message' 'news' 'hello']");
    });
}

#[test]
fn scripts_are_transactions() {
    with_two("scripts", |first, second| {
        let script = "local n = redis.call('GET', KEYS[1]) or 0; redis.call('SET', KEYS[1], n + 1); return n";
        with_clients(first, second, |_, client| {
            for _ in 0..10 {
                let reply = client.call(&["EVAL", script, "1", "n"]);
                assert!(!reply.starts_with('-'), "{reply}");
            }
        });
        first.client().check(&[("GET n", "'80'")]);
    });
}

/// A write whose snapshot is older than FLUSHDB must not go to the discarded namespace: a later
/// database with its number would show the key. The guard of the map makes the script run again.
#[test]
fn script_beside_flushdb_writes_to_the_new_database() {
    let script =
        "redis.call('GET', KEYS[1]); for n = 1, tonumber(ARGV[1]) do end; redis.call('SET', KEYS[1], 'new')";
    with_two("FLUSHDB beside a script", |first, second| {
        let mut writer = first.client();
        let mut other = second.client();
        for rounds in (20..31).map(|power| 1_u64 << power) {
            writer.check(&[("SET kept old", "OK")]);
            let started = Instant::now();
            writer.send(&["EVAL", script, "1", "kept", &rounds.to_string()]);
            std::thread::sleep(Duration::from_millis(50));
            let flushed = Instant::now();
            other.check(&[("FLUSHDB", "OK")]);
            let flush = flushed.elapsed();
            assert_eq!(writer.reply(), "nil");
            // Then the first run of the script has not ended before FLUSHDB.
            if started.elapsed() > Duration::from_millis(100) + 4 * flush {
                other.check(&[("GET kept", "'new'"), ("DBSIZE", ":1")]);
                return;
            }
            other.check(&[("FLUSHDB", "OK")]);
        }
        panic!("the script is never long enough");
    });
}

#[test]
fn commands_that_need_a_database() {
    let server = Server::start_front_end("memory:", |config| config.enable_debug = true).unwrap();
    let mut client = server.client();
    client.check(&[("SET a 1", "OK"), ("CONFIG SET appendfsync always", "OK"), ("SET a 2", "OK")]);
    for line in [
        "SAVE",
        "BGSAVE",
        "BGREWRITEAOF",
        "TERRACE.CHECKPOINT name",
        "TERRACE.COMPACT",
        "TERRACE.SNAPSHOT OPEN",
        "TERRACE.DELRANGE - +",
        "TERRACE.STATS",
        "TERRACE.LEVELS",
        "MEMORY STATS",
        "MEMORY DOCTOR",
        "MEMORY MALLOC-STATS",
    ] {
        let reply = client.run(line);
        let is_refused = reply.starts_with("-ERR not on a shared store") || reply.contains("--checkpoints");
        assert!(is_refused, "{line}: {reply}");
    }
    assert!(client.run("INFO").contains("terrace_shared_store:1"));
    client.check(&[("GET a", "'2'"), ("WAITAOF 1 0 0", "[:1 :0]")]);
}

#[test]
fn limits_of_etcd_are_errors_without_effects() {
    let Some(address) = etcd_store("limits") else { return };
    let address = address.replace("?max-txn-ops=10000", "");
    let server = Server::start_front_end(&address, |_| {}).unwrap();
    let mut client = server.client();
    let many: Vec<String> =
        ["RPUSH", "l"].map(str::to_owned).into_iter().chain((0..200).map(|n| n.to_string())).collect();
    let reply = client.call(&many);
    assert!(
        reply.starts_with("-ERR batch too large: 201 operations, the limit of the store is 126"),
        "{reply}"
    );
    client.check(&[("EXISTS l", ":0"), ("MULTI", "OK"), ("SET a 1", "QUEUED")]);
    let large = "x".repeat((1 << 20) + 1);
    client.call(&["SET", "b", &large]);
    let reply = client.run("EXEC");
    assert!(reply.starts_with("-ERR batch too large: "), "{reply}");
    client.check(&[("EXISTS a b", ":0")]);
}

#[test]
fn stores_that_are_refused() {
    let message = |address: &str, create: bool| {
        let started = Server::start_front_end(address, |config| {
            config.shared_store.as_mut().unwrap().create = create;
        });
        match started {
            Ok(_) => panic!("{address} was served"),
            Err(ServeError::Database(reason)) => reason,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(message("nowhere://h1/app", true).contains("'nowhere' is no engine"));
    let dir = tempfile::tempdir().unwrap();
    let missing = format!("local:{}", dir.path().join("missing").display());
    assert!(message(&missing, false).contains("missing"));
    assert!(!dir.path().join("missing").exists());
    let foreign = dir.path().join("foreign");
    let options = terrace::Options::default().create_if_missing(true);
    let db = terrace::Db::open(&foreign, &options).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    assert!(
        message(&format!("local:{}", foreign.display()), true).contains("another program wrote the store")
    );
}

#[test]
fn cleanup_removes_expired_keys_and_garbage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let server = Server::start_front_end(&format!("local:{}", path.display()), |_| {}).unwrap();
    let mut client = server.client();
    for n in 0..300 {
        client.run(&format!("HSET large f{n} v"));
        client.run(&format!("SET brief:{n} v PX 1"));
    }
    wait_for(|| client.run("INFO stats").contains("expired_keys:300"));
    client.check(&[("SADD other a b c", ":3"), ("FLUSHDB", "OK"), ("RPUSH kept x", ":1")]);
    client.run("SCAN 0 COUNT 1");
    std::thread::sleep(Duration::from_secs(3));
    drop(server);
    let db = terrace::Db::open(&path, &terrace::Options::default()).unwrap();
    let mut entries = db.iter();
    let mut tags = Vec::new();
    while let Some((key, _)) = entries.next_entry().unwrap() {
        tags.push(key[0]);
    }
    // Three records of the server, the guards of the map, which FLUSHDB has written, the list, the
    // new cursor, and the element of the list.
    assert_eq!(tags, [[0; 3 + 64].as_slice(), &[1, 4, 0x13]].concat());
}

/// The garbage of a client with long names was never deleted, and so was all later garbage. Cause:
/// the deletion had too many bytes for a transaction of etcd. Each part fits.
#[test]
fn cleanup_of_long_names() {
    let Some(address) = etcd_store("cleanup of long names") else { return };
    let server = Server::start_front_end(&address, |_| {}).unwrap();
    let mut client = server.client();
    for n in 0..30 {
        let name = format!("{n:060000}");
        client.call(&["HSET", "large", &name, "v"]);
        client.call(&["SET", &name, "v", "PX", "1"]);
    }
    client.check(&[("HLEN large", ":30"), ("DEL large", ":1")]);
    let store = terrace_store::open(&address, &Default::default()).unwrap();
    // The three records of the server remain.
    wait_for(|| {
        let mut entries = store.iter(&Default::default()).unwrap();
        entries.seek_to_first();
        let mut count = 0;
        while entries.valid() {
            count += 1;
            entries.next();
        }
        count == 3
    });
}

#[test]
fn requests_of_commands() {
    /// Repetitions of a command.
    const COUNT: u64 = 60;
    if etcd_store("requests of commands").is_none() {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let server = Server::start_front_end(&cluster.address("app"), |config| config.enable_debug = true);
    let server = server.unwrap();
    let mut client = server.client();
    // The cleanup sends requests, too. One that has begun ends within the pause.
    client.check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("SET a 1", "OK"), ("HSET h f 1", ":1")]);
    std::thread::sleep(Duration::from_millis(500));
    for (lines, expected) in [
        (&["GET a"][..], 1),
        (&["MGET a b c d e"], 1),
        (&["SET a 1"], 2),
        (&["INCR n"], 2),
        (&["HGET h f"], 2),
        (&["HSET h f 2"], 3),
        (&["MULTI", "INCR n", "SET a 2", "DEL b", "EXEC"], 2),
    ] {
        let count = || cluster.requests().0 + cluster.requests().1;
        let before = count();
        for _ in 0..COUNT {
            lines.iter().for_each(|line| drop(client.run(line)));
        }
        assert_eq!(count() - before, expected * COUNT, "{lines:?}, {COUNT} times");
    }
    // The first command after a change of the map by another front end reads a record twice.
    let other = Server::start_front_end(&cluster.address("app"), |config| config.enable_debug = true);
    let other = other.unwrap();
    other.client().check(&[("DEBUG SET-ACTIVE-EXPIRE 0", "OK"), ("SWAPDB 0 1", "OK")]);
    std::thread::sleep(Duration::from_millis(500));
    let before = cluster.requests();
    for _ in 0..COUNT {
        client.check(&[("GET a", "nil")]);
    }
    let after = cluster.requests();
    assert_eq!(after.0 + after.1 - before.0 - before.1, COUNT + 1, "GET after SWAPDB, {COUNT} times");
}
