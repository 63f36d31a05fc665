//! Commands of the server: flushes, SWAPDB, TIME, SHUTDOWN and others.

use super::terrace::delete_records;
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_i64;
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
        Layout::Raw if call.view.is_transaction() => {
            return Err(Failure::reply("ERR not in raw mode: FLUSHALL and FLUSHDB within MULTI or scripts"));
        }
        Layout::Raw => delete_records(call, Vec::new(), None)?,
        Layout::Typed => call.view.flush_databases(databases)?,
    }
    call.reply.ok();
    Ok(())
}

/// SWAPDB index1 index2
pub(super) fn swapdb(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    for (index, text) in [(1, "ERR invalid first DB index"), (2, "ERR invalid second DB index")] {
        let number = parse_i64(args.at(index)).and_then(|number| i32::try_from(number).ok());
        number.ok_or(Failure::reply(text))?;
    }
    let first = args.database(1)?;
    let second = args.database(2)?;
    if call.shared.store.layout == Layout::Raw {
        return Err(not_in_raw_mode("a database other than 0"));
    }
    if first != second {
        call.view.swap_databases(first, second)?;
    }
    call.reply.ok();
    Ok(())
}

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]
pub(super) fn shutdown(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let has = |word: &str| (1..args.len()).any(|index| args.is(index, word));
    let words = ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"];
    let is_known = (1..args.len()).all(|index| words.iter().any(|word| args.is(index, word)));
    let is_abort = has("ABORT");
    let is_abort_of_options = is_abort && words[..4].iter().any(|word| has(word));
    if !is_known || is_abort_of_options || (has("NOSAVE") && has("SAVE")) {
        return Err(Failure::SYNTAX);
    }
    if is_abort {
        return Err(Failure::reply("ERR No shutdown in progress."));
    }
    if args.is(1, "NOSAVE") && call.shared.scripts.run_state.is_busy() {
        call.shared.scripts.run_state.abort();
    }
    call.shared.advance_phase(Phase::Draining);
    // The client sees the end of the connection, as in Redis.
    call.session.should_close = true;
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
    let invalid = Failure::reply("ERR timeout is not an integer or out of range");
    if parse_i64(args.at(2)).ok_or(invalid)? < 0 {
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
