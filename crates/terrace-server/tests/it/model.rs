//! Random commands for this server and for redis-server. Both give the same replies.
//!
//! Our server is killed and started again in between. A failure prints the seed and the last
//! commands. The variables `TERRACE_MODEL_SEED` and `TERRACE_MODEL_STEPS` choose another run.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use terrace::env::{Random, SeededRandom};
use terrace_server::{Layout, SyncMode};

use crate::client::Client;
use crate::process::ServerProcess;

/// Redis in a process of its own.
pub(crate) struct RedisServer {
    child: Child,
    pub(crate) address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl RedisServer {
    /// Starts redis-server 7.0 on a free port, or returns None if it is not installed. The variable
    /// `REDIS_SERVER` may name the program.
    pub(crate) fn start() -> Option<RedisServer> {
        let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        let version = Command::new(&program).arg("--version").output().ok()?;
        if !String::from_utf8_lossy(&version.stdout).contains("v=7.0.") {
            return None;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(program)
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--enable-debug-command", "yes"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..200 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Some(RedisServer { child, address, _dir: dir });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kinds of arguments.
#[derive(Clone, Copy)]
enum Arg {
    Word(&'static str),
    Key,
    Value,
    Integer,
    /// Seconds or milliseconds that do not end during the test, or have ended already.
    Time,
    AbsoluteTime,
    Pattern,
    Database,
    /// One of several words, or none.
    Options(&'static [&'static str]),
}

use Arg::{AbsoluteTime, Database, Integer, Key, Options, Pattern, Time, Value, Word};

const EXPIRE: Arg = Options(&["NX", "XX", "GT", "LT"]);

/// Commands of both layouts.
static COMMANDS: &[&[Arg]] = &[
    &[Word("SET"), Key, Value],
    &[Word("SET"), Key, Value, Options(&["NX", "XX", "GET"])],
    &[Word("SET"), Key, Value, Options(&["NX", "XX"]), Options(&["GET", "KEEPTTL"])],
    &[Word("SETNX"), Key, Value],
    &[Word("GET"), Key],
    &[Word("GETSET"), Key, Value],
    &[Word("GETDEL"), Key],
    &[Word("GETEX"), Key, Options(&["PERSIST", "BAD"])],
    &[Word("MGET"), Key, Key, Key],
    &[Word("MSET"), Key, Value, Key, Value],
    &[Word("MSETNX"), Key, Value, Key, Value],
    &[Word("APPEND"), Key, Value],
    &[Word("STRLEN"), Key],
    &[Word("GETRANGE"), Key, Integer, Integer],
    &[Word("SETRANGE"), Key, Word("3"), Value],
    &[Word("INCR"), Key],
    &[Word("DECR"), Key],
    &[Word("INCRBY"), Key, Integer],
    &[Word("DECRBY"), Key, Integer],
    &[Word("INCRBYFLOAT"), Key, Options(&["0.5", "-3.25", "1e3", "x", "inf"])],
    &[Word("LCS"), Key, Key, Options(&["LEN", "IDX"])],
    &[Word("DEL"), Key, Key],
    &[Word("UNLINK"), Key],
    &[Word("EXISTS"), Key, Key],
    &[Word("TOUCH"), Key, Key],
    &[Word("TYPE"), Key],
    &[Word("RENAME"), Key, Key],
    &[Word("RENAMENX"), Key, Key],
    &[Word("COPY"), Key, Key, Options(&["REPLACE"])],
    &[Word("KEYS"), Pattern],
    &[Word("DBSIZE")],
    &[Word("TTL"), Key],
    &[Word("PERSIST"), Key],
    &[Word("ECHO"), Value],
    &[Word("PING"), Options(&["a"])],
    &[Word("WATCH"), Key],
    &[Word("UNWATCH")],
    &[Word("MULTI")],
    &[Word("EXEC")],
    &[Word("EXEC")],
    &[Word("DISCARD")],
    &[Word("GET")],
    &[Word("SET"), Key],
    &[Word("NOSUCH"), Key, Value],
    &[Word("PUBLISH"), Key, Value],
    &[Word("OBJECT"), Word("REFCOUNT"), Word("nokey")],
];

/// Commands of the typed layout.
static TYPED_COMMANDS: &[&[Arg]] = &[
    &[Word("SET"), Key, Value, Options(&["EX", "PX"]), Time],
    &[Word("SET"), Key, Value, Options(&["EXAT", "PXAT"]), AbsoluteTime],
    &[Word("SETEX"), Key, Time, Value],
    &[Word("PSETEX"), Key, Time, Value],
    &[Word("GETEX"), Key, Word("EX"), Time],
    &[Word("EXPIRE"), Key, Time, EXPIRE],
    &[Word("EXPIRE"), Key, Time, EXPIRE, EXPIRE],
    &[Word("PEXPIRE"), Key, Time, EXPIRE],
    &[Word("EXPIREAT"), Key, AbsoluteTime, EXPIRE],
    &[Word("PEXPIREAT"), Key, AbsoluteTime, EXPIRE],
    &[Word("EXPIRETIME"), Key],
    &[Word("PEXPIRETIME"), Key],
    &[Word("SELECT"), Database],
    &[Word("MOVE"), Key, Database],
    &[Word("COPY"), Key, Key, Word("DB"), Database],
];

/// Commands that this server permits outside of MULTI only.
static ALONE_COMMANDS: &[&[Arg]] = &[
    &[Word("SWAPDB"), Database, Database],
    &[Word("FLUSHDB")],
    &[Word("FLUSHALL"), Options(&["SYNC", "x"])],
];

fn pick<T: Copy>(random: &SeededRandom, from: &[T]) -> T {
    from[random.uniform(from.len() as u64) as usize]
}

fn argument(random: &SeededRandom, arg: Arg) -> Option<String> {
    Some(match arg {
        Word(word) => word.into(),
        Key => format!("key:{}", random.uniform(8)),
        Value => {
            pick(random, &["1", "-7", "10.5", "abc", "", "01", "9223372036854775807", "a b\r\n", "xyzxyz"])
                .into()
        }
        Integer => pick(
            random,
            &["0", "1", "-1", "3", "100", "-100", "x", "9223372036854775807", "-9223372036854775808"],
        )
        .into(),
        // Times of different commands differ by seconds, also in milliseconds.
        Time if random.uniform(2) == 0 => format!("123456{:02}0000", random.uniform(100)),
        Time => pick(random, &["0", "-5", "x", "9223372036854775807"]).into(),
        AbsoluteTime => pick(random, &["9000000000", "9500000000000", "1000", "0", "-5", "x"]).into(),
        Pattern => pick(random, &["*", "key:[1-3]", "k?y:1", "none", "key:\\1", "*1*"]).into(),
        Database => pick(random, &["0", "0", "1", "2", "16", "-1", "x"]).into(),
        Options(words) => {
            let index = random.uniform(words.len() as u64 + 1) as usize;
            (*words.get(index)?).into()
        }
    })
}

/// State of a run that both servers share.
struct Run {
    random: SeededRandom,
    is_typed: bool,
    is_in_multi: bool,
    log: Vec<String>,
}

impl Run {
    fn command(&self) -> Vec<String> {
        let groups: &[&[&[Arg]]] = match (self.is_typed, self.is_in_multi) {
            (true, false) => &[COMMANDS, COMMANDS, TYPED_COMMANDS, TYPED_COMMANDS, ALONE_COMMANDS],
            (true, true) => &[COMMANDS, TYPED_COMMANDS],
            (false, _) => &[COMMANDS],
        };
        let group = pick(&self.random, groups);
        // The destructive commands are rare.
        let group =
            if std::ptr::eq(group, ALONE_COMMANDS) && self.random.uniform(8) > 0 { COMMANDS } else { group };
        let mut row = pick(&self.random, group);
        // The reply of EXEC would hold the keys in the order of each server.
        let is_listed = self.is_in_multi && matches!(row, [Word("KEYS"), ..]);
        // Redis counts expired keys that it has not deleted yet.
        let is_counted = self.is_typed && matches!(row, [Word("DBSIZE")]);
        if is_listed || is_counted {
            row = &[Word("EXISTS"), Key, Key, Key, Key];
        }
        row.iter().filter_map(|arg| argument(&self.random, *arg)).collect()
    }

    /// Sends one command to both servers and compares the replies.
    fn step(&mut self, ours: &mut Client, theirs: &mut Client) {
        let command = self.command();
        if command[0] == "INCRBYFLOAT" && (self.is_in_multi || has_many_digits(ours, &command[1])) {
            return;
        }
        let expected = normalized(&command, &theirs.call(&command));
        let found = normalized(&command, &ours.call(&command));
        self.log.push(format!("{command:?} -> {found}"));
        if expected != found {
            let last = self.log.len().saturating_sub(40);
            panic!("{command:?}\n  redis: {expected}\n  ours:  {found}\n{}", self.log[last..].join("\n"));
        }
        match command[0].as_str() {
            "MULTI" => self.is_in_multi = true,
            "EXEC" | "DISCARD" => self.is_in_multi = false,
            _ => {}
        }
    }
}

/// True if the number at `key` may have more digits than the server adds like Redis.
fn has_many_digits(ours: &mut Client, key: &str) -> bool {
    let len = ours.call(&["STRLEN", key]);
    len.trim_start_matches(':').parse().is_ok_and(|len: usize| len > 30)
}

/// Replies that may differ in a permitted way, in one form: the order of KEYS, and times that have
/// passed between the two servers.
fn normalized(command: &[String], reply: &str) -> String {
    let is_list = command[0] == "KEYS" && reply.starts_with('[');
    let is_time = ["EXPIRETIME", "PEXPIRETIME", "TTL"].contains(&command[0].as_str());
    let is_exec = command[0] == "EXEC" && reply.starts_with('[');
    if is_list {
        let mut keys: Vec<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
        keys.sort_unstable();
        return keys.join(" ");
    }
    if is_time || is_exec {
        // Only the leading digits of a time are stable.
        return reply.split(' ').map(rounded).collect::<Vec<_>>().join(" ");
    }
    reply.into()
}

fn rounded(word: &str) -> String {
    let digits = word.trim_matches(['[', ']', ':']);
    match digits.len() {
        9.. if digits.bytes().all(|byte| byte.is_ascii_digit()) => format!("{}..", &digits[..6]),
        _ => word.into(),
    }
}

/// Number in an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Compares `steps` commands. Our server is killed after each `period` of them.
fn compare(layout: Layout, seed: u64, steps: usize, period: usize) {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its replies are not compared");
        return;
    };
    let seed = number("TERRACE_MODEL_SEED").unwrap_or(seed);
    let steps = number("TERRACE_MODEL_STEPS").map_or(steps, |steps| steps as usize);
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let random = SeededRandom::new(seed);
    let mut run = Run { random, is_typed: layout == Layout::Typed, is_in_multi: false, log: Vec::new() };
    let mut left = steps;
    while left > 0 {
        let server = ServerProcess::start(dir.path(), layout, SyncMode::No);
        let mut ours = server.client();
        let mut theirs = Client::connect(redis.address);
        run.is_in_multi = false;
        for _ in 0..period.min(left) {
            run.step(&mut ours, &mut theirs);
        }
        left -= period.min(left);
        server.kill();
    }
}

#[test]
fn typed_layout() {
    compare(Layout::Typed, 2501, 6000, 1500);
}

#[test]
fn raw_layout() {
    compare(Layout::Raw, 2502, 4000, 1000);
}
