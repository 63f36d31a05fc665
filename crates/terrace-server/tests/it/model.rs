//! Random commands for this server and for redis-server. Both give the same replies.
//!
//! Most commands are parts of pipelines. Our server is killed and started again in between. A
//! failure prints the seed and the last commands. The variables `TERRACE_MODEL_SEED` and
//! `TERRACE_MODEL_STEPS` choose another run.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use terrace::env::{Random, SeededRandom};
use terrace_server::{Layout, SyncMode};

use crate::client::{Client, encode};
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
    HashKey,
    SetKey,
    Member,
    Value,
    Integer,
    /// Seconds or milliseconds that do not end during the test, or have ended already.
    Time,
    AbsoluteTime,
    Pattern,
    Database,
    /// Offset of a bit.
    Bit,
    /// Type of a field of BITFIELD.
    Field,
    /// One of several words, or none.
    Options(&'static [&'static str]),
}

use Arg::{
    AbsoluteTime, Bit, Database, Field, HashKey, Integer, Key, Member, Options, Pattern, SetKey, Time, Value,
    Word,
};

const OVERFLOW: Arg = Options(&["OVERFLOW", "WRAP", "SAT", "FAIL"]);
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
    &[Word("SETBIT"), Key, Bit, Options(&["0", "1", "2"])],
    &[Word("GETBIT"), Key, Bit],
    &[Word("BITCOUNT"), Key],
    &[Word("BITCOUNT"), Key, Integer, Integer, Options(&["BIT", "BYTE", "x"])],
    &[Word("BITPOS"), Key, Options(&["0", "1", "2"]), Integer, Integer, Options(&["BIT", "BYTE", "x"])],
    &[Word("BITPOS"), Key, Options(&["0", "1"]), Options(&["0", "-1", "2", "-100", "100"])],
    &[Word("BITOP"), Options(&["AND", "OR", "XOR", "NOT"]), Key, Key, Key],
    &[Word("BITOP"), Word("NOT"), Key, Key],
    &[Word("BITFIELD"), Key, Word("GET"), Field, Bit, Word("SET"), Field, Bit, Integer],
    &[Word("BITFIELD"), Key, OVERFLOW, OVERFLOW, Word("INCRBY"), Field, Bit, Integer],
    &[Word("BITFIELD"), Key, Word("OVERFLOW"), Word("SAT"), Word("SET"), Field, Bit, Integer],
    &[Word("BITFIELD"), Key, Word("OVERFLOW"), Word("FAIL"), Word("INCRBY"), Field, Bit, Integer],
    &[Word("BITFIELD_RO"), Key, Word("GET"), Field, Bit],
    &[Word("BITFIELD_RO"), Key, Word("SET"), Field, Bit, Integer],
    &[Word("PFADD"), Key, Value, Value],
    &[Word("PFADD"), Key],
    &[Word("PFCOUNT"), Key],
    &[Word("PFCOUNT"), Key, Key],
    &[Word("PFMERGE"), Key, Key, Key],
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

/// Commands for objects. Random replies are not comparable, so that counts are above the sizes.
static OBJECT_COMMANDS: &[&[Arg]] = &[
    &[Word("HSET"), HashKey, Member, Value],
    &[Word("HSET"), HashKey, Member, Value, Member, Value],
    &[Word("HSET"), HashKey, Member, Value, Member],
    &[Word("HMSET"), HashKey, Member, Value, Member, Value],
    &[Word("HSETNX"), HashKey, Member, Value],
    &[Word("HGET"), HashKey, Member],
    &[Word("HMGET"), HashKey, Member, Member, Member],
    &[Word("HDEL"), HashKey, Member, Member],
    &[Word("HEXISTS"), HashKey, Member],
    &[Word("HSTRLEN"), HashKey, Member],
    &[Word("HLEN"), HashKey],
    &[Word("HGETALL"), HashKey],
    &[Word("HKEYS"), HashKey],
    &[Word("HVALS"), HashKey],
    &[Word("HINCRBY"), HashKey, Member, Integer],
    &[Word("HINCRBYFLOAT"), HashKey, Member, Options(&["0.5", "-3.25", "1e3", "x", "inf"])],
    &[Word("HRANDFIELD"), HashKey, Word("99"), Options(&["WITHVALUES", "x"])],
    &[Word("HSCAN"), HashKey, Word("0"), Options(&["MATCH"]), Options(&["m*", "*1"])],
    &[Word("SADD"), SetKey, Member],
    &[Word("SADD"), SetKey, Member, Member, Member],
    &[Word("SREM"), SetKey, Member, Member],
    &[Word("SCARD"), SetKey],
    &[Word("SISMEMBER"), SetKey, Member],
    &[Word("SMISMEMBER"), SetKey, Member, Member],
    &[Word("SMEMBERS"), SetKey],
    &[Word("SMOVE"), SetKey, SetKey, Member],
    &[Word("SPOP"), SetKey],
    &[Word("SRANDMEMBER"), SetKey, Word("99")],
    &[Word("SSCAN"), SetKey, Word("0"), Options(&["MATCH"]), Options(&["m*", "*1"])],
    &[Word("SINTER"), SetKey, SetKey],
    &[Word("SUNION"), SetKey, SetKey],
    &[Word("SDIFF"), SetKey, SetKey, SetKey],
    &[Word("SINTERSTORE"), SetKey, SetKey, SetKey],
    &[Word("SUNIONSTORE"), SetKey, SetKey, SetKey],
    &[Word("SDIFFSTORE"), SetKey, SetKey, SetKey],
    &[Word("SINTERCARD"), Word("2"), SetKey, SetKey, Options(&["LIMIT"]), Integer],
    &[Word("TYPE"), SetKey],
    &[Word("SORT"), SetKey, Options(&["ALPHA", "DESC"]), Options(&["ALPHA"])],
    &[Word("SORT"), SetKey, Word("ALPHA"), Word("LIMIT"), Integer, Integer],
    &[Word("SORT"), SetKey, Word("BY"), Word("key:*"), Options(&["DESC"])],
    &[
        Word("SORT"),
        SetKey,
        Word("BY"),
        Word("hash:*->m1"),
        Word("GET"),
        Word("key:*"),
        Word("GET"),
        Word("#"),
    ],
    &[Word("SORT_RO"), SetKey, Word("GET"), Word("hash:*->m2"), Options(&["ALPHA", "STORE", "DESC"])],
    &[Word("SORT"), SetKey, Word("ALPHA"), Word("STORE"), HashKey],
    &[Word("SORT"), SetKey, Word("BY"), Word("none"), Word("STORE"), SetKey],
    &[Word("XADD"), HashKey, Word("5-*"), Member, Value],
    &[Word("XADD"), HashKey, Options(&["MAXLEN"]), Integer, Word("5-*"), Member, Value],
    &[Word("XLEN"), HashKey],
    &[Word("XRANGE"), HashKey, Word("-"), Word("+")],
    &[Word("XDEL"), HashKey, Word("5-0"), Word("5-1")],
    &[Word("XGROUP"), Word("CREATE"), HashKey, Member, Word("0"), Word("MKSTREAM")],
    &[Word("XREADGROUP"), Word("GROUP"), Member, Member, Word("STREAMS"), HashKey, Word(">")],
    &[Word("XPENDING"), HashKey, Member],
    &[Word("COPY"), SetKey, HashKey, Options(&["REPLACE"])],
    &[Word("RENAME"), HashKey, SetKey],
    &[Word("SET"), HashKey, Value],
    &[Word("DEL"), HashKey, SetKey],
    &[Word("MOVE"), HashKey, Database],
];

/// Commands with a list in an order of each server. Within EXEC, another command replaces them.
static LISTS: &[&str] = &[
    "KEYS",
    "HGETALL",
    "HKEYS",
    "HVALS",
    "HRANDFIELD",
    "HSCAN",
    "SMEMBERS",
    "SPOP",
    "SRANDMEMBER",
    "SSCAN",
    "SINTER",
    "SUNION",
    "SDIFF",
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
        Key => match random.uniform(10) {
            0 => format!("hash:{}", random.uniform(4)),
            1 => format!("set:{}", random.uniform(4)),
            _ => format!("key:{}", random.uniform(8)),
        },
        HashKey | SetKey if random.uniform(12) == 0 => format!("key:{}", random.uniform(8)),
        HashKey => format!("hash:{}", random.uniform(4)),
        SetKey => format!("set:{}", random.uniform(4)),
        Member => {
            pick(random, &["m1", "m2", "m3", "", "1", "2", "11", "-5", "a b", "m1\0", "12345678901234567890"])
                .into()
        }
        Value => {
            pick(random, &["1", "-7", "10.5", "abc", "", "01", "9223372036854775807", "a b\r\n", "xyzxyz"])
                .into()
        }
        Integer => pick(
            random,
            &["0", "1", "-1", "3", "100", "-100", "x", "9223372036854775807", "-9223372036854775808"],
        )
        .into(),
        // Times of different commands differ by seconds, also in milliseconds. With two equal
        // times, GT and LT would compare the moments of the commands.
        Time if random.uniform(2) == 0 => format!("12345{:06}0000", random.uniform(1_000_000)),
        Time => pick(random, &["0", "-5", "x", "9223372036854775807"]).into(),
        AbsoluteTime => pick(random, &["9000000000", "9500000000000", "1000", "0", "-5", "x"]).into(),
        Pattern => pick(random, &["*", "key:[1-3]", "k?y:1", "none", "key:\\1", "*1*"]).into(),
        Database => pick(random, &["0", "0", "1", "2", "16", "-1", "x"]).into(),
        Bit => pick(random, &["0", "1", "7", "8", "13", "100", "#1", "#3", "-1", "x", "4294967296"]).into(),
        Field => pick(random, &["u1", "i1", "u8", "i8", "i16", "u5", "i13", "u63", "i64", "u64", "x"]).into(),
        Options(words) => {
            let index = random.uniform(words.len() as u64 + 1) as usize;
            (*words.get(index)?).into()
        }
    })
}

/// State of a run that both servers share.
struct Run {
    is_typed: bool,
    is_in_multi: bool,
    /// The latest commands with their replies.
    log: VecDeque<String>,
}

/// Number of commands in the log.
const LOG_LEN: usize = 10_000;
/// Bound of the number of commands in a pipeline.
const MAX_PIPELINE: u64 = 64;

impl Run {
    fn command(&self, random: &SeededRandom) -> Vec<String> {
        let groups: &[&[&[Arg]]] = match (self.is_typed, self.is_in_multi) {
            (true, false) => {
                &[COMMANDS, TYPED_COMMANDS, OBJECT_COMMANDS, OBJECT_COMMANDS, OBJECT_COMMANDS, ALONE_COMMANDS]
            }
            (true, true) => &[COMMANDS, TYPED_COMMANDS, OBJECT_COMMANDS, OBJECT_COMMANDS],
            (false, _) => &[COMMANDS],
        };
        let group = pick(random, groups);
        // The destructive commands are rare.
        let group =
            if std::ptr::eq(group, ALONE_COMMANDS) && random.uniform(8) > 0 { COMMANDS } else { group };
        let mut row = pick(random, group);
        if matches!(row, [Word("SPOP"), ..]) && !self.is_in_multi {
            // A count below the size would return random members.
            let count = pick(random, &["99", "99", "0", "-1", "x"]);
            return vec!["SPOP".into(), argument(random, SetKey).unwrap(), count.into()];
        }
        // The reply of EXEC would hold the keys in the order of each server.
        let is_listed = self.is_in_multi && matches!(row, [Word(name), ..] if LISTS.contains(name));
        // Redis counts expired keys that it has not deleted yet.
        let is_counted = self.is_typed && matches!(row, [Word("DBSIZE")]);
        if is_listed || is_counted {
            row = &[Word("EXISTS"), Key, Key, Key, Key];
        }
        row.iter().filter_map(|arg| argument(random, *arg)).collect()
    }

    /// Returns the latest lines of the log before line `end` that contain `word`.
    fn lines_with(&self, word: Option<&String>, end: usize) -> Vec<&str> {
        let lines = self.log.iter().take(end).map(String::as_str);
        let found: Vec<&str> = lines.filter(|line| word.is_some_and(|word| line.contains(word))).collect();
        found[found.len().saturating_sub(40)..].to_vec()
    }

    /// Sends a pipeline to both servers and compares the replies. Returns the number of commands.
    fn step(&mut self, random: &SeededRandom, ours: &mut Client, theirs: &mut Client) -> usize {
        let len = 1 + random.uniform(1 + random.uniform(MAX_PIPELINE)) as usize;
        let mut sent = 0;
        let mut commands: Vec<Vec<String>> = Vec::new();
        while sent + commands.len() < len {
            let command = self.command(random);
            if let Some(number) = added_number(&command) {
                // The length of the number depends on the earlier commands.
                sent += commands.len();
                self.compare(&std::mem::take(&mut commands), ours, theirs);
                if self.is_in_multi || has_many_digits(ours, &number) {
                    continue;
                }
            }
            if command[0] == "PFADD" && command.len() > 3 {
                sent += commands.len();
                self.compare(&std::mem::take(&mut commands), ours, theirs);
                if !self.is_in_multi {
                    sent += self.add_elements(command, ours, theirs);
                }
                continue;
            }
            match command[0].as_str() {
                "MULTI" => self.is_in_multi = true,
                "EXEC" | "DISCARD" => self.is_in_multi = false,
                // Redis does not tell the clients that watch a key which only becomes longer.
                "BITFIELD" if command.iter().any(|word| word == "FAIL") && !self.is_in_multi => {
                    commands.push(vec!["UNWATCH".into()]);
                }
                _ => {}
            }
            commands.push(command);
        }
        self.compare(&commands, ours, theirs);
        sent + commands.len()
    }

    /// Executes a PFADD of several elements. Returns the number of commands. Redis keeps the
    /// elements before the one at which it finds that the value is damaged.
    fn add_elements(&mut self, command: Vec<String>, ours: &mut Client, theirs: &mut Client) -> usize {
        let delete = vec!["DEL".to_owned(), command[1].clone()];
        self.compare(&[command], ours, theirs);
        let is_damaged = self.log.back().is_some_and(|line| line.contains("INVALIDOBJ"));
        if is_damaged {
            self.compare(&[delete], ours, theirs);
        }
        1 + usize::from(is_damaged)
    }

    /// Sends `commands` to both servers at once and compares the replies.
    fn compare(&mut self, commands: &[Vec<String>], ours: &mut Client, theirs: &mut Client) {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        theirs.send_bytes(&bytes);
        ours.send_bytes(&bytes);
        for command in commands {
            let expected = normalized(command, &theirs.reply());
            let found = normalized(command, &ours.reply());
            if self.log.len() == LOG_LEN {
                self.log.pop_front();
            }
            self.log.push_back(format!("{command:?} -> {found}"));
            if expected != found {
                self.fail(command, &expected, &found);
            }
        }
    }

    fn fail(&self, command: &[String], expected: &str, found: &str) {
        let last = self.log.len().saturating_sub(MAX_PIPELINE as usize);
        let of_the_key = self.lines_with(command.get(1), last).join("\n");
        let latest = self.log.range(last..).map(String::as_str).collect::<Vec<_>>().join("\n");
        panic!(
            "{command:?}\n  redis: {expected}\n  ours:  {found}\nof the key:\n{of_the_key}\nlast:\n{latest}"
        );
    }
}

/// Returns the command for the length of the number to which `command` adds a fraction.
fn added_number(command: &[String]) -> Option<Vec<&str>> {
    match command[0].as_str() {
        "INCRBYFLOAT" => Some(vec!["STRLEN", &command[1]]),
        "HINCRBYFLOAT" => Some(vec!["HSTRLEN", &command[1], &command[2]]),
        _ => None,
    }
}

/// True if the number, whose length `command` returns, may have more digits than the server adds
/// like Redis.
fn has_many_digits(ours: &mut Client, command: &[&str]) -> bool {
    let len = ours.call(command);
    len.trim_start_matches(':').parse().is_ok_and(|len: usize| len > 30)
}

/// Replies that may differ in a permitted way, in one form: lists in any order, and times that have
/// passed between the two servers.
fn normalized(command: &[String], reply: &str) -> String {
    let name = command[0].as_str();
    let is_time = ["EXPIRETIME", "PEXPIRETIME", "TTL"].contains(&name);
    let is_exec = name == "EXEC" && reply.starts_with('[');
    if LISTS.contains(&name) && reply.starts_with('[') {
        let with_values = name == "HGETALL" || name == "HSCAN" || command.last().unwrap() == "WITHVALUES";
        return sorted(reply, if with_values { 2 } else { 1 });
    }
    // Redis compares texts up to a zero byte, so the order of "m1" and "m1\0" is open.
    let reply = if is_exec || name == "SORT" { &reply.replace("\\x00", "") } else { reply };
    if is_time || is_exec {
        // Only the leading digits of a time are stable.
        return reply.split(' ').map(rounded).collect::<Vec<_>>().join(" ");
    }
    reply.into()
}

/// Items of a list in order. `group` items stay together.
fn sorted(reply: &str, group: usize) -> String {
    // The reply of a scan begins with its cursor.
    let (cursor, list) = reply.split_once(" [").unwrap_or(("", reply));
    let list = list.strip_prefix('[').unwrap_or(list);
    let list = list.strip_suffix(if cursor.is_empty() { "]" } else { "]]" }).unwrap();
    let list = list.strip_prefix('\'').and_then(|list| list.strip_suffix('\'')).unwrap_or(list);
    let items: Vec<&str> = list.split("' '").collect();
    let mut groups: Vec<String> = items.chunks(group).map(|items| items.join(" = ")).collect();
    groups.sort_unstable();
    format!("{cursor} {groups:?}")
}

fn rounded(word: &str) -> String {
    let digits = word.trim_matches(['[', ']', ':']);
    match digits.len() {
        9.. if digits.bytes().all(|byte| byte.is_ascii_digit()) => format!("{}..", &digits[..6]),
        _ => word.into(),
    }
}

/// Number in an environment variable.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Place of the records of our server.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// New directory with this layout.
    Directory(Layout),
    /// Store at this address.
    Store(&'a str),
}

/// Calls `step` with clients of our server and of redis-server, and with random numbers of `seed`,
/// until it has run `steps` commands. It returns the number of the commands that it has run. Our
/// server is killed and started again after each `period` of them, or a hundred times in long runs.
/// The last argument is true in the first call after that. The variables `TERRACE_MODEL_SEED` and
/// `TERRACE_MODEL_STEPS` choose other numbers.
pub(crate) fn beside_redis(
    place: Place<'_>,
    seed: u64,
    steps: usize,
    period: usize,
    mut step: impl FnMut(&SeededRandom, &mut Client, &mut Client, bool) -> usize,
) {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its replies are not compared");
        return;
    };
    let seed = number("TERRACE_MODEL_SEED").unwrap_or(seed);
    let steps = number("TERRACE_MODEL_STEPS").map_or(steps, |steps| steps as usize);
    // A start takes as long as some thousand commands.
    let period = period.max(steps / 100);
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let random = SeededRandom::new(seed);
    let mut left = steps;
    while left > 0 {
        let server = match place {
            Place::Directory(layout) => ServerProcess::start(dir.path(), layout, SyncMode::No),
            Place::Store(address) => ServerProcess::start_front_end(address),
        };
        let mut ours = server.client();
        let mut theirs = Client::connect(redis.address);
        let mut done = 0;
        while done < period.min(left) {
            done += step(&random, &mut ours, &mut theirs, done == 0);
        }
        left = left.saturating_sub(done);
        server.kill();
    }
}

/// Compares the replies of both servers to `steps` commands of strings, hashes, sets and keys.
pub(crate) fn compare(place: Place<'_>, seed: u64, steps: usize, period: usize) {
    let is_typed = !matches!(place, Place::Directory(Layout::Raw));
    let mut run = Run { is_typed, is_in_multi: false, log: VecDeque::new() };
    beside_redis(place, seed, steps, period, |random, ours, theirs, is_new| {
        run.is_in_multi &= !is_new;
        run.step(random, ours, theirs)
    });
}

#[test]
fn typed_layout() {
    compare(Place::Directory(Layout::Typed), 2501, 12_000, 2000);
}

#[test]
fn raw_layout() {
    compare(Place::Directory(Layout::Raw), 2502, 4000, 1000);
}
