//! CLIENT and its subcommands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::execute::{count_error_text, count_failed};
use super::subcommand::{Subcommand, dispatch, unknown_form};
use super::{Args, Call};
use crate::conn::{Client, ClientType, PauseKind, ReplyMode, Unblocked};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, parse_i64};

/// CLIENT subcommand
pub(super) fn client(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    dispatch(call, args, "client", CLIENT)
}

pub(super) static CLIENT: &[Subcommand] = &[
    Subcommand { name: "caching", arity: 3, run: caching },
    Subcommand { name: "getname", arity: 2, run: getname },
    Subcommand { name: "getredir", arity: 2, run: getredir },
    Subcommand { name: "id", arity: 2, run: id },
    Subcommand { name: "info", arity: 2, run: info },
    Subcommand { name: "kill", arity: -3, run: kill },
    Subcommand { name: "list", arity: -2, run: list },
    Subcommand { name: "no-evict", arity: 3, run: no_evict },
    Subcommand { name: "pause", arity: -3, run: pause },
    Subcommand { name: "reply", arity: 3, run: reply },
    Subcommand { name: "setinfo", arity: 4, run: ok },
    Subcommand { name: "setname", arity: 3, run: setname },
    Subcommand { name: "tracking", arity: -3, run: tracking },
    Subcommand { name: "trackinginfo", arity: 2, run: trackinginfo },
    Subcommand { name: "unblock", arity: -3, run: unblock },
    Subcommand { name: "unpause", arity: 2, run: unpause },
];

fn ok(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.ok();
    Ok(())
}

/// CLIENT NO-EVICT ON | OFF
fn no_evict(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if !args.is(2, "ON") && !args.is(2, "OFF") {
        return Err(Failure::SYNTAX);
    }
    call.session.client.is_kept.store(args.is(2, "ON"), Ordering::Relaxed);
    ok(call, args)
}

/// CLIENT PAUSE milliseconds [WRITE | ALL]
fn pause(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let ms = parse_i64(args.at(2)).ok_or(Failure::reply("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| Failure::reply("ERR timeout is negative"))?;
    let kind = match args.len() {
        3 => PauseKind::All,
        4 if args.is(3, "ALL") => PauseKind::All,
        4 if args.is(3, "WRITE") => PauseKind::Write,
        5.. => return Err(unknown_form(args, "CLIENT")),
        _ => return Err(Failure::reply("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let now = call.shared.clock.monotonic();
    call.shared.pause.begin(kind, now.saturating_add(Duration::from_millis(ms)), now);
    ok(call, args)
}

/// CLIENT UNPAUSE
fn unpause(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.shared.pause.end();
    ok(call, args)
}

fn id(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.integer(call.session.client.id as i64);
    Ok(())
}

fn getname(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let name = call.session.client.name.lock().clone();
    call.reply.optional_bulk(Some(&*name).filter(|name| !name.is_empty()));
    Ok(())
}

fn setname(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    check_name(args.at(2))?;
    *call.session.client.name.lock() = args.at(2).to_vec();
    ok(call, args)
}

/// Checks the name of a client.
pub(super) fn check_name(name: &[u8]) -> CommandResult {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err(Failure::reply("ERR Client names cannot contain spaces, newlines or special characters."))
}

fn info(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let text = call.session.client.describe(call.shared.clock.monotonic(), Some(args.encoded_len())) + "\n";
    call.reply.verbatim(&text);
    Ok(())
}

fn list(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut clients = call.shared.clients.all();
    if args.len() == 4 && args.is(2, "TYPE") {
        let wanted = client_type(args.at(3))?;
        clients.retain(|client| Some(client.client_type()) == wanted);
    } else if args.len() > 3 && args.is(2, "ID") {
        let ids: Option<Vec<i64>> = args.from(3).map(parse_i64).collect();
        let ids = ids.ok_or(Failure::reply("ERR Invalid client ID"))?;
        clients.retain(|client| i64::try_from(client.id).is_ok_and(|id| ids.contains(&id)));
    } else if args.len() != 2 {
        return Err(Failure::SYNTAX);
    }
    let now = call.shared.clock.monotonic();
    let lines = clients.iter().map(|client| {
        let is_caller = Arc::ptr_eq(client, &call.session.client);
        client.describe(now, is_caller.then(|| args.encoded_len())) + "\n"
    });
    let text: String = lines.collect();
    call.reply.verbatim(&text);
    Ok(())
}

/// Returns the type with the name `name`. No client here is a replica.
fn client_type(name: &[u8]) -> CommandResult<Option<ClientType>> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Some(ClientType::Normal)),
        b"pubsub" => Ok(Some(ClientType::PubSub)),
        b"master" | b"replica" | b"slave" => Ok(None),
        _ => {
            let name = String::from_utf8_lossy(name);
            Err(Failure::reply(format!("ERR Unknown client type '{name}'")))
        }
    }
}

/// Conditions of CLIENT KILL.
#[derive(Default)]
struct KillFilter<'a> {
    id: Option<u64>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    client_type: Option<Option<ClientType>>,
    user: Option<&'a [u8]>,
    spares_caller: bool,
}

impl KillFilter<'_> {
    fn is_match(&self, client: &Client, caller: &Client) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.peer.is_none_or(|peer| peer == client.peer.as_bytes())
            && self.local.is_none_or(|local| local == client.local.as_bytes())
            && self.client_type.is_none_or(|wanted| wanted == Some(client.client_type()))
            && self.user.is_none_or(|user| user == client.user.lock().as_bytes())
            && !(self.spares_caller && client.id == caller.id)
    }
}

fn kill(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_old_form = args.len() == 3;
    let filter = if is_old_form {
        KillFilter { peer: Some(args.at(2)), ..KillFilter::default() }
    } else {
        kill_filter(call, args)?
    };
    let mut clients = call.shared.clients.all();
    clients.retain(|client| filter.is_match(client, &call.session.client));
    for client in &clients {
        if Arc::ptr_eq(client, &call.session.client) {
            // The caller still gets the reply.
            call.session.should_close = true;
        } else {
            client.kill();
        }
    }
    match (is_old_form, clients.len()) {
        (true, 0) => return Err(Failure::reply("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, count) => call.reply.count(count),
    }
    Ok(())
}

fn known_user<'a>(call: &Call<'_>, name: &'a [u8]) -> CommandResult<&'a [u8]> {
    match call.shared.users.find(name) {
        Some(_) => Ok(name),
        None => Err(Failure::reply(format!("ERR No such user '{}'", String::from_utf8_lossy(name)))),
    }
}

fn kill_filter<'a>(call: &Call<'_>, args: Args<'a>) -> CommandResult<KillFilter<'a>> {
    let mut filter = KillFilter { spares_caller: true, ..KillFilter::default() };
    if args.len() % 2 == 1 {
        return Err(Failure::SYNTAX);
    }
    for index in (2..args.len()).step_by(2) {
        let value = args.at(index + 1);
        if args.is(index, "ID") {
            let text = "ERR client-id should be greater than 0";
            let id = parse_i64(value).filter(|id| *id > 0).ok_or(Failure::reply(text))?;
            filter.id = Some(id.unsigned_abs());
        } else if args.is(index, "ADDR") {
            filter.peer = Some(value);
        } else if args.is(index, "LADDR") {
            filter.local = Some(value);
        } else if args.is(index, "TYPE") {
            filter.client_type = Some(client_type(value)?);
        } else if args.is(index, "SKIPME") {
            if !args.is(index + 1, "YES") && !args.is(index + 1, "NO") {
                return Err(Failure::SYNTAX);
            }
            filter.spares_caller = args.is(index + 1, "YES");
        } else if args.is(index, "USER") {
            filter.user = Some(known_user(call, value)?);
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(filter)
}

fn reply(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.is(2, "ON") {
        call.session.reply_mode = ReplyMode::On;
        call.reply.ok();
    } else if args.is(2, "OFF") {
        call.session.reply_mode = ReplyMode::Off;
    } else if args.is(2, "SKIP") {
        if call.session.reply_mode != ReplyMode::Off {
            call.session.reply_mode = ReplyMode::SkipBoth;
        }
    } else {
        return Err(Failure::SYNTAX);
    }
    Ok(())
}

/// CLIENT TRACKING ON | OFF [option ..]
fn tracking(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    check_tracking_options(call, args)?;
    if args.is(2, "OFF") {
        return ok(call, args);
    }
    Err(match args.is(2, "ON") {
        true => Failure::reply("ERR client-side caching (CLIENT TRACKING ON) is not supported by Terrace"),
        false => Failure::SYNTAX,
    })
}

fn check_tracking_options(call: &Call<'_>, args: Args<'_>) -> CommandResult {
    let flags = ["BCAST", "OPTIN", "OPTOUT", "NOLOOP"];
    let mut index = 3;
    while index < args.len() {
        let has_value = index + 1 < args.len();
        if args.is(index, "REDIRECT") && has_value {
            let id = args.integer(index + 1)?;
            let clients = call.shared.clients.all();
            if !clients.iter().any(|client| i64::try_from(client.id) == Ok(id)) {
                return Err(Failure::reply("ERR The client ID you want redirect to does not exist"));
            }
            index += 2;
        } else if args.is(index, "PREFIX") && has_value {
            index += 2;
        } else if flags.iter().any(|flag| args.is(index, flag)) {
            index += 1;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(())
}

fn caching(_call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    Err(Failure::reply(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    ))
}

fn trackinginfo(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk("flags");
    reply.set(1);
    reply.bulk("off");
    reply.bulk("redirect");
    reply.integer(-1);
    reply.bulk("prefixes");
    reply.array(0);
    Ok(())
}

fn getredir(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.integer(-1);
    Ok(())
}

fn unblock(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let is_error = match args.len() {
        3 => false,
        5.. => return Err(unknown_form(args, "CLIENT")),
        _ if args.is(3, "TIMEOUT") => false,
        _ if args.is(3, "ERROR") => true,
        _ => return Err(Failure::reply("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = args.integer(2)?;
    let waiter = u64::try_from(id).ok().and_then(|id| call.shared.blocked.of_client(id));
    let waiter = waiter.filter(|waiter| call.shared.blocked.claim(waiter));
    if let Some(waiter) = &waiter {
        let mut reply = Reply::new();
        reply.set_resp3(waiter.is_resp3);
        if is_error {
            let text = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
            reply.error(text.as_bytes());
            count_error_text(call.shared, text);
            count_failed(call.shared, call.view.scratch.slot, &waiter.client);
        } else {
            reply.null_array();
        }
        waiter.client.unblock(Unblocked {
            reply: reply.into_bytes(),
            needs_sync: false,
            time: Duration::ZERO,
        });
    }
    call.reply.integer(i64::from(waiter.is_some()));
    Ok(())
}
