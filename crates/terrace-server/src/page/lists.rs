//! Lists of the server: slow commands, clients, commands, settings, events.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiResult, json};
use super::value::bytes;
use crate::command::all_counted;
use crate::settings;

/// Maximum number of rows of a list.
const MAX_ROWS: u64 = 1000;

/// Number of rows that the request wants.
fn count(request: &ApiRequest) -> ApiResult<usize> {
    Ok(request.query.number("count", 200)?.min(MAX_ROWS) as usize)
}

/// GET slowlog
pub(super) fn slowlog(page: &Page, request: &ApiRequest) -> ApiResult {
    let entries = page.shared.slow_log.last(count(request)?);
    let rows: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let command: Vec<Value> = entry.args.iter().map(|arg| bytes(arg)).collect();
            json!({
                "id": entry.id,
                "at": entry.at * 1000,
                "micros": entry.time.as_micros() as u64,
                "command": command,
                "client": entry.peer,
                "name": String::from_utf8_lossy(&entry.client_name),
            })
        })
        .collect();
    Ok(json(&rows))
}

/// GET clients
pub(super) fn clients(page: &Page, _request: &ApiRequest) -> ApiResult {
    let now = page.shared.clock.monotonic();
    let mut clients = page.shared.clients.all();
    clients.truncate(MAX_ROWS as usize);
    let rows: Vec<Value> = clients
        .iter()
        .map(|client| {
            let active = Duration::from_millis(client.last_active_ms.load(Ordering::Relaxed));
            json!({
                "id": client.id,
                "address": client.peer,
                "name": String::from_utf8_lossy(&client.name.lock()),
                "ageSeconds": now.saturating_sub(client.connected_at).as_secs_f64(),
                "idleSeconds": now.saturating_sub(active).as_secs_f64(),
                "db": client.database.load(Ordering::Relaxed),
                "command": *client.last_command.lock(),
                // The server counts unfinished input and unsent output together.
                "inputBytes": 0,
                "outputBytes": client.buffered.load(Ordering::Relaxed),
                "user": **client.user.lock(),
            })
        })
        .collect();
    Ok(json(&rows))
}

/// GET commands
pub(super) fn commands(page: &Page, _request: &ApiRequest) -> ApiResult {
    let rows = all_counted().filter_map(|(name, _, slot)| {
        let totals = page.shared.command_times.totals(slot)?;
        let micros = |percent| totals.durations.percentile(percent).as_secs_f64() * 1e6;
        Some(json!({
            "name": name,
            "calls": totals.calls(),
            "failed": totals.failed + totals.rejected,
            "micros": totals.time.as_micros() as u64,
            "p50Us": micros(50.0),
            "p99Us": micros(99.0),
        }))
    });
    Ok(json(&rows.collect::<Vec<Value>>()))
}

/// GET settings
pub(super) fn settings(page: &Page, _request: &ApiRequest) -> ApiResult {
    let rows: Vec<Value> = settings::with_effect(&page.shared)
        .map(|(name, value, is_changeable, summary)| {
            json!({ "name": name, "value": value, "changeable": is_changeable, "summary": summary })
        })
        .collect();
    Ok(json(&rows))
}

/// GET log
pub(super) fn log(page: &Page, request: &ApiRequest) -> ApiResult {
    let events = page.shared.engine_events.last(count(request)?);
    let rows: Vec<Value> = events
        .iter()
        .rev()
        .map(|event| json!({ "at": event.at_ms, "kind": event.kind, "words": event.text }))
        .collect();
    Ok(json(&rows))
}
