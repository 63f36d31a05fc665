//! MODULE: the server has no modules. Clients ask for the list when they connect.

use super::subcommand::{Subcommand, dispatch};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// MODULE subcommand
pub(super) fn module(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "module", MODULE)
}

pub(super) static MODULE: &[Subcommand] = &[
    Subcommand { name: "list", arity: 2, run: list },
    Subcommand { name: "load", arity: -3, run: unsupported },
    Subcommand { name: "loadex", arity: -3, run: unsupported },
    Subcommand { name: "unload", arity: 3, run: unsupported },
];

fn list(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.array(0);
    Ok(())
}

fn unsupported(_call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    Err(Failure::reply("ERR modules are not supported by Terrace"))
}
