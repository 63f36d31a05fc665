//! Users: logins, roles, prefixes. The tests are rows of the table of attacks in the guide.

use std::time::{Duration, Instant};

use terrace_server::{ServerConfig, UserConfig, hash_password};

use crate::server::Server;

fn add_user(config: &mut ServerConfig, text: &str, password: &str) {
    let hash = hash_password(password.as_bytes(), [3; 16]).unwrap();
    config.users.push(UserConfig::parse(&format!("{text} hash={hash}")).unwrap());
}

fn start(dir: &std::path::Path) -> Server {
    Server::start(dir, |config| {
        add_user(config, "reader role=read", "r");
        add_user(config, "writer role=write", "w");
        add_user(config, "root role=admin", "a");
        add_user(config, "app role=write prefix=app: prefix=shared:", "p");
        add_user(config, "strings role=write category=string category=connection", "s");
    })
}

#[test]
fn login_of_users() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut client = server.client();
    client.check(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH reader wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH nobody r", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH default r", "-WRONGPASS invalid username-password pair or user is disabled."),
        ("AUTH reader r", "OK"),
        ("ACL WHOAMI", "'reader'"),
        ("GET a", "nil"),
        ("RESET", "RESET"),
        ("GET a", "-NOAUTH Authentication required."),
    ]);
    assert!(client.run("HELLO 3 AUTH root a").starts_with('{'));
    let list = client.run("CLIENT LIST");
    assert!(list.contains(" user=root "), "{list}");
    let mut other = server.client();
    other.check(&[("AUTH writer w", "OK")]);
    client.check(&[("CLIENT KILL USER writer", ":1")]);
    assert!(other.is_closed());
}

#[test]
fn rights_of_roles() {
    const DENIED: &str = "-NOPERM this user has no permissions to run the";
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut reader = server.client();
    reader.run("AUTH reader r");
    for command in ["set", "del", "flushall", "shutdown", "monitor", "debug", "save"] {
        let reply = reader.run(&format!("{command} a b c").replace("shutdown a b c", "shutdown nosave"));
        let is_arity = reply.starts_with("-ERR wrong number");
        assert!(is_arity || reply == format!("{DENIED} '{command}' command"), "{command}: {reply}");
    }
    reader.check(&[
        ("SET a b", "-NOPERM this user has no permissions to run the 'set' command"),
        ("CONFIG SET requirepass x", "-NOPERM this user has no permissions to run the 'config|set' command"),
        ("CONFIG GET requirepass", "-NOPERM this user has no permissions to run the 'config|get' command"),
        ("SHUTDOWN", "-NOPERM this user has no permissions to run the 'shutdown' command"),
        ("MONITOR", "-NOPERM this user has no permissions to run the 'monitor' command"),
        ("ACL LIST", "-NOPERM this user has no permissions to run the 'acl|list' command"),
        ("CLIENT KILL 1.2.3.4:5", "-NOPERM this user has no permissions to run the 'client|kill' command"),
        ("CLIENT SETNAME x", "OK"),
        ("PING", "PONG"),
    ]);
    let mut writer = server.client();
    writer.check(&[
        ("AUTH writer w", "OK"),
        ("SET a b", "OK"),
        ("DEBUG SLEEP 0", "-NOPERM this user has no permissions to run the 'debug' command"),
        ("MULTI", "OK"),
        ("SLOWLOG GET", "-NOPERM this user has no permissions to run the 'slowlog|get' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EVAL return(redis.call('set','a','b')) 0", "OK"),
    ]);
    let refused = writer.run("EVAL return(redis.call('bgsave')) 0");
    assert!(refused.contains("can't run this command"), "{refused}");
    // The function was true for all commands, and the command itself then failed.
    for (command, reply) in [
        ("'bgsave'", "nil"),
        ("'set','a','b'", ":1"),
        ("'set'", ":1"),
        ("'config','set','timeout','0'", "nil"),
        ("'client','list'", "nil"),
        ("'client','id'", ":1"),
    ] {
        let script = format!("return redis.acl_check_cmd({command})");
        assert_eq!(writer.call(&["EVAL", &script, "0"]), reply, "{command}");
    }
    let mut strings = server.client();
    strings.check(&[
        ("AUTH strings s", "OK"),
        ("GET a", "'b'"),
        ("DEL a", "-NOPERM this user has no permissions to run the 'del' command"),
    ]);
    let mut root = server.client();
    root.check(&[("AUTH root a", "OK"), ("CONFIG SET timeout 0", "OK")]);
    let log = root.run("ACL LOG");
    assert!(
        log.contains("'reason' 'command' 'context' 'toplevel' 'object' 'del' 'username' 'strings'"),
        "{log}"
    );
    root.check(&[("ACL LOG RESET", "OK"), ("ACL LOG", "[]")]);
}

#[test]
fn prefixes_of_keys() {
    const KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    const CHANNEL: &str =
        "-NOPERM this user has no permissions to access one of the channels used as arguments";
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut client = server.client();
    client.check(&[
        ("AUTH app p", "OK"),
        ("SET app:1 x", "OK"),
        ("MSET app:1 x shared:2 y", "OK"),
        ("RENAME app:1 app:2", "OK"),
        ("KEYS app:*", "['app:2']"),
        ("TERRACE.RANGE [app: [app:~", "[nil ['app:2']]"),
        ("GET other", KEY),
        ("MSET app:1 x other y", KEY),
        ("RENAME app:2 other", KEY),
        ("COPY app:2 other", KEY),
        ("WATCH other", KEY),
        ("KEYS *", KEY),
        ("SCAN 0", KEY),
        ("DBSIZE", KEY),
        ("RANDOMKEY", KEY),
        ("FLUSHALL", KEY),
        ("SWAPDB 0 1", KEY),
        ("OBJECT ENCODING other", KEY),
        ("MEMORY USAGE other", KEY),
        ("TERRACE.RANGE - +", KEY),
        ("TERRACE.DELRANGE [app: +", KEY),
        ("SUBSCRIBE __keyspace@0__:app:1", CHANNEL),
        ("PSUBSCRIBE *", CHANNEL),
        ("PUBLISH other x", CHANNEL),
        ("RPUSH app:list x", ":1"),
        ("LMOVE app:list other LEFT LEFT", KEY),
        ("LMPOP 2 app:list other LEFT", KEY),
        ("BLMPOP 0.1 2 app:list other LEFT", KEY),
        ("BLPOP other 0.1", KEY),
        ("SINTERCARD 2 app:set other", KEY),
        ("SUNIONSTORE app:set other", KEY),
        ("ZUNION 2 app:z other", KEY),
        ("ZUNIONSTORE other 1 app:z", KEY),
        ("ZMPOP 1 other MIN", KEY),
        ("GEOSEARCHSTORE other app:geo FROMLONLAT 1 1 BYRADIUS 1 m", KEY),
        ("SORT app:list STORE other", KEY),
        ("SORT app:list BY other*", KEY),
        ("BITOP AND app:1 other", KEY),
        ("PFMERGE app:h other", KEY),
        ("EVAL return(redis.call('get','other')) 0", KEY),
        ("TERRACE.SNAPSHOT OPEN", ":1"),
        ("TERRACE.SNAPSHOT READ 1 GET other", KEY),
        ("TERRACE.SNAPSHOT READ 1 GET app:2", "'x'"),
        ("MULTI", "OK"),
        ("GET other", KEY),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
    ]);
}

#[test]
fn users_are_readable() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut root = server.client();
    root.check(&[
        ("AUTH root a", "OK"),
        ("ACL USERS", "['default' 'reader' 'writer' 'root' 'app' 'strings']"),
        (
            "ACL GETUSER app",
            "['flags' ['on'] 'passwords' [] 'commands' '+@all -@admin' 'keys' '~app:* ~shared:*' 'channels' '&app:* &shared:*' 'selectors' []]",
        ),
        ("ACL GETUSER nobody", "nil"),
        ("ACL DRYRUN reader set a 1", "'This user has no permissions to run the \\'set\\' command'"),
        ("ACL DRYRUN app get x", "'This user has no permissions to access the \\'x\\' key'"),
        ("ACL DRYRUN app get app:x", "OK"),
        ("ACL CAT nocat", "-ERR Unknown category 'nocat'"),
        ("ACL CAT transaction", "['discard' 'exec' 'multi' 'unwatch' 'watch']"),
        (
            "ACL SETUSER x on",
            "-ERR users are rows of the configuration, and Terrace changes none while it runs",
        ),
    ]);
    let list = root.run("ACL LIST");
    assert!(
        list.contains("user reader on ~* &* +@all -@admin -@write") && !list.contains("argon2"),
        "{list}"
    );
    assert_eq!(root.run("ACL GENPASS").len(), 66);
    assert_eq!(root.run("ACL GENPASS 5").len(), 4);
}

#[test]
fn attempts_of_an_address_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut clients = [server.client(), server.client()];
    let start = Instant::now();
    let mut refused = 0;
    while refused == 0 && start.elapsed() < Duration::from_secs(10) {
        for client in &mut clients {
            for _ in 0..20 {
                client.send(&["AUTH", "default", "wrong"]);
            }
        }
        for client in &mut clients {
            let replies: Vec<String> = (0..20).map(|_| client.reply()).collect();
            refused += replies.iter().filter(|reply| reply.starts_with("-ERR too many login")).count();
        }
    }
    assert!(refused > 0);
}

#[test]
fn login_time_tells_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let mut client = server.client();
    let mut time = |user: &str| {
        let times = (0..3).map(|_| {
            std::thread::sleep(Duration::from_millis(110));
            let start = Instant::now();
            client.run(&format!("AUTH {user} wrong"));
            start.elapsed()
        });
        times.min().unwrap()
    };
    let known = time("reader");
    let unknown = time("nobody");
    // Both compute one hash of 19 MiB, which takes many milliseconds.
    assert!(unknown > known / 4 && known > unknown / 4, "{known:?} {unknown:?}");
}

#[test]
fn wrong_rows() {
    let dir = tempfile::tempdir().unwrap();
    for (text, expected) in [
        ("bob role=read hash=x", "user bob: hash is missing or not of --hash-password"),
        ("bob role=read", "user bob: hash is missing or not of --hash-password"),
    ] {
        let error =
            Server::try_start(dir.path(), |config| config.users.push(UserConfig::parse(text).unwrap()));
        assert_eq!(error.err().unwrap().to_string(), expected);
    }
    let error = Server::try_start(dir.path(), |config| {
        add_user(config, "bob role=read category=nonsense", "x");
    });
    assert_eq!(error.err().unwrap().to_string(), "user bob: unknown category \"nonsense\"");
    let error = Server::try_start(dir.path(), |config| {
        add_user(config, "bob role=read", "x");
        add_user(config, "bob role=admin", "y");
    });
    assert_eq!(error.err().unwrap().to_string(), "user bob: the name is used already");
}
