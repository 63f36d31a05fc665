//! Sample: the figures of one second.
//!
//! ```text
//!   counters at 14:02:10 ──┐
//!   counters at 14:02:11 ──┴── differences: one sample
//! ```

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use terrace::{MemtableState, Stats, Ticker, Timer};

use super::health::Health;
use crate::command::{Flags, all_counted};
use crate::metrics::DurationHistogram;
use crate::shared::Shared;

/// Figures of one second.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    pub(super) at: u64,
    /// Commands in a second that read keys.
    pub(super) reads: f64,
    /// Commands in a second that change keys, without those that fail.
    pub(super) writes: f64,
    pub(super) failed_writes: f64,
    pub(super) commands: f64,
    /// Median time of a command in microseconds, or None without commands.
    pub(super) p50_us: Option<f64>,
    /// 99th percentile of the times in microseconds, or None without commands.
    pub(super) p99_us: Option<f64>,
    /// Time of the longest command in microseconds, or None without commands.
    pub(super) longest_us: Option<f64>,
    pub(super) clients: usize,
    pub(super) blocked_clients: usize,
    pub(super) memory: SampledMemory,
    pub(super) disk: SampledDisk,
    /// The active memtable first, then from the oldest to the newest.
    pub(super) memtables: Vec<SampledMemtable>,
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
    /// Share of the block reads that the cache or a mapping served.
    pub(super) cache_hit: Option<f64>,
    /// Share of the filter lookups that spared a read.
    pub(super) filter_useful: Option<f64>,
    /// Time for which writes waited, summed over all threads.
    pub(super) stall_seconds: f64,
    pub(super) stalls: Vec<SampledStall>,
    pub(super) flush_bytes: f64,
    pub(super) compaction_read_bytes: f64,
    pub(super) compaction_written_bytes: f64,
    /// Bytes in a second to which the engine limits writes.
    pub(super) delayed_write_rate: Option<f64>,
    pub(super) health: Health,
}

/// Memory use.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct SampledMemory {
    pub(super) total: usize,
    pub(super) limit: Option<usize>,
    pub(super) parts: Vec<SampledPart>,
}

/// Memory use of one part.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SampledPart {
    pub(super) name: &'static str,
    pub(super) bytes: usize,
}

/// Memtable.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SampledMemtable {
    bytes: usize,
    limit: usize,
    entries: u64,
    state: &'static str,
}

/// Use of the storage.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SampledDisk {
    pub(super) bytes: u64,
    pub(super) free: Option<u64>,
    /// Bytes written to tables for each byte of the flushed tables.
    pub(super) write_amp: Option<f64>,
}

/// Time for which writes waited for one cause.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SampledStall {
    pub(super) cause: &'static str,
    pub(super) seconds: f64,
}

/// Counters of the server and the engine at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    /// Monotonic time.
    at: Duration,
    reads: u64,
    writes: u64,
    failed_writes: u64,
    durations: DurationHistogram,
    bytes_in: u64,
    bytes_out: u64,
    cache: [u64; 2],
    filters: [u64; 2],
    stall_micros: Vec<(Timer, u64)>,
    flushed_bytes: u64,
    compaction: [u64; 2],
}

impl Totals {
    /// Reads all counters.
    pub(super) fn read(shared: &Shared, stats: &Stats) -> Totals {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let ticker = |ticker| stats.ticker(ticker);
        let mut totals = Totals {
            at: shared.clock.monotonic(),
            bytes_in: load(&shared.counters.bytes_received),
            bytes_out: load(&shared.counters.bytes_sent),
            cache: [
                ticker(Ticker::BlockCacheHit) + ticker(Ticker::BlockReadInPlace),
                ticker(Ticker::BlockCacheMiss),
            ],
            filters: [ticker(Ticker::FilterNegative), ticker(Ticker::FilterFalsePositive)],
            stall_micros: Timer::all()
                .filter(|timer| timer.is_stall())
                .map(|timer| (timer, stall_micros(timer, stats)))
                .collect(),
            flushed_bytes: shared.engine_events.flushed_bytes(),
            compaction: [
                stats.levels.iter().map(|level| level.bytes_read).sum(),
                stats.levels.iter().map(|level| level.bytes_written).sum(),
            ],
            ..Totals::default()
        };
        for (_, command, slot) in all_counted() {
            let Some(counts) = shared.command_times.totals(slot) else { continue };
            if command.flags.contains(Flags::WRITE) {
                totals.writes += counts.calls().saturating_sub(counts.failed);
                totals.failed_writes += counts.failed;
            } else if command.flags.contains(Flags::READ) {
                totals.reads += counts.calls();
            }
            totals.durations.add_all(&counts.durations);
        }
        totals
    }

    /// Figures of the time from `earlier` to this moment.
    pub(super) fn since(&self, earlier: &Totals, shared: &Shared, stats: &Stats) -> Sample {
        let seconds = self.at.saturating_sub(earlier.at).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let share = |now: [u64; 2], before: [u64; 2]| {
            let good = now[0].saturating_sub(before[0]);
            let bad = now[1].saturating_sub(before[1]);
            (good + bad > 0).then(|| good as f64 / (good + bad) as f64)
        };
        let durations = self.durations.since(&earlier.durations);
        let count = durations.count();
        let micros = |percent| (count > 0).then(|| durations.percentile(percent).as_secs_f64() * 1e6);
        let stalls = self.stalls_since(earlier);
        Sample {
            at: shared.clock.wall_us() / 1000,
            reads: rate(self.reads, earlier.reads),
            writes: rate(self.writes, earlier.writes),
            failed_writes: rate(self.failed_writes, earlier.failed_writes),
            commands: count as f64 / seconds,
            p50_us: micros(50.0),
            p99_us: micros(99.0),
            longest_us: micros(100.0),
            clients: shared.clients.len(),
            blocked_clients: shared.blocked.len() + shared.pause.waiting(),
            memory: sampled_memory(shared, stats),
            disk: self.sampled_disk(shared, stats),
            memtables: memtables(stats),
            bytes_in: rate(self.bytes_in, earlier.bytes_in),
            bytes_out: rate(self.bytes_out, earlier.bytes_out),
            cache_hit: share(self.cache, earlier.cache),
            filter_useful: share(self.filters, earlier.filters),
            stall_seconds: stalls.iter().fold(0.0, |sum, stall| sum + stall.seconds),
            stalls,
            flush_bytes: rate(self.flushed_bytes, earlier.flushed_bytes),
            compaction_read_bytes: rate(self.compaction[0], earlier.compaction[0]),
            compaction_written_bytes: rate(
                self.compaction[1].saturating_sub(self.flushed_bytes),
                earlier.compaction[1].saturating_sub(earlier.flushed_bytes),
            ),
            delayed_write_rate: shared.engine_events.delayed_write_rate(),
            health: Health::default(),
        }
    }

    /// Number of block reads since `earlier` that missed the cache.
    pub(super) fn cache_misses_since(&self, earlier: &Totals) -> u64 {
        self.cache[1].saturating_sub(earlier.cache[1])
    }

    fn stalls_since(&self, earlier: &Totals) -> Vec<SampledStall> {
        let before: HashMap<Timer, u64> = earlier.stall_micros.iter().copied().collect();
        let stalls = self.stall_micros.iter().map(|(timer, micros)| SampledStall {
            cause: timer.name(),
            seconds: micros.saturating_sub(before.get(timer).copied().unwrap_or(0)) as f64 / 1e6,
        });
        stalls.filter(|stall| stall.seconds > 0.0).collect()
    }

    fn sampled_disk(&self, shared: &Shared, stats: &Stats) -> SampledDisk {
        let tables = stats.levels.iter().map(|level| level.bytes).fold(0, u64::saturating_add);
        SampledDisk {
            bytes: tables.saturating_add(stats.memory.memtables.bytes as u64),
            free: shared.store.free_space(),
            write_amp: (self.flushed_bytes > 0)
                .then(|| self.compaction[1] as f64 / self.flushed_bytes as f64),
        }
    }
}

/// Describes the memtables.
pub(super) fn memtables(stats: &Stats) -> Vec<SampledMemtable> {
    let state = |state| match state {
        MemtableState::Active => "active",
        MemtableState::Immutable => "immutable",
        _ => "flushing",
    };
    let rows = stats.memtables.iter().map(|row| SampledMemtable {
        bytes: row.bytes,
        limit: row.limit,
        entries: row.entries,
        state: state(row.state),
    });
    rows.collect()
}

/// Time of all stalls with the cause `timer`, present ones included.
fn stall_micros(timer: Timer, stats: &Stats) -> u64 {
    let present = stats.stalled_writers.iter().find(|stall| stall.cause == timer);
    stats.timer(timer).sum_micros + present.map_or(0, |stall| stall.time.as_micros() as u64)
}

fn sampled_memory(shared: &Shared, stats: &Stats) -> SampledMemory {
    let memory = &stats.memory;
    let clients = shared.clients.buffered();
    let parts = [
        ("memtables", memory.memtables.bytes),
        ("pooled_chunks", memory.pooled_chunks.bytes),
        ("block_cache", memory.block_cache.bytes),
        ("tables", memory.tables.bytes),
        ("clients", clients),
    ];
    SampledMemory {
        total: memory.total() + clients,
        limit: memory.limit,
        parts: parts.into_iter().map(|(name, bytes)| SampledPart { name, bytes }).collect(),
    }
}
