//! Subcommands such as CONFIG GET.

use std::borrow::Cow;

use super::table::Command;
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// Number of bytes of a name, or of all arguments, that error messages show.
pub(super) const MAX_SHOWN: usize = 128;

/// Subcommand of a command.
#[derive(Debug)]
pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    /// Number of arguments with both names, or the negative minimum.
    pub(crate) arity: i32,
    pub(crate) run: fn(&mut Call<'_>, Args<'_>) -> CommandResult,
}

/// Runs the subcommand that the second argument names.
pub(crate) fn dispatch(
    call: &mut Call<'_>,
    args: Args<'_>,
    parent: &str,
    table: &[Subcommand],
) -> CommandResult {
    match find(table, args).map_err(|fault| fault.failure(parent, args))? {
        Some(row) => (row.run)(call, args),
        None => help(call, parent, table),
    }
}

/// Fault of a subcommand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SubcommandFault {
    Unknown,
    WrongArity,
}

impl SubcommandFault {
    /// Error of the command `parent`.
    pub(crate) fn failure(self, parent: &str, args: Args<'_>) -> Failure {
        let name = shown_name(args.at(1));
        Failure::reply(match self {
            SubcommandFault::Unknown => {
                let parent = parent.to_ascii_uppercase();
                format!("ERR unknown subcommand '{name}'. Try {parent} HELP.")
            }
            SubcommandFault::WrongArity => {
                let name = name.to_ascii_lowercase();
                format!("ERR wrong number of arguments for '{parent}|{name}' command")
            }
        })
    }
}

/// Error for a subcommand of `parent` with arguments that it does not know.
pub(super) fn unknown_form(args: Args<'_>, parent: &str) -> Failure {
    let name = shown_name(args.at(1));
    Failure::reply(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {parent} HELP."
    ))
}

/// Returns the part of a name that error messages show.
pub(super) fn shown_name(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(until_nul(name, MAX_SHOWN))
}

/// Returns the bytes before the first NUL, at most `max`, as Redis shows them.
pub(super) fn until_nul(bytes: &[u8], max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(max)];
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}

/// Checks the subcommand of `command` before the command is queued or run.
pub(crate) fn check(command: &Command, args: Args<'_>) -> Result<(), SubcommandFault> {
    // FUNCTION refuses some subcommands with errors of its own. COMMAND needs none.
    if command.subcommands.is_empty() || command.name == "function" || args.len() == 1 {
        return Ok(());
    }
    find(command.subcommands, args).map(|_| ())
}

/// Returns the subcommand that the second argument names, or None for HELP.
fn find<'t>(table: &'t [Subcommand], args: Args<'_>) -> Result<Option<&'t Subcommand>, SubcommandFault> {
    let is_help = args.is(1, "HELP");
    let row = table.iter().find(|row| row.name.as_bytes().eq_ignore_ascii_case(args.at(1)));
    let arity = match row {
        _ if is_help => 2,
        Some(row) => row.arity,
        None => return Err(SubcommandFault::Unknown),
    };
    match is_arity(arity, args.len()) {
        true => Ok(row.filter(|_| !is_help)),
        false => Err(SubcommandFault::WrongArity),
    }
}

/// True if a command of the arity `arity` may have `len` arguments.
pub(crate) fn is_arity(arity: i32, len: usize) -> bool {
    let min = arity.unsigned_abs() as usize;
    if arity < 0 { len >= min } else { len == min }
}

fn help(call: &mut Call<'_>, parent: &str, table: &[Subcommand]) -> CommandResult {
    call.reply.array(table.len() + 1);
    call.reply.status(&format!("{} <subcommand> [<arg> ...]. Subcommands are:", parent.to_ascii_uppercase()));
    for row in table {
        call.reply.status(&row.name.to_ascii_uppercase());
    }
    Ok(())
}
