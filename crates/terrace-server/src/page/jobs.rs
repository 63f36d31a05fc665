//! Running jobs of the engine, with their progress.

use serde_json::{Value, json};
use terrace::{CompactionInputs, CompactionStatus, MemtableState, MemtableStats, Stats};

use super::Page;
use crate::engine_events::{RunningFlush, reason};

/// Describes the running flushes and the running compaction.
pub(super) fn jobs(page: &Page, stats: &Stats) -> Vec<Value> {
    let (mut flushes, inputs) = page.shared.engine_events.running();
    let now = page.shared.clock.wall_us() / 1000;
    // Older memtables have smaller numbers of tables.
    flushes.sort_unstable_by_key(|flush| flush.table);
    let flushing = stats.memtables.iter().filter(|memtable| memtable.state == MemtableState::Flushing);
    let memtables = flushing.map(Some).chain(std::iter::repeat(None));
    let mut jobs: Vec<Value> =
        flushes.iter().zip(memtables).map(|(flush, memtable)| flush_job(flush, memtable, now)).collect();
    if let (Some(running), Some(inputs)) = (&stats.running_compaction, inputs) {
        jobs.push(compaction_job(running, &inputs, now));
    }
    jobs
}

/// Describes a flush. `memtable` is None at its end.
fn flush_job(flush: &RunningFlush, memtable: Option<&MemtableStats>, now: u64) -> Value {
    let progress = memtable.map(|memtable| {
        let share = memtable.flushed_entries as f64 / memtable.entries.max(1) as f64;
        (share.min(1.0), memtable.bytes as f64)
    });
    let seconds = (now.saturating_sub(flush.started_at) as f64 / 1e3).max(1e-3);
    json!({
        "kind": "flush",
        "from": null,
        "to": 0,
        "reason": "memtable",
        "progress": progress.map(|(share, _)| share),
        "bytesPerSecond": progress.map(|(share, bytes)| share * bytes / seconds),
        "inputs": [],
        "startedAt": flush.started_at,
    })
}

fn compaction_job(running: &CompactionStatus, inputs: &CompactionInputs, now: u64) -> Value {
    let progress = match running.input_entries {
        Some(entries) if entries > 0 => running.entries_read as f64 / entries as f64,
        _ => running.bytes_read as f64 / running.input_bytes.max(1) as f64,
    };
    let numbers: Vec<u64> = inputs.tables.iter().flat_map(|(_, tables)| tables.iter().copied()).collect();
    let seconds = running.time.as_secs_f64().max(1e-3);
    json!({
        "kind": "compaction",
        "from": running.level,
        "to": running.output_level,
        "reason": reason(inputs.reason),
        "progress": progress.min(1.0),
        "bytesPerSecond": running.bytes_read as f64 / seconds,
        "inputs": numbers,
        "startedAt": now.saturating_sub(running.time.as_millis() as u64),
    })
}
