//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! On a database, EXEC takes the whole gate. On a shared store, it takes the locks of its keys, and
//! a conflict with another front end repeats it.
//!
//! EXEC runs the queue on one view, and commits one batch. Therefore other clients, and a crash,
//! see all of its writes or none.

use std::sync::atomic::Ordering;

use super::attempts::Attempts;
use super::execute::{count_error, enter_exec, note_write};
use super::observe::{Observed, observe};
use super::ready::serve_blocked;
use super::table::{Command, Flags, Handler, counted};
use super::{Args, Call};
use crate::conn::{Multi, QueuedCommand, Session, WatchedKey};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::shared::Shared;
use crate::store::{Allowed, Backend, EventClass, Scratch, StoreWatch, View};

/// Maximum size of the queued commands of a client, in bytes.
const MAX_QUEUE: usize = 64 << 20;
/// Number of queued commands above which EXEC runs in the slow pool.
const MAX_ON_WORKER: usize = 1000;
/// Size of the queued commands above which EXEC runs in the slow pool, in bytes.
const MAX_BYTES_ON_WORKER: usize = 1 << 20;
/// Size of the list entry of a queued command, in bytes.
const ENTRY_BYTES: usize = size_of::<QueuedCommand>();

/// MULTI
pub(super) fn multi(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    if call.session.multi.is_some() {
        return Err(Failure::reply("ERR MULTI calls can not be nested"));
    }
    call.session.multi = Some(Multi::default());
    call.session.client.queued.store(1, Ordering::Relaxed);
    call.reply.ok();
    Ok(())
}

/// DISCARD
pub(super) fn discard(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    if call.session.multi.is_none() {
        return Err(Failure::reply("ERR DISCARD without MULTI"));
    }
    call.session.end_multi(call.shared);
    call.reply.ok();
    Ok(())
}

/// WATCH key ..
pub(super) fn watch(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if call.session.multi.is_some() {
        return Err(Failure::reply("ERR WATCH inside MULTI is not allowed"));
    }
    let database = call.session.database;
    let keys = args.from(1).filter(|key| {
        !call.session.watched.iter().any(|watched| watched.watch_key == [&[database], *key].concat())
    });
    if let Some(watch) = call.view.watch_in_store(database, keys)? {
        call.session.store_watches.push(watch);
    }
    for key in args.from(1) {
        let watch_key = [&[database], key].concat();
        if call.session.watched.iter().any(|watched| watched.watch_key == watch_key) {
            continue;
        }
        call.shared.store.watch_table.insert(&watch_key, &call.session.mark);
        // The entry is in the list first, so that an error does not leave a watch.
        call.session.watched.push(WatchedKey { watch_key, expires_at: None });
        let entry = call.view.get(database, key)?;
        if let (Some(watched), Some(entry)) = (call.session.watched.last_mut(), &entry) {
            watched.expires_at = entry.expires_at();
            call.shared.store.watch_table.note_existing(&watched.watch_key, &call.session.mark);
        }
    }
    call.reply.ok();
    Ok(())
}

/// UNWATCH
pub(super) fn unwatch(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.session.unwatch(call.shared);
    call.reply.ok();
    Ok(())
}

/// Queues a command for EXEC.
pub(super) fn queue(
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    reply: &mut Reply,
) -> CommandResult {
    let client = &session.client;
    let Some(multi) = &mut session.multi else { return Ok(()) };
    let refused = if command.flags.contains(Flags::NO_MULTI) {
        Some(Failure::reply("ERR Command not allowed inside a transaction"))
    } else if multi.bytes > MAX_QUEUE {
        Some(Failure::reply("ERR the queued commands exceed 64 MiB"))
    } else {
        None
    };
    if let Some(failure) = refused {
        multi.is_aborted = true;
        return Err(failure);
    }
    let (bytes, args) = args.to_owned();
    multi.bytes += bytes.len() + size_of_val(&*args) + ENTRY_BYTES;
    multi.commands.push(QueuedCommand { command, bytes, args });
    client.queued.store(multi.commands.len() + 1, Ordering::Relaxed);
    reply.status("QUEUED");
    Ok(())
}

/// Runs the queue.
pub(super) fn exec(
    shared: &Shared,
    session: &mut Session,
    scratch: &mut Scratch,
    reply: &mut Reply,
) -> CommandResult {
    let Some(multi) = &session.multi else { return Err(Failure::reply("ERR EXEC without MULTI")) };
    if multi.is_aborted {
        session.end_multi(shared);
        return Err(Failure::reply("EXECABORT Transaction discarded because of previous errors."));
    }
    if !scratch.is_script_thread && has_flag(multi, Flags::SCRIPT) {
        return Err(Failure::NeedsScriptThread);
    }
    if !scratch.can_run_long() && is_long(multi) {
        return Err(Failure::IsLong);
    }
    if !scratch.can_wait() && would_wait(shared, multi) {
        return Err(Failure::WouldWait);
    }
    let _pass = enter_exec(shared, multi, scratch)?;
    if is_any_watched_key_changed(shared, session) {
        session.end_multi(shared);
        reply.null_array();
        return Ok(());
    }
    let watches = std::mem::take(&mut session.store_watches);
    let multi = session.end_multi(shared).unwrap_or_default();
    let before = reply.len();
    let database = session.database;
    let mut attempts = Attempts::default();
    loop {
        match run_all(shared, session, &multi, &watches, scratch, reply) {
            Ok(Some(changed)) => {
                note_write(shared, session, before..reply.len());
                serve_blocked(shared, scratch, changed);
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Err(failure) => {
                reply.truncate(before);
                if !attempts.has_another(shared, &failure) {
                    return Err(failure);
                }
                session.select(database);
            }
        }
    }
}

/// Returns true if the queue is long or has a long command.
fn is_long(multi: &Multi) -> bool {
    multi.commands.len() > MAX_ON_WORKER || multi.bytes > MAX_BYTES_ON_WORKER || has_flag(multi, Flags::SLOW)
}

/// Returns true if the queue would wait now.
fn would_wait(shared: &Shared, multi: &Multi) -> bool {
    match &shared.store.backend {
        Backend::Store(_) => !multi.commands.is_empty(),
        Backend::Database(db) => has_flag(multi, Flags::WRITE) && db.would_wait(),
    }
}

fn has_flag(multi: &Multi, flag: Flags) -> bool {
    multi.commands.iter().any(|queued| queued.command.flags.contains(flag))
}

fn is_any_watched_key_changed(shared: &Shared, session: &Session) -> bool {
    let now_ms = shared.store.now_ms();
    session.mark.load(Ordering::SeqCst)
        || session.watched.iter().any(|watched| watched.expires_at.is_some_and(|at| at <= now_ms))
}

/// Runs all queued commands on one view and commits it. Returns the changed keys that clients may
/// wait for, or None if it wrote nothing.
fn run_all(
    shared: &Shared,
    session: &mut Session,
    multi: &Multi,
    watches: &[StoreWatch],
    scratch: &mut Scratch,
    reply: &mut Reply,
) -> CommandResult<Option<Vec<Vec<u8>>>> {
    // The transaction reads files, and the gate is held, so the thread may not give up in between.
    let allowed = std::mem::replace(&mut scratch.allowed, Allowed::Long);
    let view = View::begin_transaction(&shared.store, scratch);
    let result = run_and_commit(&mut Call { shared, session, view, reply }, multi, watches);
    scratch.allowed = allowed;
    result
}

fn run_and_commit(
    call: &mut Call<'_>,
    multi: &Multi,
    watches: &[StoreWatch],
) -> CommandResult<Option<Vec<Vec<u8>>>> {
    for queued in &multi.commands {
        let args = Args::new(&queued.bytes, &queued.args);
        call.view.want(call.session.database, || queued.command.keys.of(args));
    }
    if call.view.is_watch_broken(watches)? {
        call.reply.null_array();
        return Ok(None);
    }
    call.reply.array(multi.commands.len());
    for queued in &multi.commands {
        run_queued(call, queued)?;
    }
    let is_written = call.view.commit()?;
    call.publish_messages();
    let shared = call.shared;
    let has_waiters = shared.blocked.len() > 0;
    Ok(is_written.then(|| match has_waiters {
        // Any key may exist now that did not before.
        true if call.view.has_new_spaces() => shared.blocked.keys(),
        true => call.view.changed_keys(),
        false => Vec::new(),
    }))
}

/// Runs a queued command. Its error is its reply.
///
/// # Errors
///
/// The shared store does not answer, so that EXEC as a whole has no effect.
fn run_queued(call: &mut Call<'_>, queued: &QueuedCommand) -> CommandResult {
    let before = call.reply.len();
    let args = Args::new(&queued.bytes, &queued.args);
    let is_write = queued.command.flags.contains(Flags::WRITE);
    call.view.reports_misses = !is_write && call.shared.store.key_events.wants(EventClass::MISS);
    let start = call.shared.clock.monotonic();
    let result = match queued.command.handler {
        Handler::Run(function) => function(call, args),
        Handler::Exec | Handler::Unsupported => Ok(()),
    };
    if let Err(failure @ Failure::Store(_)) = result {
        return Err(failure);
    }
    if let Err(failure) = &result {
        call.reply.truncate(before);
        call.reply.error(failure.text().as_bytes());
        count_error(call.shared, failure);
    }
    let time = call.shared.clock.monotonic().saturating_sub(start);
    let slot = counted(queued.command, args).1;
    let is_failed = std::mem::take(&mut call.session.has_replied_error) || result.is_err();
    let observed = Observed { command: queued.command, slot, time, is_failed };
    observe(call.shared, call.session, &observed, args, call.view.scratch.slot);
    Ok(())
}
