//! The program with a real etcd: commands on a store, servers that share it, and the demonstration.
//!
//! The tests print NOT TESTED without Debian's etcd-server, or without the feature `etcd`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests wait for processes and talk to them, and a failed step is a failed test"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use terrace_store::ENGINES;
use terrace_testkit::etcd::{EtcdCluster, has_etcd};
use terrace_testkit::http::{get, post};

use crate::cli_test::CliTest;
use crate::stores::check_killed_migrations;

/// Returns true if the program can use etcd here.
fn can_test(what: &str) -> bool {
    if !ENGINES.iter().any(|engine| engine.scheme == "etcd" && engine.is_built_in()) {
        assert!(std::env::var_os("TERRACE_REQUIRE_STOCK").is_none(), "the engine etcd is missing");
        let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}: built without the feature etcd");
        return false;
    }
    has_etcd(what)
}

#[test]
fn every_command_of_stores() {
    if !can_test("commands on a store in etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let trial = CliTest::with_entries("a\t1\nb\t2\nc\t3\nd\t4\n");
    let store = cluster.address("cities");
    let run = |line: &str| trial.run(&line.replace("STORE", &store));
    run("get STORE a").assert_contains(3, &["no store"]);
    run("put STORE a 0 --create").assert_output(0, "");
    run("put STORE a 1 --if-value 0 --sync").assert_output(0, "");
    run("put STORE a 2 --if-absent").assert_contains(5, &["'a' has the value '1'"]);
    let load = format!("load {store} - --format tsv");
    trial.run_with_input(&load, b"b\t2\nc\t3\nd\t4\nx\t5\n").assert_output(0, "");
    run("delete STORE x --if-value 5").assert_output(0, "");
    for command in [
        "get DB b",
        "get DB x",
        "get DB 62 --hex",
        "scan DB --from b",
        "scan DB --reverse --limit 2 --keys-only",
        "count DB --from b --to d",
        "dump DB --format jsonl",
    ] {
        let on = |database: &str| trial.run(&command.replace("DB", database));
        let directory = on("db");
        let in_etcd = on(&store);
        assert_eq!((directory.code, directory.out), (in_etcd.code, in_etcd.out), "{command}");
    }
    run("migrate db STORE").assert_contains(3, &["has entries already"]);
    let target = cluster.address("migrated");
    trial.run(&format!("migrate db {target}")).assert_contains(0, &["equal: 4 entries"]);
    trial.run(&format!("migrate {target} local:back")).assert_contains(0, &["equal: 4 entries"]);
    assert_eq!(trial.run("dump db").out, trial.run("dump back").out);
    run("delete STORE --from b").assert_output(0, "");
    run("count STORE").assert_output(0, "1\n");
}

/// Commands on the store STORE. The migrations are also from and to directories.
const COMMANDS: &[&str] = &[
    "get STORE a",
    "put STORE a 1 --create",
    "delete STORE a",
    "scan STORE",
    "count STORE",
    "dump STORE",
    "load STORE - --create --format tsv",
    "bench STORE put --num 10",
    "serve --store STORE --create --port 0",
    "migrate db STORE",
    "migrate STORE copy",
];

#[test]
fn unusable_store_is_one_line_and_no_write() {
    if !can_test("unusable stores in etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let trial = CliTest::with_entries("a\t1\n");
    trial.file("ca.pem", "a secret");
    // Key `later`, byte 0, `v`, and value `terrace-store 2`.
    let later_layout = r#"{"key":"bGF0ZXIAdg==","value":"dGVycmFjZS1zdG9yZSAy"}"#;
    assert!(post(cluster.servers[0].client_port, "/v3/kv/put", later_layout).contains(" 200 OK"));
    let all_keys = || {
        let answer =
            post(cluster.servers[0].client_port, "/v3/kv/range", r#"{"key":"AA==","range_end":"AA=="}"#);
        answer.split_once("\"kvs\"").unwrap().1.to_owned()
    };
    let before = all_keys();
    for (store, reason) in [
        (
            cluster.address("later"),
            "the store 'later' has the layout 'terrace-store 2', expected 'terrace-store 1'",
        ),
        (cluster.address("app?ca=ca.pem"), "ca.pem: no certificate as PEM"),
        (cluster.address("app?ca=nowhere.pem"), "nowhere.pem: No such file"),
        (cluster.address("later!x"), "is no prefix"),
        (
            "etcd://127.0.0.1:1/app?timeout=1".into(),
            "etcd 127.0.0.1:1: tcp connect error: Connection refused",
        ),
    ] {
        for command in COMMANDS {
            let refused = trial.run_with_input(&command.replace("STORE", &store), b"b\t2\n");
            refused.assert_contains(3, &[reason]);
            assert!(refused.err.lines().count() == 1 && refused.out.is_empty(), "{command}: {refused:?}");
            assert!(!refused.err.contains("secret"), "{refused:?}");
        }
    }
    assert_eq!(all_keys(), before);
    assert!(!trial.path("copy").exists());
}

#[test]
fn killed_migrations_to_etcd_continue() {
    if !can_test("killed migrations to etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    check_killed_migrations(&cluster.address("killed"), 20_000);
}

/// Connection to a server, with commands as lines.
struct RedisClient(BufReader<TcpStream>);

impl RedisClient {
    fn connect(port: u16) -> RedisClient {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        RedisClient(BufReader::new(stream))
    }

    /// Returns the first line of the reply, or the text of a string.
    fn run(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        self.0.read_line(&mut reply).unwrap();
        if let Some(len) = reply.strip_prefix('$').filter(|len| !len.starts_with('-')) {
            let mut text = vec![0; len.trim().parse::<usize>().unwrap() + 2];
            self.0.read_exact(&mut text).unwrap();
            return String::from_utf8_lossy(&text).trim().to_owned();
        }
        reply.trim().to_owned()
    }
}

/// Starts the program and returns its first lines, up to one that begins with `last`.
fn start(trial: &CliTest, line: &str, last: &str) -> (Child, Vec<String>) {
    let mut child = trial.start(line);
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        let is_last = line.starts_with(last);
        lines.push(line);
        if is_last {
            return (child, lines);
        }
    }
    let ended = child.wait_with_output().unwrap();
    panic!("no line {last:?} in {lines:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args(["-s", name, process]).status().unwrap().success());
}

/// Port at the end of a line such as `ready: typed layout, listening on 127.0.0.1:7001`.
fn port(line: &str) -> u16 {
    line.rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn two_servers_share_a_store() {
    if !can_test("servers on a store in etcd") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    let trial = CliTest::new();
    let store = cluster.address("app");
    let serve = format!("serve --store {store} --port 0");
    trial.run(&serve).assert_contains(3, &["no store"]);
    trial.run(&format!("{serve} --page-port 0")).assert_contains(2, &["the web page needs a database"]);
    let (mut first, lines) = start(&trial, &format!("{serve} --create"), "ready: ");
    let (mut second, more) = start(&trial, &serve, "ready: ");
    let ports = [port(&lines[0]), port(&more[0])];
    let mut clients = ports.map(RedisClient::connect);
    assert_eq!(clients[0].run("SET city Bern"), "+OK");
    assert_eq!(clients[1].run("GET city"), "Bern");
    redis_cli(ports[1], &["INCRBYFLOAT", "number", "1.5"], "1.5");
    redis_cli(ports[0], &["GET", "number"], "1.5");
    for server in [&mut first, &mut second] {
        signal("TERM", &server.id().to_string());
        assert_eq!(server.wait().unwrap().code(), Some(0));
    }
    // The records are those of a directory, so the tools show them.
    trial.run(&format!("scan {store} --prefix 010000 --hex --keys-only")).assert_contains(0, &["63697479"]);
}

#[test]
fn password_is_in_no_output_and_no_list_of_processes() {
    const PASSWORD: &str = "hunter2";
    if !can_test("passwords of stores") {
        return;
    }
    let cluster = EtcdCluster::start(1);
    cluster.require_password(PASSWORD);
    let trial = CliTest::new();
    trial.file("right", PASSWORD).file("wrong", "hunter22");
    let store = |file: &str| format!("{}?user=root&password-file={file}", cluster.address("app"));
    let refused = trial.run(&format!("put {} a 1 --create", store("wrong")));
    refused.assert_contains(3, &["permission denied"]);
    let in_address = cluster.address("app").replace("etcd://", "etcd://root:hunter2@");
    let bad = trial.run(&format!("get {in_address} a"));
    bad.assert_contains(3, &["contains no user or password"]);
    let (mut server, lines) =
        start(&trial, &format!("serve --store {} --create --port 0", store("right")), "ready: ");
    let mut client = RedisClient::connect(port(&lines[0]));
    assert_eq!(client.run("SET a 1"), "+OK");
    let settings = client.run("INFO server");
    let command_line = std::fs::read(format!("/proc/{}/cmdline", server.id())).unwrap();
    signal("TERM", &server.id().to_string());
    let mut log = String::new();
    server.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    server.wait().unwrap();
    let command_line = String::from_utf8_lossy(&command_line).into_owned();
    assert!(command_line.contains("password-file=right"), "{command_line}");
    for output in [refused.err, bad.err, lines.concat(), settings, log, command_line] {
        assert!(!output.contains(PASSWORD), "the password shows: {output}");
    }
}

/// Runs Redis' client, if it is installed.
fn redis_cli(port: u16, args: &[&str], expected: &str) {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output();
    let Ok(output) = output else {
        let _ = writeln!(std::io::stderr(), "NOT TESTED: redis-cli with a store: it is not installed");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{args:?}");
}

/// First of 24 ports that no program uses now: enough for two demonstrations. Tests of this process
/// get different ones.
fn free_ports() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 500).unwrap();
    let first = 20_000 + process * 24 + CALLS.fetch_add(1, Ordering::Relaxed) % 2 * 12_000;
    let mut bases = (first..60_000).step_by(24);
    bases.find(|base| (0..24).all(|at| TcpListener::bind(("127.0.0.1", base + at)).is_ok())).unwrap()
}

/// Process number in a line such as `etcd n1: 127.0.0.1:7011, process 123`.
fn process(line: &str) -> &str {
    line.rsplit(' ').next().unwrap()
}

#[test]
fn demonstration_survives_the_loss_of_a_node() {
    if !can_test("terrace demo cluster") {
        return;
    }
    let trial = CliTest::new();
    let base = free_ports();
    let command = format!("demo cluster data --port {base}");
    let (mut demo, lines) = start(&trial, &command, "end: ");
    let listed =
        |begin: &str| -> Vec<&String> { lines.iter().filter(|line| line.starts_with(begin)).collect() };
    let nodes = listed("etcd n");
    let servers = listed("server ");
    assert_eq!((nodes.len(), servers.len()), (3, 2), "{lines:?}");
    let mut acknowledged = Vec::new();
    let mut write = |count: usize| {
        let mut clients = [base + 1, base + 2].map(RedisClient::connect);
        for n in 0..count {
            let key = format!("key:{}", acknowledged.len());
            let reply = clients[n % 2].run(&format!("SET {key} v{}", acknowledged.len()));
            assert_eq!(reply, "+OK");
            acknowledged.push(key);
        }
        acknowledged.len()
    };
    write(40);
    let leader = (0..3).find(|at| {
        let metrics = get(base + 11 + at, "/metrics");
        metrics.is_some_and(|text| text.contains("\netcd_server_is_leader 1\n"))
    });
    let leader = leader.unwrap();
    signal("KILL", process(nodes[usize::from(leader)]));
    // The next commit waits for the election. None fails, because two of three nodes remain.
    let total = write(60);
    for port in [base + 1, base + 2] {
        let mut client = RedisClient::connect(port);
        for n in 0..total {
            assert_eq!(client.run(&format!("GET key:{n}")), format!("v{n}"));
        }
    }
    signal("TERM", &demo.id().to_string());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    let started = Instant::now();
    for line in nodes.iter().chain(&servers) {
        while Path::new("/proc").join(process(line)).exists() {
            assert!(started.elapsed() < Duration::from_secs(10), "a process remains: {line}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The directory has the addresses of the nodes for each other, so these must not be ports.
#[test]
fn demonstration_continues_with_other_ports_and_another_path() {
    if !can_test("terrace demo cluster with other ports") {
        return;
    }
    let trial = CliTest::new();
    let base = free_ports();
    let (mut demo, _) = start(&trial, &format!("demo cluster data --port {base}"), "end: ");
    assert_eq!(RedisClient::connect(base + 1).run("SET city Bern"), "+OK");

    let beside = trial.run(&format!("demo cluster data --port {}", base + 2));
    beside.assert_contains(3, &["data: another cluster uses it"]);
    let occupied = trial.run(&format!("demo cluster others --port {base}"));
    occupied.assert_contains(4, &[&format!("port {}: Address", base + 1), "--port chooses others"]);
    assert!(!trial.path("others").exists());

    // Its nodes end a moment after it.
    signal("KILL", &demo.id().to_string());
    demo.wait().unwrap();
    for round in [base, base + 2] {
        let (mut demo, _) = start(&trial, &format!("demo cluster data --port {round}"), "end: ");
        assert_eq!(RedisClient::connect(round + 2).run("GET city"), "Bern");
        signal("TERM", &demo.id().to_string());
        assert_eq!(demo.wait().unwrap().code(), Some(0));
    }
    std::fs::rename(trial.path("data"), trial.path("moved")).unwrap();
    let (mut demo, _) = start(&trial, &format!("demo cluster moved --port {base}"), "end: ");
    assert_eq!(RedisClient::connect(base + 1).run("GET city"), "Bern");
    signal("TERM", &demo.id().to_string());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
}

#[test]
fn demonstration_without_etcd() {
    let trial = CliTest::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.args(["demo", "cluster"]).current_dir(trial.path("")).env("PATH", "/nowhere");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_told = message.contains("apt-get install etcd-server") || message.contains("--features etcd");
    assert!(is_told && !output.status.success(), "{message}");
    assert!(!trial.path("terrace-demo").exists());
}
