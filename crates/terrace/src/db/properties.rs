//! Properties: in LevelDB's words, which tools parse, and one of our own.

use std::fmt::Write;

use terrace_format::key::{InternalKey, trailer};
use terrace_format::version_edit::NUM_LEVELS;

use super::components::memory_budget::MemoryBudget;
use super::inner::DbInner;
use crate::cache::BlockCache;
use crate::stats::histograms::{HistogramData, TIMERS, Timer};
use crate::stats::{Statistics, Ticker};
use crate::table::TableMemory;

impl DbInner {
    pub(super) fn property(&self, name: &str) -> Option<String> {
        match name {
            "terrace.stats" => return Some(self.terrace_stats()),
            "terrace.memory" => return Some(self.memory_use().total().to_string()),
            _ => {}
        }
        let name = name.strip_prefix("leveldb.")?;
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
            let level: usize = level.parse().ok().filter(|&level| digits && level < NUM_LEVELS)?;
            return Some(self.read_state.current().version.levels[level].len().to_string());
        }
        match name {
            "stats" => Some(self.leveldb_stats()),
            "sstables" => Some(self.sstables()),
            "approximate-memory-usage" => Some(self.approximate_memory_usage().to_string()),
            _ => None,
        }
    }

    fn leveldb_stats(&self) -> String {
        const MB: f64 = 1_048_576.0;
        let state = self.state.lock();
        let mut text = String::from(
            "                               Compactions\n\
             Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
             --------------------------------------------------\n",
        );
        for (level, stats) in state.compaction_stats.iter().enumerate() {
            let files = &state.version_set.version.levels[level];
            if stats.time.is_zero() && files.is_empty() {
                continue;
            }
            let size = crate::version::total_size(files) as f64 / MB;
            let (read, written) = (stats.bytes_read as f64 / MB, stats.bytes_written as f64 / MB);
            let (files, seconds) = (files.len(), stats.time.as_secs_f64());
            // Writing to a String does not fail.
            let _ = writeln!(text, "{level:3} {files:8} {size:8.0} {seconds:9.0} {read:8.0} {written:9.0}");
        }
        text
    }

    /// What look-ups, iterators and writes met, since the database was opened.
    fn terrace_stats(&self) -> String {
        let metrics = self.table_cache.metrics();
        let row = |of: &str, well: &str, well_count: u64, ill: &str, ill_count: u64| {
            let all = well_count.saturating_add(ill_count);
            let share = if all == 0 { 0.0 } else { well_count as f64 * 100.0 / all as f64 };
            format!("{of:7} {well:9} {well_count:12}  {ill:15} {ill_count:12} {share:6.1} %\n")
        };
        let (hits, misses) = (metrics.get(Ticker::BlockCacheHit), metrics.get(Ticker::BlockCacheMiss));
        let (negatives, wrong) =
            (metrics.get(Ticker::FilterNegative), metrics.get(Ticker::FilterFalsePositive));
        row("blocks", "hits", hits, "misses", misses)
            + &row("filters", "negatives", negatives, "false positives", wrong)
            + &write_stall_row(metrics)
            + &timer_rows(metrics)
            + &self.memory_use().rows(
                self.memory_budget.as_ref(),
                &self.block_cache,
                self.table_cache.memory(),
            )
    }

    /// Tells the info log how long things took since the database was opened, if it did anything but take writes.
    pub(super) fn log_timers(&self) {
        let metrics = self.table_cache.metrics();
        let worked = TIMERS.iter().any(|(span, of, _)| *of == "work" && metrics.timers.get(*span).count > 0);
        for row in timer_rows(metrics).lines().filter(|_| worked) {
            self.logger.log(format_args!("Closing: {row}"));
        }
    }

    fn sstables(&self) -> String {
        let mut text = String::new();
        for (level, files) in self.read_state.current().version.levels.iter().enumerate() {
            let _ = writeln!(text, "--- level {level} ---");
            for file in files {
                let (smallest, largest) =
                    (InternalKeyDisplay(&file.smallest), InternalKeyDisplay(&file.largest));
                let _ = writeln!(text, " {}:{}[{smallest} .. {largest}]", file.number, file.size);
            }
        }
        text
    }

    /// What the parts hold in memory now.
    fn memory_use(&self) -> MemoryUse {
        let view = self.read_state.current();
        let memtables = std::iter::once(&view.memtable).chain(&view.immutable_memtables);
        MemoryUse {
            memtables: memtables.map(|memtable| memtable.allocated_bytes()).sum(),
            pooled: self.chunk_pool.pooled_bytes(),
            cache: self.block_cache.usage(),
            tables: self.table_cache.memory().usage(),
        }
    }

    /// Bytes of memtables, block cache, and of what a database takes without them: an open one never says 0.
    fn approximate_memory_usage(&self) -> usize {
        let view = self.read_state.current();
        let frozen: usize = view.immutable_memtables.iter().map(|memtable| memtable.memory_usage()).sum();
        size_of::<DbInner>() + view.memtable.memory_usage() + frozen + self.block_cache.usage()
    }
}

/// Bytes that the parts of a database hold.
struct MemoryUse {
    memtables: usize,
    pooled: usize,
    /// All of it, if it is shared.
    cache: usize,
    tables: usize,
}

impl MemoryUse {
    fn total(&self) -> usize {
        self.memtables + self.pooled + self.cache + self.tables
    }

    /// A row for each part, with its limit where there is one.
    fn rows(&self, budget: Option<&MemoryBudget>, cache: &BlockCache, tables: &TableMemory) -> String {
        let rows = [
            ("memtables", self.memtables, budget.map(|budget| budget.memtables)),
            ("kept", self.pooled, budget.map(|budget| budget.pooled_chunks)),
            ("cache", self.cache, Some(cache.available_capacity()).filter(|room| *room < usize::MAX)),
            ("tables", self.tables, tables.limit()),
            ("all", self.total(), budget.map(|budget| budget.total)),
        ];
        rows.iter().fold(String::new(), |mut text, (part, held, most)| {
            let most = most.map(|most| format!("  at most {most:19}")).unwrap_or_default();
            let _ = writeln!(text, "memory  {part:9} {held:12}{most}");
            text
        })
    }
}

/// What writes lost to the background in all.
fn write_stall_row(metrics: &Statistics) -> String {
    let of = |spans: &[Timer]| {
        let taken = spans.iter().map(|span| metrics.timers.get(*span));
        let (times, micros) = taken.fold((0, 0), |(n, us), taken| (n + taken.count, us + taken.sum_micros));
        format!("{times} for {micros} us")
    };
    let (slowed, stopped) =
        (of(&[Timer::WriteDelay]), of(&[Timer::FlushStall, Timer::CompactionStall, Timer::NoSpaceStall]));
    format!("writes  slowed {slowed}, stopped {stopped}\n")
}

/// A row for each span that there was.
fn timer_rows(metrics: &Statistics) -> String {
    TIMERS.iter().map(|(span, of, name)| timer_row(of, name, &metrics.timers.get(*span))).collect()
}

/// A row for what took some time, and none for what did not happen.
fn timer_row(of: &str, name: &str, taken: &HistogramData) -> String {
    let HistogramData { count: times, sum_micros: micros, max_micros: longest, buckets } = taken;
    if *times == 0 {
        return String::new();
    }
    let buckets: Vec<String> = buckets.iter().map(|(from, n)| format!("{from}: {n}")).collect();
    let buckets = buckets.join(", ");
    format!("{of:7} {name:9} {times:12}  {:15} {micros:12}, longest {longest}; from {buckets}\n", "us")
}

/// An internal key as LevelDB prints it: `'CH/Bern' @ 17 : 1`.
struct InternalKeyDisplay<'a>(&'a InternalKey);

impl std::fmt::Display for InternalKeyDisplay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('\'')?;
        for &byte in self.0.user_key() {
            match byte {
                b' '..=b'~' => f.write_char(byte.into())?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        write!(f, "' @ {} : {}", self.0.sequence(), trailer(self.0.as_bytes()) as u8)
    }
}
