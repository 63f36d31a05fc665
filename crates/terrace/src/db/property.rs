//! Properties: in LevelDB's words, which tools parse, and one of our own.

use std::fmt::Write;
use std::time::Duration;

use terrace_format::edit::LEVELS;
use terrace_format::key::{InternalKey, trailer};

use super::Engine;
use crate::metrics::Event;

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
        if name == "terrace.stats" {
            return Some(self.counts());
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
        let [slowed, stopped] =
            [(Event::WriteSlowed, Event::SlowedMicros), (Event::WriteStopped, Event::StoppedMicros)]
                .map(|(event, micros)| format!("{} for {} us", metrics.of(event), metrics.of(micros)));
        row("blocks", "hits", hits, "misses", misses)
            + &row("filters", "negatives", negatives, "false positives", wrong)
            + &format!("writes  slowed {slowed}, stopped {stopped}\n")
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

    /// Bytes of memtables, block cache, and of what a database takes without them: an open one never says 0.
    fn memory_usage(&self) -> usize {
        let view = self.present.view();
        let frozen: usize = view.frozen.iter().map(|memtable| memtable.bytes()).sum();
        size_of::<Engine>() + view.memtable.bytes() + frozen + self.cache.usage()
    }
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
