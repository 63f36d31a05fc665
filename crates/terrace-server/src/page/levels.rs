//! Picture of the levels: tables at their places in key order, memtables, running jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use terrace::{Comparator, LevelStats};
use terrace_format::filename::FileName;

use super::Page;
use super::api::ApiRequest;
use super::api_result::{ApiError, ApiResult, json};
use super::edit_log::{TableRow, TableSet};
use super::json_bytes::KeyBytes;
use super::key_positions::positions;
use super::sample::memtables;

/// Time for which the tables of one edit are not described again, although their reads change.
const MAX_AGE: Duration = Duration::from_secs(2);
/// Number of levels.
const LEVELS: usize = 7;
/// Maximum number of edits in a response.
const MAX_EDITS: u64 = 1000;

/// Description of the tables after one edit.
#[derive(Debug, Default)]
pub(super) struct CachedTables {
    /// Number of all edits, and monotonic time of the description.
    key: Option<(u64, Duration)>,
    tables: Arc<TablesJson>,
}

/// Tables and their key range as JSON.
#[derive(Debug, Default)]
struct TablesJson {
    at: u64,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    tables: Box<str>,
    /// Number and bytes of the tables of each level.
    sums: Vec<(usize, u64)>,
    level_0_runs: usize,
}

/// Begins the edit log with the current tables.
pub(super) fn start_edit_log(page: &Page) {
    let edits = &page.shared.engine_events.edits;
    loop {
        let total = edits.lock().total();
        let tables = current_tables(page, &TableSet::new());
        if edits.lock().start(total, tables, page.shared.clock.wall_us() / 1000) {
            return;
        }
    }
}

/// Records changes by another process.
pub(super) fn follow_tables(page: &Page) {
    let events = &page.shared.engine_events;
    let known = events.edits.lock().newest().apply();
    let tables = current_tables(page, &known);
    events.edits.lock().record_difference(&tables, page.shared.clock.wall_us() / 1000);
}

/// Current tables. Those that are not `known` have the times of their files.
fn current_tables(page: &Page, known: &TableSet) -> TableSet {
    let store = &page.shared.store;
    let levels = page.db.levels().into_iter();
    let tables = levels.flat_map(|level| level.files.into_iter().map(move |table| (level.level, table)));
    let rows = tables.map(|(level, table)| {
        let number = table.number;
        let created_at = match known.get(&number) {
            Some(row) => row.created_at,
            None => {
                let names = [FileName::Table(number), FileName::OldTable(number)];
                names.iter().find_map(|name| store.modified_ms(&name.to_string())).unwrap_or(0)
            }
        };
        (number, Arc::new(TableRow::new(level, table, created_at)))
    });
    rows.collect()
}

/// GET levels
pub(super) fn levels(page: &Page, request: &ApiRequest) -> ApiResult {
    let store = &page.shared.store;
    let (total, len) = {
        let edits = page.shared.engine_events.edits.lock();
        (edits.total(), edits.len())
    };
    let newest = len as u64 - 1;
    let edit = request.query.number("edit", newest)?;
    let tables = if edit == newest { live_tables(page, total) } else { past_tables(page, edit)? };
    let stats = page.db.stats();
    let is_live = edit == newest;
    let mut past = LevelStats::of_tables(&tables.sums);
    past[0].runs = tables.level_0_runs;
    let mut head = json!({
        "edit": edit,
        "edits": len,
        "at": if is_live { page.shared.clock.wall_us() / 1000 } else { tables.at },
        "keyRange": { "smallest": KeyBytes::new(store, &tables.smallest), "largest": KeyBytes::new(store, &tables.largest) },
        "memtables": if is_live { memtables(&stats) } else { Vec::new() },
        "levels": levels_json(if is_live { &stats.levels } else { &past }),
        "jobs": if is_live { super::jobs::jobs(page, &stats) } else { Vec::new() },
    })
    .to_string();
    // The tables are JSON already.
    head.truncate(head.len() - 1);
    Ok(Bytes::from(format!("{head},\"tables\":{}}}", tables.tables)))
}

/// Description of the current tables, which is kept for a short time.
fn live_tables(page: &Page, total: u64) -> Arc<TablesJson> {
    let now = page.shared.clock.monotonic();
    let mut cache = page.tables.lock();
    if cache.key.is_some_and(|(known, at)| known == total && now.saturating_sub(at) < MAX_AGE) {
        return Arc::clone(&cache.tables);
    }
    // Other requests wait for the description, which they need, too.
    let newest = page.shared.engine_events.edits.lock().newest();
    let levels = page.db.levels();
    let counts: HashMap<u64, (u64, Option<u64>)> = levels
        .iter()
        .flat_map(|level| &level.files)
        .map(|table| (table.number, (table.reads, table.entries)))
        .collect();
    let at = newest.at;
    cache.tables = Arc::new(describe(page, &newest.apply(), at, &counts));
    cache.key = Some((total, now));
    Arc::clone(&cache.tables)
}

/// Description of the tables after an earlier edit.
fn past_tables(page: &Page, edit: u64) -> ApiResult<Arc<TablesJson>> {
    let found =
        page.shared.engine_events.edits.lock().tables_after(usize::try_from(edit).unwrap_or(usize::MAX));
    let found = found.ok_or_else(|| ApiError::not_found("The server does not keep this edit."))?;
    let at = found.at;
    Ok(Arc::new(describe(page, &found.apply(), at, &HashMap::new())))
}

fn describe(page: &Page, set: &TableSet, at: u64, counts: &HashMap<u64, (u64, Option<u64>)>) -> TablesJson {
    let comparator = page.shared.store.comparator();
    let tables: Vec<&TableRow> = set.values().map(|row| &**row).collect();
    let rows: Vec<Value> = tables
        .iter()
        .zip(positions(&tables, comparator))
        .map(|(table, (left, right))| {
            let (reads, entries) = counts.get(&table.number).copied().unwrap_or_default();
            let entries = table.entries.or(entries);
            let places = (short(left), short(right));
            json!([
                table.number,
                table.level,
                places.0,
                places.1,
                table.bytes,
                entries,
                table.created_at,
                reads
            ])
        })
        .collect();
    let mut sums = vec![(0, 0u64); LEVELS];
    for table in &tables {
        if let Some((files, bytes)) = sums.get_mut(table.level) {
            *files += 1;
            *bytes = bytes.saturating_add(table.bytes);
        }
    }
    let least = tables.iter().map(|table| &table.smallest).min_by(|a, b| comparator.compare(a, b));
    let greatest = tables.iter().map(|table| &table.largest).max_by(|a, b| comparator.compare(a, b));
    TablesJson {
        at,
        smallest: least.map_or_else(Vec::new, |key| key.to_vec()),
        largest: greatest.map_or_else(Vec::new, |key| key.to_vec()),
        tables: Value::Array(rows).to_string().into(),
        sums,
        level_0_runs: level_0_runs(set, comparator),
    }
}

/// Number of flushes with tables in level 0. The tables of one flush have consecutive numbers in
/// the order of their keys.
fn level_0_runs(set: &TableSet, comparator: &dyn Comparator) -> usize {
    let tables: Vec<&TableRow> = set.values().map(|row| &**row).filter(|row| row.level == 0).collect();
    let pairs = tables.iter().zip(tables.iter().skip(1));
    let same_run = pairs.filter(|(older, newer)| {
        newer.number == older.number + 1 && comparator.compare(&newer.smallest, &older.largest).is_gt()
    });
    tables.len() - same_run.count()
}

/// Position with the digits that a picture needs.
fn short(position: f64) -> f64 {
    (position * 1e7).round() / 1e7
}

fn levels_json(levels: &[LevelStats]) -> Vec<Value> {
    let rows = levels.iter().enumerate();
    rows.map(|(level, row)| {
        json!({
            "level": level,
            "bytes": row.bytes,
            "limit": row.max_bytes,
            "files": row.files,
            "runs": row.runs,
            "runsLimit": row.max_runs,
            "score": row.score(),
        })
    })
    .collect()
}

/// GET table?number=N
pub(super) fn table(page: &Page, request: &ApiRequest) -> ApiResult {
    let number = request.query.number("number", 0)?;
    let row = page.shared.engine_events.edits.lock().table(number);
    let row = row.ok_or_else(|| ApiError::not_found("The table does not exist any more."))?;
    let store = &page.shared.store;
    let found =
        page.db.levels().into_iter().flat_map(|level| level.files).find(|table| table.number == number);
    let (reads, entries) = found.map_or((0, None), |table| (table.reads, table.entries));
    Ok(json(&json!({
        "number": number,
        "level": row.level,
        "bytes": row.bytes,
        "smallest": KeyBytes::new(store, &row.smallest),
        "largest": KeyBytes::new(store, &row.largest),
        "createdAt": row.created_at,
        "reads": reads,
        "entries": row.entries.or(entries),
    })))
}

/// GET edits?from=N&count=M
pub(super) fn edits(page: &Page, request: &ApiRequest) -> ApiResult {
    let from = usize::try_from(request.query.number("from", 0)?).unwrap_or(usize::MAX);
    let count = request.query.number("count", 200)?.min(MAX_EDITS) as usize;
    let edits = page.shared.engine_events.edits.lock().edits(from, count);
    let rows: Vec<Value> = edits
        .iter()
        .map(|(number, edit)| {
            let added: Vec<u64> = edit.added.iter().map(|row| row.number).collect();
            json!({
                "edit": number,
                "at": edit.at,
                "kind": edit.kind,
                "added": added,
                "removed": edit.removed,
                "words": edit.words(),
            })
        })
        .collect();
    Ok(json(&rows))
}

#[cfg(test)]
mod tests {
    use terrace::bytewise;

    use super::*;

    /// Runs in level 0 of tables with these numbers, levels and smallest and largest keys.
    fn runs(tables: &[(u64, usize, &str, &str)]) -> usize {
        let mut set = TableSet::new();
        for (number, level, smallest, largest) in tables {
            let row = TableRow {
                number: *number,
                level: *level,
                bytes: 1,
                smallest: smallest.as_bytes().into(),
                largest: largest.as_bytes().into(),
                entries: None,
                created_at: 0,
            };
            set.insert(*number, Arc::new(row));
        }
        level_0_runs(&set, &*bytewise())
    }

    #[test]
    fn tables_of_one_flush_are_one_run() {
        assert_eq!(runs(&[]), 0);
        assert_eq!(runs(&[(7, 0, "a", "c"), (8, 0, "d", "f"), (9, 0, "g", "h"), (6, 1, "a", "b")]), 1);
        assert_eq!(runs(&[(7, 0, "a", "c"), (8, 0, "c", "f")]), 2);
        assert_eq!(runs(&[(7, 0, "a", "c"), (9, 0, "d", "f")]), 2);
    }
}
