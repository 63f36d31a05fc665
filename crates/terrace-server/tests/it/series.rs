//! Pipelines of write commands on one object. They commit one batch, and their replies and effects
//! are those of single commands.

use std::collections::BTreeSet;
use std::time::Duration;

use terrace::env::{Random, SeededRandom};
use terrace_server::{Layout, SyncMode};

use crate::client::{Client, encode};
use crate::model::{RedisServer, number};
use crate::page::wait_for;
use crate::process::ServerProcess;

/// Commands for one key, with `$` for a random word of [`WORDS`].
static COMMANDS: &[&[&str]] = &[
    &[
        "LPUSH k $",
        "RPUSH k $ $ $",
        "RPUSH k $",
        "LPUSHX k $",
        "RPUSHX k $",
        "LPOP k",
        "RPOP k",
        "LPOP k 3",
        "RPOP k 2",
        "LPOP k $",
        "LRANGE k 0 -1",
        "LLEN k",
        "LINDEX k 1",
    ],
    &[
        "HSET k $ $",
        "HSET k $ $ $ $",
        "HMSET k $ 1 $ 2",
        "HSETNX k $ $",
        "HINCRBY k $ 3",
        "HINCRBYFLOAT k $ 1.5",
        "HDEL k $",
        "HDEL k $ $",
        "HGET k $",
        "HLEN k",
        "HSET k $",
        "HMGET k $ $",
    ],
    &["SADD k $", "SADD k $ $ $", "SREM k $", "SREM k $ $", "SCARD k", "SISMEMBER k $", "SADD k 1 2"],
    &[
        "ZADD k 1 $",
        "ZADD k 2 $ 3 $",
        "ZADD k XX CH 5 $",
        "ZADD k NX 4 $ nan $",
        "ZINCRBY k 2 $",
        "ZINCRBY k -inf $",
        "ZADD k INCR inf $",
        "ZREM k $",
        "ZREM k $ $",
        "ZRANGE k 0 -1 WITHSCORES",
        "ZSCORE k $",
        "ZRANGE k 1 2",
        "ZRANGE k -2 -1 WITHSCORES",
        "ZREVRANGE k 0 1",
        "ZCARD k",
    ],
    &[
        "DEL k",
        "SET k $",
        "GET k",
        "TYPE k",
        "EXPIRE k 1000",
        "PERSIST k",
        "EXISTS k",
        "MULTI",
        "EXEC",
        "RENAME k other",
        "PING",
        "SELECT 1",
        "SELECT 0",
        "lpush",
        "OBJECT ENCODING k",
        "INCR k",
    ],
];

static WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "1",
    "2",
    "",
    "x\r\ny",
    "a member of more than sixty-four bytes: 0123456789 0123456789 0123456789",
];

fn uniform(random: &SeededRandom, bound: usize) -> usize {
    random.uniform(bound as u64) as usize
}

/// Random commands. Runs of them have the same key, and mostly commands of the same type.
fn pipeline(random: &SeededRandom) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for _ in 0..1 + uniform(random, 8) {
        let key = format!("k:{}", uniform(random, 5));
        let group = uniform(random, 4);
        for _ in 0..uniform(random, 25) {
            let group = if uniform(random, 12) == 0 { uniform(random, COMMANDS.len()) } else { group };
            let template = COMMANDS[group][uniform(random, COMMANDS[group].len())];
            commands.push(
                template
                    .split(' ')
                    .map(|word| match word {
                        "k" => key.clone(),
                        "$" => WORDS[uniform(random, WORDS.len())].to_owned(),
                        word => word.to_owned(),
                    })
                    .collect(),
            );
        }
    }
    commands
}

fn replies(client: &mut Client, commands: &[Vec<String>]) -> Vec<String> {
    client.send_bytes(&commands.iter().flat_map(|command| encode(command)).collect::<Vec<u8>>());
    commands.iter().map(|_| client.reply()).collect()
}

#[test]
fn pipelines_like_redis() {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its replies are not compared");
        return;
    };
    let seed = number("TERRACE_MODEL_SEED").unwrap_or(2001);
    println!("seed {seed}");
    let random = SeededRandom::new(seed);
    let dir = tempfile::tempdir().unwrap();
    for sync in [SyncMode::No, SyncMode::Always, SyncMode::EverySecond] {
        let server = ServerProcess::start(dir.path(), Layout::Typed, sync);
        let mut ours = server.client();
        let mut theirs = Client::connect(redis.address);
        for _ in 0..150 {
            let commands = pipeline(&random);
            let expected = replies(&mut theirs, &commands);
            for (index, found) in replies(&mut ours, &commands).iter().enumerate() {
                let before = &commands[index.saturating_sub(30)..=index];
                assert_eq!(*found, expected[index], "{index} of {before:?}");
            }
            let expiry = words(&format!("PEXPIRE k:{} 1", uniform(&random, 5)));
            assert_eq!(ours.call(&expiry), theirs.call(&expiry));
            std::thread::sleep(Duration::from_millis(3));
        }
        server.kill();
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn series_of_several_clients_lose_nothing() {
    const CLIENTS: usize = 4;
    const PIPELINES: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let lengths: BTreeSet<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut lengths = Vec::new();
                    for round in 0..PIPELINES {
                        let adds = (0..10).map(|_| words("HINCRBY counter field 1"));
                        let pushes = (0..10).map(|_| words(&format!("RPUSH list {id}")));
                        let exec = ["MULTI", "HINCRBY counter field 1", "RPUSH list exec", "EXEC"].map(words);
                        let script = ["EVAL", "return redis.call('hincrby','counter','field',1)", "0"];
                        let mut commands: Vec<Vec<String>> = adds.chain(pushes).collect();
                        lengths.push(replies(&mut client, &commands).split_off(10));
                        commands = exec.into_iter().collect();
                        if round % 20 == 0 {
                            commands.push(script.map(str::to_owned).to_vec());
                        }
                        let found = replies(&mut client, &commands);
                        let pushed = found[3].trim_end_matches(']').rsplit(' ').next().unwrap().to_owned();
                        lengths.push(vec![pushed]);
                    }
                    lengths.concat()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let mut client = server.client();
    let pushed = CLIENTS * PIPELINES * 11;
    assert_eq!(client.run("LLEN list"), format!(":{pushed}"));
    // Each length was the reply of one command.
    assert_eq!(lengths.len(), pushed);
    let added = pushed + CLIENTS * PIPELINES.div_ceil(20);
    assert_eq!(client.run("HGET counter field"), format!("'{added}'"));
}

#[test]
fn acknowledged_series_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut pushed = 0;
    for round in 0..4 {
        let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
        let mut client = server.client();
        std::thread::scope(|scope| {
            let mut writer = server.client();
            let acknowledged = scope.spawn(move || {
                let mut last = pushed;
                loop {
                    let commands =
                        (0..16).flat_map(|at| encode(&words(&format!("RPUSH list {}", last + at + 1))));
                    if writer.try_send(&commands.collect::<Vec<u8>>()).is_err() {
                        return last;
                    }
                    for _ in 0..16 {
                        match writer.try_reply() {
                            Ok(reply) => last = reply.trim_matches(':').parse::<usize>().unwrap(),
                            Err(_) => return last,
                        }
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(30 + round * 13));
            // A busy machine may take longer for the first push.
            while client.run("LLEN list") == ":0" {
                std::thread::yield_now();
            }
            server.kill();
            pushed = acknowledged.join().unwrap();
        });
        let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
        let mut client = server.client();
        let found: usize = client.run("LLEN list").trim_matches(':').parse().unwrap();
        assert!((pushed..=pushed + 16).contains(&found), "{found} elements, {pushed} acknowledged");
        let expected: Vec<String> = (1..=found).map(|number| format!("'{number}'")).collect();
        assert_eq!(client.run("LRANGE list 0 -1"), format!("[{}]", expected.join(" ")));
        pushed = found;
    }
}

#[test]
fn watches_and_waiting_clients_see_a_series() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let mut writer = server.client();
    let mut other = server.client();
    writer.check(&[("RPUSH list a", ":1"), ("RPUSH list b", ":2")]);

    other.check(&[("WATCH list", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    replies(&mut writer, &vec![words("RPUSH list c"); 5]);
    assert_eq!(other.run("EXEC"), "nil");

    // A series without a change is none for WATCH.
    writer.check(&[("SADD set a", ":1"), ("SADD set a", ":0")]);
    other.check(&[("WATCH set", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    replies(&mut writer, &vec![words("SADD set a"); 5]);
    assert_eq!(other.run("EXEC"), "[PONG]");

    writer.run("DEL queue");
    other.send(&["BLPOP", "queue", "10"]);
    wait_for(|| writer.run("INFO clients").contains("blocked_clients:1"));
    assert_eq!(
        replies(&mut writer, &["a", "b", "c"].map(|e| words(&format!("RPUSH queue {e}")))),
        [":1", ":1", ":2"]
    );
    assert_eq!(other.reply(), "['queue' 'a']");
    assert_eq!(writer.run("LRANGE queue 0 -1"), "['b' 'c']");
}

#[test]
fn series_stores_the_record_of_its_object_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let mut client = server.client();
    let sequence = |client: &mut Client| -> u64 {
        let info = client.run("INFO terrace");
        let (_, rest) = info.split_once("terrace_last_sequence:").expect("INFO has the line");
        rest.split(|byte: char| !byte.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    client.check(&[("LPUSH list a", ":1")]);
    let before = sequence(&mut client);
    replies(&mut client, &vec![words("LPUSH list a"); 16]);
    let writes = sequence(&mut client) - before;
    assert!((17..32).contains(&writes), "{writes} records for 16 elements");
}
