//! State of the server, and the history of its figures.

use std::time::Duration;

use serde_json::json;

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::history::{COLUMNS, Row};
use super::keys::database_count;
use crate::command::{Flags, Handler, all_commands};
use crate::store::{Allowed, KeyRange, Scratch, View};

/// Character that separates the parts of keys in the tree.
pub(super) const SEPARATOR: &str = ":";

/// GET state
pub(super) fn state(page: &Page, _request: &ApiRequest) -> ApiResult {
    let shared = &page.shared;
    let store = &shared.store;
    let path = &shared.settings.fixed.dir;
    let name =
        std::path::Path::new(path).file_name().map_or(path.as_str().into(), |name| name.to_string_lossy());
    let age = shared.clock.monotonic().saturating_sub(shared.started_at);
    let started_at = Duration::from_micros(shared.clock.wall_us()).saturating_sub(age);
    let commands = all_commands().filter(|command| !matches!(command.handler, Handler::Unsupported));
    let commands: Vec<_> = commands
        .map(|command| {
            json!({
                "name": command.name,
                "summary": command.summary,
                "arity": command.arity,
                "group": command.group,
                "write": command.flags.contains(Flags::WRITE),
            })
        })
        .collect();
    Ok(json(&json!({
        "name": name,
        "path": path,
        "layout": store.layout.name(),
        "comparator": store.comparator().name(),
        "readOnly": store.is_read_only,
        "follower": store.is_follower,
        "pageWrites": page.can_write(),
        "version": env!("CARGO_PKG_VERSION"),
        "startedAt": started_at.as_millis() as u64,
        "sync": if store.is_read_only { "read-only".into() } else { store.durability.mode().to_string() },
        "separator": SEPARATOR,
        "databases": databases(page)?,
        "memoryLimit": store.db().ok().and_then(|db| db.stats().memory.limit),
        "commands": commands,
    })))
}

/// Databases with a key. Database 0 is always among them.
fn databases(page: &Page) -> ApiResult<Vec<u8>> {
    let store = &page.shared.store;
    let mut found = Vec::new();
    for database in 0..database_count(store) as u8 {
        let mut scratch = Scratch::new(0, Allowed::Long);
        let mut view = View::new(store, &mut scratch);
        if database == 0 || view.scan(database, KeyRange::all())?.next()?.is_some() {
            found.push(database);
        }
    }
    Ok(found)
}

/// GET history?range=hour|week
pub(super) fn history(page: &Page, request: &ApiRequest) -> ApiResult {
    let (step, rows) = match request.query.text("range").unwrap_or("hour") {
        "hour" => (1, page.history.lock().hour()),
        "week" => (60, page.history.lock().week()),
        _ => return Err(ApiError::bad_request("The argument \"range\" is neither hour nor week.")),
    };
    let kept = Duration::from_secs(if step == 1 { 3600 } else { 7 * 24 * 3600 });
    let now = page.shared.clock.wall_us() / 1000;
    let marks = page.shared.engine_events.marks_since(now.saturating_sub(kept.as_millis() as u64));
    let marks: Vec<_> = marks
        .iter()
        .map(|mark| json!({ "at": mark.at_ms, "kind": mark.kind, "cause": mark.cause, "seconds": mark.time.as_secs_f64() }))
        .collect();
    let from = rows.first().map_or(now, Row::at);
    Ok(json(&json!({ "step": step, "from": from, "columns": COLUMNS, "rows": rows, "marks": marks })))
}
