//! Metrics as the text of `GET /metrics`.
//!
//! A metric is one row of [`METRICS`]: name, type, help, and the function that writes its samples.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace::{HistogramData, LevelStats, Stats, Ticker, Timer};

use super::DurationHistogram;
use crate::command::all_counted;
use crate::shared::Shared;

/// Metric of the server.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// Type in the text: `counter`, `gauge` or `histogram`.
    kind: &'static str,
    help: &'static str,
    write: fn(&mut Samples<'_>),
}

/// All metrics, in the order of the text.
pub(crate) static METRICS: &[Metric] = &[
    Metric { name: "terrace_commands_total", kind: "counter", help: "Executed commands", write: commands },
    Metric {
        name: "terrace_command_seconds",
        kind: "histogram",
        help: "Time of executed commands by group",
        write: command_seconds,
    },
    Metric {
        name: "terrace_errors_total",
        kind: "counter",
        help: "Error replies by first word",
        write: errors,
    },
    Metric {
        name: "terrace_clients",
        kind: "gauge",
        help: "Connected clients",
        write: |out| out.sample("", out.shared.clients.len() as f64),
    },
    Metric {
        name: "terrace_client_bytes_total",
        kind: "counter",
        help: "Bytes received from and sent to clients",
        write: client_bytes,
    },
    Metric {
        name: "terrace_level_bytes",
        kind: "gauge",
        help: "Bytes of the tables of a level",
        write: level_bytes,
    },
    Metric { name: "terrace_level_files", kind: "gauge", help: "Tables of a level", write: level_files },
    Metric { name: "terrace_level_runs", kind: "gauge", help: "Sorted runs of a level", write: level_runs },
    Metric {
        name: "terrace_compaction_seconds",
        kind: "histogram",
        help: "Time of compactions",
        write: |out| out.timer("", Timer::Compaction),
    },
    Metric {
        name: "terrace_compaction_bytes_total",
        kind: "counter",
        help: "Bytes that flushes and compactions read and wrote",
        write: compaction_bytes,
    },
    Metric {
        name: "terrace_flush_seconds",
        kind: "histogram",
        help: "Time of flushes",
        write: |out| out.timer("", Timer::Flush),
    },
    Metric {
        name: "terrace_write_stall_seconds",
        kind: "histogram",
        help: "Time for which writes waited, by reason",
        write: write_stalls,
    },
    Metric {
        name: "terrace_cache_lookups_total",
        kind: "counter",
        help: "Lookups of the block cache",
        write: cache_lookups,
    },
    Metric {
        name: "terrace_filter_lookups_total",
        kind: "counter",
        help: "Lookups of filters that proved an absence, or failed to",
        write: filter_lookups,
    },
    Metric { name: "terrace_memory_bytes", kind: "gauge", help: "Memory by its use", write: memory },
    Metric {
        name: "terrace_wal_unsynced_bytes",
        kind: "gauge",
        help: "Bytes of acknowledged batches that a power cut may lose",
        write: |out| out.sample("", out.shared.store.durability.unsynced_bytes() as f64),
    },
    Metric {
        name: "terrace_writes_refused",
        kind: "gauge",
        help: "1 after a failure, until the database is opened again",
        write: writes_refused,
    },
];

/// Output of one scrape.
struct Samples<'a> {
    text: String,
    name: &'static str,
    shared: &'a Shared,
    /// Statistics of the engine. None on a shared store.
    stats: Option<&'a Stats>,
}

/// Returns the text of all metrics.
pub(crate) fn text(shared: &Shared) -> String {
    let stats = shared.store.db().ok().map(terrace::Db::stats);
    let mut samples = Samples { text: String::new(), name: "", shared, stats: stats.as_ref() };
    for metric in METRICS {
        samples.name = metric.name;
        // The name of a counter's family has no suffix.
        let family = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        // Writing to a string succeeds.
        let _ = write!(samples.text, "# TYPE {family} {}\n# HELP {family} {}\n", metric.kind, metric.help);
        (metric.write)(&mut samples);
    }
    samples.text + "# EOF\n"
}

impl Samples<'_> {
    fn sample(&mut self, labels: &str, value: f64) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &str, value: f64) {
        let name = self.name;
        let _ = match labels {
            "" => writeln!(self.text, "{name}{suffix} {value}"),
            labels => writeln!(self.text, "{name}{suffix}{{{labels}}} {value}"),
        };
    }

    /// Writes one sample for each value of a label.
    fn samples<'v>(&mut self, label: &str, rows: impl IntoIterator<Item = (&'v str, f64)>) {
        for (value, number) in rows {
            self.sample(&format!("{label}=\"{}\"", escape(value)), number);
        }
    }

    /// Writes the buckets, the sum and the count of a histogram.
    fn histogram(&mut self, labels: &str, buckets: &[(f64, u64)], sum: f64, count: u64) {
        let separator = if labels.is_empty() { "" } else { "," };
        for (limit, count) in buckets {
            self.line("_bucket", &format!("{labels}{separator}le=\"{limit}\""), *count as f64);
        }
        self.line("_bucket", &format!("{labels}{separator}le=\"+Inf\""), count as f64);
        self.line("_sum", labels, sum);
        self.line("_count", labels, count as f64);
    }

    /// Writes the histogram of a timer of the engine.
    fn timer(&mut self, labels: &str, timer: Timer) {
        let Some(stats) = self.stats else { return };
        let HistogramData { count, sum_micros, buckets, .. } = stats.timer(timer);
        let mut until = 0;
        let mut rows = Vec::new();
        for (from, count) in buckets {
            until += count;
            // A bucket ends at twice its begin.
            rows.push(((from * 2).max(2) as f64 / 1e6, until));
        }
        self.histogram(labels, &rows, *sum_micros as f64 / 1e6, *count);
    }
}

/// Escapes the value of a label.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn commands(out: &mut Samples<'_>) {
    for (name, _, slot) in all_counted() {
        if let Some(totals) = out.shared.command_times.totals(slot) {
            out.sample(&format!("command=\"{name}\""), totals.calls() as f64);
        }
    }
}

fn command_seconds(out: &mut Samples<'_>) {
    /// Limits of the buckets, in microseconds.
    const LIMITS: [u64; 14] =
        [1, 2, 5, 10, 20, 50, 100, 500, 1000, 5000, 20_000, 100_000, 1_000_000, 10_000_000];
    let mut groups: BTreeMap<&str, (DurationHistogram, Duration)> = BTreeMap::new();
    for (_, command, slot) in all_counted() {
        if let Some(totals) = out.shared.command_times.totals(slot) {
            let (durations, time) = groups.entry(command.group).or_default();
            durations.add_all(&totals.durations);
            *time += totals.time;
        }
    }
    for (group, (durations, time)) in groups {
        let limits = LIMITS.iter().map(|us| Duration::from_micros(*us));
        let buckets: Vec<(f64, u64)> =
            limits.map(|limit| (limit.as_secs_f64(), durations.count_until(limit))).collect();
        out.histogram(&format!("group=\"{group}\""), &buckets, time.as_secs_f64(), durations.count());
    }
}

fn errors(out: &mut Samples<'_>) {
    let counts = out.shared.error_counts.all();
    out.samples("kind", counts.iter().map(|(word, count)| (word.as_str(), *count as f64)));
}

fn client_bytes(out: &mut Samples<'_>) {
    let counters = &out.shared.counters;
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let rows = [("received", load(&counters.bytes_received)), ("sent", load(&counters.bytes_sent))];
    out.samples("direction", rows);
}

/// Levels of the engine. A shared store has none.
fn levels<'s>(out: &Samples<'s>) -> &'s [LevelStats] {
    out.stats.map_or(&[], |stats| &stats.levels)
}

fn level_bytes(out: &mut Samples<'_>) {
    for (level, row) in levels(out).iter().enumerate() {
        out.sample(&format!("level=\"{level}\""), row.bytes as f64);
    }
}

fn level_files(out: &mut Samples<'_>) {
    for (level, row) in levels(out).iter().enumerate() {
        out.sample(&format!("level=\"{level}\""), row.files as f64);
    }
}

fn level_runs(out: &mut Samples<'_>) {
    for (level, row) in levels(out).iter().enumerate() {
        out.sample(&format!("level=\"{level}\""), row.runs as f64);
    }
}

fn compaction_bytes(out: &mut Samples<'_>) {
    let levels = levels(out);
    let read: u64 = levels.iter().map(|level| level.bytes_read).sum();
    let written: u64 = levels.iter().map(|level| level.bytes_written).sum();
    out.samples("direction", [("read", read as f64), ("written", written as f64)]);
}

fn write_stalls(out: &mut Samples<'_>) {
    for timer in Timer::all().filter(|timer| timer.is_stall()) {
        out.timer(&format!("reason=\"{}\"", timer.name()), timer);
    }
}

fn cache_lookups(out: &mut Samples<'_>) {
    let Some(stats) = out.stats else { return };
    let count = |ticker| stats.ticker(ticker) as f64;
    let rows = [
        ("hit", count(Ticker::BlockCacheHit)),
        ("miss", count(Ticker::BlockCacheMiss)),
        ("in_place", count(Ticker::BlockReadInPlace)),
    ];
    out.samples("result", rows);
}

fn filter_lookups(out: &mut Samples<'_>) {
    let Some(stats) = out.stats else { return };
    let count = |ticker| stats.ticker(ticker) as f64;
    let rows =
        [("negative", count(Ticker::FilterNegative)), ("false_positive", count(Ticker::FilterFalsePositive))];
    out.samples("result", rows);
}

fn memory(out: &mut Samples<'_>) {
    let clients = out.shared.clients.buffered() as f64;
    let Some(memory) = out.stats.map(|stats| stats.memory) else {
        return out.samples("part", [("clients", clients)]);
    };
    let rows = [
        ("memtables", memory.memtables.bytes as f64),
        ("pooled_chunks", memory.pooled_chunks.bytes as f64),
        ("block_cache", memory.block_cache.bytes as f64),
        ("tables", memory.tables.bytes as f64),
        ("clients", clients),
    ];
    out.samples("part", rows);
}

fn writes_refused(out: &mut Samples<'_>) {
    let is_refused = out.stats.is_some_and(|stats| stats.writes_refused.is_some())
        || out.shared.store.durability.failure().is_some();
    out.sample("", if is_refused { 1.0 } else { 0.0 });
}
