//! Scripts: replies like those of Redis, hostile scripts, time limit, SCRIPT KILL.

use std::time::Duration;

use crate::client::Client;
use crate::model::RedisServer;
use crate::server::{Server, with_client};

/// Scripts whose replies are the same on both servers, one after the other.
const SCRIPTS: &str = include_str!("scripts_replies.txt");

/// Commands about scripts.
const COMMANDS: &[&[&str]] = &[
    &["EVAL_RO", "return redis.call('set','a','b')", "0"],
    &["EVAL_RO", "return redis.call('publish','channel','message')", "0"],
    &["EVAL_RO", "return redis.call('pfcount','a')", "0"],
    &["EVAL", "return redis.call('publish','channel','message')", "0"],
    &["EVAL", "return 1", "2", "a"],
    &["EVAL", "return 1", "-1"],
    &["EVAL", "return 1", "x"],
    &["EVAL", "return 1"],
    &["EVALSHA", "ffff", "0"],
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
    &["EVALSHA_RO", "0000000000000000000000000000000000000000", "0"],
    &["SCRIPT", "LOAD", "return {KEYS[1], ARGV[1]}"],
    &["EVALSHA", "1de03d19ad8d98b1ba9f4be8f47a23d6c0fc8d74", "1", "k", "a"],
    &["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"],
    &["SCRIPT", "KILL"],
    &["SCRIPT", "EXISTS"],
    &["SCRIPT", "FLUSH", "BAD"],
    &["SCRIPT", "DEBUG", "BAD"],
    &["SCRIPT", "NOSUCH"],
    &["EVAL_RO", "#!lua\nreturn 1", "0"],
    &["EVAL_RO", "#!lua flags=no-writes\nreturn 1", "0"],
    &["FUNCTION", "LIST"],
    &["FUNCTION", "STATS"],
    &["FUNCTION", "FLUSH"],
    &["FUNCTION", "FLUSH", "BAD"],
    &["FUNCTION", "NOSUCH"],
    &["FUNCTION", "KILL"],
    &["MULTI"],
    &["EVAL", "redis.call('set', 'm', '1') return redis.call('get', 'm')", "0"],
    &["INCR", "m"],
    &["EVAL", "redis.call('incr', 'm') error('late')", "0"],
    &["EVAL", "return redis.call('get', 'm')", "0"],
    &["EXEC"],
    &["GET", "m"],
    &["SCRIPT", "FLUSH", "SYNC"],
    &["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"],
];

#[track_caller]
fn compare(ours: &mut Client, theirs: &mut Client, command: &[&str]) {
    let expected = theirs.call(command);
    assert_eq!(ours.call(command), expected, "{command:?}");
}

#[test]
fn replies_like_redis() {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its replies are not compared");
        return;
    };
    with_client(|ours| {
        let theirs = &mut Client::connect(redis.address);
        for version in ["2", "3"] {
            ours.call(&["HELLO", version]);
            theirs.call(&["HELLO", version]);
            for line in ["FLUSHALL", "SET foo bar"] {
                compare(ours, theirs, &line.split(' ').collect::<Vec<_>>());
            }
            for script in SCRIPTS.trim_end().split("\n@@\n") {
                compare(ours, theirs, &["EVAL", script, "2", "n", "first", "value"]);
            }
            COMMANDS.iter().for_each(|command| compare(ours, theirs, command));
        }
    });
}

#[test]
fn differences_of_the_interpreter() {
    with_client(|client| {
        let mut check = |script: &str, expected: &str| {
            let reply = client.call(&["EVAL", script, "0"]);
            assert!(reply.starts_with(expected), "{script}: {reply}");
        };
        check("return +", "-ERR Error compiling script (new function): user_script:1: ");
        check("local x = nil\nreturn x.y", "-ERR user_script:2: attempt to index nil");
        check("return tostring(1/3)", "'0.3333333333333333'");
        check("error({})", "-ERR unknown error script: ");
        check("for i = 1, 500 do local s = string.rep('x', 2e6) end return 'collected'", "'collected'");
        check("local s = string.rep('x', 2e7) return #s", ":20000000");
    });
}

/// Scripts that try to exhaust the server. Each of them ends by itself.
const HOSTILE: &[&str] = &[
    "return string.rep('x', 1e9)",
    "return string.rep('x', 2^31)",
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local function f() return 1 + f() end return f()",
    "local function f() return pcall(f) end return f()",
    "local function f(x) return setmetatable({}, {__index = f}).y end return f()",
    "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
    "local t = {} t[1] = t return cjson.encode(t)",
    "local t = {} t[1] = t return t",
    "local t = {1} for i = 1, 40 do t = {t, t} end return t",
    "local t = {} for i = 1, 20000 do t = {t} end return t",
    "return cjson.decode(string.rep('[', 1e6))",
    "return cjson.decode(string.rep('{\"a\":', 1e6))",
    "return cmsgpack.unpack(string.rep('\\145', 1e6))",
    "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "return cmsgpack.unpack(string.rep('\\1', 1e6))",
    "return struct.pack('I99999999999', 1)",
    "return struct.pack(string.rep('d', 1e6), 1)",
    "return struct.unpack(string.rep('b', 1e5), string.rep('x', 1e5))",
    "return struct.unpack('b', 'x', -9223372036854775808)",
    "return struct.size('c18446744073709551615c1!8d')",
    "return unpack({}, 1, 1e7)",
    "local t = {} for i = 1, 9000 do t[i] = 'set' end return redis.call(unpack(t))",
    "local t = {} for i = 1, 7900 do t[i] = 'mget' end return #redis.call(unpack(t))",
    "local t = {} for i = 1, 2e5 do t[i] = 'x' end return #t",
    "local t = {} for i = 1, 2e5 do t[i] = 'x' .. i end return t",
    "local t = {} for i = 1, 2e5 do t['x' .. i] = 'y' .. i end return #cjson.encode(t)",
    "local t = {} for i = 1, 2e5 do t['x' .. i] = true end return {set = t}",
    "return ('a'):rep(2e7):find(('a'):rep(1e7) .. 'b', 1, true)",
    "return string.format('%99999d', 1)",
    "return table.concat({}, 'x', 1, 1e9)",
    "return loadstring(string.rep('(', 1e5))",
    "return loadstring(string.rep('a = ', 1e5))",
    "return loadstring('return ' .. string.rep('{', 5e4))",
    "return loadstring('\\27Lua')",
    "local co = coroutine.wrap(function() local function f() coroutine.wrap(f)() end f() end) co()",
    "local t = {} for i = 1, 1e5 do t[i] = coroutine.create(function() end) end return #t",
    "return coroutine.yield(1)",
    "return coroutine.wrap(function() error({}) end)()",
    "error(setmetatable({}, {__tostring = function() error('x') end}))",
    "error(setmetatable({err = {}}, {__index = function() error('x') end}))",
    "error({err = setmetatable({}, {__tostring = function() error('x') end})})",
    "return xpcall(function() error('x') end, function() error('y') end)",
    "return tostring(setmetatable({}, {__tostring = function() return 1 end}))",
    "return string.rep('x', 3e7) .. string.rep('y', 3e7)",
    "for i = 1, 100 do local s = string.rep('x', 1e7) end return 'collected'",
    "return table.sort({3, 2, 1, 5}, function() return true end)",
    "return redis.call(string.rep('x', 1e6))",
    "return redis.sha1hex(string.rep('x', 1e7))",
    "return {err = string.rep('\\r\\n', 1e5)}",
    "return setmetatable({}, {__index = function() return 1 end})",
    "return #redis.pcall('eval', 'return 1', 0).err",
];

/// Scripts that must not find a way out of the environment.
const ESCAPES: &[&str] = &[
    "return getfenv",
    "return setfenv",
    "return os",
    "return io",
    "return debug",
    "return require",
    "return dofile",
    "return loadfile",
    "return print",
    "return newproxy",
    "return buffer",
    "return utf8",
    "return vector",
    "return bit32",
    "return package",
    "return module",
    "_G.x = 1",
    "_G.string = nil",
    "string.format = nil",
    "redis.call = nil",
    "cjson.encode = nil",
    "getmetatable(_G).__index = nil",
    "getmetatable('').__index = nil",
    "getmetatable('').x = 1",
    "rawset(_G, 'x', 1)",
    "rawset(redis, 'x', 1)",
    "setmetatable(_G, nil)",
    "setmetatable(redis, {})",
    "loadstring('x = 1')()",
    "table.insert(redis, 1)",
    "x = 1",
    "function string.x() end",
    "KEYS = {}",
];

#[test]
fn hostile_scripts() {
    with_client(|client| {
        // The longest script takes seconds, and many times as long on a busy machine.
        client.set_timeout(Duration::from_secs(100));
        for script in HOSTILE {
            client.call(&["EVAL", script, "0"]);
            assert_eq!(client.run("PING"), "PONG", "{script}");
        }
        for script in ESCAPES {
            let reply = client.call(&["EVAL", script, "0"]);
            assert!(reply.starts_with("-ERR "), "{script}: {reply}");
        }
        let names =
            "local n = {} for k in pairs(_G) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ')";
        assert_eq!(
            client.call(&["EVAL", names, "0"]),
            "'ARGV KEYS _G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo getmetatable ipairs load loadstring math next pairs pcall rawequal rawget rawset redis select setmetatable string struct table tonumber tostring type unpack xpcall'",
        );
    });
}

/// Scripts that end only by SCRIPT KILL.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() while true do pcall(f) end end f()",
    "repeat until false",
    "for i = 1, math.huge do end",
    "while true do redis.call('get', 'a') end",
    "while true do redis.pcall('nosuch') end",
    "return string.rep('a', 30000):find(string.rep('a*', 100) .. 'b')",
    "return string.rep('a', 5000):match(string.rep('.-', 30) .. 'b')",
    "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
    "while true do xpcall(error, function() while true do end end) end",
    "setmetatable({}, {__index = function() while true do end end}).x = nil local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "table.sort({1, 2, 3}, function() while true do end end)",
    "string.gsub('a', 'a', function() while true do end end)",
];

/// Waits until the running script exceeds the time limit.
fn wait_until_busy(client: &mut Client) {
    let is_busy = (0..4000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        client.run("PING").starts_with("-BUSY ")
    });
    assert!(is_busy);
}

#[test]
fn endless_scripts_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.workers = Some(1));
    let mut script = server.client();
    let mut other = server.client();
    other.check(&[("CONFIG SET lua-time-limit 20", "OK"), ("SET a 1", "OK")]);
    for text in ENDLESS {
        script.send(&["EVAL", text, "0"]);
        wait_until_busy(&mut other);
        let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
        other.check(&[("SET a 2", busy), ("SCRIPT EXISTS x", busy), ("MULTI", "OK"), ("DISCARD", "OK")]);
        other.check(&[("SCRIPT KILL", "OK")]);
        let reply = script.reply();
        assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL..."), "{text}: {reply}");
        other.check(&[("GET a", "'1'"), ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.")]);
    }
}

#[test]
fn writers_wait_for_a_script_or_get_busy() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.workers = Some(1));
    let mut script = server.client();
    let mut writer = server.client();
    let mut other = server.client();
    other.check(&[("CONFIG SET busy-reply-threshold 300", "OK")]);
    script.send(&["EVAL", "while true do end", "0"]);
    // The write does not hold the only worker, which serves the other client meanwhile.
    std::thread::sleep(Duration::from_millis(50));
    writer.send(&["SET", "a", "1"]);
    other.check(&[("GET a", "nil")]);
    assert!(writer.reply().starts_with("-BUSY "));
    other.check(&[("SCRIPT KILL", "OK")]);
    script.reply();
    writer.check(&[("SET a 1", "OK")]);
}

#[test]
fn script_that_has_written_is_not_killed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut script = server.client();
    let mut other = server.client();
    other.check(&[("CONFIG SET lua-time-limit 20", "OK"), ("SET a 1", "OK")]);
    script.send(&["EVAL", "redis.call('set', 'a', '2') while true do end", "0"]);
    wait_until_busy(&mut other);
    assert!(other.run("SCRIPT KILL").starts_with("-UNKILLABLE "));
    assert!(other.run("SHUTDOWN").starts_with("-BUSY "));
    other.send(&["SHUTDOWN", "NOSAVE"]);
    server.join().unwrap();
    // The end of the server has discarded the script.
    let server = Server::start(dir.path(), |_| {});
    server.client().check(&[("GET a", "'1'")]);
}

#[test]
fn effects_of_a_script_are_one_batch() {
    with_client(|client| {
        client.check(&[("SET n 1", "OK"), ("WATCH n", "OK")]);
        let script = "redis.call('set', 'a', '1') redis.call('incr', 'n') redis.call('nosuch')";
        assert!(client.call(&["EVAL", script, "0"]).starts_with("-ERR Unknown Redis command"));
        client.check(&[("MGET a n", "['1' '2']"), ("MULTI", "OK"), ("PING", "QUEUED"), ("EXEC", "nil")]);
    });
}

#[test]
fn scripts_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |config| config.scripts = false);
    let error = "-ERR scripts are disabled: the server runs with --scripts off";
    let mut client = server.client();
    assert_eq!(client.call(&["EVAL", "return 1", "0"]), error);
    client.check(&[("SCRIPT LOAD x", error), ("EVALSHA x 0", error)]);
}

#[test]
fn pipeline_of_scripts_and_other_commands() {
    with_client(|client| {
        for _ in 0..50 {
            client.send(&["EVAL", "return redis.call('incr', KEYS[1])", "1", "n"]);
            client.send(&["EVAL", "return redis.call('incr', KEYS[1])", "1", "n"]);
            client.send(&["INCR", "n"]);
        }
        for expected in 1..=150 {
            assert_eq!(client.reply(), format!(":{expected}"));
        }
    });
}

#[test]
fn scripts_of_many_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let mut client = server.client();
            scope.spawn(move || {
                for _ in 0..100 {
                    let script = "local n = tonumber(redis.call('get', KEYS[1]) or '0') redis.call('set', KEYS[1], n + 1)";
                    assert_eq!(client.call(&["EVAL", script, "1", "n"]), "nil");
                    client.run("INCR n");
                    client.send(&["MULTI"]);
                    client.send(&["INCR", "n"]);
                    client.send(&["EXEC"]);
                    assert_eq!([client.reply(), client.reply()], ["OK", "QUEUED"]);
                    client.reply();
                }
            });
        }
    });
    server.client().check(&[("GET n", "'1800'")]);
}
