//! Scripts: Lua programs that a client sends, and that run commands.
//!
//! ```text
//!   cache        scripts by the hash of their text, as bytecode
//!   run_state    the running script: its time limit, SCRIPT KILL, the end of the server
//!   vm           the interpreter Luau, on the script thread only
//!   prelude.lua  the environment of scripts: no file, no clock, no network
//!   nul_bytes    NUL bytes in the text of a script
//!   convert      replies to Lua values, and Lua values to replies
//!   cjson, cmsgpack, bit, struct   libraries of Redis
//! ```
//!
//! This module knows no client and no store. A script reaches them through [`Host`].

mod args;
mod bit;
mod cache;
mod cjson;
mod cmsgpack;
mod convert;
mod drand48;
mod json_reader;
mod nul_bytes;
mod run_state;
mod sha1;
mod text;
mod vm;

#[path = "struct.rs"]
mod structs;

pub(crate) use cache::{Script, ScriptCache};
pub(crate) use run_state::RunState;
pub(crate) use sha1::sha1_hex;
pub(crate) use vm::{Input, Outcome, run_on_this_thread};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use terrace_env::Clock;
use terrace_sync::native_locks::Mutex;

use crate::resp::{ArgRange, Reply};

/// Commands that a script runs.
pub(crate) trait Host {
    /// Runs the command with the arguments at `ranges` of `buffer`, and returns its reply in the
    /// version of the protocol that the script has chosen. The error is the text of an error reply.
    fn command(&mut self, buffer: &[u8], ranges: &[ArgRange], is_resp3: bool) -> Result<&[u8], String>;

    /// Returns whether the user of the script may run the command with the arguments at `ranges` of
    /// `buffer`, or None if there is no such command. Runs and records nothing.
    fn may_run(&self, buffer: &[u8], ranges: &[ArgRange]) -> Option<bool>;

    /// Reply of the script, in the version of the client.
    fn reply(&mut self) -> &mut Reply;
}

/// Scripts of the server.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// False with `--scripts off`.
    pub(crate) is_enabled: bool,
    /// True while scripts may run DEBUG, for Redis' own test suite.
    pub(crate) is_debug_permitted: AtomicBool,
    pub(crate) cache: Mutex<ScriptCache>,
    pub(crate) run_state: Arc<RunState>,
}

impl Scripts {
    /// Creates the state without scripts.
    pub(crate) fn new(is_enabled: bool, clock: Arc<dyn Clock>) -> Scripts {
        Scripts {
            is_enabled,
            is_debug_permitted: AtomicBool::new(false),
            cache: Mutex::default(),
            run_state: Arc::new(RunState::new(clock)),
        }
    }
}
