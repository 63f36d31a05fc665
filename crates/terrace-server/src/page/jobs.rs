//! Running jobs of the engine, with their progress.

use serde_json::{Value, json};
use terrace::Stats;

use super::Page;
use crate::engine_events::reason;

/// Describes the running flushes and the running compaction.
pub(super) fn jobs(page: &Page, stats: &Stats) -> Vec<Value> {
    let events = &page.shared.engine_events;
    let now = page.shared.clock.wall_us() / 1000;
    let (flushes, inputs) = events.running();
    let mut jobs: Vec<Value> = flushes
        .iter()
        .map(|flush| {
            json!({
                "kind": "flush",
                "from": null,
                "to": 0,
                "reason": "memtable",
                // A flush reports no progress. It takes less than a second.
                "progress": null,
                "bytesPerSecond": null,
                "inputs": [],
                "startedAt": flush.started_at,
            })
        })
        .collect();
    if let (Some(running), Some(inputs)) = (&stats.running_compaction, inputs) {
        let progress = match running.input_entries {
            Some(entries) if entries > 0 => running.entries_read as f64 / entries as f64,
            _ => running.bytes_read as f64 / running.input_bytes.max(1) as f64,
        };
        let numbers: Vec<u64> = inputs.tables.iter().flat_map(|(_, tables)| tables.iter().copied()).collect();
        let seconds = running.time.as_secs_f64().max(1e-3);
        jobs.push(json!({
            "kind": "compaction",
            "from": running.level,
            "to": running.output_level,
            "reason": reason(inputs.reason),
            "progress": progress.min(1.0),
            "bytesPerSecond": running.bytes_read as f64 / seconds,
            "inputs": numbers,
            "startedAt": now.saturating_sub(running.time.as_millis() as u64),
        }));
    }
    jobs
}
