//! Compaction job: reads the input tables of a compaction, or of one subcompaction, and writes new
//! tables.
//!
//! ```text
//!   for each version of each user key, newest first:
//!     1. drop it if the smallest snapshot sees a newer version of the key
//!     2. drop it if it is a tombstone that the smallest snapshot sees, and no lower level can hold
//!        the key
//!     3. otherwise write it; start a new table when the current one is large enough or overlaps
//!        too much of the level below the output, but never between two versions of a key
//! ```
//!
//! The output holds every version that a current or later reader can see. The table writer checks
//! the order of its keys.

use std::path::Path;

use terrace_env::Env;
use terrace_format::comparator::Comparator;
use terrace_format::compress;
use terrace_format::filename::FileName;
use terrace_format::key::{
    self, InternalComparator, InternalKey, MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType,
};
use terrace_format::table::TableOptions;
use terrace_sync::mutant;

use super::compaction_plan::{Compaction, Subcompaction};
use super::loser_tree::LoserTree;
use super::version_filter::{LowerLevels, Verdict, VersionFilter};
use crate::error::{Error, Result};
use crate::event::CompactionReason;
use crate::iterator::ChildIter;
use crate::stats::Ticker;
use crate::sync::Arc;
use crate::table::{BlockReadOptions, FinishedTable, TableCache, TableWriter};
use crate::version::{FileMeta, Version};

/// Surroundings of a compaction job.
pub(crate) struct CompactionContext<'a> {
    pub(crate) env: &'a Env,
    pub(crate) directory: &'a Path,
    pub(crate) table_cache: &'a Arc<TableCache>,
    /// Options for tables of the bottommost level. Tables of other levels are not compressed.
    pub(crate) table_options: &'a TableOptions,
    /// Version from which the picker chose the compaction.
    pub(crate) version: Arc<Version>,
    /// True if tables of the bottommost level get huge pages of the page cache.
    pub(crate) huge_pages: bool,
    /// Smallest sequence number at which a current or later reader reads.
    pub(crate) smallest_snapshot: SequenceNumber,
    /// Allocates a file number.
    pub(crate) next_file_number: Box<dyn Fn() -> u64 + 'a>,
    /// Receives numbers of entries that the job has read, and their bytes.
    pub(crate) on_entries_read: Box<dyn Fn(u64, u64) + 'a>,
    /// Receives the size of each finished table in bytes.
    pub(crate) on_table_finished: Box<dyn Fn(u64) + 'a>,
    /// Returns true if the job must stop because the database is closing.
    pub(crate) is_cancelled: Box<dyn Fn() -> bool + 'a>,
}

/// Result of a compaction job.
#[derive(Debug, Default)]
pub(crate) struct CompactionOutput {
    pub(crate) tables: Vec<FinishedTable>,
    pub(crate) bytes_written: u64,
    pub(crate) entries_read: u64,
    pub(crate) entries_written: u64,
}

/// Runs `subcompaction` of `compaction`.
///
/// # Errors
///
/// After an error, no new file is left. A canceled job returns an error too.
pub(crate) fn run_subcompaction(
    compaction: &Compaction,
    subcompaction: &Subcompaction,
    context: &CompactionContext<'_>,
) -> Result<CompactionOutput> {
    let output_level = compaction.output_level();
    let is_bottommost = context.version.is_bottommost_level(output_level);
    let huge_pages = is_bottommost && context.huge_pages;
    let table_options = table_options_for_level(is_bottommost, context.table_options);
    let overlap_limit = compaction.limits.max_grandparent_overlap_bytes();
    let mut job = CompactionJob {
        compaction,
        subcompaction,
        context,
        table_options: TableOptions { huge_pages, ..table_options },
        lower_levels: LowerLevels::new(&context.version, first_lower_level(output_level)),
        grandparents: Grandparents::new(&compaction.grandparents, overlap_limit),
        current_table: None,
        finished_tables: Vec::new(),
        entries_written: 0,
        reported_entries: 0,
        unreported_bytes: 0,
        bytes_since_cache_drop: 0,
        file_reads_at_drop: file_reads(context.table_cache),
    };
    match job.run() {
        Ok(entries_read) => {
            let bytes_written = job.finished_tables.iter().map(|table| table.file.size).sum();
            let entries_written = job.entries_written;
            Ok(CompactionOutput { tables: job.finished_tables, bytes_written, entries_read, entries_written })
        }
        Err(error) => {
            job.abandon();
            Err(error)
        }
    }
}

/// Returns the first level whose entries a tombstone in `output_level` may hide.
fn first_lower_level(output_level: usize) -> usize {
    if mutant!(TombstoneDroppedAboveRun) { output_level + 2 } else { output_level + 1 }
}

/// Number of entries between two checks for cancellation.
const CANCEL_CHECK_PERIOD: u64 = 256;

/// Number of bytes that a job reads before it drops the page cache of its inputs. Tables are
/// mapped, so their pages would count as memory of the process until the job ends. With huge pages,
/// each of the current inputs adds up to 2 MiB.
const PAGE_CACHE_DROP_BYTES: usize = 4 << 20;

/// Returns `options`, without compression unless `is_bottommost`.
///
/// The upper levels are a small part of the database and are rewritten soon. Their compression
/// would cost much time and save little space.
pub(crate) fn table_options_for_level(is_bottommost: bool, options: &TableOptions) -> TableOptions {
    let codec = if is_bottommost { options.codec } else { &compress::NO_COMPRESSION };
    TableOptions { codec, ..options.clone() }
}

/// State of a running job.
struct CompactionJob<'a> {
    compaction: &'a Compaction,
    subcompaction: &'a Subcompaction,
    context: &'a CompactionContext<'a>,
    table_options: TableOptions,
    lower_levels: LowerLevels<'a>,
    grandparents: Grandparents<'a>,
    current_table: Option<TableWriter>,
    finished_tables: Vec<FinishedTable>,
    entries_written: u64,
    /// Number of entries that the reports of progress include.
    reported_entries: u64,
    /// Bytes read since the last report of progress.
    unreported_bytes: u64,
    /// Bytes read since the last drop of the page cache.
    bytes_since_cache_drop: usize,
    /// Block reads of all readers from files at the last drop of the page cache.
    file_reads_at_drop: u64,
}

impl CompactionJob<'_> {
    /// Writes the output tables. Returns the number of entries that it read.
    fn run(&mut self) -> Result<u64> {
        let mut input = self.input();
        let mut filter = VersionFilter::new(&self.context.version.comparator, self.context.smallest_snapshot);
        let mut entries_read = 0u64;
        while let Some((key, value)) = input.entry() {
            if entries_read.is_multiple_of(CANCEL_CHECK_PERIOD) {
                self.report_progress(entries_read);
                if (self.context.is_cancelled)() {
                    return Err(Error::NotSupported("compaction canceled: the database is closing".into()));
                }
            }
            if self.is_past_end(key) || (mutant!(SliceLosesLastKey) && self.is_last_of_slice(key)) {
                break;
            }
            entries_read += 1;
            self.record_read(key.len() + value.len());
            match filter.decide(key)? {
                Verdict::Drop => {}
                Verdict::DropIfBottommost
                    if !self.lower_levels.key_may_exist_below(key::user_key(key))
                        || mutant!(TombstoneDroppedTooEarly) => {}
                Verdict::Keep | Verdict::DropIfBottommost => {
                    self.add(key, value, filter.is_newest_version)?;
                }
            }
            input.next();
        }
        input.status()?;
        self.finish_table()?;
        if self.subcompaction.end.is_some() {
            // The next subcompaction reads the rest of the same tables.
            self.drop_page_cache();
        }
        Ok(entries_read)
    }

    /// Returns the input entries in order, from the first key of the subcompaction on.
    fn input(&self) -> LoserTree<ChildIter> {
        let newest = if mutant!(SubcompactionSkipsNewestVersion) { 0 } else { MAX_SEQUENCE_NUMBER };
        let begin = self.subcompaction.begin.as_deref();
        let begin = begin.map(|key| InternalKey::new(key, newest, ValueType::FOR_SEEK));
        let comparator = self.context.version.comparator.clone();
        let begin = begin.as_ref().map(InternalKey::as_bytes);
        LoserTree::new(comparator, self.input_iters(), self.shared_prefix_len(), begin)
    }

    /// Reports the entries since the last report. `entries_read` is the number of all of them.
    fn report_progress(&mut self, entries_read: u64) {
        let entries = entries_read - self.reported_entries;
        let bytes = std::mem::take(&mut self.unreported_bytes);
        self.reported_entries = entries_read;
        if entries > 0 {
            (self.context.on_entries_read)(entries, bytes);
        }
    }

    /// Counts `bytes` that the job read. Drops the page cache every [`PAGE_CACHE_DROP_BYTES`].
    #[inline]
    fn record_read(&mut self, bytes: usize) {
        self.unreported_bytes += bytes as u64;
        self.bytes_since_cache_drop += bytes;
        if self.bytes_since_cache_drop >= PAGE_CACHE_DROP_BYTES {
            self.bytes_since_cache_drop = 0;
            self.drop_page_cache();
        }
    }

    /// Drops the input tables from the page cache, unless readers read blocks of files since the
    /// last drop: such readers may need the pages.
    #[cold]
    fn drop_page_cache(&mut self) {
        let table_cache = self.context.table_cache;
        let reads = file_reads(table_cache);
        if std::mem::replace(&mut self.file_reads_at_drop, reads) == reads {
            for file in self.compaction.input_files() {
                table_cache.advise_dontneed(file.table_ref());
            }
        }
    }

    /// Returns true if `key` belongs to the next subcompaction.
    fn is_past_end(&self, key: &[u8]) -> bool {
        let comparator = self.context.version.comparator.user_comparator();
        self.subcompaction.end.as_ref().is_some_and(|end| comparator.compare(key::user_key(key), end).is_ge())
    }

    /// Returns true if `key` is the last one of a slice, for a mutant.
    fn is_last_of_slice(&self, key: &[u8]) -> bool {
        let comparator = self.context.version.comparator.user_comparator();
        let user_key = key::user_key(key);
        let mut files = self.compaction.input_files();
        self.compaction.reason == CompactionReason::SortedRuns
            && self.compaction.level() > 0
            && files.all(|file| comparator.compare(user_key, file.largest.user_key()).is_ge())
    }

    fn input_iters(&self) -> Vec<ChildIter> {
        // A job reads each block once. In the cache, its blocks would only evict blocks of readers.
        let read_options = BlockReadOptions::BULK;
        let CompactionContext { table_cache, version, .. } = self.context;
        let mut iters = Vec::new();
        for (level, files) in &self.compaction.inputs {
            iters.extend(version.child_iters_of_files(*level, files.clone(), table_cache, read_options));
        }
        iters
    }

    /// Returns the number of leading bytes that all user keys of the inputs share.
    fn shared_prefix_len(&self) -> usize {
        let files: Vec<_> = self.compaction.input_files().cloned().collect();
        let key_range = self.context.version.key_range(&files);
        key_range.map_or(0, |(low, high)| low.iter().zip(high).take_while(|(a, b)| a == b).count())
    }

    fn add(&mut self, key: &[u8], value: &[u8], is_newest_version: bool) -> Result<()> {
        let comparator = &self.context.version.comparator;
        let overlaps = self.grandparents.should_stop_before(key, comparator);
        let target_size = self.compaction.limits.target_file_size;
        let is_full = self.current_table.as_ref().is_some_and(|table| table.size_estimate() >= target_size);
        if (is_newest_version || mutant!(UserKeySplitAcrossTables)) && (is_full || overlaps) {
            self.finish_table()?;
        }
        if self.current_table.is_none() {
            let CompactionContext { env, directory, next_file_number, .. } = self.context;
            let number = next_file_number();
            self.current_table = Some(TableWriter::create(env, directory, number, &self.table_options)?);
        }
        self.entries_written += 1;
        match &mut self.current_table {
            Some(table) => table.add(key, value),
            None => Ok(()),
        }
    }

    fn finish_table(&mut self) -> Result<()> {
        let Some(table) = self.current_table.take() else { return Ok(()) };
        if let Some(finished) = table.finish()? {
            (self.context.on_table_finished)(finished.file.size);
            self.finished_tables.push(finished);
        }
        self.grandparents.reset();
        Ok(())
    }

    /// Removes all tables of the job.
    fn abandon(&mut self) {
        if let Some(table) = self.current_table.take() {
            table.abandon();
        }
        remove_tables(self.context.env, self.context.directory, &self.finished_tables);
    }
}

/// Removes tables that no version names. If a removal fails, the next open removes the leftover
/// file.
pub(crate) fn remove_tables(env: &Env, directory: &Path, tables: &[FinishedTable]) {
    for table in tables {
        for name in [FileName::Table(table.file.number), FileName::OldTable(table.file.number)] {
            let _ = env.fs.remove(&directory.join(name.to_string()));
        }
    }
}

/// Returns the number of blocks that readers read from files so far. Compactions do not count.
fn file_reads(table_cache: &TableCache) -> u64 {
    let metrics = table_cache.metrics();
    metrics.get(Ticker::BlockCacheMiss).wrapping_add(metrics.get(Ticker::BlockReadInPlace))
}

/// Overlap of the current output table with the level below the output level.
struct Grandparents<'a> {
    files: &'a [Arc<FileMeta>],
    /// Maximum overlap of an output table, in bytes.
    overlap_limit: u64,
    /// Index of the first file that does not end before the last key.
    index: usize,
    overlapped_bytes: u64,
    /// False before the first key: no output table overlaps the files before it.
    seen_key: bool,
}

impl<'a> Grandparents<'a> {
    fn new(files: &'a [Arc<FileMeta>], overlap_limit: u64) -> Grandparents<'a> {
        Grandparents { files, overlap_limit, index: 0, overlapped_bytes: 0, seen_key: false }
    }

    /// Returns true if the current table should end before `key`.
    fn should_stop_before(&mut self, key: &[u8], comparator: &InternalComparator) -> bool {
        while let Some(file) = self.files.get(self.index) {
            if comparator.compare(key, file.largest.as_bytes()).is_le() {
                break;
            }
            if self.seen_key {
                self.overlapped_bytes = self.overlapped_bytes.saturating_add(file.size);
            }
            self.index += 1;
        }
        self.seen_key = true;
        self.overlapped_bytes > self.overlap_limit
    }

    /// Starts a new output table.
    fn reset(&mut self) {
        self.overlapped_bytes = 0;
    }
}
