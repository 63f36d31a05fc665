//! Interpreter: the virtual machine of the script thread.
//!
//! Its environment is frozen and has no file, no clock and no network. Its heap is limited. An
//! interrupt at every call and loop looks for SCRIPT KILL and for the time limit, also while
//! patterns are matched. A script that fails leaves nothing to the next one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{ChunkMode, Function, Lua, LuaOptions, StdLib, Table, Value, VmState};

use super::args::{LuaArgs, Results, command_args, function, functions, returned, text_of};
use super::convert::{reply_value, value_of_reply};
use super::drand48::Drand48;
use super::nul_bytes::escape_nul_bytes;
use super::run_state::{RunState, ScriptEnd};
use super::text::{before_nul, format_argument};
use super::{Host, Script, bit, cjson, cmsgpack, structs};
use crate::resp::ArgRange;

/// Maximum size of the heap, in bytes.
const MAX_HEAP: usize = 64 << 20;
/// Size of the heap at which the collector begins again, in percent of the live part.
const GC_GOAL: i32 = 150;
/// Work of the collector, in percent of the allocated bytes.
const GC_STEP_MULTIPLIER: i32 = 200;
/// Step of the collector, in KiB. A small step would collect too little before the heap is full of
/// large strings.
const GC_STEP: i32 = 1024;
/// Size of the heap above which it is collected after a script, in bytes.
const COLLECTED_HEAP: usize = 4 << 20;
/// Size of the collected heap above which the next script gets a new virtual machine, in bytes.
const KEPT_HEAP: usize = 8 << 20;
/// Maximum number of loaded scripts. Each takes one of the interpreter's 8,000 references.
const MAX_LOADED: usize = 500;
/// Number of interrupts between two looks at the clock.
const CLOCK_PERIOD: u32 = 256;
/// Maximum size of the arguments of a command, in bytes.
const MAX_COMMAND: usize = 256 << 20;

/// Script with its keys and arguments.
pub(crate) struct Input<'a> {
    pub(crate) script: &'a Script,
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) args: &'a [&'a [u8]],
}

/// End of a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply is appended.
    Replied,
    /// Text of an error reply, which may be no UTF-8. The effects until the error remain.
    Failed(Vec<u8>),
    /// The server ends. All effects have to be discarded.
    Aborted,
}

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
    /// Random numbers. They continue in the next virtual machine.
    static RANDOM: Cell<Drand48> = const { Cell::new(Drand48::UNSEEDED) };
}

/// Runs a script on the virtual machine of this thread. [`RunState::begin`] was called.
pub(crate) fn run_on_this_thread(input: Input<'_>, state: &Arc<RunState>, host: &mut dyn Host) -> Outcome {
    VM.with_borrow_mut(|vm| {
        let result = match vm {
            Some(vm) => Ok(vm),
            None => Vm::new(state).map(|new| vm.insert(new)),
        };
        let (outcome, is_reusable) = match result {
            Ok(vm) => vm.run_script(input, host),
            Err(error) => (Outcome::Failed(format!("ERR {error}").into()), false),
        };
        if !is_reusable {
            *vm = None;
        }
        outcome
    })
}

/// State that the functions of scripts share.
struct ScriptState {
    run_state: Arc<RunState>,
    is_resp3: Cell<bool>,
    json: Rc<RefCell<cjson::Settings>>,
    interrupts: Cell<u32>,
    /// Reason why the script had to end, and its line at that moment.
    end: Cell<Option<(ScriptEnd, Option<usize>)>>,
}

struct Vm {
    lua: Lua,
    state: Rc<ScriptState>,
    environment: Table,
    run: Function,
    /// Table with the function for commands of the running script.
    slot: Table,
    loaded: HashMap<[u8; 40], Function>,
}

impl Vm {
    fn new(run_state: &Arc<RunState>) -> mlua::Result<Vm> {
        let libraries = StdLib::COROUTINE | StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::DEBUG;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let state = Rc::new(ScriptState {
            run_state: Arc::clone(run_state),
            is_resp3: Cell::new(false),
            json: Rc::default(),
            interrupts: Cell::new(0),
            end: Cell::new(None),
        });
        let compiled: Rc<RefCell<Option<Table>>> = Rc::default();
        let natives = natives(&lua, &state, &compiled)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=redis");
        let (environment, run, slot): (Table, Function, Table) = prelude.call(natives)?;
        *compiled.borrow_mut() = Some(environment.clone());
        let interrupted = Rc::clone(&state);
        lua.set_interrupt(move |lua| interrupt(lua, &interrupted));
        lua.gc_inc(GC_GOAL, GC_STEP_MULTIPLIER, GC_STEP);
        lua.set_memory_limit(MAX_HEAP)?;
        Ok(Vm { lua, state, environment, run, slot, loaded: HashMap::new() })
    }

    /// Runs a script. Returns false if the virtual machine must not run another one.
    fn run_script(&mut self, input: Input<'_>, host: &mut dyn Host) -> (Outcome, bool) {
        let sha = input.script.sha;
        self.state.is_resp3.set(false);
        self.state.json.replace(cjson::Settings::default());
        self.state.end.set(None);
        let result = self.call(input, host);
        let outcome = match (self.state.end.get(), result) {
            (Some((ScriptEnd::Aborted, _)), _) => Outcome::Aborted,
            (Some((ScriptEnd::Killed, line)), _) => {
                Outcome::Failed(located(b"ERR Script killed by user with SCRIPT KILL...", &sha, line))
            }
            (None, Ok((true, value))) => match reply_value(&value, self.state.is_resp3.get(), host.reply()) {
                Ok(()) => Outcome::Replied,
                Err(text) => Outcome::Failed(text.into()),
            },
            (None, Ok((false, error))) => Outcome::Failed(described(&error, &sha)),
            (None, Err(error)) => Outcome::Failed(format!("ERR {error}").into()),
        };
        (outcome, self.state.end.get().is_none() && self.is_heap_small())
    }

    /// Calls the script. The result is that of `run` in the prelude.
    fn call(&mut self, input: Input<'_>, host: &mut dyn Host) -> mlua::Result<(bool, Value)> {
        let script = self.load(input.script)?;
        self.environment.set_readonly(false);
        let is_set = self.set_list("KEYS", input.keys).and_then(|()| self.set_list("ARGV", input.args));
        self.environment.set_readonly(true);
        is_set?;
        let host = RefCell::new(host);
        let state = &self.state;
        self.lua.scope(|scope| {
            let command = scope.create_function(|lua, (table, len): (Table, usize)| {
                let args = command_args(lua, table, len);
                returned(lua, command(&args, state, &mut **host.borrow_mut()))
            })?;
            let check = scope.create_function(|lua, (table, len): (Table, usize)| {
                let args = command_args(lua, table, len);
                returned(lua, check(&args, &**host.borrow()))
            })?;
            self.slot.raw_set("command", command)?;
            self.slot.raw_set("check", check)?;
            self.run.call((script,))
        })
    }

    fn load(&mut self, script: &Script) -> mlua::Result<Function> {
        if let Some(loaded) = self.loaded.get(&script.sha) {
            return Ok(loaded.clone());
        }
        if self.loaded.len() >= MAX_LOADED {
            self.loaded.clear();
        }
        let chunk = self.lua.load(&*script.bytecode).set_mode(ChunkMode::Binary).set_name("=user_script");
        let function = chunk.set_environment(self.environment.clone()).into_function()?;
        self.loaded.insert(script.sha, function.clone());
        Ok(function)
    }

    fn set_list(&self, name: &str, values: &[&[u8]]) -> mlua::Result<()> {
        let list = self.lua.create_table()?;
        for (index, value) in (1..).zip(values) {
            list.raw_set(index, self.lua.create_string(value)?)?;
        }
        self.environment.raw_set(name, list)
    }

    fn is_heap_small(&self) -> bool {
        if self.lua.used_memory() <= COLLECTED_HEAP {
            return true;
        }
        self.lua.gc_collect().is_ok() && self.lua.used_memory() <= KEPT_HEAP
    }
}

/// Ends the script if another thread demands it.
fn interrupt(lua: &Lua, state: &ScriptState) -> mlua::Result<VmState> {
    let count = state.interrupts.get().wrapping_add(1);
    state.interrupts.set(count);
    if count.is_multiple_of(CLOCK_PERIOD) {
        state.run_state.check_time();
    }
    let Some(end) = state.run_state.requested_end() else { return Ok(VmState::Continue) };
    if state.end.get().is_none() {
        state.end.set(Some((end, script_line(lua))));
    }
    Err(mlua::Error::runtime("the script has to end"))
}

/// Line of the script in the innermost of its functions.
fn script_line(lua: &Lua) -> Option<usize> {
    /// Maximum number of functions to look at.
    const MAX_LEVEL: usize = 30;
    (0..MAX_LEVEL).find_map(|level| {
        lua.inspect_stack(level, |debug| {
            let is_script = debug.source().source.is_some_and(|source| source.ends_with("user_script"));
            debug.current_line().filter(|_| is_script)
        })?
    })
}

fn located(text: &[u8], sha: &[u8; 40], line: Option<usize>) -> Vec<u8> {
    let place = line.map_or_else(String::new, |line| format!(", on @user_script:{line}."));
    [before_nul(text), b" script: ", &sha[..], place.as_bytes()].concat()
}

/// Text of the error that the prelude has described.
fn described(error: &Value, sha: &[u8; 40]) -> Vec<u8> {
    match error {
        Value::Table(table) => {
            let text: mlua::Result<mlua::String> = table.raw_get("text");
            let line: Option<usize> = table.raw_get("line").unwrap_or(None);
            let text = text.map_or(b"ERR unknown error".to_vec(), |text| text.as_bytes().to_vec());
            located(&text, sha, line)
        }
        other => located(format!("ERR {}", other.to_string().unwrap_or_default()).as_bytes(), sha, None),
    }
}

/// Runs a command of the script.
fn command(args: &LuaArgs<'_>, state: &ScriptState, host: &mut dyn Host) -> Results {
    let (buffer, ranges) = encoded(args)?;
    let is_resp3 = state.is_resp3.get();
    let reply = host.command(&buffer, &ranges, is_resp3)?;
    if let Some(error) = reply.strip_prefix(b"-") {
        return Err(String::from_utf8_lossy(error).trim_end().to_owned());
    }
    Ok(value_of_reply(args.lua, reply, is_resp3).map_err(|error| format!("ERR {error}"))?.into())
}

/// redis.acl_check_cmd: returns whether the user of the script may run a command. The number of
/// arguments may be wrong for the command, as in Redis.
fn check(args: &LuaArgs<'_>, host: &dyn Host) -> Results {
    let (buffer, ranges) = encoded(args)?;
    match host.may_run(&buffer, &ranges) {
        Some(may_run) => Ok(Value::Boolean(may_run).into()),
        None => Err("ERR Invalid command passed to redis.acl_check_cmd()".into()),
    }
}

/// Returns the arguments of a command as bytes.
fn encoded(args: &LuaArgs<'_>) -> Result<(Vec<u8>, Vec<ArgRange>), String> {
    if args.len() == 0 {
        return Err("ERR Please specify at least one argument for this redis lib call".into());
    }
    let mut buffer = Vec::new();
    let mut ranges = Vec::with_capacity(args.len());
    for index in 1..=args.len() {
        let begin = buffer.len();
        match args.get(index) {
            Value::String(text) => buffer.extend_from_slice(&text.as_bytes()),
            Value::Integer(number) => buffer.extend(format_argument(number as f64).bytes()),
            Value::Number(number) => buffer.extend(format_argument(number).bytes()),
            _ => return Err("ERR Lua redis lib command arguments must be strings or integers".into()),
        }
        if buffer.len() > MAX_COMMAND {
            return Err("ERR the arguments exceed 256 MiB".into());
        }
        ranges.push((begin as u32, buffer.len() as u32));
    }
    Ok((buffer, ranges))
}

/// Creates the functions that the prelude gets.
fn natives(
    lua: &Lua,
    state: &Rc<ScriptState>,
    environment: &Rc<RefCell<Option<Table>>>,
) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    natives.raw_set("null", Value::NULL)?;
    natives.raw_set("bit", functions(lua, bit::FUNCTIONS)?)?;
    natives.raw_set("struct", functions(lua, structs::FUNCTIONS)?)?;
    natives.raw_set("cmsgpack", functions(lua, cmsgpack::FUNCTIONS)?)?;
    natives.raw_set("cjson", cjson::functions(lua, &state.json)?)?;
    natives.raw_set("find", function(lua, "find", find)?)?;
    natives.raw_set("random", function(lua, "random", random)?)?;
    natives.raw_set("randomseed", function(lua, "randomseed", randomseed)?)?;
    let redis = functions(lua, REDIS)?;
    let shared = Rc::clone(state);
    redis.raw_set("setresp", function(lua, "setresp", move |args| set_resp(args, &shared))?)?;
    natives.raw_set("redis", redis)?;
    natives.raw_set("constants", constants(lua)?)?;
    let environment = Rc::clone(environment);
    natives.raw_set(
        "compile",
        lua.create_function(move |lua, (text, name)| {
            compile(lua, text, name, environment.borrow().as_ref())
        })?,
    )?;
    Ok(natives)
}

/// Numbers in the table `redis`.
fn constants(lua: &Lua) -> mlua::Result<Table> {
    const CONSTANTS: &[(&str, i64)] = &[
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", 0x0007_000f),
    ];
    let table = lua.create_table_from(CONSTANTS.iter().copied())?;
    table.raw_set("REDIS_VERSION", "7.0.15")?;
    Ok(table)
}

/// Functions of the table `redis` without state.
static REDIS: &[(&str, super::args::Native)] = &[("sha1hex", sha1hex), ("log", log), ("set_repl", set_repl)];

fn sha1hex(args: &LuaArgs<'_>) -> Results {
    if args.len() != 1 {
        return Err("ERR wrong number of arguments".into());
    }
    args.string(&super::sha1::sha1_hex(&args.bytes(1).unwrap_or_default()))
}

/// The server has no log for scripts, so the message is only checked.
fn log(args: &LuaArgs<'_>) -> Results {
    if args.len() < 2 {
        return Err("ERR redis.log() requires two arguments or more.".into());
    }
    let Ok(level) = args.number(1) else {
        return Err("ERR First argument must be a number (log level).".into());
    };
    if !(0.0..=3.0).contains(&level) {
        return Err("ERR Invalid debug level.".into());
    }
    Ok(Value::Nil.into())
}

/// There are no replicas, so the choice has no effect.
fn set_repl(args: &LuaArgs<'_>) -> Results {
    if args.len() != 1 {
        return Err("ERR redis.set_repl() requires two arguments.".into());
    }
    match args.number(1) {
        Ok(flags) if (0.0..=3.0).contains(&flags) => Ok(Value::Nil.into()),
        _ => Err("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.".into()),
    }
}

fn set_resp(args: &LuaArgs<'_>, state: &ScriptState) -> Results {
    if args.len() != 1 {
        return Err("ERR redis.setresp() requires one argument.".into());
    }
    match args.number(1) {
        Ok(2.0) => state.is_resp3.set(false),
        Ok(3.0) => state.is_resp3.set(true),
        _ => return Err("ERR RESP version must be 2 or 3.".into()),
    }
    Ok(Value::Nil.into())
}

/// math.random([from,] [to])
fn random(args: &LuaArgs<'_>) -> Results {
    let mut generator = RANDOM.get();
    let unit = generator.next_unit();
    RANDOM.set(generator);
    let (from, to) = match args.len() {
        0 => return Ok(Value::Number(unit).into()),
        1 => (1.0, args.number(1)?.trunc()),
        2 => (args.number(1)?.trunc(), args.number(2)?.trunc()),
        _ => return Err("wrong number of arguments".into()),
    };
    if from > to {
        return Err(args.error(args.len(), "interval is empty"));
    }
    Ok(Value::Number((unit * (to - from + 1.0)).floor() + from).into())
}

fn randomseed(args: &LuaArgs<'_>) -> Results {
    RANDOM.set(Drand48::new(args.number(1)? as i32));
    Ok(Value::Nil.into())
}

/// Plain search in linear time: find(text, wanted [, position]).
fn find(args: &LuaArgs<'_>) -> Results {
    let text = args.bytes(1)?;
    let wanted = args.bytes(2)?;
    let position = args.integer_or(3, 1)?;
    let begin = if position < 0 { text.len() as i64 + position } else { position.saturating_sub(1) }.max(0);
    let begin = begin as usize;
    let found = text.get(begin..).and_then(|rest| memchr::memmem::find(rest, &wanted));
    let Some(at) = found.map(|at| at + begin) else { return Ok(Value::Nil.into()) };
    let mut results = args.list()?;
    results.push((at + 1) as f64)?;
    results.push((at + wanted.len()) as f64)?;
    results.finish()
}

/// Returns the function of the text, or nil and a message.
fn compile(
    lua: &Lua,
    text: mlua::String,
    name: Option<mlua::String>,
    environment: Option<&Table>,
) -> mlua::Result<(Option<Function>, Option<String>)> {
    /// Maximum size of a text, in bytes.
    const MAX: usize = 1 << 20;
    let (Some(environment), 0..=MAX) = (environment, text.as_bytes().len()) else {
        return Ok((None, Some("the chunk exceeds 1 MiB".into())));
    };
    let name = name.map_or_else(|| "=(load)".into(), |name| name.to_string_lossy());
    let program = match escape_nul_bytes(&text.as_bytes()) {
        Ok(program) => program.into_owned(),
        Err(fault) => return Ok((None, Some(format!("{}:{fault}", name.trim_start_matches('='))))),
    };
    let chunk = lua.load(program).set_mode(ChunkMode::Text).set_name(name);
    match chunk.set_environment(environment.clone()).into_function() {
        Ok(function) => Ok((Some(function), None)),
        Err(mlua::Error::SyntaxError { message, .. }) => Ok((None, Some(message))),
        Err(error) => Ok((None, Some(text_of(error)))),
    }
}
