//! Corner cases whose replies differed from those of Redis 7.0. Every row was compared with
//! redis-server 7.0.15.

use crate::server::{Server, with_client};

/// XREADGROUP of the history replied `*-1` for a deleted entry also in version 3 of the protocol,
/// whose null is `_`.
#[test]
fn deleted_entry_in_version_3_of_the_protocol() {
    with_client(|client| {
        client.check(&[
            ("XADD x 1-1 f v", "'1-1'"),
            ("XGROUP CREATE x g 0", "OK"),
            ("XREADGROUP GROUP g c STREAMS x >", "[['x' [['1-1' ['f' 'v']]]]]"),
            ("XDEL x 1-1", ":1"),
        ]);
        client.run("HELLO 3");
        client.send_bytes(b"XREADGROUP GROUP g c STREAMS x 0\r\nQUIT\r\n");
        let expected = "%1\\r\\n$1\\r\\nx\\r\\n*1\\r\\n*2\\r\\n$3\\r\\n1-1\\r\\n_\\r\\n+OK\\r\\n";
        assert_eq!(client.rest(), expected);
    });
}

/// SORT of a list with BY of a constant pattern ignored DESC. A number may have spaces before it.
#[test]
fn order_of_sort() {
    with_client(|client| {
        client.check(&[
            ("RPUSH l 3 1 2 10", ":4"),
            ("SORT l BY nosort", "['3' '1' '2' '10']"),
            ("SORT l BY nosort DESC", "['10' '2' '1' '3']"),
            ("SORT l BY nosort DESC LIMIT 1 2", "['2' '1']"),
            ("SORT l BY nosort DESC STORE d", ":4"),
            ("LRANGE d 0 -1", "['10' '2' '1' '3']"),
        ]);
        client.call(&["RPUSH", "l", " 5"]);
        client.check(&[("SORT l", "['1' '2' '3' ' 5' '10']")]);
        client.call(&["RPUSH", "l", "5 "]);
        client.check(&[("SORT l", "-ERR One or more scores can't be converted into double")]);
    });
}

/// A wrong subcommand was queued, and EXEC executed the other commands.
#[test]
fn wrong_subcommand_in_multi() {
    with_client(|client| {
        for (line, error) in [
            ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
            ("XGROUP CREATE x", "-ERR wrong number of arguments for 'xgroup|create' command"),
            ("CONFIG GETT x", "-ERR unknown subcommand 'GETT'. Try CONFIG HELP."),
        ] {
            client.check(&[
                ("MULTI", "OK"),
                ("SET a 1", "QUEUED"),
                (line, error),
                ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
                ("EXISTS a", ":0"),
            ]);
        }
        client.check(&[
            ("MULTI", "OK"),
            ("CLIENT HELP x", "-ERR wrong number of arguments for 'client|help' command"),
            (
                "EXEC x",
                "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
            ),
            ("MULTI", "OK"),
            ("COMMAND COUNT", "QUEUED"),
            ("FUNCTION STATS", "QUEUED"),
            ("DISCARD", "OK"),
        ]);
    });
}

/// SUBSCRIBE and its forms were errors within MULTI.
#[test]
fn subscriptions_in_multi() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    for (hello, reply, message) in [
        (
            "HELLO 2",
            "[['subscribe' 'a' :1] ['psubscribe' 'b*' :2] ['unsubscribe' 'a' :1] nil]",
            "['pmessage' 'b*' 'bc' 'x']",
        ),
        (
            "HELLO 3",
            "[>['subscribe' 'a' :1] >['psubscribe' 'b*' :2] >['unsubscribe' 'a' :1] nil]",
            ">['pmessage' 'b*' 'bc' 'x']",
        ),
    ] {
        let mut client = server.client();
        client.run(hello);
        client.check(&[
            ("MULTI", "OK"),
            ("SUBSCRIBE a", "QUEUED"),
            ("PSUBSCRIBE b*", "QUEUED"),
            ("UNSUBSCRIBE a", "QUEUED"),
            ("GET k", "QUEUED"),
            ("EXEC", reply),
        ]);
        server.client().check(&[("PUBLISH a x", ":0"), ("PUBLISH bc x", ":1")]);
        assert_eq!(client.reply(), message);
        client.run("PUNSUBSCRIBE");
    }
}

/// A second CLIENT REPLY SKIP did not suppress the reply after it.
#[test]
fn two_skipped_replies() {
    with_client(|client| {
        client.send_bytes(b"CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING a\r\nPING b\r\n");
        assert_eq!(client.reply(), "'b'");
    });
}

/// BLMPOP and BZMPOP were errors in scripts, in contrast to the older commands.
#[test]
fn waiting_commands_of_scripts() {
    with_client(|client| {
        client.run("RPUSH l a b");
        client.run("ZADD z 1 m");
        for (script, expected) in [
            ("return redis.call('blmpop', '0', '2', 'none', 'l', 'left')", "['l' ['a']]"),
            ("return redis.call('bzmpop', '0', '1', 'z', 'min')[1]", "'z'"),
            ("return redis.call('blmpop', '0', '1', 'none', 'left')", "nil"),
            ("return redis.acl_check_cmd('get')", ":1"),
        ] {
            assert_eq!(client.call(&["EVAL", script, "0"]), expected, "{script}");
        }
        for (script, expected) in [
            ("redis.call('xinfo', 'stream')", "-ERR Wrong number of args calling Redis command from script"),
            ("redis.call('object', 'x', 'y')", "-ERR Unknown Redis command called from script"),
        ] {
            let reply = client.call(&["EVAL", script, "0"]);
            assert!(reply.starts_with(expected), "{reply}");
        }
    });
}

/// COMMAND INFO had only one category, and COMMAND GETKEYS returned keys of wrong arguments.
#[test]
fn description_of_commands() {
    with_client(|client| {
        let info = client.run("COMMAND INFO get");
        assert!(info.contains("[@read @string @fast]"), "{info}");
        client.check(&[
            ("COMMAND GETKEYS ZUNIONSTORE d 3 a b", "-ERR Invalid arguments specified for command"),
            ("COMMAND GETKEYS ZUNIONSTORE d x a b", "-ERR Invalid arguments specified for command"),
            ("COMMAND GETKEYS SINTERCARD 9999999999999 a b", "-ERR Invalid arguments specified for command"),
            ("COMMAND GETKEYS EVAL x 3 a b", "[]"),
            ("COMMAND GETKEYS SPUBLISH a b", "-ERR The command has no key arguments"),
            ("ACL DRYRUN default config get", "-ERR wrong number of arguments for 'config|get' command"),
        ]);
    });
}

/// COMMAND INFO had no subcommands, so clients that route by keys did not find those of OBJECT.
#[test]
fn subcommands_of_commands() {
    with_client(|client| {
        let info = client.run("COMMAND INFO object");
        assert!(info.contains("'object|encoding' :3 [] :2 :2 :1"), "{info}");
        assert!(info.contains("'object|help' :2 [] :0 :0 :0"), "{info}");
        client.check(&[("COMMAND LIST FILTERBY PATTERN XR*ge", "['xrange' 'xrevrange']")]);
        let info = client.run("COMMAND INFO xgroup");
        assert!(info.contains("'xgroup|create' :-5 ["), "{info}");
        let info = client.run("COMMAND INFO get");
        assert!(info.ends_with("[] [] []]]"), "{info}");
    });
}

/// The suite of fakeredis found other replies.
#[test]
fn replies_that_the_suite_of_fakeredis_checks() {
    with_client(|client| {
        client.check(&[
            // An infinite score with the weight 0 is no number, and the sum with it is zero.
            ("ZADD a inf x", ":1"),
            ("ZADD b inf x", ":1"),
            ("ZINTER 2 a b WEIGHTS 1 0 WITHSCORES", "['x' '0']"),
            ("ZINTER 2 a b WEIGHTS 1 0 AGGREGATE MIN WITHSCORES", "['x' 'inf']"),
            ("ZUNION 2 a b WEIGHTS 1 0 WITHSCORES", "['x' 'inf']"),
            ("XADD s LIMIT 0 * f v", "-ERR syntax error, LIMIT cannot be used without the special ~ option"),
            (
                "XADD s LIMIT 1 * f v",
                "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ),
            ("XTRIM s LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy"),
            ("CONFIG SET stream-node-max-entries 2", "OK"),
            ("XADD s 1-1 f v", "'1-1'"),
            ("XADD s 2-1 f v", "'2-1'"),
            ("XADD s 3-1 f v", "'3-1'"),
        ]);
        let info = client.run("XINFO STREAM s");
        assert!(info.contains("'radix-tree-keys' :2 'radix-tree-nodes' :3"), "{info}");
    });
}

/// Contradictory options were accepted, and some errors had another text.
#[test]
fn contradictory_options() {
    with_client(|client| {
        client.check(&[
            ("ZADD z 1 a", ":1"),
            ("ZRANGE z 0 -1 BYSCORE BYLEX", "-ERR syntax error"),
            ("ZRANGE z 0 -1 REV REV", "-ERR syntax error"),
            ("ZRANGE z 0 -1 REV", "['a']"),
            ("SHUTDOWN NOSAVE SAVE", "-ERR syntax error"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            ("CLIENT UNBLOCK 1 ERROR x", "-ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP."),
            ("CLIENT PAUSE 0 ALL x", "-ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP."),
            ("SELECT 4294967296", "-ERR value is out of range, value must between -2147483648 and 2147483647"),
            ("SWAPDB 4294967296 0", "-ERR invalid first DB index"),
            ("WAIT 0 abc", "-ERR timeout is not an integer or out of range"),
            (
                "CONFIG SET timeout abc",
                "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer",
            ),
        ]);
    });
}

/// A number in a script became an argument with up to 19 digits, where Redis writes `%.17g`.
#[test]
fn numbers_as_arguments_of_commands() {
    with_client(|client| {
        for (number, expected) in [
            ("3", "'3'"),
            ("1e16", "'10000000000000000'"),
            ("1e17", "'1e+17'"),
            ("-1e17", "'-1e+17'"),
            ("99999999999999999", "'1e+17'"),
            ("123456789012345678", "'1.2345678901234568e+17'"),
            ("-2^63", "'-9.2233720368547758e+18'"),
            ("0.1", "'0.10000000000000001'"),
        ] {
            let script = format!("redis.call('set', KEYS[1], {number}) return redis.call('get', KEYS[1])");
            assert_eq!(client.call(&["EVAL", &script, "1", "a"]), expected, "{number}");
        }
    });
}

/// Statuses and errors of scripts were converted to UTF-8. Redis ends them at a NUL.
#[test]
fn bytes_in_statuses_of_scripts() {
    with_client(|client| {
        for (script, expected) in [
            ("return {ok='\\255\\254'}", &b"+\xff\xfe\r\n"[..]),
            ("return redis.status_reply('\\255x')", b"+\xffx\r\n"),
            ("return {err='\\255'}", b"-\xff\r\n"),
            ("return {ok='a\\0b'}", b"+a\r\n"),
            ("return {err='a\\0b'}", b"-a\r\n"),
            ("return {ok='a\\r\\nb'}", b"+a  b\r\n"),
            ("return {err='a\\r\\nb'}", b"-a  b\r\n"),
            (
                "error({err='ERR \\255'})",
                b"-ERR \xff script: 1f4ce823b8d31a43167b45c0d5528aafa5e9bf4e, on @user_script:1.\r\n",
            ),
        ] {
            client.send(&["EVAL", script, "0"]);
            assert_eq!(client.line_bytes(), expected, "{script}");
        }
        client.run("HELLO 3");
        client.send(&[
            "EVAL",
            "redis.setresp(3) return {verbatim_string={format='txt', string='\\255'}}",
            "0",
        ]);
        assert_eq!(client.line_bytes(), b"=5\r\n");
        assert_eq!(client.line_bytes(), b"txt:\xff\r\n");
    });
}

/// The compiler of scripts ended a script at a NUL: a string with one was malformed, and the lines
/// after another one were ignored.
#[test]
fn nul_bytes_in_scripts() {
    with_client(|client| {
        for (script, expected) in [
            ("return #'a\0b'", ":3"),
            ("return #[[a\0b]]", ":3"),
            // A line end of Windows is one byte.
            ("return #[[\r\na\0\r\nb\r]]", ":5"),
            ("return #'\\\0' + #loadstring(\"return '\\0'\")()", ":2"),
            ("-- \0\nreturn 5", ":5"),
            ("x =\n\0", "-ERR Error compiling script (new function): user_script:2: unexpected symbol"),
        ] {
            assert_eq!(client.call(&["EVAL", script, "0"]), expected, "{script:?}");
        }
    });
}

/// `encode_invalid_numbers('null')` was ignored, and so were wrong words.
#[test]
fn invalid_numbers_in_json() {
    with_client(|client| {
        for (script, expected) in [
            ("cjson.encode_invalid_numbers('null') return cjson.encode({0/0, 1/0, 1})", "'[null,null,1]'"),
            ("return cjson.encode_invalid_numbers('null')", "'null'"),
            ("cjson.encode_invalid_numbers('on') return cjson.encode({0/0, 1/0, -1/0})", "'[nan,inf,-inf]'"),
            ("return tostring(cjson.encode_keep_buffer('off'))", "'false'"),
        ] {
            assert_eq!(client.call(&["EVAL", script, "0"]), expected, "{script}");
        }
        for (script, expected) in [
            (
                "cjson.encode_invalid_numbers('foo')",
                "-ERR user_script:1: bad argument #1 to 'encode_invalid_numbers' (invalid option 'foo')",
            ),
            (
                "cjson.decode_invalid_numbers('null')",
                "-ERR user_script:1: bad argument #1 to 'decode_invalid_numbers' (invalid option 'null')",
            ),
            ("cjson.encode(0/0)", "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf"),
            ("redis.call('role')", "-ERR This Redis command is not allowed from script"),
        ] {
            let reply = client.call(&["EVAL", script, "0"]);
            assert!(reply.starts_with(expected), "{reply}");
        }
        assert_eq!(client.call(&["EVAL", "#!lua flags=\nreturn 1", "0"]), ":1");
    });
}

/// A bound of scores was not read like `strtod` reads it: spaces before it were errors.
#[test]
fn spaces_before_a_bound() {
    with_client(|client| {
        client.run("ZADD z 1 a 2 b 3 c");
        let error = "-ERR min or max is not a float";
        for (min, expected) in [
            (" 1", ":3"),
            ("( 1", ":2"),
            ("\t\n\x0b\x0c\r 2", ":2"),
            (" -inf", ":3"),
            ("2\0x", ":2"),
            ("", ":3"),
            (" (1", error),
            ("1 ", error),
            (" ", error),
        ] {
            assert_eq!(client.call(&["ZCOUNT", "z", min, "3"]), expected, "{min:?}");
        }
        assert_eq!(client.call(&["ZRANGE", "z", " 1", " 2", "BYSCORE"]), "['a' 'b']");
        assert_eq!(client.call(&["ZREVRANGEBYSCORE", "z", " 2", " 1"]), "['b' 'a']");
        assert_eq!(client.call(&["ZADD", "z", " 1", "d"]), "-ERR value is not a valid float");
        assert_eq!(client.call(&["ZREMRANGEBYSCORE", "z", " 1", " 2"]), ":2");
    });
}

/// CONFIG SET of a setting without effect accepted most values, and CONFIG GET did not repeat the
/// name as the client wrote it.
#[test]
fn values_of_settings() {
    with_client(|client| {
        for (name, value, reason) in [
            (
                "maxmemory-policy",
                "foo",
                "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction",
            ),
            ("maxmemory", "-1", "argument must be a memory value"),
            ("save", "foo", "Invalid save parameters"),
            ("save", "900 1 300", "Invalid save parameters"),
            ("loglevel", "foo", "argument(s) must be one of the following: debug, verbose, notice, warning"),
            ("hz", "1kb", "argument couldn't be parsed into an integer"),
            ("maxmemory-samples", "0", "argument must be between 1 and 2147483647 inclusive"),
        ] {
            let expected =
                format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}");
            assert_eq!(client.call(&["CONFIG", "SET", name, value]), expected);
        }
        assert_eq!(client.call(&["CONFIG", "SET", "save", "900 1 300 10"]), "OK");
        client.check(&[
            ("CONFIG GET save", "['save' '900 1 300 10']"),
            ("CONFIG SET maxmemory-policy ALLKEYS-LRU", "OK"),
            ("CONFIG GET maxmemory-policy", "['maxmemory-policy' 'allkeys-lru']"),
            ("CONFIG SET maxmemory 1kb", "OK"),
            ("CONFIG GET MAXMEMORY", "['MAXMEMORY' '1024']"),
            ("CONFIG GET MaxMemory maxmemory", "['MaxMemory' '1024']"),
            ("CONFIG GET MAXMEMOR*S", "['maxmemory-clients' '0' 'maxmemory-samples' '5']"),
            ("CONFIG GET SLAVE-PRIORITY", "['SLAVE-PRIORITY' '100']"),
        ]);
    });
}

/// A repeated option of expiry was a syntax error, and other options had other limits than in
/// Redis.
#[test]
fn repeated_options() {
    with_client(|client| {
        client.check(&[
            ("SET s v EX 100 EX 5000", "OK"),
            ("TTL s", ":5000"),
            ("GETEX s EX abc EX 100", "'v'"),
            ("TTL s", ":100"),
            ("SET s v EX 0 XX EX 200", "OK"),
            ("TTL s", ":200"),
            ("SET s v EX 100 PX 5", "-ERR syntax error"),
            ("SET s v KEEPTTL EX 5", "-ERR syntax error"),
            ("SET s v EX 5 EX", "-ERR syntax error"),
            ("SET s v EX 5 EX abc", "-ERR value is not an integer or out of range"),
            ("GETEX s EX 5 PERSIST", "-ERR syntax error"),
            ("TTL s", ":200"),
            ("LMPOP 1 l LEFT COUNT COUNT 2", "-ERR count should be greater than 0"),
            ("BLMPOP 0 1 l LEFT COUNT 0 2", "-ERR count should be greater than 0"),
            ("ZMPOP 1 z MIN COUNT x y", "-ERR count should be greater than 0"),
            ("ZMPOP 1 z MIN COUNT 1 COUNT 2", "-ERR syntax error"),
            (
                "XGROUP CREATE x g 0 MKSTREAM ENTRIESREAD 1 ENTRIESREAD 2",
                "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
            ),
            ("EXISTS x", ":0"),
            ("XGROUP CREATE x g 0 MKSTREAM MKSTREAM MKSTREAM", "OK"),
            (
                "XGROUP SETID x g 0 ENTRIESREAD 1 ENTRIESREAD 2",
                "-ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP.",
            ),
            (
                "XGROUP SETID x no 0 ENTRIESREAD 1 ENTRIESREAD 2",
                "-NOGROUP No such consumer group 'no' for key name 'x'",
            ),
        ]);
    });
}

/// CLIENT knew no CACHING, and IDs had other limits than in Redis.
#[test]
fn ids_of_clients() {
    let too_small = "-ERR client-id should be greater than 0";
    with_client(|client| {
        client.check(&[
            (
                "CLIENT CACHING YES",
                "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ),
            ("CLIENT CACHING", "-ERR wrong number of arguments for 'client|caching' command"),
            ("CLIENT LIST ID -1", "''"),
            ("CLIENT LIST ID 9223372036854775808", "-ERR Invalid client ID"),
            ("CLIENT KILL ID 9223372036854775808", too_small),
            ("CLIENT KILL ID 9223372036854775807", ":0"),
            ("CLIENT KILL ID -1", too_small),
        ]);
    });
}

/// LTRIM that removes nothing did not abort the EXEC of a client that watches the list.
#[test]
fn watched_list_after_a_trim_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut client = server.client();
    client.check(&[("RPUSH l a b", ":2"), ("WATCH l", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    server.client().check(&[("LTRIM l 0 -1", "OK")]);
    client.check(&[("EXEC", "nil"), ("WATCH l", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    server.client().check(&[("LTRIM none 0 -1", "OK")]);
    client.check(&[("EXEC", "[PONG]"), ("WATCH l", "OK"), ("MULTI", "OK"), ("PING", "QUEUED")]);
    server.client().check(&[("MULTI", "OK"), ("LTRIM l 0 -1", "QUEUED"), ("EXEC", "[OK]")]);
    client.check(&[("EXEC", "nil"), ("LRANGE l 0 -1", "['a' 'b']")]);
}

/// A client that ended its subscription in the MULTI of its PUBLISH lost the message, although
/// PUBLISH counted it. A subscription after PUBLISH got the message. As in Redis 7.2, the messages
/// follow the reply of EXEC.
#[test]
fn own_messages_of_multi() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), |_| {});
    let mut other = server.client();
    other.check(&[("SUBSCRIBE a", "['subscribe' 'a' :1]")]);
    let mut client = server.client();
    client.run("HELLO 3");
    client.check(&[
        ("MULTI", "OK"),
        ("SUBSCRIBE a", "QUEUED"),
        ("PSUBSCRIBE a*", "QUEUED"),
        ("PUBLISH a x", "QUEUED"),
        ("UNSUBSCRIBE a", "QUEUED"),
        ("PUNSUBSCRIBE a*", "QUEUED"),
        ("PUBLISH a y", "QUEUED"),
        ("SUBSCRIBE a", "QUEUED"),
        (
            "EXEC",
            "[>['subscribe' 'a' :1] >['psubscribe' 'a*' :2] :3 >['unsubscribe' 'a' :1] >['punsubscribe' 'a*' :0] :1 >['subscribe' 'a' :1]]",
        ),
    ]);
    assert_eq!(client.reply(), ">['message' 'a' 'x']");
    assert_eq!(client.reply(), ">['pmessage' 'a*' 'a' 'x']");
    client.check(&[("PING", "PONG")]);
    assert_eq!([other.reply(), other.reply()], ["['message' 'a' 'x']", "['message' 'a' 'y']"]);
    client.check(&[
        ("MULTI", "OK"),
        ("SSUBSCRIBE s", "QUEUED"),
        ("EXEC", "[-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client]"),
    ]);
}

/// EXEC that cannot run had EXECABORT only within MULTI, and the error of a subscriber did not name
/// the subcommand.
#[test]
fn errors_of_exec_and_of_subscribers() {
    let only = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    let wrong = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
    with_client(|client| {
        client.check(&[
            ("EXEC x", wrong),
            ("SUBSCRIBE a", "['subscribe' 'a' :1]"),
            ("EXEC", &format!("-EXECABORT Transaction discarded because of: Can't execute 'exec': {only}")),
            ("EXEC x", wrong),
            ("CLIENT LIST", &format!("-ERR Can't execute 'client|list': {only}")),
            ("OBJECT HELP", &format!("-ERR Can't execute 'object|help': {only}")),
            ("GET x", &format!("-ERR Can't execute 'get': {only}")),
        ]);
    });
    with_client(|client| {
        client.run("HELLO 3");
        client.check(&[
            ("SUBSCRIBE a", ">['subscribe' 'a' :1]"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("EXEC x", wrong),
        ]);
    });
}

/// Cursors were integers in their only form, where Redis reads them with `strtoul`.
#[test]
fn cursors_of_other_forms() {
    with_client(|client| {
        client.check(&[("HSET h f v", ":1"), ("SADD s m", ":1"), ("ZADD z 1 m", ":1")]);
        for cursor in ["", "00", "+0", "-0", "\0", "0\0x"] {
            assert_eq!(client.call(&["SCAN", cursor]), "['0' ['h' 's' 'z']]", "{cursor}");
            assert_eq!(client.call(&["HSCAN", "h", cursor]), "['0' ['f' 'v']]", "{cursor}");
            assert_eq!(client.call(&["SSCAN", "s", cursor]), "['0' ['m']]", "{cursor}");
            assert_eq!(client.call(&["ZSCAN", "z", cursor]), "['0' ['m' '1']]", "{cursor}");
        }
        for cursor in ["+", " 0", "0 ", "x", "18446744073709551616", "+\0", "0 \0"] {
            assert_eq!(client.call(&["SCAN", cursor]), "-ERR invalid cursor", "{cursor}");
            assert_eq!(client.call(&["ZSCAN", "none", cursor]), "-ERR invalid cursor", "{cursor}");
        }
    });
}

/// Surplus arguments were ignored, or had another error.
#[test]
fn surplus_arguments() {
    let unknown_form = |parent: &str, name: &str| {
        format!("-ERR unknown subcommand or wrong number of arguments for '{name}'. Try {parent} HELP.")
    };
    with_client(|client| {
        client.check(&[
            ("PUBSUB CHANNELS a b", &unknown_form("PUBSUB", "CHANNELS")),
            ("PUBSUB shardchannels a b", &unknown_form("PUBSUB", "shardchannels")),
            ("CLIENT unblock 1 ERROR x", &unknown_form("CLIENT", "unblock")),
            ("SLOWLOG get 1 2", &unknown_form("SLOWLOG", "get")),
            ("FUNCTION flush SYNC x", &unknown_form("FUNCTION", "flush")),
            ("FUNCTION FLUSH x", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option"),
            ("FUNCTION LIST a", "-ERR Unknown argument a"),
            ("FUNCTION LIST WITHCODE WITHCODE", "-ERR Unknown argument WITHCODE"),
            ("FUNCTION LIST LIBRARYNAME", "-ERR library name argument was not given"),
            ("FUNCTION LIST LIBRARYNAME a WITHCODE LIBRARYNAME b", "-ERR Unknown argument LIBRARYNAME"),
            ("FUNCTION LIST WITHCODE LIBRARYNAME a", "[]"),
            ("CLIENT TRACKING OFF foo", "-ERR syntax error"),
            ("CLIENT TRACKING foo", "-ERR syntax error"),
            ("CLIENT TRACKING OFF REDIRECT x", "-ERR value is not an integer or out of range"),
            ("CLIENT TRACKING OFF REDIRECT 999999", "-ERR The client ID you want redirect to does not exist"),
            ("CLIENT TRACKING OFF BCAST PREFIX a NOLOOP", "OK"),
            ("LOLWUT VERSION x", "-ERR value is not an integer or out of range"),
            ("COMMAND INFO foo", "[nil]"),
            ("ACL CAT foo bar", &unknown_form("ACL", "CAT")),
            ("ACL genpass x y", &unknown_form("ACL", "genpass")),
            ("ACL LOG RESET x", &unknown_form("ACL", "LOG")),
            ("SET s v", "OK"),
            ("MEMORY USAGE s SAMPLES x y", "-ERR value is not an integer or out of range"),
            ("MEMORY USAGE s SAMPLES 1 y", "-ERR syntax error"),
            ("MEMORY USAGE none SAMPLES 1 SAMPLES 2", "nil"),
        ]);
    });
}

/// The error of an unknown command bounded each argument by itself, and showed the bytes after a
/// NUL.
#[test]
fn bounds_of_unknown_names() {
    let error =
        |name: &str, args: &str| format!("-ERR unknown command '{name}', with args beginning with: {args}");
    let long = "x".repeat(130);
    let shown = &long[..128];
    with_client(|client| {
        assert_eq!(client.call(&[&long]), error(shown, ""));
        assert_eq!(client.call(&["foo", &long, "y"]), error("foo", &format!("'{shown}' ")));
        let first = &long[..110];
        let expected = format!("'{first}' 'bbbbbbbbbbbbbbb' ");
        assert_eq!(client.call(&["foo", first, &"b".repeat(20), "c"]), error("foo", &expected));
        assert_eq!(client.call(&vec!["a"; 130]), error("a", &"'a' ".repeat(32)));
        assert_eq!(client.call(&["fo\0o", "a\0b", "c"]), error("fo", "'a' 'c' "));
        let text = "-ERR unknown subcommand 'a'. Try CLIENT HELP.";
        assert_eq!(client.call(&["CLIENT", "a\0b"]), text);
    });
}

/// Timeouts beyond 9,000,000,000,000,000 seconds and below a millisecond were negative.
#[test]
fn bounds_of_timeouts() {
    with_client(|client| {
        client.run("SET s v");
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        for (timeout, expected) in [
            ("9223372036854774", wrong_type),
            ("9.2e15", wrong_type),
            ("-0.0001", wrong_type),
            ("9223372036854776", "-ERR timeout is negative"),
            ("1e400", "-ERR timeout is negative"),
            ("inf", "-ERR timeout is negative"),
            ("-0.001", "-ERR timeout is negative"),
            ("x", "-ERR timeout is not a float or out of range"),
        ] {
            for command in [
                ["BLPOP", "s", timeout].as_slice(),
                &["BRPOPLPUSH", "s", "d", timeout],
                &["BLMOVE", "s", "d", "LEFT", "LEFT", timeout],
                &["BLMPOP", timeout, "1", "s", "LEFT"],
                &["BZPOPMIN", "s", timeout],
                &["BZMPOP", timeout, "1", "s", "MIN"],
            ] {
                assert_eq!(client.call(command), expected, "{command:?}");
            }
        }
    });
}

/// XADD with a partial ID after the largest sequence number had another error.
#[test]
fn partial_id_after_the_largest_sequence_number() {
    let too_small = "-ERR The ID specified in XADD is equal or smaller than the target stream top item";
    with_client(|client| {
        client.check(&[
            ("XADD x 2-18446744073709551615 f v", "'2-18446744073709551615'"),
            ("XADD x 2-* f v", "-ERR Elements are too large to be stored"),
            ("XADD x 1-* f v", too_small),
            ("XADD x 3-* f v", "'3-0'"),
            ("XADD x 3-* f v", "'3-1'"),
        ]);
    });
}

/// The keys of GEORADIUS with two destinations, and the categories of ROLE and SORT, were others.
#[test]
fn keys_of_georadius_and_categories() {
    with_client(|client| {
        client.check(&[
            ("COMMAND GETKEYS GEORADIUS k 1 1 1 m STOREDIST e STORE d", "['k' 'd' 'e']"),
            ("COMMAND GETKEYS GEORADIUS k 1 1 1 m ASC STOREDIST d", "['k' 'd']"),
            ("COMMAND GETKEYS GEORADIUSBYMEMBER k m 1 m STORE d STORE f", "['k' 'd']"),
            ("COMMAND GETKEYS GEORADIUS k 1 1 1 m STORE", "['k']"),
        ]);
        let info = client.run("COMMAND INFO role");
        assert!(info.contains("[@admin @fast @dangerous]"), "{info}");
        let info = client.run("COMMAND INFO sort");
        assert!(info.contains("@write @set @sortedset @list"), "{info}");
    });
}

/// `unpack_limit` returned an offset before all values, and JSON text did not end at a NUL.
#[test]
fn bounds_of_decoders_in_scripts() {
    with_client(|client| {
        let two = "cmsgpack.pack(1) .. cmsgpack.pack(2)";
        for (arguments, expected) in [
            ("0, 0", "[:1 :2]"),
            ("0", "[:1 :2]"),
            ("0, 1", "[:1]"),
            ("1, 0", "[:1 :1]"),
            ("2, 0", "[:-1 :1 :2]"),
        ] {
            let script = format!("return {{cmsgpack.unpack_limit({two}, {arguments})}}");
            assert_eq!(client.call(&["EVAL", &script, "0"]), expected, "{arguments}");
        }
        for (text, expected) in [
            (r"\0", "'Expected value but found T_END at character 1'"),
            (r"[1\0]", "'Expected comma or array end but found T_END at character 3'"),
            (r#""a\0b""#, "'Expected value but found unexpected end of string at character 3'"),
            (r"1 \0 x", "'1'"),
            (r"+1", "'1'"),
            (r"-", "'Expected value but found invalid number at character 1'"),
        ] {
            let script = format!("local _, value = pcall(cjson.decode, '{text}') return tostring(value)");
            assert_eq!(client.call(&["EVAL", &script, "0"]), expected, "{text}");
        }
    });
}

/// The order in which the arguments were checked differed from Redis.
#[test]
fn order_of_checks() {
    with_client(|client| {
        client.check(&[
            ("BLMPOP abc 0 l LEFT", "-ERR numkeys should be greater than 0"),
            ("BLMPOP abc 1 l LEFT COUNT 0", "-ERR count should be greater than 0"),
            ("BLMPOP -1 1 l MIDDLE", "-ERR syntax error"),
            ("BLMPOP abc 1 l LEFT", "-ERR timeout is not a float or out of range"),
            ("BZMPOP abc x z MIN", "-ERR numkeys should be greater than 0"),
            ("BZMPOP -1 1 z MIN GT 5", "-ERR syntax error"),
            ("BZMPOP -1 1 z MIN", "-ERR timeout is negative"),
            ("EVALSHA x abc", "-NOSCRIPT No matching script. Please use EVAL."),
            ("EVALSHA_RO x 1", "-NOSCRIPT No matching script. Please use EVAL."),
            ("EVALSHA ffffffffffffffffffffffffffffffffffffffff -1", "-ERR Number of keys can't be negative"),
        ]);
        let text = client.call(&["EVAL", "return cjson.encode_number_precision(15)", "0"]);
        assert!(text.contains("expected integer between 1 and 14"), "{text}");
    });
}

/// GEOSEARCH refused a repeated option, and ZINCRBY had another error for an option of ZADD.
#[test]
fn repeated_options_of_geosearch() {
    with_client(|client| {
        client.check(&[
            ("GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b", ":2"),
            ("GEOSEARCH g FROMMEMBER b FROMMEMBER a BYRADIUS 500 km BYRADIUS 1 km", "['a']"),
            ("GEOSEARCH g FROMLONLAT 13 38 FROMLONLAT 15 37 BYBOX 1 1 m BYBOX 200 200 km", "['b']"),
            ("GEOSEARCHSTORE d none FROMMEMBER x BYRADIUS 1 m FROMMEMBER y", ":0"),
            ("GEOSEARCH g FROMMEMBER a FROMLONLAT 15 37 BYRADIUS 1 m", "-ERR syntax error"),
            ("GEOSEARCH g FROMLONLAT 15 37 FROMMEMBER a BYRADIUS 1 m", "-ERR syntax error"),
            ("GEOSEARCH none FROMMEMBER a FROMLONLAT 15 37 BYRADIUS 1 m", "-ERR syntax error"),
            ("GEOSEARCH g FROMMEMBER a BYRADIUS 1 m BYBOX 1 1 m", "-ERR syntax error"),
            ("GEOSEARCH g FROMMEMBER a BYBOX 1 1 m BYRADIUS 1 m", "-ERR syntax error"),
            ("ZINCRBY z NX a", "-ERR syntax error"),
            ("ZINCRBY z incr a", "-ERR syntax error"),
            ("ZINCRBY z x a", "-ERR value is not a valid float"),
        ]);
    });
}
