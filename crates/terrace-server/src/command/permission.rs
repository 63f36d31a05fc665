//! Permission of a user to run a command: role, categories, keys.
//!
//! ```text
//!   unrestricted user            permitted, one comparison
//!   role, categories             by the flags and the group of the row
//!   key prefixes                 every key, range, pattern and channel begins with one of them
//! ```
//!
//! A command without known keys is denied to a user with prefixes, unless its row has the flag
//! `NO_KEYS`.

use super::Args;
use super::table::{Command, Flags, is_admin, is_in_category};
use crate::glob;
use crate::users::{Role, User};

/// Reason why a user may not run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denial {
    /// The name of the command, with its subcommand.
    Command(String),
    Key(Vec<u8>),
    Channel(Vec<u8>),
}

/// Parts of a command that have to begin with a prefix of the user.
enum Scope<'a> {
    Keys(Vec<&'a [u8]>),
    /// All keys between two keys.
    Range(&'a [u8], &'a [u8]),
    Channels(Vec<&'a [u8]>),
    /// All keys, or unknown ones.
    Everything,
}

/// Returns the reason why `user` may not run the command, or None if it may.
pub(super) fn denial(user: &User, command: &Command, args: Args<'_>) -> Option<Denial> {
    if user.is_unrestricted() {
        return None;
    }
    // Every client may log in and leave.
    if command.flags.contains(Flags::NO_AUTH) {
        return None;
    }
    let in_category = user.categories.is_empty()
        || user.categories.iter().any(|name| is_in_category(command, Some(args), name));
    if !in_category || !is_permitted(user.role, command, args) {
        return Some(Denial::Command(full_name(command, args)));
    }
    if user.prefixes.is_empty() { None } else { outside_prefixes(user, command, args) }
}

/// True if the role permits the command.
fn is_permitted(role: Role, command: &Command, args: Args<'_>) -> bool {
    match role {
        Role::Admin => true,
        Role::Write => !is_admin(command, args),
        Role::Read => {
            let has = |flag| command.flags.contains(flag);
            !is_admin(command, args) && !has(Flags::WRITE) && !has(Flags::MAY_WRITE)
        }
    }
}

/// Name of the command, with its subcommand.
pub(super) fn full_name(command: &Command, args: Args<'_>) -> String {
    match args.get(1) {
        Some(word) if command.flags.contains(Flags::CONTAINER) => {
            let word = String::from_utf8_lossy(&word[..word.len().min(64)]).to_ascii_lowercase();
            format!("{}|{word}", command.name)
        }
        _ => command.name.to_owned(),
    }
}

fn outside_prefixes(user: &User, command: &Command, args: Args<'_>) -> Option<Denial> {
    let is_inside = |key: &&[u8]| user.prefixes.iter().any(|prefix| key.starts_with(prefix));
    match scope(command, args) {
        Scope::Keys(keys) => {
            let outside = keys.into_iter().find(|key| !is_inside(key));
            outside.map(|key| Denial::Key(key.to_vec()))
        }
        Scope::Channels(channels) => {
            let outside = channels.into_iter().find(|channel| !is_inside(channel));
            outside.map(|channel| Denial::Channel(channel.to_vec()))
        }
        // All keys between two keys with a prefix have this prefix.
        Scope::Range(min, max) => {
            let mut prefixes = user.prefixes.iter();
            let is_covered = prefixes.any(|prefix| min.starts_with(prefix) && max.starts_with(prefix));
            (!is_covered).then(|| Denial::Key(min.to_vec()))
        }
        Scope::Everything => Some(Denial::Key(Vec::new())),
    }
}

fn scope<'a>(command: &Command, args: Args<'a>) -> Scope<'a> {
    match command.name {
        "publish" | "spublish" => Scope::Channels(vec![args.at(1)]),
        "subscribe" | "ssubscribe" => Scope::Channels(args.from(1).collect()),
        "psubscribe" => Scope::Channels(args.from(1).map(glob::literal_prefix).collect()),
        "keys" => Scope::Keys(vec![glob::literal_prefix(args.at(1))]),
        "scan" => scan_scope(args),
        "terrace.prefix" => Scope::Keys(vec![args.at(1)]),
        "terrace.range" | "terrace.count" | "terrace.size" | "terrace.delrange" | "terrace.compact" => {
            range_scope(args)
        }
        // BY and GET read keys by patterns.
        "sort" | "sort_ro" if (2..args.len()).any(|index| args.is(index, "BY") || args.is(index, "GET")) => {
            Scope::Everything
        }
        // Subcommands such as OBJECT HELP have no key.
        "object" | "memory" | "xinfo" | "xgroup" => Scope::Keys(args.get(2).into_iter().collect()),
        _ if command.flags.contains(Flags::SCRIPT) => Scope::Everything,
        _ => {
            let keys: Vec<&[u8]> = command.keys.of(args).collect();
            let is_known = !keys.is_empty() || command.flags.contains(Flags::NO_KEYS);
            if is_known { Scope::Keys(keys) } else { Scope::Everything }
        }
    }
}

/// SCAN cursor MATCH pattern
fn scan_scope(args: Args<'_>) -> Scope<'_> {
    // The last MATCH counts, so another one before it does no harm.
    let mut options = (2..args.len().saturating_sub(1)).step_by(2);
    let pattern = options.rfind(|index| args.is(*index, "MATCH"));
    match pattern {
        Some(index) => Scope::Keys(vec![glob::literal_prefix(args.at(index + 1))]),
        None => Scope::Everything,
    }
}

fn range_scope(args: Args<'_>) -> Scope<'_> {
    match (args.at(1), args.at(2)) {
        ([b'[' | b'(', min @ ..], [b'[' | b'(', max @ ..]) => Scope::Range(min, max),
        _ => Scope::Everything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::find;
    use crate::users::{UserConfig, Users, hash_password};

    fn denied(user: &str, line: &str) -> Option<Denial> {
        let hash = hash_password(b"x", [1; 16]).unwrap();
        let row = UserConfig::parse(&format!("bob {user} hash={hash}")).unwrap();
        let users = Users::new(&[row], |_| true).unwrap();
        let mut ranges = Vec::new();
        let mut begin = 0;
        for word in line.split(' ') {
            ranges.push((begin, begin + word.len() as u32));
            begin += word.len() as u32 + 1;
        }
        let args = Args::new(line.as_bytes(), &ranges);
        denial(users.find(b"bob").unwrap(), find(args.at(0)).unwrap(), args)
    }

    #[test]
    fn roles() {
        for (role, permitted, refused) in [
            (
                "read",
                &["get a", "client id", "ping"][..],
                &["set a b", "flushall", "eval x 0", "config get x"][..],
            ),
            (
                "write",
                &["set a b", "eval x 0", "flushall"],
                &["config set a b", "shutdown", "monitor", "client list"],
            ),
            ("admin", &["config set a b", "shutdown", "monitor"], &[]),
        ] {
            let user = format!("role={role}");
            for line in permitted {
                assert_eq!(denied(&user, line), None, "{role}: {line}");
            }
            for line in refused {
                assert!(matches!(denied(&user, line), Some(Denial::Command(_))), "{role}: {line}");
            }
        }
        assert_eq!(denied("role=read", "config get x"), Some(Denial::Command("config|get".into())));
    }

    #[test]
    fn categories() {
        let user = "role=admin category=string category=connection";
        assert_eq!(denied(user, "get a"), None);
        assert_eq!(denied(user, "ping"), None);
        assert_eq!(denied(user, "del a"), Some(Denial::Command("del".into())));
    }

    #[test]
    fn prefixes() {
        let user = "role=admin prefix=a: prefix=b:";
        for line in [
            "get a:1",
            "mset a:1 x b:2 y",
            "keys a:*",
            "scan 0 match b:*",
            "terrace.range [a:1 (a:9",
            "object encoding a:1",
            "subscribe a:news",
            "psubscribe b:*",
            "multi",
            "zunionstore a:1 2 a:2 b:3",
            "xread count 1 streams a:1 0",
            "sort a:1 store b:2",
            "acl whoami",
        ] {
            assert_eq!(denied(user, line), None, "{line}");
        }
        for line in [
            "get c",
            "mset a:1 x c y",
            "keys *",
            "keys [ab]*",
            "scan 0",
            "scan 0 match *",
            "scan 0 match a:* match *",
            "terrace.range - +",
            "terrace.range [a:1 [b:1",
            "object encoding c",
            "memory usage c",
            "zunionstore a:1 2 a:2 c",
            "zunionstore c 1 a:2",
            "xread count 1 streams a:1 c 0 0",
            "sort a:1 store c",
            "sort a:1 by c*",
            "eval x 1 a:1",
            "flushall",
            "dbsize",
            "randomkey",
            "swapdb 0 1",
            "monitor",
            "slowlog get",
            "config get *",
            "rename a:1 c",
            "watch c",
        ] {
            assert!(matches!(denied(user, line), Some(Denial::Key(_))), "{line}");
        }
        for line in
            ["subscribe c", "publish c x", "psubscribe *", "psubscribe [ab]*", "subscribe __keyspace@0__:a:1"]
        {
            assert!(matches!(denied(user, line), Some(Denial::Channel(_))), "{line}");
        }
    }
}
