//! Table of all commands. The server derives the lookup, errors of arity, and COMMAND from it.
//!
//! ```text
//!   supported.rs     rows with a function
//!   objects.rs       rows with a function, for types other than strings
//!   ordered.rs       rows of lists, sorted sets and geo
//!   server.rs        rows of the server, and beyond Redis
//!   streams.rs       rows of streams
//!   key_positions.rs positions of the keys among the arguments; key_access.rs: their use
//!   unsupported.rs   rows of the other commands of Redis 7.0
//!   counted.rs       slots of the counts of commands and subcommands
//! ```

mod admin;
mod categories;
mod counted;
mod flags;
mod key_access;
mod key_positions;
mod objects;
mod ordered;
mod server;
mod streams;
mod supported;
mod unsupported;

use std::sync::OnceLock;

use super::subcommand::Subcommand;
use super::{Args, Call};
use crate::failure::CommandResult;

pub(crate) use admin::is_admin;
pub(crate) use categories::{CATEGORIES, commands_of, is_in_category};
pub(crate) use counted::{all_counted, counted, slot_count};
pub(crate) use flags::Flags;
pub(crate) use key_access::key_access;
pub(crate) use key_positions::Keys;
use key_positions::{ALL, FIRST, MoreKeys, NONE, keys};

/// Function of a command.
pub(super) type Function = fn(&mut Call<'_>, Args<'_>) -> CommandResult;

/// Execution of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Handler {
    Run(Function),
    /// EXEC, which runs other commands.
    Exec,
    Unsupported,
}

/// Row of the table.
#[derive(Debug)]
pub(crate) struct Command {
    /// Name in lower case.
    pub(crate) name: &'static str,
    /// Number of arguments with the name, or the negative minimum.
    pub(crate) arity: i32,
    pub(crate) flags: Flags,
    pub(crate) keys: Keys,
    pub(crate) group: &'static str,
    /// Version of Redis that introduced it; for commands beyond Redis, version of Terrace.
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) handler: Handler,
    pub(crate) subcommands: &'static [Subcommand],
}

impl Command {
    /// Returns the row of a container.
    const fn with(self, subcommands: &'static [Subcommand]) -> Command {
        Command { subcommands, ..self }
    }

    /// True if the arguments, and not only their positions, tell where the keys are.
    pub(crate) fn has_movable_keys(&self) -> bool {
        self.keys.is_movable() || ["migrate", "sort_ro"].contains(&self.name)
    }

    /// True if the command changes the subscriptions of the client.
    pub(crate) fn changes_subscriptions(&self) -> bool {
        self.flags.contains(flags::PUBSUB.and(Flags::WHILE_SUBSCRIBED))
    }
}

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    keys: Keys,
    group: &'static str,
    since: &'static str,
    summary: &'static str,
    function: Function,
) -> Command {
    Command {
        name,
        arity,
        flags,
        keys,
        group,
        since,
        summary,
        handler: Handler::Run(function),
        subcommands: &[],
    }
}

const fn unsupported(
    name: &'static str,
    arity: i32,
    flags: Flags,
    keys: Keys,
    group: &'static str,
    since: &'static str,
) -> Command {
    Command {
        name,
        arity,
        flags,
        keys,
        group,
        since,
        summary: "Not supported",
        handler: Handler::Unsupported,
        subcommands: &[],
    }
}

static GROUPS: &[&[Command]] = &[
    supported::STRING,
    supported::BITMAP,
    supported::HYPERLOGLOG,
    supported::GENERIC,
    objects::HASH,
    objects::SET,
    objects::GENERIC,
    supported::TRANSACTIONS,
    supported::PUBSUB,
    supported::CONNECTION,
    supported::SCRIPTING,
    server::SERVER,
    server::TERRACE,
    ordered::LIST,
    ordered::SORTED_SET,
    ordered::GEO,
    streams::STREAM,
    unsupported::UNSUPPORTED,
];

/// Returns all rows.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> + Clone {
    GROUPS.iter().copied().flatten()
}

/// Number of slots of the index of commands, a power of two and four times the number of commands.
const SLOTS: usize = 1024;

/// Open-addressing hash table of the rows.
static INDEX: OnceLock<Vec<Option<&'static Command>>> = OnceLock::new();

/// Returns the command with the name `name`, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let index = INDEX.get_or_init(build_index);
    let mut slot = hash(name);
    loop {
        let command = index[slot % SLOTS]?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot += 1;
    }
}

/// Returns the command with the name `name` for a client whose last command was `last`. Most
/// commands are the same as the last one, and a comparison costs a sixth of a lookup.
pub(super) fn find_after(last: Option<&'static Command>, name: &[u8]) -> Option<&'static Command> {
    last.filter(|last| last.name.as_bytes().eq_ignore_ascii_case(name)).or_else(|| find(name))
}

/// Returns the slot of a row in the index: a number of the command below [`SLOTS`].
fn slot_of(command: &Command) -> usize {
    let index = INDEX.get_or_init(build_index);
    let mut slot = hash(command.name.as_bytes());
    // Every row is in the index.
    while !index[slot % SLOTS].is_some_and(|found| std::ptr::eq(found, command)) {
        slot += 1;
    }
    slot % SLOTS
}

fn build_index() -> Vec<Option<&'static Command>> {
    let mut index = vec![None; SLOTS];
    for command in all() {
        let mut slot = hash(command.name.as_bytes());
        while index[slot % SLOTS].is_some() {
            slot += 1;
        }
        index[slot % SLOTS] = Some(command);
    }
    index
}

/// Hash of a name, the same for both cases of its letters.
fn hash(name: &[u8]) -> usize {
    let hash = name.iter().fold(name.len() as u32, |hash, byte| {
        (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193).rotate_left(5)
    });
    hash as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found() {
        for command in all() {
            let found = find(command.name.to_ascii_uppercase().as_bytes());
            assert!(found.is_some_and(|found| std::ptr::eq(found, command)), "{}", command.name);
        }
        assert!(find(b"").is_none() && find(b"gett").is_none());
    }

    #[test]
    fn all_commands_of_redis_have_a_row() {
        let count = all().filter(|command| command.group != "terrace").count();
        assert_eq!(count, 240);
    }

    #[test]
    fn writes_without_keys_run_alone() {
        for command in all().filter(|command| !matches!(command.handler, Handler::Unsupported)) {
            let is_write = command.flags.contains(Flags::WRITE);
            let is_locked = command.keys != NONE || command.flags.contains(Flags::ALONE);
            assert!(!is_write || is_locked, "{}", command.name);
        }
    }
}
