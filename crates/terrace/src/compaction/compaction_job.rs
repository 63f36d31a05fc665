//! One merge, or a slice of it: inputs in, new tables out.
//!
//! ```text
//!   for each version of each user key, newest first:
//!     1. drop it if a newer version of the key is visible to the oldest reader already
//!     2. drop it if it is a delete that the oldest reader sees, and no level below can hold the key
//!     3. else write it; begin a new table when this one is large enough, or overlaps too much of the level below
//!        the output, but never between two versions of a key
//! ```
//!
//! The outcome holds every version that any reader, now or later, can see, and it is checked to be in order.

use std::path::Path;

use terrace_env::Env;
use terrace_format::comparator::Comparator;
use terrace_format::compress;
use terrace_format::key::{
    self, InternalComparator, InternalKey, MAX_SEQUENCE_NUMBER, SequenceNumber, ValueType,
};
use terrace_format::key_order::KeyOrder;
use terrace_format::table::TableOptions;
use terrace_format::version_edit::NUM_LEVELS;
use terrace_sync::mutant;

use super::Compaction;
use super::Subcompaction;
use super::loser_tree::LoserTree;
use crate::error::{Error, Result};
use crate::iterator::ChildIter;
use crate::stats::Ticker;
use crate::sync::Arc;
use crate::table::{BlockReadOptions, FinishedTable, TableCache, TableWriter};
use crate::version::{FileMeta, Version};

/// What a merge works with.
pub(crate) struct CompactionContext<'a> {
    pub(crate) env: &'a Env,
    pub(crate) directory: &'a Path,
    pub(crate) table_cache: &'a Arc<TableCache>,
    /// For the last level; the others are not packed.
    pub(crate) table_options: &'a TableOptions,
    /// The version that the job was chosen from.
    pub(crate) version: Arc<Version>,
    /// No reader reads, or will read, at an older sequence number.
    pub(crate) smallest_snapshot: SequenceNumber,
    /// Numbers for new files.
    pub(crate) next_file_number: Box<dyn Fn() -> u64 + 'a>,
    /// True when the merge should give up.
    pub(crate) is_cancelled: Box<dyn Fn() -> bool + 'a>,
}

/// What a merge made.
#[derive(Debug, Default)]
pub(crate) struct CompactionOutput {
    pub(crate) tables: Vec<FinishedTable>,
    pub(crate) bytes_written: u64,
    pub(crate) entries_read: u64,
    pub(crate) entries_written: u64,
}

/// Runs `slice` of `job`. On an error, and when cancelled (which is an error too), there are no new files.
pub(crate) fn run_subcompaction(
    job: &Compaction,
    slice: &Subcompaction,
    environment: &CompactionContext<'_>,
) -> Result<CompactionOutput> {
    let mut merge = CompactionJob {
        compaction: job,
        subcompaction: slice,
        context: environment,
        table_options: table_options_for_level(
            environment.version.is_bottommost_level(job.output_level()),
            environment.table_options,
        ),
        lower_levels: LowerLevels::new(&environment.version, job.output_level() + 1),
        grandparents: Grandparents::new(&job.grandparents, job.limits.max_grandparent_overlap_bytes()),
        current_table: None,
        finished_tables: Vec::new(),
        entries_written: 0,
        bytes_since_cache_drop: 0,
        cache_misses_at_drop: environment.table_cache.metrics().get(Ticker::BlockCacheMiss),
    };
    match merge.run_subcompaction() {
        Ok(entries_read) => {
            let bytes_written = merge.finished_tables.iter().map(|table| table.file.size).sum();
            let entries_written = merge.entries_written;
            Ok(CompactionOutput {
                tables: merge.finished_tables,
                bytes_written,
                entries_read,
                entries_written,
            })
        }
        Err(error) => {
            merge.abandon();
            Err(error)
        }
    }
}

/// Entries between two questions whether to give up.
const CANCEL_CHECK_PERIOD: u64 = 256;

/// Of what a merge has read it lets go each time it was so much, in bytes: tables are mapped, and the pages of those that it reads
/// would count as memory of the process until the last one is done.
const PAGE_CACHE_DROP_BYTES: usize = 8 << 20;

/// `options`, without a codec unless `last`. Tables of the upper levels are soon rewritten, and a small part of the
/// whole: packing them would cost much time and save little space.
pub(crate) fn table_options_for_level(last: bool, options: &TableOptions) -> TableOptions {
    let codec = if last { options.codec } else { &compress::NO_COMPRESSION };
    TableOptions { codec, ..options.clone() }
}

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
    /// Bytes read since it let go.
    bytes_since_cache_drop: usize,
    /// How often readers had missed a block by then.
    cache_misses_at_drop: u64,
}

impl CompactionJob<'_> {
    /// Says how many entries it read.
    fn run_subcompaction(&mut self) -> Result<u64> {
        let comparator = self.context.version.comparator.clone();
        let newest = if mutant!(SubcompactionSkipsNewestVersion) { 0 } else { MAX_SEQUENCE_NUMBER };
        let begin =
            self.subcompaction.begin.as_deref().map(|key| InternalKey::new(key, newest, ValueType::FOR_SEEK));
        let begin = begin.as_ref().map(InternalKey::as_bytes);
        let mut input = LoserTree::new(comparator, self.input_iters(), self.shared_prefix_len(), begin);
        let mut fate = VersionFilter::new(&self.context.version.comparator, self.context.smallest_snapshot);
        let mut count = 0u64;
        while let Some((key, value)) = input.entry() {
            if count.is_multiple_of(CANCEL_CHECK_PERIOD) && (self.context.is_cancelled)() {
                return Err(Error::NotSupported("a merge in a database that is being closed".into()));
            }
            if self.is_past_end(key) {
                break;
            }
            count += 1;
            self.record_read(key.len() + value.len());
            match fate.decide(key)? {
                Verdict::Drop => {}
                Verdict::DropIfBottommost
                    if !self.lower_levels.key_may_exist_below(key::user_key(key))
                        || mutant!(TombstoneDroppedTooEarly) => {}
                Verdict::Keep | Verdict::DropIfBottommost => self.add(key, value, fate.is_newest_version)?,
            }
            input.next();
        }
        input.status()?;
        self.finish_table()?;
        if self.subcompaction.end.is_some() {
            self.drop_page_cache(); // others go on in the same tables
        }
        Ok(count)
    }

    /// Takes note that so many bytes more were read, and lets go of the inputs from time to time, unless readers want their pages.
    #[inline]
    fn record_read(&mut self, bytes: usize) {
        self.bytes_since_cache_drop += bytes;
        if self.bytes_since_cache_drop >= PAGE_CACHE_DROP_BYTES {
            self.bytes_since_cache_drop = 0;
            self.drop_page_cache();
        }
    }

    #[cold]
    fn drop_page_cache(&mut self) {
        let tables = self.context.table_cache;
        let missed = tables.metrics().get(Ticker::BlockCacheMiss);
        if std::mem::replace(&mut self.cache_misses_at_drop, missed) == missed {
            self.compaction.input_files().for_each(|file| tables.advise_dontneed(file.table_ref()));
        }
    }

    /// True if `key` belongs to the next slice.
    fn is_past_end(&self, key: &[u8]) -> bool {
        let user = self.context.version.comparator.user_comparator();
        self.subcompaction.end.as_ref().is_some_and(|end| user.compare(key::user_key(key), end).is_ge())
    }

    fn input_iters(&self) -> Vec<ChildIter> {
        // A merge reads everything once: caching it would only push out what readers use.
        let read = BlockReadOptions { fill_cache: false };
        let CompactionContext { table_cache: tables, version, .. } = self.context;
        let runs = |(level, files): &(usize, Vec<Arc<FileMeta>>)| {
            version.child_iters_of_files(*level, files.clone(), tables, read)
        };
        self.compaction.inputs.iter().flat_map(runs).collect()
    }

    /// With how many bytes all keys of the inputs begin alike.
    fn shared_prefix_len(&self) -> usize {
        let files: Vec<_> = self.compaction.input_files().cloned().collect();
        let hull = self.context.version.key_range(&files);
        hull.map_or(0, |(low, high)| low.iter().zip(high).take_while(|(a, b)| a == b).count())
    }

    fn add(&mut self, key: &[u8], value: &[u8], first_version: bool) -> Result<()> {
        let comparator = &self.context.version.comparator;
        let overlaps = self.grandparents.should_stop_before(key, comparator);
        let full = self
            .current_table
            .as_ref()
            .is_some_and(|table| table.size_estimate() >= self.compaction.limits.target_file_size);
        if (first_version || mutant!(UserKeySplitAcrossTables)) && (full || overlaps) {
            self.finish_table()?;
        }
        if self.current_table.is_none() {
            let CompactionContext { env, directory, next_file_number: next_file, .. } = self.context;
            self.current_table = Some(TableWriter::create(env, directory, next_file(), &self.table_options)?);
        }
        self.entries_written += 1;
        match &mut self.current_table {
            Some(table) => table.add(key, value),
            None => Ok(()),
        }
    }

    fn finish_table(&mut self) -> Result<()> {
        let Some(table) = self.current_table.take() else { return Ok(()) };
        self.finished_tables.extend(table.finish()?);
        self.grandparents.reset();
        Ok(())
    }

    fn abandon(&mut self) {
        if let Some(table) = self.current_table.take() {
            table.abandon();
        }
        remove_tables(self.context.env, self.context.directory, &self.finished_tables);
    }
}

/// Removes tables that nothing names. A leftover is removed at the next open.
pub(crate) fn remove_tables(env: &Env, directory: &Path, tables: &[FinishedTable]) {
    for table in tables {
        let name = terrace_format::filename::FileName::Table(table.file.number).to_string();
        let _ = env.fs.remove(&directory.join(name));
    }
}

/// What becomes of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Drop,
    /// A delete that every reader sees: it is needed only while something older may lie below.
    DropIfBottommost,
}

/// Decides over versions, given in order.
struct VersionFilter {
    user_order: KeyOrder,
    smallest_snapshot: SequenceNumber,
    current_user_key: Vec<u8>,
    /// The version before, of the same user key.
    last_sequence_for_key: Option<SequenceNumber>,
    has_current_user_key: bool,
    /// True if the version asked about last was the newest of its key.
    is_newest_version: bool,
}

impl VersionFilter {
    fn new(comparator: &InternalComparator, oldest_reader: SequenceNumber) -> VersionFilter {
        let user = KeyOrder::from(Arc::clone(comparator.user_comparator()));
        VersionFilter {
            user_order: user,
            smallest_snapshot: oldest_reader,
            current_user_key: Vec::new(),
            last_sequence_for_key: None,
            has_current_user_key: false,
            is_newest_version: true,
        }
    }

    fn decide(&mut self, internal: &[u8]) -> Result<Verdict> {
        let parsed = key::parse(internal).map_err(|flaw| {
            let what = format!("{flaw}, in the key '{}'", internal.escape_ascii());
            Error::corruption("merge".as_ref(), None, what)
        })?;
        let same =
            self.has_current_user_key && self.user_order.is_equal(parsed.user_key, &self.current_user_key);
        let newer = if same { self.last_sequence_for_key } else { None };
        let verdict = match newer {
            // Seen by the oldest reader, so that no reader needs an older one.
            Some(newer) if newer <= self.smallest_snapshot => Verdict::Drop,
            // The same write twice: two tables that were made from one log.
            Some(newer) if newer == parsed.sequence => Verdict::Drop,
            _ if parsed.value_type == ValueType::Deletion && parsed.sequence <= self.smallest_snapshot => {
                Verdict::DropIfBottommost
            }
            _ => Verdict::Keep,
        };
        self.is_newest_version = !same;
        self.last_sequence_for_key = Some(parsed.sequence);
        self.has_current_user_key = true;
        if !same {
            self.current_user_key.clear();
            self.current_user_key.extend_from_slice(parsed.user_key);
        }
        Ok(verdict)
    }
}

/// The levels below the output, asked about rising user keys.
struct LowerLevels<'a> {
    version: &'a Version,
    first_level: usize,
    /// Per level, the first file that does not end before the key asked last.
    level_positions: [usize; NUM_LEVELS],
}

impl<'a> LowerLevels<'a> {
    fn new(version: &'a Version, first: usize) -> LowerLevels<'a> {
        LowerLevels { version, first_level: first, level_positions: [0; NUM_LEVELS] }
    }

    /// True if a file below may hold a version of `user_key`.
    fn key_may_exist_below(&mut self, user_key: &[u8]) -> bool {
        let user = self.version.comparator.user_comparator();
        for level in self.first_level..NUM_LEVELS {
            let files = &self.version.levels[level];
            while let Some(file) = files.get(self.level_positions[level]) {
                if user.compare(user_key, file.largest.user_key()).is_le() {
                    if user.compare(user_key, file.smallest.user_key()).is_ge() {
                        return true;
                    }
                    break;
                }
                self.level_positions[level] += 1;
            }
        }
        false
    }
}

/// How much of the level below the output the present table overlaps.
struct Grandparents<'a> {
    files: &'a [Arc<FileMeta>],
    overlap_limit: u64,
    index: usize,
    overlapped_bytes: u64,
    /// False before the first key: what lies before it overlaps nothing.
    seen_key: bool,
}

impl<'a> Grandparents<'a> {
    fn new(files: &'a [Arc<FileMeta>], limit: u64) -> Grandparents<'a> {
        Grandparents { files, overlap_limit: limit, index: 0, overlapped_bytes: 0, seen_key: false }
    }

    /// True if the table should end before `key`.
    fn should_stop_before(&mut self, key: &[u8], comparator: &InternalComparator) -> bool {
        while let Some(file) = self.files.get(self.index) {
            if comparator.compare(key, file.largest.as_bytes()).is_le() {
                break;
            }
            if self.seen_key {
                self.overlapped_bytes += file.size;
            }
            self.index += 1;
        }
        self.seen_key = true;
        self.overlapped_bytes > self.overlap_limit
    }

    fn reset(&mut self) {
        self.overlapped_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::comparator::bytewise;

    use super::*;

    #[track_caller]
    fn check(
        oldest_reader: SequenceNumber,
        versions: &[(&str, SequenceNumber, ValueType)],
        expect: &[Verdict],
    ) {
        let mut fate = VersionFilter::new(&InternalComparator::new(bytewise()), oldest_reader);
        let verdicts: Vec<Verdict> = versions
            .iter()
            .map(|(user, sequence, kind)| {
                let mut internal = Vec::new();
                key::append(&mut internal, user.as_bytes(), *sequence, *kind);
                fate.decide(&internal).unwrap()
            })
            .collect();
        assert_eq!(verdicts, expect);
    }

    use ValueType::{Deletion, Value};
    use Verdict::{Drop, DropIfBottommost, Keep};

    #[test]
    fn without_snapshots_only_newest_version_is_kept() {
        check(9, &[("a", 5, Value), ("a", 3, Value), ("b", 4, Value)], &[Keep, Drop, Keep]);
    }

    #[test]
    fn snapshot_keeps_its_visible_version() {
        check(3, &[("a", 5, Value), ("a", 3, Value), ("a", 2, Value)], &[Keep, Keep, Drop]);
    }

    #[test]
    fn tombstone_is_dropped_only_at_bottommost_and_below_smallest_snapshot() {
        check(3, &[("a", 5, Deletion), ("a", 3, Deletion), ("a", 2, Value)], &[Keep, DropIfBottommost, Drop]);
    }

    #[test]
    fn empty_user_key_is_valid() {
        check(9, &[("", 5, Value), ("", 4, Value), ("a", 3, Value)], &[Keep, Drop, Keep]);
    }

    #[test]
    fn duplicate_write_is_dropped() {
        check(0, &[("a", 5, Value), ("a", 5, Value)], &[Keep, Drop]);
    }
}
