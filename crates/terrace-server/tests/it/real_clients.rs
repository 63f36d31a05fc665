//! Programs that users have: redis-cli, redis-benchmark, redis-py.

use std::process::Command;

use crate::server::Server;

/// Runs `program` and returns its output, or None with a message if it is not installed. The
/// variable with the program's name in capital letters may name its path.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let variable = program.to_uppercase().replace('-', "_");
    let path = std::env::var(variable).unwrap_or_else(|_| program.into());
    match Command::new(path).args(args).output() {
        Ok(output) if output.status.success() => Some(
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        ),
        Ok(output) => panic!("{program}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            eprintln!("NOT TESTED: {program} is not installed");
            None
        }
    }
}

#[test]
fn redis_cli() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let port = server.address.port().to_string();
    let steps: &[(&[&str], &str)] = &[
        (&["set", "CH/Bern", "46.95"], "OK\n"),
        (&["-3", "get", "CH/Bern"], "46.95\n"),
        (&["--scan", "--pattern", "CH/*"], "CH/Bern\n"),
        (&["ttl", "CH/Bern"], "-1\n"),
        (&["fcall", "f", "0"], "ERR the command 'fcall' is not supported by Terrace\n\n"),
    ];
    for (args, expected) in steps {
        let args = [&["-p", &port], *args].concat();
        let Some(found) = output("redis-cli", &args) else { return };
        assert_eq!(found, *expected, "{args:?}");
    }
}

#[test]
fn redis_benchmark() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let port = server.address.port().to_string();
    let args = [
        "-p",
        &port,
        "-t",
        "ping,set,get,incr,mset",
        "-n",
        "20000",
        "-P",
        "16",
        "-c",
        "20",
        "-r",
        "1000",
        "-q",
    ];
    if let Some(found) = output("redis-benchmark", &args) {
        assert_eq!(found.matches("requests per second").count(), 6, "{found}");
    }
}

const REDIS_PY: &str = r#"
import sys
import redis
for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    client.flushall()
    assert client.set("a", 1, ex=100, nx=True) is True
    assert client.set("a", 1, nx=True) is None
    assert client.incr("a") == 2 and 98 <= client.ttl("a") <= 100
    with client.pipeline() as pipe:
        pipe.watch("a")
        pipe.multi()
        pipe.set("b", "x").get("b").mget("a", "missing")
        assert pipe.execute() == [True, "x", ["2", None]]
        pipe.watch("a")
        client.set("a", 9)
        pipe.multi()
        pipe.set("b", "y")
        try:
            pipe.execute()
            raise SystemExit("the watch was not noticed")
        except redis.WatchError:
            pass
    assert sorted(client.scan_iter("*")) == ["a", "b"]
    channel = client.pubsub()
    channel.subscribe("news")
    assert channel.get_message(timeout=5)["type"] == "subscribe"
    assert client.publish("news", "hello") == 1
    assert channel.get_message(timeout=5)["data"] == "hello"
    channel.close()
    assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
    assert client.info()["redis_version"] == "7.0.15"
    assert client.dbsize() == 2
    assert any(row["db"] in ("0", 0) for row in client.client_list())
print("done")
"#;

const REDIS_PY_SCRIPTS: &str = r#"
import sys
import redis
for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    client.flushall()
    lock = client.lock("lock", timeout=10)
    assert lock.acquire(blocking=False)
    assert not client.lock("lock", timeout=10).acquire(blocking=False)
    assert lock.extend(20) and 20 < client.ttl("lock") <= 30 and lock.reacquire()
    lock.release()
    assert client.get("lock") is None
    try:
        lock.release()
        raise SystemExit("the lock was released twice")
    except redis.exceptions.LockError:
        pass
    add = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add(keys=["n"], args=[5]) == 5
    client.script_flush()
    assert add(keys=["n"], args=[5]) == 10
    with client.pipeline() as pipe:
        add(keys=["n"], args=[1], client=pipe)
        pipe.get("n")
        assert pipe.execute() == [11, "11"]
    # A rate limiter with a fixed window.
    limit = client.register_script("""
        local count = redis.call('INCR', KEYS[1])
        if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        return {count <= tonumber(ARGV[1]) and 1 or 0, redis.call('PTTL', KEYS[1])}
    """)
    allowed = [limit(keys=["limit"], args=[3, 60000]) for _ in range(5)]
    assert [row[0] for row in allowed] == [1, 1, 1, 0, 0] and 0 < allowed[0][1] <= 60000
    try:
        client.eval("return redis.call('incr', 'lst', 'x')", 0)
        raise SystemExit("no error")
    except redis.exceptions.ResponseError as error:
        assert "Wrong number of args" in str(error)
    assert client.script_exists("0" * 40) == [False]
print("done")
"#;

/// Runs a program with redis-py.
fn check_redis_py(program: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let port = server.address.port().to_string();
    let has_module = Command::new("python3").args(["-c", "import redis"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        eprintln!("NOT TESTED: redis-py is not installed");
        return;
    }
    assert_eq!(output("python3", &["-c", program, &port]).as_deref(), Some("done\n"));
}

#[test]
fn redis_py() {
    check_redis_py(REDIS_PY);
}

#[test]
fn redis_py_locks_and_scripts() {
    check_redis_py(REDIS_PY_SCRIPTS);
}
