//! Programs that users have: each does its main job against the server.
//!
//! `tests/clients/install` installs them, and `tests/clients/run` runs a job. Every job passes on
//! redis-server 7.0.15. A client that is not installed is not tested, and neither is a client that
//! needs a command which the server does not support; both print a line.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::server::Server;

/// Exit code of a job whose client is not installed.
const NOT_INSTALLED: i32 = 3;

/// Returns the first of `commands` that the server does not support.
fn unsupported<'c>(server: &Server, commands: &[&'c str]) -> Option<&'c str> {
    /// Maximum number of arguments that such a command demands.
    const MAX_ARITY: usize = 8;
    let mut client = server.client();
    // The server checks a command when it queues it, and does not run it.
    client.run("MULTI");
    commands.iter().copied().find(|command| {
        (1..MAX_ARITY).any(|len| {
            let args: Vec<&str> = std::iter::once(*command).chain(std::iter::repeat_n("1", len)).collect();
            client.call(&args).contains("is not supported by Terrace")
        })
    })
}

/// Prints a line, also if the test passes.
fn not_tested(reason: &str) {
    // Without a standard error, the test still passes.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {reason}");
}

/// Runs the job of `client`, which needs `commands`.
#[track_caller]
fn check(client: &str, commands: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    match unsupported(&server, commands) {
        Some(command) => not_tested(&format!("{client}: the server does not support {command}")),
        None => run_job(&server, &[client]),
    }
}

/// Like [`check`]. Without the commands, the job runs its basic part.
#[track_caller]
fn check_at_least_basics(client: &str, commands: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    run_job(&server, &[client, "basic"]);
    if let Some(command) = unsupported(&server, commands) {
        not_tested(&format!("{client}, the whole job: the server does not support {command}"));
    } else {
        run_job(&server, &[client]);
    }
}

/// Runs `tests/clients/run` with the name of a client, the port, and the other arguments.
#[track_caller]
pub(crate) fn run_job(server: &Server, args: &[&str]) {
    let client = args[0];
    if cfg!(windows) {
        return not_tested(&format!("{client}: a script of bash starts it"));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/run");
    let port = server.address.port().to_string();
    let output = Command::new(script).args([client, &port]).args(&args[1..]).output().unwrap();
    if output.status.code() == Some(NOT_INSTALLED) {
        not_tested(&format!("{client} is not installed; see crates/terrace-server/tests/clients/install"));
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("done"), "{client}: {text}");
}

/// Commands of the jobs of libraries.
const LIBRARY: &[&str] = &["hset", "blpop", "sadd", "zadd", "zrange", "xadd", "evalsha"];

#[test]
fn redis_cli() {
    check("redis-cli", &[]);
}

#[test]
fn redis_benchmark() {
    check_at_least_basics("redis-benchmark", &["lpush", "hset", "spop", "zpopmin"]);
}

#[test]
fn redis_py() {
    check_at_least_basics("redis-py", LIBRARY);
}

#[test]
fn redis_py_locks_and_scripts() {
    check("redis-py-scripts", &["evalsha", "script"]);
}

#[test]
fn celery() {
    check("celery", &["brpop", "hset", "zadd", "sadd", "lpush"]);
}

#[test]
fn rq() {
    check("rq", &["blpop", "hset", "zadd", "sadd", "xadd"]);
}

#[test]
fn node_redis() {
    check("node-redis", LIBRARY);
}

#[test]
fn ioredis() {
    check("ioredis", LIBRARY);
}

#[test]
fn go_redis() {
    check("go-redis", LIBRARY);
}

#[test]
fn rust_redis() {
    check("rust-redis", LIBRARY);
}

#[test]
fn jedis() {
    check("jedis", LIBRARY);
}

#[test]
fn sidekiq() {
    check("sidekiq", &["brpop", "zadd", "sadd", "evalsha", "hset"]);
}

#[test]
fn redis_exporter() {
    check("redis-exporter", &[]);
}

#[test]
fn nutcracker() {
    check("nutcracker", &["rpush", "zadd"]);
}
