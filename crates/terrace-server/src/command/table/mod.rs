//! Table of all commands. The server derives the lookup, errors of arity, and COMMAND from it.
//!
//! ```text
//!   supported.rs     rows with a function
//!   objects.rs       rows with a function, for types other than strings
//!   ordered.rs       rows of lists, sorted sets and geo
//!   unsupported.rs   rows of the other commands of Redis 7.0
//! ```

mod admin;
mod categories;
mod flags;
mod objects;
mod ordered;
mod supported;
mod unsupported;

use std::sync::OnceLock;

use super::{Args, Call};
use crate::failure::CommandResult;

pub(crate) use admin::is_admin;
pub(crate) use categories::{CATEGORIES, commands_of, is_in_category};
pub(crate) use flags::Flags;

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

/// Positions of the keys among the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// First key, or 0 without keys.
    pub(crate) first: usize,
    /// Last key. A negative position counts from the end.
    pub(crate) last: i32,
    pub(crate) step: usize,
}

impl Keys {
    /// True if there is always one key.
    pub(crate) fn is_single(self) -> bool {
        self.first > 0 && self.last == self.first as i32
    }

    /// Positions of the keys of a command with `len` arguments.
    pub(crate) fn positions(self, len: usize) -> impl Iterator<Item = usize> {
        let end = match usize::try_from(self.last) {
            Ok(last) => last + 1,
            Err(_) => (len + 1).saturating_sub(self.last.unsigned_abs() as usize),
        };
        let begin = if self.first == 0 { len } else { self.first };
        (begin..end.min(len)).step_by(self.step.max(1))
    }

    /// Keys of a command.
    pub(crate) fn of<'a>(self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        self.positions(args.len()).map(move |index| args.at(index))
    }
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
}

/// No keys.
const NONE: Keys = keys(0, 0, 0);
/// The first argument is the key.
const FIRST: Keys = keys(1, 1, 1);
/// All arguments are keys.
const ALL: Keys = keys(1, -1, 1);

const fn keys(first: usize, last: i32, step: usize) -> Keys {
    Keys { first, last, step }
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
    Command { name, arity, flags, keys, group, since, summary, handler: Handler::Run(function) }
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
    supported::SERVER,
    supported::TERRACE,
    ordered::LIST,
    ordered::SORTED_SET,
    ordered::GEO,
    unsupported::UNSUPPORTED,
];

/// Returns all rows.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> + Clone {
    GROUPS.iter().copied().flatten()
}

/// Number of slots of the index, a power of two and four times the number of commands.
pub(crate) const SLOTS: usize = 1024;

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

/// Returns the slot of a row in the index: a number of the command below [`SLOTS`].
pub(crate) fn slot_of(command: &Command) -> usize {
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
    fn positions_of_keys() {
        let check = |keys: Keys, len, expected: &[usize]| {
            assert_eq!(keys.positions(len).collect::<Vec<_>>(), expected);
        };
        check(NONE, 3, &[]);
        check(FIRST, 3, &[1]);
        check(ALL, 4, &[1, 2, 3]);
        check(keys(1, -1, 2), 5, &[1, 3]);
        check(keys(1, 2, 1), 3, &[1, 2]);
        check(keys(1, -2, 1), 4, &[1, 2]);
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
