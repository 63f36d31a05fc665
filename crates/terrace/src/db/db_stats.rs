//! Statistics of an open database, as values and as the text of `terrace.stats`.

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

use terrace_format::version_edit::NUM_LEVELS;

use super::Db;
use super::components::write_stalls::StalledWriters;
use super::inner::{DbInner, DbState, FlushState};
use crate::compaction::picker::{L0_COMPACTION_TRIGGER, Level0Limits, LevelTargets, lazy_leveled};
use crate::error::Error;
use crate::memtable::Memtable;
use crate::stats::{HistogramData, Ticker, Timer};
use crate::sync::Ordering;
use crate::version::{Version, total_size};

/// Statistics of an open database: counts and durations since its open, and its present state.
///
/// The `Display` text is the property `terrace.stats`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    tickers: Vec<u64>,
    timers: Vec<HistogramData>,
    /// The seven levels.
    pub levels: Vec<LevelStats>,
    /// Present memory use.
    pub memory: MemoryUse,
    /// Writers that wait at present. The timers count a stall when it ends.
    pub stalled_writers: Vec<StalledWriters>,
    /// The running compaction.
    pub running_compaction: Option<CompactionStatus>,
    /// Number of memtables that wait for their flush or are being flushed.
    pub immutable_memtables: usize,
    /// All memtables, the active one first, then from the oldest to the newest.
    pub memtables: Vec<MemtableStats>,
    /// Sequence number of the last visible write.
    pub last_sequence: u64,
    /// Cause why the database refuses writes until it is opened again.
    pub writes_refused: Option<Error>,
}

/// Memtable of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemtableStats {
    /// Bytes of its entries.
    pub bytes: usize,
    /// Bytes at which the active memtable becomes immutable. It changes with the load.
    pub limit: usize,
    /// Number of its puts and deletes.
    pub entries: u64,
    /// Number of entries that the flush has passed. The flush passes hidden versions without a
    /// count, so it may end before `entries`.
    pub flushed_entries: u64,
    /// State of the memtable.
    pub state: MemtableState,
}

/// State of a memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemtableState {
    /// Writers insert entries.
    Active,
    /// The memtable waits for its flush.
    Immutable,
    /// A job writes the table of the memtable, or has written it.
    Flushing,
}

/// Tables of a level, and the flushes and compactions into it since the open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of tables.
    pub files: usize,
    /// Number of sorted runs. The tables of one flush into level 0 are one run, and so are all
    /// tables of another level.
    pub runs: usize,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Bytes above which the level needs a compaction. None for level 0, for the deepest level with
    /// tables, and for all levels while a load is running.
    pub max_bytes: Option<u64>,
    /// Number of tables at which the level needs a compaction, as in LevelDB. None for other levels
    /// than 0, and while a load is running.
    pub compaction_files: Option<usize>,
    /// Number of runs at which the level needs a compaction while a load is running. None for other
    /// levels than 0, and while no load is running.
    pub compaction_runs: Option<usize>,
    /// Number of runs at which writes wait for a compaction. None for other levels than 0.
    pub max_runs: Option<usize>,
    /// Time of the flushes and compactions into this level.
    pub time: Duration,
    /// Bytes that they read.
    pub bytes_read: u64,
    /// Bytes that they wrote.
    pub bytes_written: u64,
}

/// Memory use of a database, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Memtables with their filters.
    pub memtables: MemoryPart,
    /// Chunks of flushed memtables that the next ones reuse.
    pub pooled_chunks: MemoryPart,
    /// Whole block cache, even if other databases share it.
    pub block_cache: MemoryPart,
    /// Indexes and filters of open tables.
    pub tables: MemoryPart,
    /// Limit of the sum of all parts.
    pub limit: Option<usize>,
    /// All databases of the process that share a budget.
    pub process: Option<MemoryPart>,
}

/// Memory use of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPart {
    /// Bytes in use.
    pub bytes: usize,
    /// Limit in bytes.
    pub limit: Option<usize>,
}

/// State of a running compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionStatus {
    /// Level of its newest inputs.
    pub level: usize,
    /// Level of its output tables.
    pub output_level: usize,
    /// Bytes of all input tables.
    pub input_bytes: u64,
    /// Number of entries of all input tables, if all tables have the count.
    pub input_entries: Option<u64>,
    /// Number of entries that it has read.
    pub entries_read: u64,
    /// Bytes of these entries, which exceed their size in compressed tables.
    pub bytes_read: u64,
    /// Time since its begin.
    pub time: Duration,
}

impl LevelStats {
    /// Describes levels with these numbers and bytes of tables, with their limits. Missing levels
    /// are empty, and the work of the levels is 0. Each table of level 0 counts as a run.
    ///
    /// ```
    /// use terrace::LevelStats;
    ///
    /// let levels = LevelStats::of_tables(&[(3, 12_000_000), (0, 0), (9, 60_000_000)]);
    /// assert_eq!((levels[0].runs, levels[0].max_runs), (3, Some(36)));
    /// assert_eq!(levels[1].max_bytes, Some(12_000_000)); // a fifth of level 2
    /// assert_eq!(levels[2].max_bytes, None); // the deepest level
    /// ```
    pub fn of_tables(tables: &[(usize, u64)]) -> Vec<LevelStats> {
        let tables: [(usize, u64); NUM_LEVELS] =
            std::array::from_fn(|level| tables.get(level).copied().unwrap_or_default());
        let targets = LevelTargets::of_sizes(tables.map(|(_, bytes)| bytes));
        let levels = tables.into_iter().enumerate();
        levels
            .map(|(level, (files, bytes))| LevelStats {
                files,
                bytes,
                runs: if level == 0 { files } else { files.min(1) },
                max_bytes: Some(targets.max_bytes(level))
                    .filter(|bytes| bytes.is_finite())
                    .map(|bytes| bytes as u64),
                compaction_files: (level == 0).then_some(L0_COMPACTION_TRIGGER),
                max_runs: (level == 0).then_some(Level0Limits::DEFAULT.stop),
                ..LevelStats::default()
            })
            .collect()
    }

    /// Returns the levels of `version` without their work. `run_trigger` is the number of runs that
    /// level 0 may have while a load is running, or None if no load is running.
    fn of_version(version: &Version, limits: &Level0Limits, run_trigger: Option<usize>) -> Vec<LevelStats> {
        let tables: Vec<(usize, u64)> =
            version.levels.iter().map(|files| (files.len(), total_size(files))).collect();
        let mut levels = LevelStats::of_tables(&tables);
        if run_trigger.is_some() {
            levels.iter_mut().for_each(|level| level.max_bytes = None);
            levels[0].compaction_files = None;
        }
        levels[0].runs = version.level_0_runs();
        levels[0].compaction_runs = run_trigger;
        levels[0].max_runs = Some(limits.stop);
        levels
    }

    /// Returns the score of the level. From 1 on, it needs a compaction.
    ///
    /// The score is the largest ratio of the tables, the runs and the bytes of the level to their
    /// limits. A level without limits has the score 0.
    ///
    /// ```
    /// use terrace::LevelStats;
    ///
    /// let levels = LevelStats::of_tables(&[(3, 12_000_000), (2, 6_000_000), (9, 60_000_000)]);
    /// assert_eq!(levels[0].score(), 0.75); // three of four tables
    /// assert_eq!(levels[2].score(), 0.0); // the deepest level
    /// ```
    pub fn score(&self) -> f64 {
        let ratios = [
            (self.files as f64, self.compaction_files.map(|files| files as f64)),
            (self.runs as f64, self.compaction_runs.map(|runs| runs as f64)),
            (self.bytes as f64, self.max_bytes.map(|bytes| bytes as f64)),
        ];
        let ratios = ratios.into_iter().map(|(size, limit)| limit.map_or(0.0, |limit| size / limit.max(1.0)));
        ratios.fold(0.0, f64::max)
    }
}

impl Stats {
    /// Returns the number of events since the open.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        self.tickers[ticker as usize]
    }

    /// Returns the durations since the open.
    pub fn timer(&self, timer: Timer) -> &HistogramData {
        &self.timers[timer as usize]
    }

    /// Formats one row for each timer that was used.
    pub(super) fn timer_rows(&self) -> String {
        Timer::all().map(|timer| timer_row(timer, self.timer(timer))).collect()
    }

    /// Formats two tickers and the share of the first one in their sum.
    fn ratio_row(
        &self,
        f: &mut fmt::Formatter<'_>,
        group: &str,
        (good_name, good): (&str, Ticker),
        (bad_name, bad): (&str, Ticker),
    ) -> fmt::Result {
        let good_count = self.ticker(good);
        let bad_count = self.ticker(bad);
        let total = good_count.saturating_add(bad_count);
        let percent = if total == 0 { 0.0 } else { good_count as f64 * 100.0 / total as f64 };
        writeln!(f, "{group:7} {good_name:9} {good_count:12}  {bad_name:15} {bad_count:12} {percent:6.1} %")
    }

    /// Formats the number and the time of some delays and stalls of writes.
    fn count_and_micros(&self, timers: &[Timer]) -> String {
        let count: u64 = timers.iter().map(|timer| self.timer(*timer).count).sum();
        let micros: u64 = timers.iter().map(|timer| self.timer(*timer).sum_micros).sum();
        format!("{count} for {micros} us")
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hits = ("hits", Ticker::BlockCacheHit);
        self.ratio_row(f, "blocks", hits, ("misses", Ticker::BlockCacheMiss))?;
        writeln!(f, "blocks  in place  {:12}", self.ticker(Ticker::BlockReadInPlace))?;
        let negatives = ("negatives", Ticker::FilterNegative);
        self.ratio_row(f, "filters", negatives, ("false positives", Ticker::FilterFalsePositive))?;
        let delayed = self.count_and_micros(&[Timer::WriteDelay]);
        let stalls = [Timer::FlushStall, Timer::CompactionStall, Timer::NoSpaceStall];
        let stopped = self.count_and_micros(&stalls);
        writeln!(f, "writes  delayed {delayed}, stopped {stopped}")?;
        f.write_str(&self.timer_rows())?;
        self.memory.fmt(f)
    }
}

impl MemoryUse {
    /// Returns the bytes of all parts of the database.
    pub fn total(&self) -> usize {
        self.memtables.bytes + self.pooled_chunks.bytes + self.block_cache.bytes + self.tables.bytes
    }
}

/// Formats one row for each part, with its limit if it has one.
impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = MemoryPart { bytes: self.total(), limit: self.limit };
        let rows = [
            ("memtables", Some(self.memtables)),
            ("pooled", Some(self.pooled_chunks)),
            ("cache", Some(self.block_cache)),
            ("tables", Some(self.tables)),
            ("total", Some(total)),
            ("process", self.process),
        ];
        for (part, use_) in rows {
            let Some(MemoryPart { bytes, limit }) = use_ else { continue };
            let limit = limit.map(|limit| format!("  at most {limit:19}")).unwrap_or_default();
            writeln!(f, "memory  {part:9} {bytes:12}{limit}")?;
        }
        Ok(())
    }
}

/// Formats the histogram of one timer. Returns no row for a timer without events.
fn timer_row(timer: Timer, data: &HistogramData) -> String {
    let HistogramData { count, sum_micros, max_micros, buckets } = data;
    let mut row = String::new();
    if *count > 0 {
        let group = if timer.is_stall() { "stall" } else { "work" };
        let name = timer.name();
        let buckets: Vec<String> = buckets.iter().map(|(from, n)| format!("{from}: {n}")).collect();
        let buckets = buckets.join(", ");
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            row,
            "{group:7} {name:11} {count:10}  {:15} {sum_micros:12}, max {max_micros}; from {buckets}",
            "us"
        );
    }
    row
}

/// Statistics of an open database.
impl Db {
    /// Returns the statistics since the open, and the present state. Takes some microseconds.
    ///
    /// The numbers are read one after the other, while other threads work. Each one is that of a
    /// recent moment. A compaction counts its work after its result is visible.
    ///
    /// ```
    /// # let mut options = terrace::Options::default();
    /// # (options.env, options.create_if_missing) = (terrace::Env::in_memory(), true);
    /// # let db = terrace::Db::open("cities", &options)?;
    /// use terrace::{Ticker, Timer};
    ///
    /// db.put(b"CH/Bern", b"46.95,7.45")?;
    /// db.flush()?;
    /// let stats = db.stats();
    /// assert_eq!(stats.ticker(Ticker::BlockCacheMiss), 0);
    /// assert_eq!(stats.levels.iter().map(|level| level.files).sum::<usize>(), 1);
    /// for timer in Timer::all() {
    ///     println!("{}: {} us", timer.name(), stats.timer(timer).sum_micros);
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.inner().stats()
    }
}

impl DbInner {
    pub(super) fn stats(&self) -> Stats {
        let metrics = self.table_cache.metrics();
        let mut stats = Stats {
            tickers: Ticker::all().map(|ticker| metrics.get(ticker)).collect(),
            timers: Timer::all().map(|timer| metrics.timers.get(timer)).collect(),
            levels: Vec::new(),
            memory: self.memory_use(),
            stalled_writers: Vec::new(),
            running_compaction: None,
            immutable_memtables: 0,
            memtables: Vec::new(),
            last_sequence: self.read_state.visible_seqno().load(Ordering::Relaxed),
            writes_refused: self.background_error.check().err(),
        };
        let now = self.options.env.clock.monotonic();
        let state = self.state.lock();
        let levels = self.level_stats(&state).into_iter().zip(&state.compaction_stats);
        stats.levels = levels
            .map(|(level, work)| LevelStats {
                time: work.time,
                bytes_read: work.bytes_read,
                bytes_written: work.bytes_written,
                ..level
            })
            .collect();
        stats.running_compaction = state.running_compaction.as_ref().map(|running| CompactionStatus {
            level: running.level,
            output_level: running.output_level,
            input_bytes: running.input_bytes,
            input_entries: running.input_entries,
            entries_read: self.compaction_progress.entries_read.load(Ordering::Relaxed),
            bytes_read: self.compaction_progress.bytes_read.load(Ordering::Relaxed),
            time: now.saturating_sub(running.started_at),
        });
        stats.stalled_writers = state.stalls.by_cause(now);
        stats.immutable_memtables = state.immutable_memtables.len();
        stats.memtables = self.memtable_stats(&state);
        stats
    }

    fn level_stats(&self, state: &DbState) -> Vec<LevelStats> {
        let limits = &self.compaction_limits;
        let version = &state.version_set.version;
        let run_trigger = state
            .load_state
            .is_load_running()
            .then(|| lazy_leveled::run_trigger(version, state.sliced_compaction, limits));
        LevelStats::of_version(version, &limits.level_0, run_trigger)
    }

    fn memtable_stats(&self, state: &DbState) -> Vec<MemtableStats> {
        let limit = self.memtable_sizer.size();
        let row = |memtable: &Memtable, entries, state| MemtableStats {
            bytes: memtable.memory_usage(),
            limit,
            entries,
            flushed_entries: memtable.flushed_entries(),
            state,
        };
        let mut sequence = state.version_set.last_sequence;
        let mut rows = Vec::with_capacity(state.immutable_memtables.len() + 1);
        for immutable in &state.immutable_memtables {
            let flush_state = match immutable.flush_state {
                FlushState::Pending => MemtableState::Immutable,
                FlushState::Running | FlushState::Done(_) => MemtableState::Flushing,
            };
            let entries = immutable.last_sequence.saturating_sub(sequence);
            rows.push(row(&immutable.memtable, entries, flush_state));
            sequence = immutable.last_sequence;
        }
        let visible = self.read_state.visible_seqno().load(Ordering::Relaxed);
        let active = row(&state.memtable, visible.saturating_sub(sequence), MemtableState::Active);
        rows.insert(0, active);
        rows
    }

    /// Returns the present memory use.
    pub(super) fn memory_use(&self) -> MemoryUse {
        let read_state = self.read_state.current();
        let memtables = std::iter::once(&read_state.memtable).chain(&read_state.immutable_memtables);
        let budget = self.memory_budget.as_ref();
        let cache_limit = self.block_cache.available_capacity();
        let part = |bytes, limit| MemoryPart { bytes, limit };
        let tables = self.table_cache.memory();
        MemoryUse {
            memtables: part(
                memtables.map(|memtable| memtable.allocated_bytes()).sum(),
                budget.map(|budget| budget.memtables),
            ),
            pooled_chunks: part(self.chunk_pool.pooled_bytes(), budget.map(|budget| budget.pooled_chunks)),
            block_cache: part(
                self.block_cache.usage(),
                Some(cache_limit).filter(|limit| *limit < usize::MAX),
            ),
            tables: part(tables.usage(), tables.limit()),
            limit: budget.map(|budget| budget.total),
            process: self
                .budget_share
                .as_ref()
                .map(|share| part(share.budget().usage(), Some(share.budget().total()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::picker::leveled::highest_score;
    use crate::compaction::picker::leveled::tests::set;
    use crate::{Env, Options};

    /// Statistics of level 0 counted flushes, and the picker counts tables. Four tables of a flush
    /// were compacted, and level 0 had a score of a quarter.
    #[test]
    fn score_of_level_0_is_that_of_the_picker() {
        for (tables, runs) in [
            ("0 1 1 a@1 b@1\n 0 2 1 c@1 d@1\n 0 3 1 e@1 f@1\n 0 4 1 g@1 h@1", 1),
            ("0 1 1 a@1 z@1\n 0 2 1 a@2 z@2\n 0 3 1 a@3 z@3\n 0 4 1 a@4 z@4", 4),
            ("0 1 1 a@1 b@1\n 0 2 1 c@1 d@1\n 0 3 1 e@1 f@1", 1),
            ("0 1 12 a@1 z@1\n 2 2 40 a@0 z@0", 1),
        ] {
            let version = set(tables).version;
            let level_0 = LevelStats::of_version(&version, &Level0Limits::DEFAULT, None)[0];
            let context = format!("{tables}: {level_0:?}");
            assert_eq!((0, level_0.score()), highest_score(&version), "{context}");
            assert_eq!((level_0.runs, level_0.compaction_files), (runs, Some(4)), "{context}");
        }
    }

    /// The limits of level 0 during a load were those without a sliced compaction.
    #[test]
    fn limits_of_level_0_during_and_after_a_load() {
        let options = Options { create_if_missing: true, env: Env::in_memory(), ..Options::default() };
        let db = Db::open("db", &options).unwrap();
        let limits = || {
            let level_0 = db.stats().levels[0];
            (level_0.compaction_files, level_0.compaction_runs, level_0.max_bytes, level_0.max_runs)
        };
        assert_eq!(limits(), (Some(4), None, None, Some(36)));
        db.inner().state.lock().load_state.record_switch(0, true);
        assert_eq!(limits(), (None, Some(12), None, Some(36)));
        db.inner().state.lock().sliced_compaction = Some(3);
        assert_eq!(limits(), (None, Some(20), None, Some(36)));
        while db.inner().state.lock().load_state.check(0, 1 << 20, false) {}
        assert_eq!(limits(), (Some(4), None, None, Some(36)));
    }
}
