//! Execution of a command: the rules that hold for all commands, in Redis' order.
//!
//! ```text
//!   lookup, arity, login, restrictions of the connection and the server
//!   MULTI: queue                                  EXEC: multi.rs
//!   write: pass of the gate; run; commit          read: run
//! ```

use super::attempts::Attempts;
use super::observe::show_script;
use super::permission::{Denial, denial};
use super::ready::serve_blocked;
use super::subcommand::{self, MAX_SHOWN, is_arity, shown_name, until_nul};
use super::table::{self, Command, Flags, Function, Handler};
use super::{Args, Call, Flow, TurnSeries, all_counted, multi, script};
use crate::conn::{Client, Execution, Multi, PauseKind, Session};
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::shared::{Counters, Shared};
use crate::store::{EventClass, Pass, Scratch, SyncMode, View};
use crate::users::DenialEntry;

/// Number of arguments of a command above which it runs in the slow pool.
const MAX_ARGS_ON_WORKER: usize = 2000;

/// Runs the command `args` and appends its reply.
pub(crate) fn execute<'a>(
    shared: &'a Shared,
    session: &mut Session,
    args: Args<'_>,
    scratch: &mut Scratch,
    reply: &mut Reply,
    series: &mut TurnSeries<'a>,
) -> Flow {
    let before = reply.len();
    session.execution = None;
    let known = table::find_after(session.last_command.map(|(last, _)| last), args.at(0));
    let in_series = known.is_some_and(|command| series.accepts(shared, session, command, args, scratch));
    if !in_series && series.is_open() && series.commit(shared, scratch).is_err() {
        return Flow::RepeatSeries;
    }
    let checked = check(shared, session, known, args);
    if let Ok(command) = checked
        && is_paused(shared, session, command)
    {
        return Flow::Paused;
    }
    if checked.is_err()
        && let Some(command) = known
    {
        shared.command_times.record_rejected(scratch.slot, table::counted(command, args).1);
    }
    let result = checked.and_then(|command| {
        note_command(session, command, args);
        if session.multi.is_some() && !command.flags.contains(Flags::NOT_QUEUED) {
            multi::queue(session, command, args, reply)
        } else {
            let result = if in_series {
                run_in_series(shared, session, command, args, scratch, reply, series)
            } else {
                run(shared, session, command, args, scratch, reply)
            };
            let is_failed = std::mem::take(&mut session.has_replied_error) || result.is_err();
            session.execution = Some(if is_failed { Execution::Failed } else { Execution::Done });
            result
        }
    });
    match result {
        Ok(()) => Flow::Done,
        Err(Failure::NeedsOwnBatch) => Flow::RepeatSeries,
        Err(failure) => {
            reply.truncate(before);
            Flow::on_other_thread(&failure, scratch).unwrap_or_else(|| {
                reply.error(failure.text().as_bytes());
                count_error(shared, &failure);
                Flow::Done
            })
        }
    }
}

fn note_command(session: &mut Session, command: &'static Command, args: Args<'_>) {
    let is_same = session.last_command.is_some_and(|(last, _)| std::ptr::eq(last, command));
    if !is_same || !command.subcommands.is_empty() {
        let (name, slot) = table::counted(command, args);
        session.last_command = Some((command, slot));
        *session.client.last_command.lock() = name;
    }
}

/// Counts the error reply of `failure`.
pub(super) fn count_error(shared: &Shared, failure: &Failure) {
    count_error_text(shared, &failure.text());
}

/// Counts an error reply with the text `text`.
pub(super) fn count_error_text(shared: &Shared, text: &str) {
    Counters::add(&shared.counters.errors);
    shared.error_counts.record(text);
}

/// Counts a failure of the command that `client` waits in, on the worker `thread`.
pub(super) fn count_failed(shared: &Shared, thread: usize, client: &Client) {
    let waiting = *client.last_command.lock();
    if let Some((_, _, slot)) = all_counted().find(|(name, ..)| *name == waiting) {
        shared.command_times.record_failed(thread, slot);
    }
}

/// True if `command` has to wait for the end of CLIENT PAUSE.
fn is_paused(shared: &Shared, session: &Session, command: &Command) -> bool {
    let Some(kind) = shared.pause.current_kind(|| shared.clock.monotonic()) else { return false };
    let queued = session.multi.iter().flat_map(|multi| &multi.commands);
    kind == PauseKind::All
        || may_write(command)
        || (matches!(command.handler, Handler::Exec) && queued.into_iter().any(|it| may_write(it.command)))
}

/// True if the command may write, or sends messages to other clients.
pub(crate) fn may_write(command: &Command) -> bool {
    [Flags::WRITE, Flags::MAY_WRITE, Flags::CACHES].iter().any(|flag| command.flags.contains(*flag))
        || matches!(command.name, "publish" | "spublish")
}

/// Returns the command, unless the client may not run it now. An error aborts MULTI.
fn check(
    shared: &Shared,
    session: &mut Session,
    known: Option<&'static Command>,
    args: Args<'_>,
) -> CommandResult<&'static Command> {
    let checked = check_command(shared, session, known, args);
    let Err(failure) = &checked else { return checked };
    // A client must not be left in MULTI by an EXEC that could not run.
    if known.is_some_and(|command| matches!(command.handler, Handler::Exec)) {
        let text = failure.text();
        let reason = text.strip_prefix("ERR ").unwrap_or(&text);
        let text = format!("EXECABORT Transaction discarded because of: {reason}");
        session.end_multi(shared);
        return Err(Failure::reply(text));
    }
    if let Some(multi) = &mut session.multi {
        multi.is_aborted = true;
    }
    session.should_close |= is_http(args.at(0));
    checked
}

fn check_command(
    shared: &Shared,
    session: &Session,
    known: Option<&'static Command>,
    args: Args<'_>,
) -> CommandResult<&'static Command> {
    let Some(command) = known else { return Err(unknown_command(args)) };
    if !is_arity(command.arity, args.len()) {
        let name = command.name;
        return Err(Failure::reply(format!("ERR wrong number of arguments for '{name}' command")));
    }
    subcommand::check(command, args).map_err(|fault| fault.failure(command.name, args))?;
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
            table::counted(command, args).0
        )));
    }
    script::check_busy(shared, command, args)?;
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
        client: session.client.describe(now, None),
        at: now,
        count: 0,
    });
    Failure::reply(text)
}

pub(super) fn check_writable(shared: &Shared) -> CommandResult {
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
    let name = shown_name(args.at(0));
    let mut shown = String::new();
    // Redis bounds the arguments together, and ends each one at a NUL.
    let mut len = 0;
    for arg in args.from(1) {
        if len >= MAX_SHOWN {
            break;
        }
        let arg = until_nul(arg, MAX_SHOWN - len);
        len += arg.len() + "'' ".len();
        shown += &format!("'{}' ", String::from_utf8_lossy(arg));
    }
    Failure::reply(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}

/// Runs a command outside of MULTI, again after each conflict with another front end.
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
    let is_script = command.flags.contains(Flags::SCRIPT);
    let is_write = is_script || stores(command);
    if is_script && !scratch.is_script_thread {
        return Err(Failure::NeedsScriptThread);
    }
    let is_slow = command.flags.contains(Flags::SLOW) || args.len() > MAX_ARGS_ON_WORKER;
    if is_slow && !scratch.can_run_long() {
        return Err(Failure::IsLong);
    }
    if !scratch.can_wait() && needs_shared_store(shared, command) {
        return Err(Failure::WouldWait);
    }
    if command.flags.contains(Flags::SERIES) {
        scratch.set_series_key(session.database, args.at(1));
    }
    let before = reply.len();
    let mut pass = enter_gate(shared, command, args, scratch)?;
    let has_waiters = is_write && shared.blocked.len() > 0;
    if has_waiters && shared.blocked.has_waiter(command.keys.of(args)) {
        // The command serves the clients that wait for its keys, and only then others run.
        drop(pass);
        pass = Some(enter_alone(shared, scratch)?);
    }
    let running = Running { shared, command, function, args, is_write, has_waiters };
    let mut attempts = Attempts::default();
    loop {
        let result = match pass {
            Some(_) => running.run_write(session, scratch, reply),
            None => running.run_read(session, scratch, reply),
        };
        match result {
            Err(failure) if attempts.has_another(shared, &failure) => reply.truncate(before),
            result => return result,
        }
    }
}

/// True if the command waits for the answers of a shared store.
fn needs_shared_store(shared: &Shared, command: &Command) -> bool {
    if !shared.store.is_shared() {
        return false;
    }
    let flags = [Flags::READ, Flags::WRITE, Flags::CACHES, Flags::SCRIPT];
    command.keys.first != 0 || flags.iter().any(|flag| command.flags.contains(*flag))
}

/// Command that runs outside of MULTI, on one thread.
struct Running<'r> {
    shared: &'r Shared,
    command: &'static Command,
    function: Function,
    args: Args<'r>,
    is_write: bool,
    /// True if clients wait for elements.
    has_waiters: bool,
}

impl Running<'_> {
    /// Runs the command under a pass of the gate, and commits it.
    fn run_write(&self, session: &mut Session, scratch: &mut Scratch, reply: &mut Reply) -> CommandResult {
        let &Running { shared, command, args, is_write, .. } = self;
        let before = reply.len();
        let is_script = command.flags.contains(Flags::SCRIPT);
        let mut view = match is_script {
            true => View::begin_transaction(&shared.store, scratch),
            false => View::with_pass(&shared.store, scratch),
        };
        view.want(session.database, || command.keys.of(args));
        view.note_new_watched_key(&session.store_watches, &session.mark)?;
        let mut call = Call { shared, session, view, reply };
        call.view.reports_misses = !is_write && shared.store.key_events.wants(EventClass::MISS);
        if is_script {
            show_script(shared, call.session, command, args);
        }
        (self.function)(&mut call, args)?;
        if is_write && call.view.commit()? {
            let changed = if self.has_waiters { changed_keys(&call, command) } else { Vec::new() };
            call.publish_messages();
            note_write(shared, session, before..reply.len());
            if !changed.is_empty() {
                serve_blocked(shared, scratch, changed);
            }
        } else {
            call.publish_messages();
        }
        Ok(())
    }

    /// Runs the command without locks. It writes nothing. If a writer interferes with its reads, it
    /// is repeated with a snapshot.
    fn run_read(&self, session: &mut Session, scratch: &mut Scratch, reply: &mut Reply) -> CommandResult {
        let before = reply.len();
        let shared = self.shared;
        loop {
            let mut view = View::new(&shared.store, scratch);
            view.want(session.database, || self.command.keys.of(self.args));
            view.note_new_watched_key(&session.store_watches, &session.mark)?;
            view.reports_misses = shared.store.key_events.wants(EventClass::MISS);
            view.is_repeatable = !view.reports_misses;
            match (self.function)(&mut Call { shared, session, view, reply }, self.args) {
                Err(Failure::NeedsSnapshot) => reply.truncate(before),
                result => return result,
            }
        }
    }
}

/// Runs a command as part of the series of the turn.
///
/// # Errors
///
/// [`Failure::NeedsOwnBatch`] if the series has failed. Its commands have had no effect.
fn run_in_series<'a>(
    shared: &'a Shared,
    session: &mut Session,
    command: &'static Command,
    args: Args<'_>,
    scratch: &mut Scratch,
    reply: &mut Reply,
    series: &mut TurnSeries<'a>,
) -> CommandResult {
    let Handler::Run(function) = command.handler else { return Ok(()) };
    if series.pass.is_none() {
        let pass = enter_gate(shared, command, args, scratch)?;
        // A client that waits for the key is served after its command. No other one can begin to
        // wait for the key while this thread holds the pass.
        if shared.blocked.len() > 0 && shared.blocked.has_waiter(command.keys.of(args)) {
            drop(pass);
            return run(shared, session, command, args, scratch, reply);
        }
        series.pass = pass;
    }
    let before = reply.len();
    let view = View::in_series(&shared.store, scratch);
    let result = function(&mut Call { shared, session, view, reply }, args);
    if scratch.end_series_command(result.is_ok()) {
        note_write(shared, session, before..reply.len());
    }
    if !matches!(result, Err(Failure::NeedsOwnBatch)) {
        return result;
    }
    reply.truncate(before);
    series.commit(shared, scratch).map_err(|_| Failure::NeedsOwnBatch)?;
    run(shared, session, command, args, scratch, reply)
}

/// Keys that the command has changed and clients may wait for.
fn changed_keys(call: &Call<'_>, command: &Command) -> Vec<Vec<u8>> {
    let is_any = command.keys.first == 0 && command.flags.contains(Flags::ALONE);
    if is_any { call.shared.blocked.keys() } else { call.view.changed_keys() }
}

/// Remembers the reply of a write that has to wait for a sync.
pub(super) fn note_write(shared: &Shared, session: &mut Session, reply: std::ops::Range<usize>) {
    if shared.store.durability.mode() == SyncMode::Always {
        session.write_replies.push(reply);
        session.needs_sync = true;
    }
}

/// True if the command has to run on the script thread.
pub(crate) fn is_script(args: Args<'_>) -> bool {
    table::find(args.at(0)).is_some_and(|command| command.flags.contains(Flags::SCRIPT))
}

/// True if the command may change keys.
fn stores(command: &Command) -> bool {
    command.flags.contains(Flags::WRITE) || command.flags.contains(Flags::CACHES)
}

/// True if the command reads keys, and may wait for one of them.
fn is_waiting_read(command: &Command) -> bool {
    command.flags.contains(Flags::READ) && command.flags.contains(Flags::BLOCKING)
}

/// Takes the locks that the command needs.
fn enter_gate<'a>(
    shared: &'a Shared,
    command: &Command,
    args: Args<'_>,
    scratch: &Scratch,
) -> CommandResult<Option<Pass<'a>>> {
    let gate = &shared.store.gate;
    if command.flags.contains(Flags::ALONE) {
        return enter_alone(shared, scratch).map(Some);
    }
    // A client that waits joins the queues under the locks of its keys.
    if !stores(command) && !is_waiting_read(command) {
        return Ok(None);
    }
    if command.keys.is_single() {
        let keys = [args.at(command.keys.first)];
        return wait_for_pass(shared, scratch, || gate.try_enter(scratch.slot, &keys)).map(Some);
    }
    let keys: Vec<&[u8]> = command.keys.of(args).collect();
    wait_for_pass(shared, scratch, || gate.try_enter(scratch.slot, &keys)).map(Some)
}

/// Takes the locks that EXEC needs: on a database all of them. On a shared store, the commit
/// protects the transaction, and the locks of its keys order it with the clients that wait.
pub(super) fn enter_exec<'a>(
    shared: &'a Shared,
    multi: &Multi,
    scratch: &Scratch,
) -> CommandResult<Pass<'a>> {
    if !shared.store.is_shared()
        || shared.blocked.len() > 0
        || multi.commands.iter().any(|queued| {
            queued.command.flags.contains(Flags::ALONE) || queued.command.flags.contains(Flags::SCRIPT)
        })
    {
        return enter_alone(shared, scratch);
    }
    let queued = multi.commands.iter();
    let keys: Vec<&[u8]> =
        queued.flat_map(|queued| queued.command.keys.of(Args::new(&queued.bytes, &queued.args))).collect();
    let pass = wait_for_pass(shared, scratch, || shared.store.gate.try_enter(scratch.slot, &keys))?;
    if !shared.blocked.has_waiter(keys.iter().copied()) {
        return Ok(pass);
    }
    // EXEC serves the clients that wait for its keys, and only then others run.
    drop(pass);
    enter_alone(shared, scratch)
}

/// Waits until no write command is running, and lets none start.
///
/// # Errors
///
/// As for [`wait_for_pass`].
pub(super) fn enter_alone<'a>(shared: &'a Shared, scratch: &Scratch) -> CommandResult<Pass<'a>> {
    wait_for_pass(shared, scratch, || shared.store.gate.try_enter_alone())
}

/// Repeats `try_enter` until it returns a pass. A script may hold the gate for long, so a worker
/// leaves the wait for it to the slow pool.
///
/// # Errors
///
/// A worker would wait for a script, or a script exceeds its time limit.
fn wait_for_pass<'a>(
    shared: &Shared,
    scratch: &Scratch,
    try_enter: impl Fn() -> Option<Pass<'a>>,
) -> CommandResult<Pass<'a>> {
    /// Number of attempts without a pause. Most commands that run alone are short.
    const SPINS: u32 = 100;
    /// Pause between later attempts.
    const PAUSE: std::time::Duration = std::time::Duration::from_micros(50);
    let state = &shared.scripts.run_state;
    for attempt in 0.. {
        if let Some(pass) = try_enter() {
            return Ok(pass);
        }
        if state.is_running() {
            if !scratch.can_wait() {
                return Err(Failure::WouldWait);
            }
            if !state.wait_for_end() {
                return Err(script::busy());
            }
        } else if attempt < SPINS {
            std::hint::spin_loop();
        } else {
            crate::threads::pause(PAUSE);
        }
    }
    Err(Failure::WouldWait)
}
