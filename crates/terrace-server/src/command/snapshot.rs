//! TERRACE.SNAPSHOT: many reads of one state.

use std::time::Duration;

use super::execute::denied;
use super::permission::denial;
use super::subcommand::{Subcommand, dispatch, is_arity};
use super::table::{Flags, Handler, find};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_u64;
use crate::store::{MAX_SNAPSHOT_TIME, OpenSnapshot};

/// TERRACE.SNAPSHOT subcommand
pub(super) fn snapshot(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "terrace.snapshot", SNAPSHOT)
}

pub(super) static SNAPSHOT: &[Subcommand] = &[
    Subcommand { name: "close", arity: 3, run: close },
    Subcommand { name: "open", arity: -2, run: open },
    Subcommand { name: "read", arity: -4, run: read },
];

/// OPEN [seconds]: replies the number of the snapshot.
fn open(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let time = match args.get(2) {
        None => MAX_SNAPSHOT_TIME,
        Some(text) => {
            Duration::from_secs(parse_u64(text).ok_or(Failure::NOT_AN_INTEGER)?).min(MAX_SNAPSHOT_TIME)
        }
    };
    let shared = call.shared;
    let now = shared.clock.monotonic();
    shared.snapshots.close_ended(now);
    let store = &shared.store;
    let opened = shared.snapshots.open(store.db()?, store.layout, store.now_ms(), now + time)?;
    let id = opened.ok_or(Failure::reply("ERR 64 snapshots are open"))?;
    call.reply.integer(id as i64);
    Ok(())
}

/// CLOSE id
fn close(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let id = parse_u64(args.at(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let is_closed = call.shared.snapshots.close(id);
    call.reply.integer(i64::from(is_closed));
    Ok(())
}

/// READ id command [arg ..]
fn read(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let snapshot = find_snapshot(call, args)?;
    let inner = args.skip(3);
    let command = find(inner.at(0)).ok_or(Failure::reply("ERR Invalid command specified"))?;
    if !is_arity(command.arity, inner.len()) {
        let name = command.name;
        return Err(Failure::reply(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let is_read = command.flags.contains(Flags::READ) && !command.flags.contains(Flags::WRITE);
    let Handler::Run(function) = command.handler else { return Err(not_a_read(command.name)) };
    if !is_read || call.view.is_transaction() {
        return Err(not_a_read(command.name));
    }
    if let Some(denial) = denial(&call.session.user, command, inner) {
        return Err(denied(call.shared, call.session, denial));
    }
    if command.flags.contains(Flags::SLOW) {
        call.require_slow_pool()?;
    }
    call.view.show_snapshot(&snapshot);
    function(call, inner)
}

fn find_snapshot(call: &Call<'_>, args: Args<'_>) -> CommandResult<OpenSnapshot> {
    call.shared.snapshots.close_ended(call.shared.clock.monotonic());
    let id = parse_u64(args.at(2)).ok_or(Failure::NOT_AN_INTEGER)?;
    let found = call.shared.snapshots.get(id);
    found.ok_or(Failure::reply("ERR no such snapshot: it was closed, or its time has ended"))
}

fn not_a_read(name: &str) -> Failure {
    Failure::reply(format!("ERR TERRACE.SNAPSHOT READ runs commands that only read, and not '{name}'"))
}
