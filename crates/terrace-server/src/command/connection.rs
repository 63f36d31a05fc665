//! Commands of the connection: AUTH, HELLO, PING, SELECT and others.

use std::sync::Arc;

use super::keys::existing_database;
use super::{Args, Call};
use crate::conn::{ReplyMode, is_equal};
use crate::failure::{CommandResult, Failure};
use crate::resp::parse_i64;
use crate::shared::Shared;
use crate::users::{DEFAULT_USER, DenialEntry, User};

/// Version of Redis whose replies the server gives.
pub(super) const REDIS_VERSION: &str = "7.0.15";

/// PING [message]
pub(super) fn ping(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 {
        return Err(Failure::reply("ERR wrong number of arguments for 'ping' command"));
    }
    if call.session.is_subscriber_only() {
        call.reply.array(2);
        call.reply.bulk("pong");
        call.reply.bulk(args.at(1));
    } else if args.len() == 2 {
        call.reply.bulk(args.at(1));
    } else {
        call.reply.status("PONG");
    }
    Ok(())
}

/// ECHO message
pub(super) fn echo(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    call.reply.bulk(args.at(1));
    Ok(())
}

/// QUIT
pub(super) fn quit(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.reply.ok();
    call.session.should_close = true;
    Ok(())
}

/// RESET
pub(super) fn reset(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.session.release(call.shared);
    call.session.select(0);
    call.session.set_resp3(false, call.reply);
    call.session.reply_mode = ReplyMode::On;
    call.session.client.name.lock().clear();
    let default = call.shared.users.default_user();
    call.session.log_in(default);
    call.session.is_authenticated = call.shared.needs_no_login();
    call.reply.status("RESET");
    Ok(())
}

/// SELECT index
pub(super) fn select(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let database = existing_database(call, args, 1)?;
    call.session.select(database);
    call.reply.ok();
    Ok(())
}

/// AUTH [username] password
pub(super) fn auth(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (user, password) = match args.len() {
        2 => (DEFAULT_USER.as_bytes(), args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(Failure::SYNTAX),
    };
    if args.len() == 2 && call.shared.settings.password().is_none() {
        return Err(Failure::reply(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ));
    }
    log_in(call, user, password)?;
    call.reply.ok();
    Ok(())
}

fn log_in(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> CommandResult {
    let shared = call.shared;
    let is_default = user == DEFAULT_USER.as_bytes();
    if !is_default {
        // A hash takes about 20 ms.
        call.require_slow_pool()?;
    }
    let now = shared.clock.monotonic();
    if !shared.login_attempts.permit(call.session.address, now) {
        return Err(Failure::reply("ERR too many login attempts, wait for a second"));
    }
    let found = if is_default { default_user(shared, password) } else { shared.users.verify(user, password) };
    let Some(found) = found else {
        shared.users.record_denial(DenialEntry {
            reason: "auth",
            object: b"AUTH".to_vec(),
            user: String::from_utf8_lossy(&user[..user.len().min(64)]).into_owned(),
            client: call.session.client.describe(now, None),
            at: now,
            count: 0,
        });
        return Err(Failure::reply("WRONGPASS invalid username-password pair or user is disabled."));
    };
    shared.login_attempts.take_back(call.session.address, now);
    call.session.log_in(found);
    Ok(())
}

/// Returns the default user if `password` is right.
fn default_user<'a>(shared: &'a Shared, password: &[u8]) -> Option<&'a Arc<User>> {
    let is_right = match shared.settings.password() {
        Some(expected) => is_equal(&expected, password),
        // Without a password, every one is right, as in Redis. With users, the default user has
        // none.
        None => shared.users.is_empty(),
    };
    is_right.then(|| shared.users.default_user())
}

/// HELLO [protover [AUTH username password] [SETNAME clientname]]
pub(super) fn hello(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let version = match args.get(1) {
        None => None,
        Some(text) => {
            let invalid = Failure::reply("ERR Protocol version is not an integer or out of range");
            Some(parse_i64(text).ok_or(invalid)?)
        }
    };
    if version.is_some_and(|version| !(2..=3).contains(&version)) {
        return Err(Failure::reply("NOPROTO unsupported protocol version"));
    }
    let mut name = None;
    let mut index = 2;
    while index < args.len() {
        if args.is(index, "AUTH") && index + 2 < args.len() {
            log_in(call, args.at(index + 1), args.at(index + 2))?;
            index += 3;
        } else if args.is(index, "SETNAME") && index + 1 < args.len() {
            super::client::check_name(args.at(index + 1))?;
            name = Some(args.at(index + 1));
            index += 2;
        } else {
            let option = String::from_utf8_lossy(args.at(index));
            return Err(Failure::reply(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if !call.session.is_authenticated {
        return Err(Failure::reply(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        *call.session.client.name.lock() = name.to_vec();
    }
    if let Some(version) = version {
        call.session.set_resp3(version == 3, call.reply);
    }
    reply_hello(call);
    Ok(())
}

fn reply_hello(call: &mut Call<'_>) {
    let reply = &mut *call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("proto");
    reply.integer(if call.session.is_resp3 { 3 } else { 2 });
    reply.bulk("id");
    reply.integer(call.session.client.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name);
        reply.bulk(value);
    }
    reply.bulk("modules");
    reply.array(0);
}
