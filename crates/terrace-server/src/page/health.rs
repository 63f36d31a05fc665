//! Health: one sentence about the state of the database, with its cause.

use serde::Serialize;
use terrace::Stats;

use super::sample::Sample;
use crate::engine_events::refusal;
use crate::shared::Shared;

/// State of the database in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Health {
    /// `ok`, `warn` or `bad`.
    state: &'static str,
    words: String,
    /// Name of the cause in the guide about monitoring.
    cause: Option<&'static str>,
    /// Level that the cause concerns.
    level: Option<usize>,
    /// Milliseconds since 1970.
    since: Option<u64>,
}

impl Default for Health {
    fn default() -> Health {
        Health { state: "ok", words: "healthy".into(), cause: None, level: None, since: None }
    }
}

/// Minimum time of stalls in a second that is worth a warning, in seconds.
const MIN_STALL: f64 = 0.05;
/// Minimum number of block reads from storage in a second that is worth a warning.
const MIN_CACHE_MISSES: u64 = 500;
/// Free space below which the next flush probably fails, in bytes.
const MIN_FREE_SPACE: u64 = 1 << 20;
/// Share of the block reads below which the cache is called cold.
const COLD_CACHE: f64 = 0.5;

/// Words for a disk so full that the write-ahead log cannot grow.
const FAILED_WRITES: &str = "the disk is full: writes fail";

fn health(state: &'static str, cause: &'static str, words: String) -> Health {
    Health { state, words, cause: Some(cause), level: None, since: None }
}

/// Causes of refused writes. No stall of a writer tells them.
static REFUSALS: &[&str] = &["disk_full", "no_resources", "refused", "sync"];

impl Health {
    /// Cause why the database refuses writes now.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.cause.filter(|cause| self.state == "bad" && REFUSALS.contains(cause))
    }

    /// Describes the state of the last second. `before` is the health of the second before.
    pub(super) fn of(
        shared: &Shared,
        stats: &Stats,
        sample: &Sample,
        cache_misses: u64,
        before: &Health,
    ) -> Health {
        let found = refused(shared, stats, sample)
            .or_else(|| full_disk(sample).filter(|_| !shared.store.is_read_only))
            .or_else(|| stalled(shared, stats, sample))
            .or_else(|| cold_cache(sample, cache_misses))
            .or_else(|| read_only(shared))
            .unwrap_or_default();
        let is_same = found.cause == before.cause && before.since.is_some();
        let since = if is_same { before.since } else { Some(sample.at) };
        Health { since: since.filter(|_| found.state != "ok"), ..found }
    }
}

/// Health of a database that refuses writes.
fn refused(shared: &Shared, stats: &Stats, sample: &Sample) -> Option<Health> {
    if let Some(error) = &stats.writes_refused {
        return Some(health("bad", refusal(error), format!("writes refused: {error}")));
    }
    if let Some(cause) = shared.store.durability.failure() {
        return Some(health("bad", "sync", format!("writes refused: sync failed: {cause}")));
    }
    let retry = shared.engine_events.last_retry(sample_time(shared))?;
    let cause = refusal(&retry);
    let words = match cause {
        "disk_full" if sample.failed_writes > 0.0 => FAILED_WRITES.into(),
        "disk_full" => "the disk is full: flushes and compactions fail and are repeated".into(),
        _ => format!("background work fails and is repeated: {retry}"),
    };
    Some(health("bad", cause, words))
}

/// Health of a database without space for a flush. Nothing fails before the next one.
fn full_disk(sample: &Sample) -> Option<Health> {
    let free = sample.disk.free.filter(|free| *free < MIN_FREE_SPACE)?;
    let words = match sample.failed_writes > 0.0 {
        true => FAILED_WRITES.into(),
        false => format!("the disk is full: {} KiB are free, and the next flush fails", free >> 10),
    };
    Some(health("bad", "disk_full", words))
}

fn sample_time(shared: &Shared) -> u64 {
    shared.clock.wall_us() / 1000
}

/// Health of a database that this process only reads.
fn read_only(shared: &Shared) -> Option<Health> {
    let store = &shared.store;
    let words = match (store.is_read_only, store.is_follower) {
        (false, _) => return None,
        (true, true) => "healthy: follows the writes of another process",
        (true, false) => "healthy, read-only",
    };
    Some(health("ok", "read_only", words.into()))
}

/// Health of a database whose writes wait.
fn stalled(shared: &Shared, stats: &Stats, sample: &Sample) -> Option<Health> {
    let longest = sample.stalls.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    if longest.seconds < MIN_STALL {
        return None;
    }
    let level_0 = stats.levels.first().map_or_else(String::new, |level| match level.max_runs {
        Some(max) => format!("level 0 has {} of {max} runs", level.runs),
        None => format!("level 0 has {} runs", level.runs),
    });
    let state = if longest.seconds > 0.5 { "bad" } else { "warn" };
    let words = match longest.cause {
        "delayed" => format!("writes delayed: compactions lag, {level_0}"),
        "flush" => {
            let memtables = stats.immutable_memtables;
            format!("writes wait for a flush: {memtables} memtables are full{}", flush_time(shared, sample))
        }
        "compaction" => format!("writes wait for a compaction: {level_0}"),
        "no_space" => "writes wait for space: the disk is full".into(),
        "new_log" => "writes wait for a new log".into(),
        "sync" => "writes wait for the storage to sync".into(),
        _ => "writes wait for earlier writes".into(),
    };
    let is_level_0 = matches!(longest.cause, "delayed" | "compaction");
    let cause = if longest.cause == "no_space" { "disk_full" } else { longest.cause };
    // Waiting for a sync is the purpose of a sync.
    let state = if matches!(longest.cause, "sync" | "publish") { "warn" } else { state };
    Some(Health { level: is_level_0.then_some(0), ..health(state, cause, words) })
}

/// Words for the time of the oldest running flush, if that is long.
fn flush_time(shared: &Shared, sample: &Sample) -> String {
    let (flushes, _) = shared.engine_events.running();
    let started_at = flushes.iter().map(|flush| flush.started_at).min();
    match started_at.map_or(0, |started_at| sample.at.saturating_sub(started_at) / 1000) {
        0 => String::new(),
        seconds => format!(", a flush runs for {seconds} s"),
    }
}

/// Health of a database whose reads go to the storage.
fn cold_cache(sample: &Sample, cache_misses: u64) -> Option<Health> {
    let hit = sample.cache_hit.filter(|hit| *hit < COLD_CACHE && cache_misses >= MIN_CACHE_MISSES)?;
    let words =
        format!("cold cache: {:.0} % of {cache_misses} block reads went to storage", (1.0 - hit) * 100.0);
    Some(health("warn", "cold_cache", words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::sample::SampledDisk;

    #[test]
    fn full_disk_is_named_before_a_flush_fails() {
        let words = |free, failed_writes| {
            let disk = SampledDisk { free, ..SampledDisk::default() };
            full_disk(&Sample { disk, failed_writes, ..Sample::default() }).map(|found| found.words)
        };
        let full = "the disk is full: 3 KiB are free, and the next flush fails";
        assert_eq!(words(Some(4000), 0.0).as_deref(), Some(full));
        assert_eq!(words(Some(4000), 1.0).as_deref(), Some(FAILED_WRITES));
        assert_eq!([words(None, 1.0), words(Some(MIN_FREE_SPACE), 1.0)], [None, None]);
    }
}
