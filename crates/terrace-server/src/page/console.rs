//! Console: runs one command as a client inside of the server.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::keys::database_count;
use super::value::bytes;
use crate::command::{Args, Command, Flags, find_command, is_admin, is_script, may_write};
use crate::conn::{InternalClient, encode_command};
use crate::resp::{ArgRange, DecodedReply, Limits, Parser, Step};
use crate::shared::Shared;
use crate::store::Scratch;

/// Time that a command of the page may take.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Maximum size of a reply in a response, in bytes.
const MAX_REPLY: usize = 2 << 20;
/// Commands that change the state of a connection, which a single command of the page lacks.
static CONNECTION_COMMANDS: &[&str] = &[
    "asking",
    "auth",
    "discard",
    "exec",
    "hello",
    "monitor",
    "multi",
    "quit",
    "readonly",
    "readwrite",
    "reset",
    "select",
    "unwatch",
    "watch",
];
/// Administrative subcommands that change nothing.
static HARMLESS_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("acl", &["getuser", "list", "log", "users"]),
    ("client", &["list"]),
    ("config", &["get"]),
    ("latency", &["doctor", "graph", "histogram", "history", "latest"]),
    ("slowlog", &["get", "len"]),
];

#[derive(Deserialize)]
struct ConsoleLine {
    line: String,
    #[serde(default)]
    db: u8,
}

/// Command as the protocol encodes it, with the positions of its arguments.
struct EncodedCommand {
    bytes: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl EncodedCommand {
    /// Splits a line into arguments. None for an empty line. The error is the text of a reply.
    fn parse(line: &str) -> Result<Option<EncodedCommand>, String> {
        let line = line.trim();
        if line.starts_with('*') || line.contains('\n') {
            return Err("ERR a command is one line".into());
        }
        let mut inline = [line.as_bytes(), b"\r\n"].concat();
        let Some(words) = arguments(&mut inline)? else { return Ok(None) };
        let words = Args::new(&inline, &words);
        // In this form, a turn does not look for quotes again.
        let mut bytes = encode_command(&words.from(0).collect::<Vec<_>>());
        let ranges = arguments(&mut bytes)?.unwrap_or_default();
        Ok(Some(EncodedCommand { bytes, ranges }))
    }

    fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.ranges)
    }
}

/// Positions of the arguments of the command in `bytes`, or None without a command.
fn arguments(bytes: &mut [u8]) -> Result<Option<Vec<ArgRange>>, String> {
    let mut parser = Parser::new();
    match parser.advance(bytes, &Limits::AFTER_LOGIN) {
        Ok(Step::Command) => Ok(Some(parser.args().to_vec())),
        Ok(_) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// POST console
pub(super) fn console(page: &Page, request: &ApiRequest) -> ApiResult {
    let content: ConsoleLine = request.content()?;
    if usize::from(content.db) >= database_count(&page.shared.store) {
        return Err(ApiError::bad_request("The database does not exist."));
    }
    let reply = match EncodedCommand::parse(&content.line) {
        Ok(None) => DecodedReply::Null,
        Ok(Some(command)) => match check(page, command.args()) {
            Ok(()) => run(page, content.db, command)?,
            Err(reason) => DecodedReply::Error(reason.into_bytes()),
        },
        Err(reason) => DecodedReply::Error(reason.into_bytes()),
    };
    Ok(json(&json!({ "reply": reply_json(&reply) })))
}

/// Checks whether the page may run the command.
fn check(page: &Page, args: Args<'_>) -> Result<(), String> {
    // The server reports an unknown command.
    let Some(command) = find_command(args.at(0)) else { return Ok(()) };
    let needs_connection = CONNECTION_COMMANDS.contains(&command.name)
        || command.flags.contains(Flags::BLOCKING)
        || command.changes_subscriptions()
        || (command.name == "client"
            && !is_any(args, 1, &["getname", "id", "info", "kill", "list", "pause", "unpause"]));
    if needs_connection {
        return Err(format!(
            "ERR '{}' needs a connection of its own, which the console has not",
            command.name
        ));
    }
    if changes_something(command, args) && !page.can_write() {
        return Err(format!(
            "ERR '{}' may change something: the server was started without --page-writes",
            command.name
        ));
    }
    Ok(())
}

fn is_any(args: Args<'_>, index: usize, words: &[&str]) -> bool {
    words.iter().any(|word| args.is(index, word))
}

/// True if the command may change data or the server.
fn changes_something(command: &Command, args: Args<'_>) -> bool {
    if may_write(command) || command.flags.contains(Flags::SCRIPT) || command.name == "script" {
        return true;
    }
    let is_harmless = command.flags.contains(Flags::READ)
        || ["info", "role"].contains(&command.name)
        || HARMLESS_SUBCOMMANDS.iter().any(|(name, words)| *name == command.name && is_any(args, 1, words));
    !is_harmless && (is_admin(command, args) || command.flags.contains(Flags::DANGEROUS))
}

/// Runs a command in the slow pool, or on the script thread.
fn run(page: &Page, database: u8, command: EncodedCommand) -> ApiResult<DecodedReply> {
    let is_script = is_script(command.args());
    let bytes = run_job(page, is_script, move |shared, scratch| {
        let mut client = InternalClient::new(shared, "page");
        client.select(database);
        let reply = client.run(shared, scratch, command.bytes);
        client.release(shared);
        reply
    })?;
    if bytes.len() > MAX_REPLY {
        return Ok(DecodedReply::Error(b"ERR the reply exceeds 2 MiB".to_vec()));
    }
    Ok(DecodedReply::decode(&bytes).map_or(DecodedReply::Null, |(reply, _)| reply))
}

/// Runs a job on a thread of the server that may wait and write, and waits for its result.
pub(super) fn run_job<T: Send + 'static>(
    page: &Page,
    is_script: bool,
    job: impl FnOnce(&Shared, &mut Scratch) -> T + Send + 'static,
) -> ApiResult<T> {
    let shared = Arc::clone(&page.shared);
    let (sender, receiver) = mpsc::sync_channel(1);
    let queue = if is_script { &page.shared.script_queue } else { &page.shared.slow_pool };
    queue.submit_long(move |scratch| {
        // The page may have stopped to wait.
        let _ = sender.send(job(&shared, scratch));
    });
    receiver.recv_timeout(MAX_TIME).map_err(|_| {
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, "The command takes longer than 10 s; it continues.")
    })
}

/// JSON of a reply.
fn reply_json(reply: &DecodedReply) -> Value {
    match reply {
        DecodedReply::Status(text) => json!({ "status": String::from_utf8_lossy(text) }),
        DecodedReply::Error(text) => json!({ "error": String::from_utf8_lossy(text) }),
        DecodedReply::Integer(number) => json!({ "integer": number }),
        DecodedReply::Bulk(content) => json!({ "bulk": bytes(content) }),
        DecodedReply::Array(items) => json!({ "array": items.iter().map(reply_json).collect::<Vec<_>>() }),
        DecodedReply::Null => json!({ "null": true }),
    }
}
