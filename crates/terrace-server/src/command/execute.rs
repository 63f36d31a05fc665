//! Execution of a command: the rules that hold for all commands, in Redis' order.
//!
//! ```text
//!   lookup, arity, login, restrictions of the connection and the server
//!   MULTI: queue                                  EXEC: multi.rs
//!   write: pass of the gate; run; commit          read: run
//! ```

use super::permission::{Denial, denial};
use super::subcommand::is_arity;
use super::table::{self, Command, Flags, Handler};
use super::{Args, Call, Flow, multi};
use crate::conn::{Execution, PauseKind, Session};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::shared::{Counters, Shared};
use crate::store::{EventClass, Pass, Scratch, SyncMode, View};
use crate::users::DenialEntry;

/// Number of arguments of a command above which it runs in the slow pool.
const MAX_ARGS_ON_WORKER: usize = 2000;

/// Runs the command `args` and appends its reply.
pub(crate) fn execute(
    shared: &Shared,
    session: &mut Session,
    args: Args<'_>,
    scratch: &mut Scratch,
    reply: &mut Reply,
) -> Flow {
    let before = reply.len();
    session.execution = None;
    let checked = check(shared, session, args);
    if let Ok(command) = checked
        && is_paused(shared, command)
    {
        return Flow::Paused;
    }
    if checked.is_err()
        && let Some(command) = table::find(args.at(0))
    {
        shared.command_times.record_rejected(scratch.slot, table::slot_of(command));
    }
    let result = checked.and_then(|command| {
        note_command(session, command);
        if session.multi.is_some() && !command.flags.contains(Flags::NOT_QUEUED) {
            multi::queue(session, command, args, reply)
        } else {
            let result = run(shared, session, command, args, scratch, reply);
            session.execution = Some(if result.is_ok() { Execution::Done } else { Execution::Failed });
            result
        }
    });
    match result {
        Ok(()) => Flow::Done,
        Err(Failure::NeedsSlowPool) if !scratch.can_wait => {
            reply.truncate(before);
            Flow::NeedsSlowPool
        }
        Err(failure) => {
            reply.truncate(before);
            reply.error(failure.text().as_bytes());
            count_error(shared, &failure);
            Flow::Done
        }
    }
}

fn note_command(session: &mut Session, command: &'static Command) {
    if !session.last_command.is_some_and(|(last, _)| std::ptr::eq(last, command)) {
        session.last_command = Some((command, table::slot_of(command)));
        *session.client.last_command.lock() = command.name;
    }
}

/// Counts the error reply of `failure`.
pub(super) fn count_error(shared: &Shared, failure: &Failure) {
    Counters::add(&shared.counters.errors);
    shared.error_counts.record(&failure.text());
}

/// True if `command` has to wait for the end of CLIENT PAUSE.
fn is_paused(shared: &Shared, command: &Command) -> bool {
    let Some(kind) = shared.pause.current_kind(|| shared.clock.monotonic()) else { return false };
    kind == PauseKind::All
        || command.flags.contains(Flags::WRITE)
        || matches!(command.name, "publish" | "spublish" | "exec")
}

/// Returns the command, unless the client may not run it now. An error aborts MULTI.
fn check(shared: &Shared, session: &mut Session, args: Args<'_>) -> CommandResult<&'static Command> {
    let checked = check_command(shared, session, args);
    if let (Err(_), Some(multi)) = (&checked, &mut session.multi) {
        multi.is_aborted = true;
    }
    session.should_close |= checked.is_err() && is_http(args.at(0));
    checked
}

fn check_command(shared: &Shared, session: &Session, args: Args<'_>) -> CommandResult<&'static Command> {
    let Some(command) = table::find(args.at(0)) else { return Err(unknown_command(args)) };
    if !is_arity(command.arity, args.len()) {
        let name = command.name;
        return Err(Failure::reply(format!("ERR wrong number of arguments for '{name}' command")));
    }
    if !session.is_authenticated && !command.flags.contains(Flags::NO_AUTH) {
        return Err(Failure::reply("NOAUTH Authentication required."));
    }
    if let Some(denial) = denial(&session.user, command, args) {
        return Err(denied(shared, session, denial));
    }
    if matches!(command.handler, Handler::Unsupported) {
        return Err(Failure::reply(format!(
            "ERR the command '{}' is not supported by Terrace",
            command.name
        )));
    }
    if session.is_subscriber_only() && !command.flags.contains(Flags::WHILE_SUBSCRIBED) {
        return Err(Failure::reply(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            command.name
        )));
    }
    if command.flags.contains(Flags::WRITE) {
        check_writable(shared)?;
    }
    Ok(command)
}

/// Records a denial and returns its error.
pub(super) fn denied(shared: &Shared, session: &Session, denial: Denial) -> Failure {
    let (reason, object, text) = match denial {
        Denial::Command(name) => {
            let text = format!("NOPERM this user has no permissions to run the '{name}' command");
            ("command", name.into_bytes(), text)
        }
        Denial::Key(key) => {
            let text = "NOPERM this user has no permissions to access one of the keys used as arguments";
            ("key", key, text.to_owned())
        }
        Denial::Channel(channel) => {
            let text = "NOPERM this user has no permissions to access one of the channels used as arguments";
            ("channel", channel, text.to_owned())
        }
    };
    let now = shared.clock.monotonic();
    shared.users.record_denial(DenialEntry {
        reason,
        object: object[..object.len().min(128)].to_vec(),
        user: session.user.name.to_string(),
        client: session.client.describe(now),
        at: now,
        count: 0,
    });
    Failure::reply(text)
}

fn check_writable(shared: &Shared) -> CommandResult {
    if shared.store.is_read_only {
        return Err(Failure::reply("READONLY You can't write against a read only database."));
    }
    match shared.store.durability.failure() {
        Some(cause) => Err(Failure::reply(format!("MISCONF Errors writing to the database: {cause}"))),
        None => Ok(()),
    }
}

/// Web browsers send these words. The connection ends, so that a page cannot send commands.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn unknown_command(args: Args<'_>) -> Failure {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(args.at(0)));
    for arg in args.from(1) {
        if text.len() >= 256 {
            break;
        }
        text += &format!("'{}' ", shown(arg));
    }
    Failure::reply(text)
}

/// Runs a command outside of MULTI.
fn run(
    shared: &Shared,
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    scratch: &mut Scratch,
    reply: &mut Reply,
) -> CommandResult {
    let function = match command.handler {
        Handler::Run(function) => function,
        Handler::Exec => return multi::exec(shared, session, scratch, reply),
        Handler::Unsupported => return Ok(()),
    };
    let is_write = command.flags.contains(Flags::WRITE);
    if !scratch.can_wait && (command.flags.contains(Flags::SLOW) || args.len() > MAX_ARGS_ON_WORKER) {
        return Err(Failure::NeedsSlowPool);
    }
    let before = reply.len();
    let _pass = enter_gate(shared, command, args, scratch.slot);
    let mut call = Call { shared, session, view: View::new(&shared.store, scratch), reply };
    call.view.reports_misses = !is_write && shared.store.key_events.wants(EventClass::MISS);
    function(&mut call, args)?;
    if is_write && call.view.commit()? {
        note_write(shared, session, before..reply.len());
    }
    Ok(())
}

/// Remembers the reply of a write that has to wait for a sync.
pub(super) fn note_write(shared: &Shared, session: &mut Session, reply: std::ops::Range<usize>) {
    if shared.store.durability.mode() == SyncMode::Always {
        session.write_replies.push(reply);
        session.needs_sync = true;
    }
}

/// Takes the locks that the command needs.
fn enter_gate<'a>(shared: &'a Shared, command: &Command, args: Args<'_>, slot: usize) -> Option<Pass<'a>> {
    let gate = &shared.store.gate;
    if command.flags.contains(Flags::ALONE) {
        return Some(gate.enter_alone());
    }
    if !command.flags.contains(Flags::WRITE) {
        return None;
    }
    if command.keys.is_single() {
        return Some(gate.enter(slot, &[args.at(command.keys.first)]));
    }
    let keys: Vec<&[u8]> = command.keys.of(args).collect();
    Some(gate.enter(slot, &keys))
}
