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
mod attempts;
mod bitfield;
mod bitmap;
mod blocking;
mod checkpoint;
mod client;
mod command_info;
mod config;
mod connection;
mod debug;
mod dump;
mod elements;
mod execute;
mod expire;
mod geo;
mod hashes;
mod hyperloglog;
mod increment;
mod info;
mod keys;
mod latency;
mod lcs;
mod list;
mod member_list;
mod members;
mod memory;
mod module;
mod monitor;
mod multi;
mod observe;
mod permission;
mod pubsub;
mod ready;
mod registers;
mod scan;
mod script;
mod series;
mod server;
mod set;
mod sets;
mod slowlog;
mod snapshot;
mod sort;
mod sorted_set;
mod stream;
mod strings;
mod subcommand;
mod table;
mod terrace;

use crate::conn::Session;
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::shared::Shared;
use crate::store::{Entry, EventClass, Header, Object, Replaced, Scratch, ValueType, View};

pub(crate) use args::Args;
pub(crate) use execute::{execute, is_script, may_write};
pub(crate) use member_list::{MemberValue, list_members};
pub(crate) use observe::CommandGroup;
pub(crate) use series::TurnSeries;
pub(crate) use table::{
    Command, Flags, Handler, all as all_commands, all_counted, find as find_command, is_admin, slot_count,
};

/// True if `name` is a category of commands.
pub(crate) fn is_category(name: &str) -> bool {
    table::CATEGORIES.contains(&name)
}

/// Number of members of an object that a command may read on a worker.
const MAX_MEMBERS_ON_WORKER: u64 = 1000;

/// Result of the execution of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The reply is complete.
    Done,
    /// A thread that may wait for storage has to repeat the command. It had no effect and no reply.
    WouldWait,
    /// A thread for long commands has to repeat the command. It had no effect and no reply.
    IsLong,
    /// The script thread has to repeat the command. It had no effect and no reply.
    NeedsScriptThread,
    /// The turn has to repeat the commands of the series. They had no effect.
    RepeatSeries,
    /// The command waits for the end of CLIENT PAUSE. It had no effect and no reply.
    Paused,
}

impl Flow {
    /// Result of a command that failed on this thread and that another one may run, or None if the
    /// failure is its reply.
    fn on_other_thread(failure: &Failure, scratch: &Scratch) -> Option<Flow> {
        match failure {
            Failure::WouldWait if !scratch.can_wait() => Some(Flow::WouldWait),
            Failure::IsLong if !scratch.can_run_long() => Some(Flow::IsLong),
            Failure::NeedsScriptThread if !scratch.is_script_thread => Some(Flow::NeedsScriptThread),
            _ => None,
        }
    }
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

    /// Stores a string in the client's database.
    fn put_string(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
        replaced: Replaced<'_>,
    ) -> CommandResult {
        self.view.put(self.session.database, key, &Header::string(expires_at), value, replaced)
    }

    /// Deletes `key` of the client's database.
    fn delete(&mut self, key: &[u8], entry: &Entry) -> CommandResult {
        self.view.delete(self.session.database, key, Replaced::Read(Some(entry)))
    }

    /// Object at `key` in the client's database.
    fn open(&mut self, key: &[u8], value_type: ValueType) -> CommandResult<Option<Object>> {
        self.view.open_object(self.session.database, key, value_type)
    }

    /// Object at `key` in the client's database, or a new one.
    fn open_or_create(&mut self, key: &[u8], value_type: ValueType) -> CommandResult<Object> {
        self.view.open_or_create_object(self.session.database, key, value_type)
    }

    /// Stores the record of an object in the client's database.
    fn save(&mut self, key: &[u8], object: &Object) -> CommandResult {
        self.view.save_object(self.session.database, key, object)
    }

    /// Fails for a command that reads `count` members, if these are many and the thread runs no
    /// long commands.
    fn check_members_on_worker(&self, count: u64) -> CommandResult {
        check_members(&self.view, count)
    }

    /// Notes an event of `key` in the client's database. The commit publishes it.
    fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        self.view.notify(self.session.database, class, name, key);
    }

    /// Notes the event of a command that has stored a result at `key`, or has deleted the key
    /// because the result is empty.
    fn notify_stored(&mut self, class: EventClass, name: &'static str, key: &[u8], is_empty: bool) {
        if is_empty {
            self.notify(EventClass::GENERIC, "del", key);
        } else {
            self.notify(class, name, key);
        }
    }

    /// Fails unless the thread may run long commands, so that such a thread repeats the command.
    fn require_slow_pool(&self) -> CommandResult {
        if self.view.scratch.can_run_long() { Ok(()) } else { Err(Failure::IsLong) }
    }
}

/// Fails for a command that reads `count` members, if these are many and the thread runs no long
/// commands.
fn check_members(view: &View<'_>, count: u64) -> CommandResult {
    if count > MAX_MEMBERS_ON_WORKER && !view.scratch.can_run_long() {
        return Err(Failure::IsLong);
    }
    Ok(())
}
