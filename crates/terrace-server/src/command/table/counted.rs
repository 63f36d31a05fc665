//! Slots of the counts of commands and subcommands.
//!
//! ```text
//!   get, set, ..                      slot of the index, below SLOTS
//!   config|get, config|help, ..       SLOTS, SLOTS + 1, ..
//! ```
//!
//! A container, such as CONFIG, has counts only for calls without a known subcommand.

use std::sync::OnceLock;

use super::super::Args;
use super::{Command, SLOTS, all, slot_of};

/// Command or subcommand with counts of its own.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Name in lower case, with that of the container: `config|get`.
    pub(crate) name: String,
    pub(crate) command: &'static Command,
    pub(crate) slot: usize,
}

impl Counted {
    /// Name without that of the container.
    fn subcommand(&self) -> &[u8] {
        self.name.as_bytes().get(self.command.name.len() + 1..).unwrap_or_default()
    }
}

/// Subcommands of all containers, in the order of the table.
fn subcommands() -> &'static [Counted] {
    static SUBCOMMANDS: OnceLock<Vec<Counted>> = OnceLock::new();
    SUBCOMMANDS.get_or_init(|| {
        let containers = all().filter(|command| !command.subcommands.is_empty());
        let names = containers.flat_map(|command| {
            let names = command.subcommands.iter().map(|row| row.name).chain(["help"]);
            names.map(move |name| (command, format!("{}|{name}", command.name)))
        });
        let rows = names.enumerate();
        rows.map(|(index, (command, name))| Counted { name, command, slot: SLOTS + index }).collect()
    })
}

/// Number of slots.
pub(crate) fn slot_count() -> usize {
    SLOTS + subcommands().len()
}

/// Returns all commands and subcommands.
pub(crate) fn all_counted() -> impl Iterator<Item = (&'static str, &'static Command, usize)> {
    let commands = all().map(|command| (command.name, command, slot_of(command)));
    commands.chain(subcommands().iter().map(|row| (row.name.as_str(), row.command, row.slot)))
}

/// Returns the full name and the slot of the command with the arguments `args`.
pub(crate) fn counted(command: &'static Command, args: Args<'_>) -> (&'static str, usize) {
    let found = match command.subcommands {
        [] => None,
        _ => subcommands().iter().find(|row| {
            std::ptr::eq(row.command, command) && row.subcommand().eq_ignore_ascii_case(args.at(1))
        }),
    };
    found.map_or_else(|| (command.name, slot_of(command)), |row| (row.name.as_str(), row.slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::find;

    #[test]
    fn subcommands_have_slots_of_their_own() {
        let counted = |line: &'static str| {
            let begin = line.find(' ').map_or(line.len(), |space| space + 1);
            let ranges =
                [(0, line.find(' ').unwrap_or(line.len()) as u32), (begin as u32, line.len() as u32)];
            let args = Args::new(line.as_bytes(), &ranges);
            super::counted(find(args.at(0)).unwrap(), args)
        };
        assert_eq!(counted("CONFIG Get").0, "config|get");
        assert_eq!(counted("config help").0, "config|help");
        assert_eq!(counted("config x").0, "config");
        assert_eq!(counted("get config").0, "get");
        assert!(counted("config get").1 >= SLOTS && counted("config get").1 < slot_count());
        let mut slots: Vec<usize> = all_counted().map(|(_, _, slot)| slot).collect();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "{slots:?}");
    }
}
