//! Subcommands that administer the server. Redis gives them the flag `admin`.

use super::super::Args;
use super::{Command, Flags};

/// Subcommands that need the role `admin`, by command.
static ADMIN_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("acl", &["deluser", "dryrun", "getuser", "list", "load", "log", "save", "setuser", "users"]),
    ("client", &["kill", "list", "no-evict", "pause", "unblock", "unpause"]),
    ("config", &["get", "resetstat", "rewrite", "set"]),
    ("latency", &["doctor", "graph", "histogram", "history", "latest", "reset"]),
    ("module", &["list", "load", "loadex", "unload"]),
    ("slowlog", &["get", "len", "reset"]),
];

/// True if the command or its subcommand administers the server.
pub(crate) fn is_admin(command: &Command, args: Args<'_>) -> bool {
    command.flags.contains(Flags::ADMIN)
        || ADMIN_SUBCOMMANDS
            .iter()
            .any(|(name, words)| *name == command.name && words.iter().any(|word| args.is(1, word)))
}
