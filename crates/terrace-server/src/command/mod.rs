//! Commands: a table, the rules that hold for all of them, and one file per group.
//!
//! ```text
//!   table     one row per command: name, arity, flags, keys, function
//!   execute   lookup, arity, login, MULTI, locks, commit
//!   strings, keys, ..   functions of the commands
//! ```
//!
//! A new command is one row and one function. A new type of values is one file.

mod acl;
mod args;
mod checkpoint;
mod client;
mod command_info;
mod config;
mod connection;
mod execute;
mod expire;
mod increment;
mod info;
mod keys;
mod latency;
mod lcs;
mod memory;
mod monitor;
mod multi;
mod observe;
mod permission;
mod pubsub;
mod scan;
mod server;
mod set;
mod slowlog;
mod snapshot;
mod strings;
mod subcommand;
mod table;
mod terrace;

use crate::conn::Session;
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::shared::Shared;
use crate::store::{Entry, EventClass, Header, View};

pub(crate) use args::Args;
pub(crate) use execute::execute;
pub(crate) use observe::CommandGroup;
pub(crate) use table::{Command, SLOTS, all as all_commands, slot_of};

/// True if `name` is a category of commands.
pub(crate) fn is_category(name: &str) -> bool {
    table::CATEGORIES.contains(&name)
}

/// Result of the execution of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The reply is complete.
    Done,
    /// A thread of the slow pool has to repeat the command. It had no effect and no reply.
    NeedsSlowPool,
    /// The command waits for the end of CLIENT PAUSE. It had no effect and no reply.
    Paused,
}

/// Execution of a command: its client, its reads and writes, its reply.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) session: &'a mut Session,
    pub(crate) view: View<'a>,
    pub(crate) reply: &'a mut Reply,
}

impl Call<'_> {
    /// Entry of `key` in the client's database.
    fn get(&mut self, key: &[u8]) -> CommandResult<Option<Entry>> {
        self.view.get(self.session.database, key)
    }

    /// String at `key` in the client's database.
    fn get_string(&mut self, key: &[u8]) -> CommandResult<Option<Entry>> {
        self.view.get_string(self.session.database, key)
    }

    /// Stores a string in the client's database. `old` is the entry that it replaces, if the
    /// command has read it.
    fn put_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
        old: Option<&Entry>,
    ) -> CommandResult {
        let old_expiry = old.and_then(Entry::expires_at);
        self.view.put(self.session.database, key, &Header::string(expires_at), value, old_expiry)
    }

    /// Deletes `key` of the client's database.
    fn delete(&mut self, key: &[u8], entry: &Entry) -> CommandResult {
        self.view.delete(self.session.database, key, entry.expires_at())
    }

    /// Notes an event of `key` in the client's database. The commit publishes it.
    fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        self.view.notify(self.session.database, class, name, key);
    }

    /// Fails on a worker, so that a thread of the slow pool repeats the command.
    fn require_slow_pool(&self) -> CommandResult {
        if self.view.scratch.can_wait { Ok(()) } else { Err(Failure::NeedsSlowPool) }
    }
}
