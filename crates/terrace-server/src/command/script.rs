//! EVAL and its variants, SCRIPT, FUNCTION.
//!
//! A script runs on the script thread, like EXEC: it holds the gate alone, its commands see its
//! writes, and one batch commits them. A script that fails keeps the effects until its error.

use std::sync::atomic::Ordering;

use super::execute::{check_writable, count_error_text, denied, may_write};
use super::observe::{Observed, observe_in_script};
use super::permission::denial;
use super::stream::may_wait;
use super::subcommand::{self, Subcommand, SubcommandFault, dispatch, is_arity, unknown_form};
use super::table::{self, Command, Flags, Handler};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::resp::{ArgRange, Reply};
use crate::script::{Host, Input, Outcome, Script, run_on_this_thread};
use crate::shared::Shared;

/// Size of a script above which SCRIPT LOAD compiles it in the slow pool, in bytes.
const MAX_COMPILED_ON_WORKER: usize = 4 << 10;
/// Length of the hash of a script as text. Redis looks for no script with another one.
const HASH_LEN: usize = 40;

/// Refuses a command while a script exceeds its time limit.
pub(super) fn check_busy(shared: &Shared, command: &Command, args: Args<'_>) -> CommandResult {
    let is_allowed = !shared.scripts.run_state.is_busy()
        || command.flags.contains(Flags::ALLOW_BUSY)
        || (command.name == "script" && args.is(1, "KILL"))
        || (command.name == "function" && args.is(1, "KILL"))
        || (command.name == "shutdown" && args.len() == 2 && args.is(1, "NOSAVE"));
    if is_allowed { Ok(()) } else { Err(busy()) }
}

/// Error of a client that would have to wait for a script.
pub(super) fn busy() -> Failure {
    Failure::reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
}

/// EVAL script numkeys [key ..] [arg ..]
pub(super) fn eval(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    eval_text(call, args, false)
}

/// EVAL_RO script numkeys [key ..] [arg ..]
pub(super) fn eval_ro(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    eval_text(call, args, true)
}

fn eval_text(call: &mut Call<'_>, args: Args<'_>, is_read_only: bool) -> CommandResult {
    let keys = key_count(call, args)?;
    let script = call.shared.scripts.cache.lock().insert(&args[1]).map_err(Failure::reply)?;
    run(call, args, keys, &script, is_read_only)
}

/// EVALSHA sha1 numkeys [key ..] [arg ..]
pub(super) fn evalsha(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    eval_hash(call, args, false)
}

/// EVALSHA_RO sha1 numkeys [key ..] [arg ..]
pub(super) fn evalsha_ro(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    eval_hash(call, args, true)
}

fn eval_hash(call: &mut Call<'_>, args: Args<'_>, is_read_only: bool) -> CommandResult {
    let no_script = || Failure::reply("NOSCRIPT No matching script. Please use EVAL.");
    require_scripts(call)?;
    if args[1].len() != HASH_LEN {
        return Err(no_script());
    }
    let keys = key_count(call, args)?;
    let script = call.shared.scripts.cache.lock().get(&args[1]).ok_or_else(no_script)?;
    run(call, args, keys, &script, is_read_only)
}

/// Checks the number of keys.
fn key_count(call: &Call<'_>, args: Args<'_>) -> CommandResult<usize> {
    require_scripts(call)?;
    let count = args.integer(2)?;
    let count = usize::try_from(count).map_err(|_| Failure::reply("ERR Number of keys can't be negative"))?;
    if count > args.len() - 3 {
        return Err(Failure::reply("ERR Number of keys can't be greater than number of args"));
    }
    Ok(count)
}

fn require_scripts(call: &Call<'_>) -> CommandResult {
    if call.shared.scripts.is_enabled {
        return Ok(());
    }
    Err(Failure::reply("ERR scripts are disabled: the server runs with --scripts off"))
}

fn run(
    call: &mut Call<'_>,
    args: Args<'_>,
    keys: usize,
    script: &Script,
    is_read_only: bool,
) -> CommandResult {
    if is_read_only && script.has_flags && !script.is_read_only {
        return Err(Failure::reply("ERR Can not execute a script with write flag using *_ro command."));
    }
    if script.has_flags && !script.is_read_only {
        check_writable(call.shared)?;
    }
    let shared = call.shared;
    let state = &shared.scripts.run_state;
    let database = call.session.database;
    let client_is_resp3 = call.reply.is_resp3();
    let begin = call.reply.len();
    let is_read_only = is_read_only || script.is_read_only;
    let mut host = CallHost { call, begin, client_is_resp3, is_read_only, counted_error: None };
    let script_args: Vec<&[u8]> = args.from(3).collect();
    let (keys, script_args) = script_args.split_at(keys);
    let input = Input { script, keys, args: script_args };
    state.begin();
    let outcome = run_on_this_thread(input, state, &mut host);
    let counted = host.counted_error.take();
    state.end();
    let count_new_error = |text: &str| {
        if !counted.is_some_and(|counted| text.starts_with(&counted)) {
            count_error_text(shared, text);
        }
    };
    if call.session.database != database {
        call.session.select(database);
    }
    match outcome {
        Outcome::Replied => {
            if let Some(text) = call.reply.as_bytes()[begin..].strip_prefix(b"-") {
                call.session.has_replied_error = true;
                count_new_error(&String::from_utf8_lossy(text.trim_ascii_end()));
            }
        }
        // No failure of the command: its effects are committed.
        Outcome::Failed(text) => {
            call.session.has_replied_error = true;
            call.reply.truncate(begin);
            call.reply.error(&text);
            count_new_error(&String::from_utf8_lossy(&text));
        }
        Outcome::Aborted => return Err(Failure::reply("ERR the server ends, the script has no effect")),
    }
    Ok(())
}

/// Commands of a script, run for the client that sent it.
struct CallHost<'c, 'a> {
    call: &'c mut Call<'a>,
    /// Length of the client's replies before the script.
    begin: usize,
    client_is_resp3: bool,
    is_read_only: bool,
    /// Last error of a command. It is counted already, although the script may return it.
    counted_error: Option<String>,
}

impl CallHost<'_, '_> {
    /// Returns the function of the command, unless a script may not run it now.
    fn check(&self, args: Args<'_>) -> CommandResult<&'static Command> {
        const UNKNOWN: &str = "ERR Unknown Redis command called from script";
        const WRONG_ARITY: &str = "ERR Wrong number of args calling Redis command from script";
        let command = table::find(args.at(0)).ok_or(Failure::reply(UNKNOWN))?;
        if !is_arity(command.arity, args.len()) {
            return Err(Failure::reply(WRONG_ARITY));
        }
        subcommand::check(command, args).map_err(|fault| match fault {
            SubcommandFault::Unknown => Failure::reply(UNKNOWN),
            SubcommandFault::WrongArity => Failure::reply(WRONG_ARITY),
        })?;
        let session = &self.call.session;
        if let Some(denial) = denial(&session.user, command, args) {
            // Recorded for ACL LOG.
            denied(self.call.shared, session, denial);
            return Err(Failure::reply(
                "ERR The user executing the script can't run this command or subcommand",
            ));
        }
        let scripts = &self.call.shared.scripts;
        let is_debug = command.name == "debug" && scripts.is_debug_permitted.load(Ordering::Relaxed);
        if command.flags.contains(Flags::NO_SCRIPT) && !is_debug {
            return Err(Failure::reply("ERR This Redis command is not allowed from script"));
        }
        if command.group == "stream" && command.flags.contains(Flags::BLOCKING) && may_wait(args)? {
            let name = String::from_utf8_lossy(args.at(0));
            return Err(Failure::reply(format!(
                "ERR {name} command is not allowed with BLOCK option from scripts"
            )));
        }
        if self.is_read_only && may_write(command) {
            return Err(Failure::reply("ERR Write commands are not allowed from read-only scripts."));
        }
        if command.flags.contains(Flags::WRITE) {
            check_writable(self.call.shared)?;
            if !self.call.shared.scripts.run_state.begin_write() {
                return Err(Failure::reply("ERR Script killed by user with SCRIPT KILL..."));
            }
        }
        Ok(command)
    }
}

impl CallHost<'_, '_> {
    /// Runs a command. Its reply follows those before the script.
    fn run(&mut self, args: Args<'_>, is_resp3: bool) -> Result<(), String> {
        let checked = self.check(args);
        if let (Err(_), Some(known)) = (&checked, table::find(args.at(0))) {
            let times = &self.call.shared.command_times;
            times.record_rejected(self.call.view.scratch.slot, table::counted(known, args).1);
        }
        let command = checked.map_err(|failure| failure.text().into_owned())?;
        let Handler::Run(function) = command.handler else {
            return Err(format!("ERR the command '{}' is not supported by Terrace", command.name));
        };
        self.call.reply.truncate(self.begin);
        self.call.reply.set_resp3(is_resp3);
        let clock = &self.call.shared.clock;
        let start = clock.monotonic();
        let result = function(self.call, args);
        self.call.reply.set_resp3(self.client_is_resp3);
        let time = clock.monotonic().saturating_sub(start);
        let slot = table::counted(command, args).1;
        let observed = Observed { command, slot, time, is_failed: result.is_err() };
        observe_in_script(self.call.shared, self.call.session, &observed, args, self.call.view.scratch.slot);
        result.map_err(|failure| failure.text().into_owned())
    }
}

impl Host for CallHost<'_, '_> {
    fn command(&mut self, buffer: &[u8], ranges: &[ArgRange], is_resp3: bool) -> Result<&[u8], String> {
        if let Err(text) = self.run(Args::new(buffer, ranges), is_resp3) {
            count_error_text(self.call.shared, &text);
            self.counted_error = Some(text.clone());
            return Err(text);
        }
        Ok(&self.call.reply.as_bytes()[self.begin..])
    }

    fn may_run(&self, buffer: &[u8], ranges: &[ArgRange]) -> Option<bool> {
        let args = Args::new(buffer, ranges);
        let command = table::find(args.at(0))?;
        let has_subcommand = !command.subcommands.is_empty() && args.len() > 1;
        if has_subcommand && table::counted(command, args).0 == command.name {
            return None;
        }
        Some(denial(&self.call.session.user, command, args).is_none())
    }

    fn reply(&mut self) -> &mut Reply {
        self.call.reply.truncate(self.begin);
        self.call.reply
    }
}

/// SCRIPT subcommand
pub(super) fn script(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    require_scripts(call)?;
    dispatch(call, args, "script", SCRIPT)
}

pub(super) static SCRIPT: &[Subcommand] = &[
    Subcommand { name: "debug", arity: 3, run: debug },
    Subcommand { name: "exists", arity: -3, run: exists },
    Subcommand { name: "flush", arity: -2, run: flush },
    Subcommand { name: "kill", arity: 2, run: kill },
    Subcommand { name: "load", arity: 3, run: load },
];

fn debug(_call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if !["YES", "SYNC", "NO"].iter().any(|word| args.is(2, word)) {
        return Err(Failure::reply("ERR Use SCRIPT DEBUG YES/SYNC/NO"));
    }
    Err(Failure::reply("ERR the debugger of scripts is not supported by Terrace"))
}

fn exists(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let cache = call.shared.scripts.cache.lock();
    call.reply.array(args.len() - 2);
    for sha in args.from(2) {
        call.reply.integer(i64::from(cache.get(sha).is_some()));
    }
    Ok(())
}

fn flush(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    check_flush(args, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    call.shared.scripts.cache.lock().clear();
    call.reply.ok();
    Ok(())
}

fn check_flush(args: Args<'_>, text: &'static str) -> CommandResult {
    match args.len() {
        2 => Ok(()),
        3 if args.is(2, "SYNC") || args.is(2, "ASYNC") => Ok(()),
        _ => Err(Failure::reply(text)),
    }
}

fn kill(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    call.shared.scripts.run_state.kill().map_err(Failure::reply)?;
    call.reply.ok();
    Ok(())
}

fn load(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.at(2).len() > MAX_COMPILED_ON_WORKER {
        call.require_slow_pool()?;
    }
    let script = call.shared.scripts.cache.lock().insert(args.at(2)).map_err(Failure::reply)?;
    call.reply.bulk(script.sha);
    Ok(())
}

/// FUNCTION subcommand: there are no functions.
pub(super) fn function(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let unsupported = ["DELETE", "DUMP", "LOAD", "RESTORE"];
    if unsupported.iter().any(|word| args.is(1, word)) {
        return Err(Failure::reply("ERR functions are not supported by Terrace, use EVAL"));
    }
    dispatch(call, args, "function", FUNCTION)
}

pub(super) static FUNCTION: &[Subcommand] = &[
    Subcommand { name: "flush", arity: -2, run: function_flush },
    Subcommand { name: "kill", arity: 2, run: kill },
    Subcommand { name: "list", arity: -2, run: function_list },
    Subcommand { name: "stats", arity: 2, run: function_stats },
];

fn function_flush(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 3 {
        return Err(unknown_form(args, "FUNCTION"));
    }
    check_flush(args, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    call.reply.ok();
    Ok(())
}

/// FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]
fn function_list(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let mut wants_code = false;
    let mut has_name = false;
    let mut index = 2;
    while index < args.len() {
        if !wants_code && args.is(index, "WITHCODE") {
            wants_code = true;
            index += 1;
        } else if !has_name && args.is(index, "LIBRARYNAME") {
            if index + 1 == args.len() {
                return Err(Failure::reply("ERR library name argument was not given"));
            }
            has_name = true;
            index += 2;
        } else {
            let argument = String::from_utf8_lossy(args.at(index));
            return Err(Failure::reply(format!("ERR Unknown argument {argument}")));
        }
    }
    call.reply.array(0);
    Ok(())
}

fn function_stats(call: &mut Call<'_>, _args: Args<'_>) -> CommandResult {
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk("running_script");
    reply.null();
    reply.bulk("engines");
    reply.map(1);
    reply.bulk("LUA");
    reply.map(2);
    for name in ["libraries_count", "functions_count"] {
        reply.bulk(name);
        reply.integer(0);
    }
    Ok(())
}
