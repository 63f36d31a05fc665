//! Subcommands such as CONFIG GET.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

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
    if args.is(1, "HELP") {
        return help(call, args, parent, table);
    }
    let name = args.at(1);
    let found = table.iter().find(|row| row.name.as_bytes().eq_ignore_ascii_case(name));
    let Some(row) = found else {
        let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
        let parent = parent.to_ascii_uppercase();
        return Err(Failure::reply(format!("ERR unknown subcommand '{name}'. Try {parent} HELP.")));
    };
    if !is_arity(row.arity, args.len()) {
        return Err(wrong_arity(parent, row.name));
    }
    (row.run)(call, args)
}

fn wrong_arity(parent: &str, name: &str) -> Failure {
    Failure::reply(format!("ERR wrong number of arguments for '{parent}|{name}' command"))
}

/// True if a command of the arity `arity` may have `len` arguments.
pub(crate) fn is_arity(arity: i32, len: usize) -> bool {
    let min = arity.unsigned_abs() as usize;
    if arity < 0 { len >= min } else { len == min }
}

fn help(call: &mut Call<'_>, args: Args<'_>, parent: &str, table: &[Subcommand]) -> CommandResult {
    if args.len() > 2 {
        return Err(wrong_arity(parent, "help"));
    }
    call.reply.array(table.len() + 1);
    call.reply.status(&format!("{} <subcommand> [<arg> ...]. Subcommands are:", parent.to_ascii_uppercase()));
    for row in table {
        call.reply.status(&row.name.to_ascii_uppercase());
    }
    Ok(())
}
