//! Commands of the server: flushes, SWAPDB, TIME, SHUTDOWN and others.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::subcommand::{Subcommand, dispatch};
use super::terrace::delete_records;
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{parse_double, parse_i64};
use crate::shared::Phase;
use crate::store::{DATABASES, Layout, not_in_raw_mode};

/// TIME
pub(super) fn time(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let now = call.shared.clock.wall_us();
    call.reply.bulks(&[(now / 1_000_000).to_string(), (now % 1_000_000).to_string()]);
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC]
pub(super) fn flushdb(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let database = call.session.database;
    flush(call, args, &[database])
}

/// FLUSHALL [ASYNC | SYNC]
pub(super) fn flushall(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let all: [u8; DATABASES] = std::array::from_fn(|database| database as u8);
    flush(call, args, &all)
}

fn flush(call: &mut Call<'_>, args: Args<'_>, databases: &[u8]) -> CommandResult {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "ASYNC") && !args.is(1, "SYNC")) {
        return Err(Failure::SYNTAX);
    }
    match call.shared.store.layout {
        Layout::Raw if !call.shared.settings.fixed.is_flush_allowed => {
            return Err(Failure::reply(
                "ERR this directory belongs to another program: FLUSHALL and FLUSHDB need the option --allow-flush",
            ));
        }
        Layout::Raw => delete_records(call, Vec::new(), None)?,
        Layout::Typed => change_namespaces(call, databases)?,
    }
    call.reply.ok();
    Ok(())
}

/// Gives new namespaces to `databases`. The expiry job deletes the records of the old ones.
fn change_namespaces(call: &mut Call<'_>, databases: &[u8]) -> CommandResult {
    let store = &call.shared.store;
    let changed = watched_keys(call, databases)?;
    let spaces = store.namespaces.flush(&store.db, databases, call.view.batch_mut())?;
    call.view.set_spaces(spaces, changed);
    Ok(())
}

/// Returns the existing records of `databases` that a client watches.
fn watched_keys(call: &Call<'_>, databases: &[u8]) -> CommandResult<Vec<Vec<u8>>> {
    let store = &call.shared.store;
    let mut found = Vec::new();
    for database in databases {
        for watch_key in store.watch_table.keys_with_prefix(&[*database]) {
            let record = store.watched_record(&watch_key);
            if store.db.contains(&record)? {
                found.push(record);
            }
        }
    }
    Ok(found)
}

/// SWAPDB index1 index2
pub(super) fn swapdb(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    for (index, text) in [(1, "ERR invalid first DB index"), (2, "ERR invalid second DB index")] {
        parse_i64(args.at(index)).ok_or(Failure::reply(text))?;
    }
    let first = args.database(1)?;
    let second = args.database(2)?;
    if call.shared.store.layout == Layout::Raw {
        return Err(not_in_raw_mode("a database other than 0"));
    }
    if first != second {
        let changed = swapped_keys(call, first, second)?;
        let spaces = call.shared.store.namespaces.swap(first, second, call.view.batch_mut());
        call.view.set_spaces(spaces, changed);
    }
    call.reply.ok();
    Ok(())
}

/// Returns the watched keys of two databases that exist in one of them.
fn swapped_keys(call: &Call<'_>, first: u8, second: u8) -> CommandResult<Vec<Vec<u8>>> {
    let store = &call.shared.store;
    let mut found = Vec::new();
    for (own, other) in [(first, second), (second, first)] {
        for watch_key in store.watch_table.keys_with_prefix(&[own]) {
            let record = store.watched_record(&watch_key);
            let twin = store.watched_record(&[&[other], &watch_key[1..]].concat());
            if store.db.contains(&record)? || store.db.contains(&twin)? {
                found.push(record);
            }
        }
    }
    Ok(found)
}

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]
pub(super) fn shutdown(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.is(1, "ABORT") {
        return Err(Failure::reply("ERR No shutdown in progress."));
    }
    let words = ["NOSAVE", "SAVE", "NOW", "FORCE"];
    if (1..args.len()).any(|index| !words.iter().any(|word| args.is(index, word))) {
        return Err(Failure::SYNTAX);
    }
    if args.is(1, "NOSAVE") && call.shared.scripts.run_state.is_busy() {
        call.shared.scripts.run_state.abort();
    }
    call.shared.advance_phase(Phase::Draining);
    // The client sees the end of the connection, as in Redis.
    call.session.should_close = true;
    Ok(())
}

/// DEBUG subcommand
pub(super) fn debug(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if !call.shared.settings.fixed.is_debug_enabled {
        return Err(Failure::reply(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
        ));
    }
    dispatch(call, args, "debug", DEBUG)
}

static DEBUG: &[Subcommand] = &[
    Subcommand { name: "change-repl-id", arity: 2, run: debug_ok },
    Subcommand { name: "error", arity: 3, run: debug_error },
    Subcommand { name: "loadaof", arity: 2, run: debug_ok },
    Subcommand { name: "log", arity: 3, run: debug_ok },
    Subcommand { name: "reload", arity: -2, run: debug_ok },
    Subcommand { name: "set-active-expire", arity: 3, run: debug_expiry },
    Subcommand { name: "sleep", arity: 3, run: debug_sleep },
];

/// The database is on disk already, so a reload changes nothing.
fn debug_ok(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}

fn debug_error(_call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    Err(Failure::reply(String::from_utf8_lossy(args.at(2)).into_owned()))
}

fn debug_sleep(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    /// Maximum time, in seconds.
    const MAX: f64 = 60.0;
    let seconds = parse_double(args.at(2)).filter(|seconds| (0.0..=MAX).contains(seconds));
    let seconds = seconds.ok_or(Failure::reply("ERR value is not a valid float"))?;
    call.require_slow_pool()?;
    call.shared.clock.sleep(Duration::from_secs_f64(seconds));
    call.reply.ok();
    Ok(())
}

fn debug_expiry(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.shared.is_expiry_job_on.store(args.at(2) != b"0", Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

/// ROLE
pub(super) fn role(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.array(3);
    call.reply.bulk("master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

/// REPLICAOF NO ONE; SLAVEOF
pub(super) fn replicaof(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.is(1, "NO") && args.is(2, "ONE") {
        call.reply.ok();
        return Ok(());
    }
    Err(Failure::reply("ERR replication is not supported by Terrace"))
}

/// WAIT numreplicas timeout
pub(super) fn wait(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    args.integer(1)?;
    if args.integer(2)? < 0 {
        return Err(Failure::reply("ERR timeout is negative"));
    }
    // There are no replicas.
    call.reply.integer(0);
    Ok(())
}

/// WAITAOF numlocal numreplicas timeout: replies after a sync of all earlier writes.
pub(super) fn waitaof(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let local = args.integer(1)?;
    args.integer(2)?;
    args.integer(3)?;
    if local > 0 {
        call.session.needs_sync = true;
        let begin = call.reply.len();
        call.session.write_replies.push(begin..begin + 12);
    }
    call.reply.array(2);
    call.reply.integer(i64::from(local > 0));
    call.reply.integer(0);
    Ok(())
}
