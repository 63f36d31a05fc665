//! Changes of single keys, each with an undo for ten seconds.
//!
//! ```text
//!   change   WATCH, DUMP ─ before ─> MULTI, SET or DEL, DUMP, EXEC ─ after
//!   undo     WATCH, DUMP: still as after? ─> MULTI, RESTORE or DEL, EXEC
//! ```
//!
//! The dumps make an undo exact for every type, and show a change by another client.

use std::collections::VecDeque;
use std::time::Duration;

use data_encoding::HEXLOWER_PERMISSIVE;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::console::run_job;
use crate::conn::{InternalClient, encode_command};
use crate::resp::DecodedReply;
use crate::shared::Shared;
use crate::store::Scratch;

/// Time for which a change can be undone.
const UNDO_TIME: Duration = Duration::from_secs(10);
/// Maximum number of changes that can be undone.
const MAX_CHANGES: usize = 64;
/// Maximum size of a value that a deletion keeps for its undo, in bytes.
const MAX_KEPT: usize = 16 << 20;

/// Changes that can be undone.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    last_id: u64,
    changes: VecDeque<Change>,
}

/// Change of a key.
#[derive(Debug, Clone)]
struct Change {
    id: u64,
    /// Monotonic time of the change.
    at: Duration,
    database: u8,
    key: Vec<u8>,
    before: KeyState,
    after: KeyState,
}

/// Value of a key in the format of DUMP, and its expiry in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyState(Option<(Vec<u8>, Option<i64>)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueChange {
    #[serde(flatten)]
    key: ChangedKey,
    #[serde(default)]
    db: u64,
    value: String,
    ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Deletion {
    #[serde(flatten)]
    key: ChangedKey,
    #[serde(default)]
    db: u64,
}

/// Key in hexadecimal digits, or the number of a long one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangedKey {
    key: Option<String>,
    key_id: Option<u64>,
}

impl ChangedKey {
    fn bytes(&self, page: &Page) -> ApiResult<Vec<u8>> {
        match (&self.key, self.key_id) {
            (Some(key), _) => hex(key),
            (None, Some(id)) => super::keys::stored_key(&page.shared.store, id),
            (None, None) => Err(ApiError::bad_request("The key is missing.")),
        }
    }
}

#[derive(Deserialize)]
struct Undo {
    undo: String,
}

/// Reason why a change did not happen.
enum Refusal {
    /// Another client has changed the key meanwhile.
    Changed,
    /// Error reply of a command.
    Reply(String),
}

type ChangeResult<T> = Result<T, Refusal>;

/// POST value
pub(super) fn set_value(page: &Page, request: &ApiRequest) -> ApiResult {
    let content: ValueChange = request.content()?;
    let value = hex(&content.value)?;
    let key = content.key.bytes(page)?;
    let ttl = content.ttl_ms.map(|ttl| ttl.to_string());
    let mut args = vec![b"SET".to_vec(), key.clone(), value];
    if let Some(ttl) = ttl {
        args.extend([b"PX".to_vec(), ttl.into_bytes()]);
    }
    change(page, content.db, key, args)
}

/// POST delete
pub(super) fn delete(page: &Page, request: &ApiRequest) -> ApiResult {
    let content: Deletion = request.content()?;
    let key = content.key.bytes(page)?;
    change(page, content.db, key.clone(), vec![b"DEL".to_vec(), key])
}

fn hex(text: &str) -> ApiResult<Vec<u8>> {
    HEXLOWER_PERMISSIVE
        .decode(text.as_bytes())
        .map_err(|_| ApiError::bad_request("A key or a value is not in hexadecimal digits."))
}

/// Runs the command `args`, which changes `key`, and keeps the state before it.
fn change(page: &Page, database: u64, key: Vec<u8>, args: Vec<Vec<u8>>) -> ApiResult {
    let count = super::keys::database_count(&page.shared.store);
    let database = u8::try_from(database).ok().filter(|database| usize::from(*database) < count);
    let database = database.ok_or_else(|| ApiError::bad_request("The database does not exist."))?;
    let changed_key = key.clone();
    let changed = run_job(page, false, move |shared, scratch| {
        with_client(shared, scratch, database, |session| {
            let before = session.watch(&changed_key)?;
            if before.0.as_ref().is_some_and(|(value, _)| value.len() > MAX_KEPT) {
                return Err(Refusal::Reply("The value exceeds 16 MiB, so an undo is impossible.".into()));
            }
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let after = session.exec(&args, &changed_key)?;
            Ok((before, after))
        })
    })?;
    let (before, after) = changed.map_err(refused)?;
    let mut log = page.undo_log.lock();
    log.last_id += 1;
    let id = log.last_id;
    if log.changes.len() == MAX_CHANGES {
        log.changes.pop_front();
    }
    let at = page.shared.clock.monotonic();
    log.changes.push_back(Change { id, at, database, key, before, after });
    Ok(json(&json!({ "undo": id.to_string() })))
}

/// POST undo
pub(super) fn undo(page: &Page, request: &ApiRequest) -> ApiResult {
    let content: Undo = request.content()?;
    let now = page.shared.clock.monotonic();
    let found = {
        let mut log = page.undo_log.lock();
        log.changes.retain(|change| now.saturating_sub(change.at) <= UNDO_TIME);
        let index = log.changes.iter().position(|change| change.id.to_string() == content.undo);
        index.and_then(|index| log.changes.remove(index))
    };
    let Some(change) = found else {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "The ten seconds are over, or the change is undone.",
        ));
    };
    let undone = run_job(page, false, move |shared, scratch| {
        with_client(shared, scratch, change.database, |session| {
            if session.watch(&change.key)? != change.after {
                return Err(Refusal::Changed);
            }
            match &change.before.0 {
                None => session.exec(&[b"DEL", &change.key], &change.key),
                Some((value, expiry)) => {
                    let expiry = expiry.unwrap_or(0).to_string();
                    let mut args: Vec<&[u8]> =
                        vec![b"RESTORE", &change.key, expiry.as_bytes(), value, b"REPLACE"];
                    if change.before.has_expiry() {
                        args.push(b"ABSTTL");
                    }
                    session.exec(&args, &change.key)
                }
            }
        })
    })?;
    undone.map_err(refused)?;
    Ok(json(&json!({})))
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::Changed => {
            ApiError::new(StatusCode::CONFLICT, "Another client has changed the key meanwhile.")
        }
        Refusal::Reply(text) => ApiError::bad_request(text),
    }
}

impl KeyState {
    /// State by the replies of DUMP and PEXPIRETIME.
    fn new(value: DecodedReply, expiry: DecodedReply) -> KeyState {
        let DecodedReply::Bulk(value) = value else { return KeyState(None) };
        let expiry = match expiry {
            DecodedReply::Integer(expiry) if expiry >= 0 => Some(expiry),
            _ => None,
        };
        KeyState(Some((value, expiry)))
    }

    fn has_expiry(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, expiry)| expiry.is_some())
    }
}

/// Client of a change.
struct ChangeSession<'a> {
    shared: &'a Shared,
    scratch: &'a mut Scratch,
    client: InternalClient,
}

fn with_client<T>(
    shared: &Shared,
    scratch: &mut Scratch,
    database: u8,
    work: impl FnOnce(&mut ChangeSession<'_>) -> ChangeResult<T>,
) -> ChangeResult<T> {
    let mut client = InternalClient::new(shared, "page");
    client.select(database);
    let mut session = ChangeSession { shared, scratch, client };
    let result = work(&mut session);
    session.client.release(shared);
    result
}

impl ChangeSession<'_> {
    fn run(&mut self, args: &[&[u8]]) -> ChangeResult<DecodedReply> {
        let reply = self.client.run(self.shared, self.scratch, encode_command(args));
        match DecodedReply::decode(&reply) {
            Some((DecodedReply::Error(text), _)) => {
                Err(Refusal::Reply(String::from_utf8_lossy(&text).into_owned()))
            }
            Some((reply, _)) => Ok(reply),
            None => Err(Refusal::Reply("The command has no reply.".into())),
        }
    }

    /// Watches `key` and returns its state.
    fn watch(&mut self, key: &[u8]) -> ChangeResult<KeyState> {
        self.run(&[b"WATCH", key])?;
        self.state(key)
    }

    fn state(&mut self, key: &[u8]) -> ChangeResult<KeyState> {
        let value = self.run(&[b"DUMP", key])?;
        let expiry = self.run(&[b"PEXPIRETIME", key])?;
        Ok(KeyState::new(value, expiry))
    }

    /// Runs a command that changes `key`, unless the watched key has changed. Returns the new state
    /// of the key.
    fn exec(&mut self, args: &[&[u8]], key: &[u8]) -> ChangeResult<KeyState> {
        for command in [&[b"MULTI" as &[u8]], args, &[b"DUMP", key], &[b"PEXPIRETIME", key]] {
            self.run(command)?;
        }
        let DecodedReply::Array(replies) = self.run(&[b"EXEC"])? else { return Err(Refusal::Changed) };
        let mut replies = replies.into_iter();
        let mut next = || replies.next().unwrap_or(DecodedReply::Null);
        if let DecodedReply::Error(text) = next() {
            return Err(Refusal::Reply(String::from_utf8_lossy(&text).into_owned()));
        }
        Ok(KeyState::new(next(), next()))
    }
}
