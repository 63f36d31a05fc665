//! Picture of the levels: tables at their places in key order, memtables, running jobs.

use serde_json::{Value, json};

use super::Page;
use super::api::ApiRequest;
use super::edit_log::TableRow;
use super::http::{ApiResult, json};
use super::key_positions::positions;
use super::value::bytes;

/// GET levels
pub(super) fn levels(page: &Page, _request: &ApiRequest) -> ApiResult {
    let store = &page.shared.store;
    let stats = store.db.stats();
    let levels = store.db.levels();
    let rows: Vec<TableRow> = levels
        .iter()
        .flat_map(|level| {
            level.files.iter().map(|file| TableRow {
                bytes: file.size,
                ..TableRow::new(file.number, level.level, file.smallest.clone(), file.largest.clone())
            })
        })
        .collect();
    let tables: Vec<&TableRow> = rows.iter().collect();
    let comparator = store.comparator();
    let places = positions(&tables, comparator);
    let compare = |a: &&TableRow, b: &&TableRow| comparator.compare(&a.smallest, &b.smallest);
    let smallest = tables.iter().copied().min_by(compare).map_or(&[][..], |table| &*table.smallest);
    let compare = |a: &&TableRow, b: &&TableRow| comparator.compare(&a.largest, &b.largest);
    let largest = tables.iter().copied().max_by(compare).map_or(&[][..], |table| &*table.largest);
    let tables: Vec<Value> = tables
        .iter()
        .zip(places)
        .map(|(table, (left, right))| {
            json!([table.number, table.level, left, right, table.bytes, table.entries, table.created_at, 0])
        })
        .collect();
    let levels: Vec<Value> = stats
        .levels
        .iter()
        .enumerate()
        .map(|(level, row)| json!({ "level": level, "bytes": row.bytes, "limit": null, "files": row.files, "filesLimit": null, "score": 0.0 }))
        .collect();
    Ok(json(&json!({
        "edit": 0,
        "edits": 1,
        "at": page.shared.clock.wall_us() / 1000,
        "keyRange": { "smallest": bytes(smallest), "largest": bytes(largest) },
        "memtables": [{ "bytes": stats.memory.memtables.bytes, "limit": stats.memory.memtables.limit, "entries": null, "state": "active" }],
        "levels": levels,
        "tables": tables,
        "jobs": [],
    })))
}
