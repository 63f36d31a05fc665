//! Categories of commands, as ACL CAT lists them.

use super::{Command, Flags, Handler, all};
use crate::command::Args;

/// All categories, in the order of ACL CAT.
pub(crate) static CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// True if `command` with the arguments `args` is in the category `category`.
pub(crate) fn is_in_category(command: &Command, args: Option<Args<'_>>, category: &str) -> bool {
    let has = |flag| command.flags.contains(flag);
    let is_admin = has(Flags::ADMIN) || args.is_some_and(|args| super::is_admin(command, args));
    match category {
        "read" => has(Flags::READ),
        "write" => has(Flags::WRITE),
        "fast" => has(Flags::FAST),
        "slow" => !has(Flags::FAST),
        // ROLE needs no role `admin`, because clients that look for a master send it.
        "admin" => is_admin || command.name == "role",
        "set" | "sortedset" | "list" if command.name.starts_with("sort") => true,
        "dangerous" => is_admin || has(Flags::DANGEROUS),
        "blocking" => has(Flags::BLOCKING),
        "connection" => command.group == category || matches!(command.name, "command" | "wait"),
        "keyspace" => {
            command.group == "generic" && !matches!(command.name, "wait" | "sort" | "sort_ro")
                || matches!(command.name, "dbsize" | "flushall" | "flushdb" | "swapdb")
        }
        "sortedset" => command.group == "sorted_set",
        "transaction" => command.group == "transactions",
        category => command.group == category,
    }
}

/// Commands of a category. Commands without a function are left out.
pub(crate) fn commands_of(category: &str) -> impl Iterator<Item = &'static Command> {
    all().filter(move |command| {
        !matches!(command.handler, Handler::Unsupported) && is_in_category(command, None, category)
    })
}
