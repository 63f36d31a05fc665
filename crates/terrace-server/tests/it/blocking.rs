//! Commands that wait for an element: several clients beside redis-server, and a ledger of the
//! elements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terrace::env::{Random, SeededRandom};
use terrace_server::{Layout, SyncMode};

use crate::client::Client;
use crate::model::RedisServer;
use crate::page::wait_for;
use crate::process::ServerProcess;

/// Step of a script, with the number of its client.
enum Step {
    Send(usize, &'static str),
    Receive(usize),
    /// Receives a reply that the servers may give differently.
    Discard(usize),
    Close(usize),
}

use Step::{Close, Discard, Receive, Send};

/// Connection that sees how far the server is with the commands of other clients.
struct Observer(Client);

impl Observer {
    /// Row of CLIENT LIST of the client at `address`, while it is connected.
    fn row(&mut self, address: std::net::SocketAddr) -> Option<String> {
        let list = self.0.run("CLIENT LIST");
        let address = format!(" addr={address} ");
        list.split("\\n").find(|row| row.contains(&address)).map(str::to_owned)
    }

    /// Waits until `client` waits for an element.
    fn wait_until_blocked(&mut self, client: &Client) {
        wait_for(|| self.row(client.local_address()).is_some_and(|row| is_blocked(&row)));
    }

    /// Waits until the server has executed `command` of `client`, or the client waits for an
    /// element.
    fn wait_until_executed(&mut self, client: &Client, command: &str) {
        let command = format!(" cmd={}", command.to_lowercase());
        wait_for(|| {
            let row = self.row(client.local_address());
            row.is_some_and(|row| is_blocked(&row) || row.contains(&command))
        });
    }

    /// Waits until the server has noticed the end of a client.
    fn wait_until_closed(&mut self, address: std::net::SocketAddr) {
        wait_for(|| self.row(address).is_none());
    }
}

/// True if a row of CLIENT LIST shows a client that waits for an element.
fn is_blocked(row: &str) -> bool {
    let flags = row.split_once(" flags=").map_or("", |(_, rest)| rest.split(' ').next().unwrap_or(""));
    flags.contains('b')
}

/// Runs a script with clients that connect when a step names them. Returns all replies.
fn run(address: std::net::SocketAddr, script: &[Step]) -> Vec<String> {
    let mut clients: HashMap<usize, Client> = HashMap::new();
    let mut observer = Observer(Client::connect(address));
    let mut replies = Vec::new();
    for step in script {
        match step {
            Send(client, line) => {
                let client = clients.entry(*client).or_insert_with(|| Client::connect(address));
                let words: Vec<_> = line.split_whitespace().collect();
                client.send(&words);
                observer.wait_until_executed(client, words[0]);
            }
            Discard(client) => drop(clients.get_mut(client).unwrap().reply()),
            Receive(client) => replies.push(clients.get_mut(client).unwrap().reply()),
            Close(client) => {
                let address = clients.remove(client).unwrap().local_address();
                observer.wait_until_closed(address);
            }
        }
    }
    replies
}

/// Runs a script on both servers and compares the replies.
#[track_caller]
fn check(script: &[Step], expected: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    assert_eq!(run(server.address, script), expected, "this server");
    match RedisServer::start() {
        Some(redis) => assert_eq!(run(redis.address, script), expected, "redis-server"),
        None => eprintln!("NOT TESTED: redis-server 7.0 is not installed"),
    }
}

/// Tells whether the slow log shows a command that pops an element, while a client waits and after
/// each kind of end of its wait.
fn slow_log_of_waits(address: std::net::SocketAddr) -> Vec<(&'static str, bool)> {
    let mut observer = Observer(Client::connect(address));
    observer.0.check(&[("CONFIG SET slowlog-log-slower-than 0", "OK")]);
    let mut seen = Vec::new();
    for (end, line) in
        [("element", "BZPOPMIN q 0"), ("timeout", "BLPOP l 0.2"), ("disconnection", "BLPOP l 0")]
    {
        observer.0.check(&[("SLOWLOG RESET", "OK")]);
        let mut waiter = Client::connect(address);
        waiter.send(&line.split(' ').collect::<Vec<_>>());
        if end != "timeout" {
            observer.wait_until_blocked(&waiter);
            seen.push(("wait", observer.0.run("SLOWLOG GET").contains("POP")));
        }
        match end {
            "element" => {
                observer.0.check(&[("ZADD q 1 a", ":1")]);
                waiter.reply();
            }
            "timeout" => drop(waiter.reply()),
            _ => {
                let address = waiter.local_address();
                drop(waiter);
                observer.wait_until_closed(address);
            }
        }
        seen.push((end, observer.0.run("SLOWLOG GET").contains("POP")));
    }
    seen
}

#[test]
fn slow_log_shows_a_wait_after_its_element() {
    let expected =
        [("wait", false), ("element", true), ("timeout", false), ("wait", false), ("disconnection", false)];
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    assert_eq!(slow_log_of_waits(server.address), expected);
    match RedisServer::start() {
        Some(redis) => assert_eq!(slow_log_of_waits(redis.address), expected, "redis-server"),
        None => eprintln!("NOT TESTED: redis-server 7.0 is not installed"),
    }
}

#[test]
fn first_blocked_first_served() {
    check(
        &[
            Send(1, "BLPOP a b 0"),
            Send(2, "BLPOP b 0"),
            Send(3, "BRPOP b 0"),
            Send(0, "RPUSH b x y"),
            Receive(0),
            Receive(1),
            Receive(2),
            Send(0, "LPUSH b z"),
            Receive(0),
            Receive(3),
            Send(0, "EXISTS b"),
            Receive(0),
        ],
        &[":2", "['b' 'x']", "['b' 'y']", ":1", "['b' 'z']", ":0"],
    );
}

#[test]
fn service_after_exec() {
    check(
        &[
            Send(1, "BLPOP a 0"),
            Send(0, "MULTI"),
            Send(0, "RPUSH a x"),
            Send(0, "LPOP a"),
            Send(0, "BLPOP a 0"),
            Send(0, "RPUSH a y"),
            Send(0, "LLEN a"),
            Send(0, "EXEC"),
            Receive(0),
            Receive(0),
            Receive(0),
            Receive(0),
            Receive(0),
            Receive(0),
            Receive(0),
            Receive(1),
        ],
        &["OK", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "QUEUED", "[:1 'x' nil :1 :1]", "['a' 'y']"],
    );
}

#[test]
fn keys_that_other_commands_fill() {
    check(
        &[
            Send(1, "BLPOP a 0"),
            Send(0, "RPUSH other x"),
            Receive(0),
            Send(0, "RENAME other a"),
            Receive(0),
            Receive(1),
            Send(1, "BLPOP a 0"),
            Send(0, "RPUSH other y"),
            Receive(0),
            Send(0, "COPY other a"),
            Receive(0),
            Receive(1),
            Send(1, "BZPOPMIN z 0"),
            Send(0, "ZADD other2 1 m 2 n"),
            Receive(0),
            Send(0, "ZUNIONSTORE z 1 other2"),
            Receive(0),
            Receive(1),
            Send(1, "BZPOPMAX g 0"),
            Send(0, "GEOADD g 1 1 p"),
            Receive(0),
            Receive(1),
        ],
        &[
            ":1",
            "OK",
            "['a' 'x']",
            ":1",
            ":1",
            "['a' 'y']",
            ":2",
            ":2",
            "['z' 'm' '1']",
            ":1",
            "['g' 'p' '3377822707026402']",
        ],
    );
}

#[test]
fn databases_that_move() {
    check(
        &[
            Send(1, "BLPOP a 0"),
            Send(0, "SELECT 1"),
            Receive(0),
            Send(0, "RPUSH a x"),
            Receive(0),
            Send(0, "SWAPDB 0 1"),
            Receive(0),
            Receive(1),
            Send(1, "BLPOP b 0"),
            Send(0, "RPUSH b y"),
            Receive(0),
            Send(0, "MOVE b 0"),
            Receive(0),
            Receive(1),
        ],
        &["OK", ":1", "OK", "['a' 'x']", ":1", ":1", "['b' 'y']"],
    );
}

#[test]
fn moves_in_a_chain() {
    check(
        &[
            Send(1, "BLMOVE a b LEFT RIGHT 0"),
            Send(2, "BLMOVE b c LEFT RIGHT 0"),
            Send(3, "BLPOP c 0"),
            Send(0, "RPUSH a x"),
            Receive(0),
            Receive(1),
            Receive(2),
            Receive(3),
            Send(1, "BRPOPLPUSH a text 0"),
            Send(0, "SET text x"),
            Receive(0),
            Send(0, "RPUSH a y"),
            Receive(0),
            Receive(1),
            Send(0, "LRANGE a 0 -1"),
            Receive(0),
        ],
        &[
            ":1",
            "'x'",
            "'x'",
            "['c' 'x']",
            "OK",
            ":1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "['y']",
        ],
    );
}

#[test]
fn values_of_another_type() {
    check(
        &[
            Send(1, "BLPOP a 0"),
            Send(0, "ZADD a 1 m"),
            Receive(0),
            Send(0, "DEL a"),
            Receive(0),
            Send(0, "SET a x"),
            Receive(0),
            Send(0, "DEL a"),
            Receive(0),
            Send(0, "RPUSH a x"),
            Receive(0),
            Receive(1),
        ],
        &[":1", ":1", "OK", ":1", ":1", "['a' 'x']"],
    );
}

#[test]
fn several_elements() {
    check(
        &[
            Send(1, "BLMPOP 0 2 a b RIGHT COUNT 2"),
            Send(0, "RPUSH b x y z"),
            Receive(0),
            Receive(1),
            Send(2, "BZMPOP 0 2 s t MAX COUNT 2"),
            Send(0, "ZADD t 1 k 2 l 3 m"),
            Receive(0),
            Receive(2),
        ],
        &[":3", "['b' ['z' 'y']]", ":3", "['t' [['m' '3'] ['l' '2']]]"],
    );
}

#[test]
fn end_of_a_wait() {
    check(
        &[
            Send(1, "BLPOP a 0.05"),
            Receive(1),
            Send(1, "BLMOVE a b LEFT LEFT 0.05"),
            Receive(1),
            Send(1, "HELLO 3"),
            Discard(1),
            Send(1, "CLIENT REPLY SKIP"),
            Send(1, "BLPOP a 0.05"),
            Send(1, "PING"),
            Receive(1),
            Send(2, "BLPOP a 0"),
            Close(2),
            Send(0, "RPUSH a x"),
            Receive(0),
            Send(0, "LRANGE a 0 -1"),
            Receive(0),
            Send(0, "CLIENT UNBLOCK 9999"),
            Receive(0),
            Send(0, "CLIENT UNBLOCK 9999 OTHER"),
            Receive(0),
        ],
        &["nil", "nil", "PONG", ":1", "['x']", ":0", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"],
    );
}

#[test]
fn commands_after_a_wait() {
    check(
        &[
            Send(1, "BLPOP a 0"),
            Send(1, "RPUSH done 1"),
            Send(1, "BLPOP a 0"),
            Send(1, "PING"),
            Send(0, "EXISTS done"),
            Receive(0),
            Send(0, "RPUSH a x y"),
            Receive(0),
            Receive(1),
            Receive(1),
            Receive(1),
            Receive(1),
        ],
        &[":0", ":2", "['a' 'x']", ":1", "['a' 'y']", "PONG"],
    );
}

#[test]
fn unblock_and_kill() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let mut admin = server.client();
    let mut waiting = server.client();
    let mut observer = Observer(server.client());
    let id = waiting.run("CLIENT ID").trim_start_matches(':').to_owned();
    for (reason, reply) in
        [("", "nil"), ("TIMEOUT", "nil"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK")]
    {
        waiting.send(&["BLPOP", "a", "0"]);
        observer.wait_until_blocked(&waiting);
        assert_eq!(admin.run(&format!("CLIENT UNBLOCK {id} {reason}")), ":1");
        assert_eq!(waiting.reply(), reply);
        assert_eq!(admin.run(&format!("CLIENT UNBLOCK {id} {reason}")), ":0");
    }
    waiting.send(&["BLPOP", "a", "0"]);
    observer.wait_until_blocked(&waiting);
    assert_eq!(admin.run(&format!("CLIENT KILL ID {id}")), ":1");
    assert!(waiting.is_closed());
    assert_eq!(admin.run("RPUSH a x"), ":1");
    assert_eq!(admin.run("LPOP a"), "'x'");
}

#[test]
fn end_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let mut waiting = server.client();
    waiting.send(&["BLPOP", "a", "0"]);
    Observer(server.client()).wait_until_blocked(&waiting);
    server.client().send(&["SHUTDOWN"]);
    assert!(waiting.reply().starts_with("-UNBLOCKED"));
    assert!(waiting.is_closed());
}

/// Elements that left the list, by the client that has received them.
type Received = Vec<String>;

/// Pops elements in random ways until the reply names the last element, `end`.
fn consume(server: &ServerProcess, seed: u64, disconnections: &AtomicUsize) -> Received {
    let random = SeededRandom::new(seed);
    let mut client = server.client();
    let mut received = Vec::new();
    loop {
        let command = match random.uniform(6) {
            0 => "BLPOP list other 0.003",
            1 => "BRPOP other list 0.02",
            2 => "BLMPOP 0.01 2 list other LEFT COUNT 3",
            3 => "BLMOVE list other LEFT RIGHT 0.004",
            4 => "BZPOPMIN set 0.002",
            _ => "BLPOP list 1",
        };
        client.send(&command.split(' ').collect::<Vec<_>>());
        if random.uniform(50) == 0 {
            // The client leaves, perhaps with an element on its way.
            disconnections.fetch_add(1, Ordering::Relaxed);
            client = server.client();
            continue;
        }
        let reply = client.reply();
        assert!(!reply.starts_with('-'), "{reply}");
        if reply.contains("end") {
            return received;
        }
        if !command.starts_with("BLMOVE") {
            received.extend(
                reply.split(['\'', '[', ']', ' ']).filter(|word| word.starts_with("e:")).map(String::from),
            );
        }
    }
}

#[test]
fn no_element_is_lost_or_taken_twice() {
    const CONSUMERS: usize = 6;
    const PRODUCERS: usize = 2;
    const ELEMENTS: usize = 5000;
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), Layout::Typed, SyncMode::No);
    let disconnections = AtomicUsize::new(0);
    let received: Vec<String> = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|at| {
                let server = &server;
                let disconnections = &disconnections;
                scope.spawn(move || consume(server, 90 + at as u64, disconnections))
            })
            .collect();
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|at| {
                let server = &server;
                scope.spawn(move || produce(server, at, ELEMENTS))
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let mut admin = server.client();
        // Each consumer ends with one of these; a client that leaves may take one with it.
        while consumers.iter().any(|consumer| !consumer.is_finished()) {
            admin.call(&["RPUSH", "list", "end"]);
            std::thread::sleep(Duration::from_millis(5));
        }
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
    });
    let mut counts: HashMap<&str, usize> = HashMap::new();
    received.iter().for_each(|element| *counts.entry(element).or_default() += 1);
    let mut admin = server.client();
    let rest =
        admin.run("LRANGE list 0 -1") + &admin.run("LRANGE other 0 -1") + &admin.run("ZRANGE set 0 -1");
    let left = rest.split(['\'', '[', ']', ' ']).filter(|word| word.starts_with("e:"));
    left.for_each(|element| *counts.entry(element).or_default() += 1);
    assert!(counts.values().all(|count| *count == 1), "an element was taken twice");
    let lost = PRODUCERS * ELEMENTS - counts.len();
    // A client that leaves while the reply is on its way loses at most the elements of one reply.
    let may_be_lost = 3 * disconnections.load(Ordering::Relaxed);
    assert!(lost <= may_be_lost, "{lost} elements are lost, {may_be_lost} may be");
    println!("{lost} of {may_be_lost} elements left with their clients");
}

/// Pushes elements in random ways.
fn produce(server: &ServerProcess, producer: usize, elements: usize) {
    let random = SeededRandom::new(80 + producer as u64);
    let mut client = server.client();
    let mut next = 0;
    while next < elements {
        let mut element = || {
            next += 1;
            format!("e:{producer}:{next}")
        };
        match random.uniform(5) {
            0 => drop(client.call(&["ZADD", "set", "1", &element()])),
            1 => {
                client.call(&["MULTI"]);
                client.call(&["RPUSH", "list", &element()]);
                client.call(&["EXEC"]);
            }
            2 => {
                client.call(&["LPUSH", &format!("private:{producer}"), &element()]);
                client.call(&["LMOVE", &format!("private:{producer}"), "list", "LEFT", "LEFT"]);
            }
            3 => drop(client.call(&["LPUSH", "other", &element()])),
            _ => drop(client.call(&["RPUSH", "list", &element()])),
        }
    }
}
