//! SLOWLOG: the last commands that took long.

use super::subcommand::{Subcommand, dispatch, unknown_form};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};

/// SLOWLOG subcommand
pub(super) fn slowlog(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "slowlog", SLOWLOG)
}

pub(super) static SLOWLOG: &[Subcommand] = &[
    Subcommand { name: "get", arity: -2, run: get },
    Subcommand { name: "len", arity: 2, run: len },
    Subcommand { name: "reset", arity: 2, run: reset },
];

/// SLOWLOG GET [count]
fn get(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    /// Number of entries without an argument.
    const DEFAULT: usize = 10;
    let wrong = || Failure::reply("ERR count should be greater than or equal to -1");
    let count = match args.len() {
        2 => DEFAULT,
        3 => match args.integer(2).map_err(|_| wrong())? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| wrong())?,
        },
        _ => return Err(unknown_form(args, "SLOWLOG")),
    };
    let entries = call.shared.slow_log.last(count);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.integer(entry.id as i64);
        call.reply.integer(entry.at as i64);
        call.reply.integer(entry.time.as_micros() as i64);
        call.reply.bulks(&entry.args);
        call.reply.bulk(entry.peer);
        call.reply.bulk(entry.client_name);
    }
    Ok(())
}

fn len(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.count(call.shared.slow_log.len());
    Ok(())
}

fn reset(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.shared.slow_log.reset();
    call.reply.ok();
    Ok(())
}
