//! Properties: in LevelDB's words, which tools parse, and one of our own.

use std::fmt::Write;
use std::time::Duration;

use terrace_format::edit::LEVELS;
use terrace_format::key::{InternalKey, trailer};

use super::Engine;
use super::budget::Budget;
use crate::cache::BlockCache;
use crate::metrics::spans::{SPANS, Span, Taken};
use crate::metrics::{Event, Metrics};
use crate::tables::Memory;

/// What the merges into one level have done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LevelStats {
    pub(super) time: Duration,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
}

impl LevelStats {
    pub(super) fn add(&mut self, other: LevelStats) {
        self.time += other.time;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

impl Engine {
    pub(super) fn property(&self, name: &str) -> Option<String> {
        match name {
            "terrace.stats" => return Some(self.counts()),
            "terrace.memory" => return Some(self.held().all().to_string()),
            _ => {}
        }
        let name = name.strip_prefix("leveldb.")?;
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
            let level: usize = level.parse().ok().filter(|&level| digits && level < LEVELS)?;
            return Some(self.present.view().version.levels[level].len().to_string());
        }
        match name {
            "stats" => Some(self.stats()),
            "sstables" => Some(self.sstables()),
            "approximate-memory-usage" => Some(self.memory_usage().to_string()),
            _ => None,
        }
    }

    fn stats(&self) -> String {
        const MB: f64 = 1_048_576.0;
        let state = self.state.lock();
        let mut text = String::from(
            "                               Compactions\n\
             Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
             --------------------------------------------------\n",
        );
        for (level, stats) in state.stats.iter().enumerate() {
            let files = &state.set.version.levels[level];
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
    fn counts(&self) -> String {
        let metrics = self.tables.metrics();
        let row = |of: &str, well: &str, well_count: u64, ill: &str, ill_count: u64| {
            let all = well_count.saturating_add(ill_count);
            let share = if all == 0 { 0.0 } else { well_count as f64 * 100.0 / all as f64 };
            format!("{of:7} {well:9} {well_count:12}  {ill:15} {ill_count:12} {share:6.1} %\n")
        };
        let (hits, misses) = (metrics.of(Event::BlockHit), metrics.of(Event::BlockMiss));
        let (negatives, wrong) = (metrics.of(Event::FilterNegative), metrics.of(Event::FilterFalsePositive));
        row("blocks", "hits", hits, "misses", misses)
            + &row("filters", "negatives", negatives, "false positives", wrong)
            + &lost(metrics)
            + &spent_on_all(metrics)
            + &self.held().rows(self.budget.as_ref(), &self.cache, self.tables.memory())
    }

    /// Tells the info log how long things took since the database was opened, if it did anything but take writes.
    pub(super) fn tell_spans(&self) {
        let metrics = self.tables.metrics();
        let worked = SPANS.iter().any(|(span, of, _)| *of == "work" && metrics.spans.of(*span).times > 0);
        for row in spent_on_all(metrics).lines().filter(|_| worked) {
            self.logger.log(format_args!("Closing: {row}"));
        }
    }

    fn sstables(&self) -> String {
        let mut text = String::new();
        for (level, files) in self.present.view().version.levels.iter().enumerate() {
            let _ = writeln!(text, "--- level {level} ---");
            for file in files {
                let (smallest, largest) = (Shown(&file.smallest), Shown(&file.largest));
                let _ = writeln!(text, " {}:{}[{smallest} .. {largest}]", file.number, file.size);
            }
        }
        text
    }

    /// What the parts hold in memory now.
    fn held(&self) -> Held {
        let view = self.present.view();
        let memtables = std::iter::once(&view.memtable).chain(&view.frozen);
        Held {
            memtables: memtables.map(|memtable| memtable.held()).sum(),
            spare: self.spare.bytes(),
            cache: self.cache.usage(),
            tables: self.tables.memory().held(),
        }
    }

    /// Bytes of memtables, block cache, and of what a database takes without them: an open one never says 0.
    fn memory_usage(&self) -> usize {
        let view = self.present.view();
        let frozen: usize = view.frozen.iter().map(|memtable| memtable.bytes()).sum();
        size_of::<Engine>() + view.memtable.bytes() + frozen + self.cache.usage()
    }
}

/// Bytes that the parts of a database hold.
struct Held {
    memtables: usize,
    spare: usize,
    /// All of it, if it is shared.
    cache: usize,
    tables: usize,
}

impl Held {
    fn all(&self) -> usize {
        self.memtables + self.spare + self.cache + self.tables
    }

    /// A row for each part, with its limit where there is one.
    fn rows(&self, budget: Option<&Budget>, cache: &BlockCache, tables: &Memory) -> String {
        let rows = [
            ("memtables", self.memtables, budget.map(|budget| budget.memtables)),
            ("kept", self.spare, budget.map(|budget| budget.spare)),
            ("cache", self.cache, Some(cache.room()).filter(|room| *room < usize::MAX)),
            ("tables", self.tables, tables.most()),
            ("all", self.all(), budget.map(|budget| budget.all)),
        ];
        rows.iter().fold(String::new(), |mut text, (part, held, most)| {
            let most = most.map(|most| format!("  at most {most:19}")).unwrap_or_default();
            let _ = writeln!(text, "memory  {part:9} {held:12}{most}");
            text
        })
    }
}

/// What writes lost to the background in all.
fn lost(metrics: &Metrics) -> String {
    let of = |spans: &[Span]| {
        let taken = spans.iter().map(|span| metrics.spans.of(*span));
        let (times, micros) = taken.fold((0, 0), |(n, us), taken| (n + taken.times, us + taken.micros));
        format!("{times} for {micros} us")
    };
    let (slowed, stopped) = (of(&[Span::Paced]), of(&[Span::ForFlush, Span::ForMerge, Span::ForSpace]));
    format!("writes  slowed {slowed}, stopped {stopped}\n")
}

/// A row for each span that there was.
fn spent_on_all(metrics: &Metrics) -> String {
    SPANS.iter().map(|(span, of, name)| spent(of, name, &metrics.spans.of(*span))).collect()
}

/// A row for what took some time, and none for what did not happen.
fn spent(of: &str, name: &str, taken: &Taken) -> String {
    let Taken { times, micros, longest, buckets } = taken;
    if *times == 0 {
        return String::new();
    }
    let buckets: Vec<String> = buckets.iter().map(|(from, n)| format!("{from}: {n}")).collect();
    let buckets = buckets.join(", ");
    format!("{of:7} {name:9} {times:12}  {:15} {micros:12}, longest {longest}; from {buckets}\n", "us")
}

/// An internal key as LevelDB prints it: `'CH/Bern' @ 17 : 1`.
struct Shown<'a>(&'a InternalKey);

impl std::fmt::Display for Shown<'_> {
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
