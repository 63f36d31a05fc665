//! Access of commands to their keys, in the words of Redis' key specifications.
//!
//! ```text
//!   RO, RW, OW, RM               reads; reads and writes; overwrites; removes the key
//!   access                       returns or copies parts of the value
//!   update, insert, delete       changes, adds, or removes parts of it
//! ```

use crate::command::Args;

/// Row: access to the first key, access to the other ones, commands with these.
type Row = (&'static str, &'static str, &'static [&'static str]);

/// Access to keys that no other row names.
const DEFAULT: &str = "RO access";

static ACCESS: &[Row] = &[
    (
        "RO",
        "RO",
        &[
            "exists",
            "hexists",
            "hlen",
            "hstrlen",
            "llen",
            "memory",
            "object",
            "scard",
            "sismember",
            "strlen",
            "touch",
            "type",
            "watch",
            "xlen",
            "zcard",
        ],
    ),
    (
        "RW update",
        "RW update",
        &[
            "expire",
            "expireat",
            "geoadd",
            "hmset",
            "hset",
            "lset",
            "persist",
            "pexpire",
            "pexpireat",
            "setrange",
            "xack",
            "xadd",
            "xclaim",
            "xsetid",
            "zadd",
        ],
    ),
    (
        "RW access update",
        "RW access update",
        &[
            "bitfield",
            "cas",
            "decr",
            "decrby",
            "eval",
            "evalsha",
            "fcall",
            "getex",
            "getset",
            "hincrby",
            "hincrbyfloat",
            "incr",
            "incrby",
            "incrbyfloat",
            "move",
            "setbit",
            "zincrby",
        ],
    ),
    (
        "RW access delete",
        "RW access delete",
        &[
            "blmpop", "blpop", "brpop", "bzmpop", "bzpopmax", "bzpopmin", "cad", "getdel", "lmpop", "lpop",
            "rpop", "spop", "zmpop", "zpopmax", "zpopmin",
        ],
    ),
    (
        "RW delete",
        "RW delete",
        &[
            "hdel",
            "lrem",
            "ltrim",
            "srem",
            "xautoclaim",
            "xdel",
            "xtrim",
            "zrem",
            "zremrangebylex",
            "zremrangebyrank",
            "zremrangebyscore",
        ],
    ),
    (
        "RW insert",
        "RW insert",
        &["append", "hsetnx", "linsert", "lpush", "lpushx", "pfadd", "rpush", "rpushx", "sadd"],
    ),
    (
        "OW update",
        "RO access",
        &[
            "bitop",
            "geosearchstore",
            "sdiffstore",
            "sunionstore",
            "zdiffstore",
            "zinterstore",
            "zrangestore",
            "zunionstore",
        ],
    ),
    ("RW access delete", "RW insert", &["blmove", "brpoplpush", "lmove", "rpoplpush", "smove"]),
    ("OW update", "OW update", &["mset", "psetex", "restore", "restore-asking", "set", "setex"]),
    ("OW insert", "OW insert", &["msetnx", "setnx"]),
    ("RM delete", "RM delete", &["del", "unlink"]),
    ("RW access", "RW access", &["pfcount", "pfdebug"]),
    ("RO access", "OW update", &["copy", "georadius", "georadiusbymember", "sort"]),
    ("RW access delete", "OW insert", &["renamenx"]),
    ("RW access insert", "RO access", &["pfmerge"]),
    ("RW update", "RO access", &["sinterstore"]),
    ("RW access delete", "OW update", &["rename"]),
];

/// Access of subcommands that change their key.
static SUBCOMMANDS: &[(&str, &str)] = &[
    ("create", "RW insert"),
    ("createconsumer", "RW insert"),
    ("delconsumer", "RW delete"),
    ("destroy", "RW delete"),
    ("setid", "RW update"),
];

/// Returns the words for the access of the command `args` to a key. `name` is the command.
pub(crate) fn key_access(name: &str, args: Args<'_>, is_first: bool) -> &'static str {
    match name {
        "xgroup" => {
            let found = SUBCOMMANDS.iter().find(|(subcommand, _)| args.is(1, subcommand));
            return found.map_or(DEFAULT, |(_, access)| access);
        }
        "set" if args.from(3).any(|arg| arg.eq_ignore_ascii_case(b"GET")) => return "RW access update",
        "bitfield" if !changes_bits(args) => return DEFAULT,
        _ => {}
    }
    let row = ACCESS.iter().find(|(_, _, names)| names.contains(&name));
    match row {
        Some((first, _, _)) if is_first => first,
        Some((_, others, _)) => others,
        None => DEFAULT,
    }
}

fn changes_bits(args: Args<'_>) -> bool {
    args.from(2).any(|arg| arg.eq_ignore_ascii_case(b"SET") || arg.eq_ignore_ascii_case(b"INCRBY"))
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, find};
    use super::*;

    #[test]
    fn access_agrees_with_the_flags() {
        for (first, others, names) in ACCESS {
            for name in *names {
                let command = find(name.as_bytes()).unwrap();
                let writes = !(first.starts_with("RO") && others.starts_with("RO"));
                let may_write = command.flags.contains(Flags::WRITE)
                    || command.flags.contains(Flags::SCRIPT)
                    || command.flags.contains(Flags::CACHES);
                // Functions are not supported, and therefore have no flags.
                assert!(writes == may_write || *name == "fcall", "{name}");
            }
        }
    }
}
