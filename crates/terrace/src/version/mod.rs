//! Version: the set of tables that make up the database at one moment, as a value.
//!
//! ```text
//!   level 0    files overlap; any of them may hold the newest version of a key
//!   level 1-6  files of one level are in key order and do not overlap; a lower level is newer
//! ```
//!
//! A version never changes. A reader keeps the version with which it started. The files of a
//! version exist as long as the version.

mod allowed_seeks;
mod manifest;
mod manifest_mark;
mod manifest_recovery;
mod manifest_tail;
mod point_lookup;
mod seek_compaction;
mod version_builder;
mod version_codec;
mod version_set;

pub(crate) use allowed_seeks::AllowedSeeks;
pub(crate) use manifest::{CommitError, Manifest, set_current_file};
pub(crate) use manifest_mark::{ClosedLog, LogWriteMethod};
pub(crate) use manifest_recovery::{
    MAX_FILE_NUMBER, MAX_UNLISTED_FILE_NUMBER, ManifestRecovery, has_incompatible_suffix,
    read_comparator_name, read_current, tables_without_edit,
};
pub(crate) use manifest_tail::ManifestTail;
pub(crate) use point_lookup::ReadCompactionHint;
pub(crate) use version_builder::VersionBuilder;
pub(crate) use version_set::VersionSet;

use std::fmt;
use std::ops::Range;

use terrace_format::comparator::Comparator;
use terrace_format::key::{InternalComparator, InternalKey, SequenceNumber};
use terrace_format::key_order::{KeyHeads, KeyOrder};
use terrace_format::version_edit::{NUM_LEVELS, NewFile};

use crate::error::Result;
use crate::iterator::{ChildIter, LevelIter, SortedRun};
use crate::sync::Arc;
use crate::table::{
    BlockReadOptions, FinishedTable, TableCache, TableHandle, TableIter, TableRef, TableStats,
};
use crate::table_info::TableInfo;

/// Metadata of a table file.
pub(crate) struct FileMeta {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
    /// Sequence number that no entry exceeds. It is 0 for a file that existed when the database was
    /// opened: all of its entries are older than every snapshot.
    pub(crate) largest_sequence: SequenceNumber,
    /// Number of wasted probes that the file may still cause.
    pub(crate) allowed_seeks: AllowedSeeks,
    /// Number of seeks of iterators that may still merge the file with other runs.
    pub(crate) allowed_merged_seeks: AllowedSeeks,
    pub(crate) table_handle: Arc<TableHandle>,
}

/// Number of merged seeks after which the database computes the price of a compaction.
const MIN_MERGED_SEEKS: i64 = 1 << 12;

impl FileMeta {
    /// Number of bytes for which a file gets one allowed seek. The value is LevelDB's: the
    /// compaction of 1 MiB costs as much as 25 seeks (25 MiB of reads and writes, or 10 ms for each
    /// seek), which is one seek per 40 KiB. LevelDB allows one per 16 KiB, to be conservative.
    pub(crate) const BYTES_PER_SEEK: u64 = 16 << 10;

    /// Creates the metadata of `file`, which is not open yet.
    pub(crate) fn new(file: NewFile, largest_sequence: SequenceNumber) -> Arc<FileMeta> {
        let seeks = (file.size / Self::BYTES_PER_SEEK).max(100) as i64;
        Arc::new(FileMeta {
            number: file.number,
            size: file.size,
            smallest: file.smallest,
            largest: file.largest,
            largest_sequence,
            allowed_seeks: AllowedSeeks::new(seeks),
            allowed_merged_seeks: AllowedSeeks::new(MIN_MERGED_SEEKS),
            table_handle: Arc::default(),
        })
    }

    /// Returns the reference with which the table cache finds the table.
    pub(crate) fn table_ref(&self) -> TableRef<'_> {
        TableRef {
            handle: &self.table_handle,
            number: self.number,
            size: self.size,
            smallest: &self.smallest,
            largest: &self.largest,
        }
    }

    /// Returns the counts of entries and tombstones, if they are known.
    pub(crate) fn stats(&self) -> Option<TableStats> {
        self.table_handle.stats()
    }

    /// Returns the number of entries, if it is known.
    pub(crate) fn entries(&self) -> Option<u64> {
        self.stats().map(|stats| stats.properties.num_entries)
    }

    /// Returns the description of the file for callers, without counts.
    pub(crate) fn describe(&self) -> TableInfo {
        let smallest = self.smallest.user_key().to_vec();
        TableInfo::new(self.number, self.size, smallest, self.largest.user_key().to_vec())
    }

    /// Returns the entry of a version edit for this file.
    pub(crate) fn to_new_file(&self) -> NewFile {
        NewFile {
            number: self.number,
            size: self.size,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
        }
    }
}

impl fmt::Debug for FileMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}[{:?} .. {:?}]", self.number, self.size, self.smallest, self.largest)
    }
}

/// Returns the sum of the sizes of `files`, in bytes.
pub(crate) fn total_size<'a>(files: impl IntoIterator<Item = &'a Arc<FileMeta>>) -> u64 {
    // The sizes come from the MANIFEST, which may be damaged.
    files.into_iter().fold(0, |sum, file| sum.saturating_add(file.size))
}

/// Tables of a database at one moment.
pub(crate) struct Version {
    pub(crate) comparator: InternalComparator,
    /// Files of each level: level 0 from the newest file to the oldest, the other levels in key
    /// order.
    pub(crate) levels: [Vec<Arc<FileMeta>>; NUM_LEVELS],
    /// Heads of the largest keys of each sorted level, if the key order has heads.
    largest_key_heads: [Option<KeyHeads>; NUM_LEVELS],
    order: KeyOrder,
}

/// Range of user keys, both ends included. An open end is None.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRange<'a> {
    pub(crate) begin: Option<&'a [u8]>,
    pub(crate) end: Option<&'a [u8]>,
}

impl Version {
    /// Creates a version without files.
    pub(crate) fn empty(comparator: InternalComparator) -> Version {
        let order = KeyOrder::from(&comparator);
        Version { comparator, levels: Default::default(), largest_key_heads: Default::default(), order }
    }

    /// Sets the files of a level, in the order that `levels` requires.
    fn set_level(&mut self, level: usize, files: Vec<Arc<FileMeta>>) {
        if level > 0 {
            self.largest_key_heads[level] =
                KeyHeads::new(&self.order, files.iter().map(|file| file.largest.as_bytes()));
        }
        self.levels[level] = files;
    }

    /// Stores the known table properties of `tables`, which were just added to `level`.
    pub(crate) fn set_table_stats(&self, level: usize, tables: &[FinishedTable]) {
        for FinishedTable { file, stats, .. } in tables {
            if let Some(added) = self.levels[level].iter().find(|added| added.number == file.number) {
                added.table_handle.set_stats(*stats);
            }
        }
    }

    /// Returns the number of sorted runs of level 0: flushes that may overlap. The tables of one
    /// flush have consecutive numbers in the order of their keys. A get probes at most one table of
    /// each run.
    pub(crate) fn level_0_runs(&self) -> usize {
        // From the newest table to the oldest.
        let level_0 = &self.levels[0];
        let pairs = level_0.iter().zip(level_0.iter().skip(1));
        level_0.len() - pairs.filter(|(newer, older)| self.is_next_in_flush(newer, older)).count()
    }

    fn is_next_in_flush(&self, newer: &FileMeta, older: &FileMeta) -> bool {
        newer.number == older.number + 1
            && self.user_comparator().compare(newer.smallest.user_key(), older.largest.user_key()).is_gt()
    }

    fn user_comparator(&self) -> &dyn Comparator {
        &**self.comparator.user_comparator()
    }

    fn file_overlaps(&self, file: &FileMeta, range: KeyRange<'_>) -> bool {
        let ends_before = range
            .begin
            .is_some_and(|begin| self.user_comparator().compare(file.largest.user_key(), begin).is_lt());
        let starts_after = range
            .end
            .is_some_and(|end| self.user_comparator().compare(file.smallest.user_key(), end).is_gt());
        !ends_before && !starts_after
    }

    /// Returns the index of the first file of a sorted level whose largest key is at or after
    /// `target`, or the number of files if there is none.
    pub(crate) fn find_file(&self, level: usize, target: &[u8]) -> usize {
        let files = &self.levels[level];
        let candidates = match &self.largest_key_heads[level] {
            Some(heads) => heads.candidates(&self.order, target),
            None => 0..files.len(),
        };
        let start = candidates.start;
        start
            + files[candidates]
                .partition_point(|file| self.order.compare(file.largest.as_bytes(), target).is_lt())
    }

    /// Returns true if all levels below `level` are empty.
    pub(crate) fn is_bottommost_level(&self, level: usize) -> bool {
        self.levels[level + 1..].iter().all(Vec::is_empty)
    }

    /// Returns true if a file of `level` may hold keys in `range`.
    pub(crate) fn overlaps_level(&self, level: usize, range: KeyRange<'_>) -> bool {
        self.levels[level].iter().any(|file| self.file_overlaps(file, range))
    }

    /// Returns the files of `level` that may hold keys in `range`, in the order of the level.
    ///
    /// On level 0, every file that exceeds the range extends it, because a compaction must contain
    /// all versions of a key.
    pub(crate) fn overlapping_inputs(&self, level: usize, range: KeyRange<'_>) -> Vec<Arc<FileMeta>> {
        let mut files = self.files_overlapping(level, range);
        loop {
            let Some((low, high)) = self.key_range(&files).filter(|_| level == 0) else { return files };
            let begin = range.begin.map(|begin| self.min_key(begin, low));
            let end = range.end.map(|end| self.max_key(end, high));
            let extended = self.files_overlapping(level, KeyRange { begin, end });
            if extended.len() == files.len() {
                return files;
            }
            files = extended;
        }
    }

    /// Returns the files of a sorted level that may hold keys from `low` to `high`, both included.
    pub(crate) fn overlapping_slice(&self, level: usize, low: &[u8], high: &[u8]) -> &[Arc<FileMeta>] {
        let files = &self.levels[level];
        let start = files
            .partition_point(|file| self.user_comparator().compare(file.largest.user_key(), low).is_lt());
        let len = files[start..]
            .partition_point(|file| self.user_comparator().compare(file.smallest.user_key(), high).is_le());
        &files[start..start + len]
    }

    fn files_overlapping(&self, level: usize, range: KeyRange<'_>) -> Vec<Arc<FileMeta>> {
        self.levels[level].iter().filter(|file| self.file_overlaps(file, range)).cloned().collect()
    }

    fn min_key<'a>(&self, a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
        if self.user_comparator().compare(b, a).is_lt() { b } else { a }
    }

    fn max_key<'a>(&self, a: &'a [u8], b: &'a [u8]) -> &'a [u8] {
        if self.user_comparator().compare(b, a).is_gt() { b } else { a }
    }

    /// Returns the smallest and the largest user key of `files`.
    pub(crate) fn key_range<'a>(&self, files: &'a [Arc<FileMeta>]) -> Option<(&'a [u8], &'a [u8])> {
        let first = files.first()?;
        let start = (first.smallest.user_key(), first.largest.user_key());
        Some(files.iter().fold(start, |(low, high), file| {
            (self.min_key(low, file.smallest.user_key()), self.max_key(high, file.largest.user_key()))
        }))
    }

    /// Returns true if a file of a sorted level may hold keys in `range`. Searches the files.
    fn sorted_level_overlaps(&self, level: usize, range: KeyRange<'_>) -> bool {
        let compare = |key: &InternalKey, other: &[u8]| self.user_comparator().compare(key.user_key(), other);
        let files = &self.levels[level];
        let first = range
            .begin
            .map_or(0, |begin| files.partition_point(|file| compare(&file.largest, begin).is_lt()));
        let file = files.get(first);
        file.is_some_and(|file| range.end.is_none_or(|end| compare(&file.smallest, end).is_le()))
    }

    /// Returns the sorted runs of this version that may hold keys in `range`, newest first: levels
    /// with indexes of files. Each file of level 0 is a run, and so is each other level.
    fn runs_in_range(&self, range: KeyRange<'_>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let level_0 =
            (0..self.levels[0].len()).filter(move |&i| self.file_overlaps(&self.levels[0][i], range));
        let sorted = (1..NUM_LEVELS).filter(move |&level| self.sorted_level_overlaps(level, range));
        let sorted = sorted.map(|level| (level, 0..self.levels[level].len()));
        level_0.map(|i| (0, i..i + 1)).chain(sorted)
    }

    /// Returns iterators over the sorted runs of this version that may hold keys in `range`, newest
    /// first.
    ///
    /// An iterator opens a table when it reaches it. A table that cannot be opened is an error of
    /// the iterator.
    pub(crate) fn child_iters(
        self: &Arc<Self>,
        table_cache: &Arc<TableCache>,
        read_options: BlockReadOptions,
        range: KeyRange<'_>,
    ) -> impl Iterator<Item = ChildIter> {
        self.runs_in_range(range).map(move |(level, files)| {
            FileRun::iter(RunFiles::LevelRange(Arc::clone(self), level, files), table_cache, read_options)
        })
    }

    /// Returns an iterator over each file that may hold a key in `range` and an entry after the
    /// sequence number `since`.
    pub(crate) fn child_iters_newer_than(
        &self,
        since: SequenceNumber,
        range: KeyRange<'_>,
        table_cache: &Arc<TableCache>,
        read_options: BlockReadOptions,
    ) -> impl Iterator<Item = ChildIter> {
        self.child_iters_in_range(range, move |file| file.largest_sequence > since, table_cache, read_options)
    }

    /// Returns an iterator over each file that may hold a key in `range` and fits `filter`.
    pub(crate) fn child_iters_in_range(
        &self,
        range: KeyRange<'_>,
        filter: impl Fn(&FileMeta) -> bool,
        table_cache: &Arc<TableCache>,
        read_options: BlockReadOptions,
    ) -> impl Iterator<Item = ChildIter> {
        let files = self.levels.iter().flatten().filter(move |file| filter(file));
        files.filter(move |file| self.file_overlaps(file, range)).map(move |file| {
            let files = RunFiles::Selected(self.comparator.clone(), vec![Arc::clone(file)]);
            FileRun::iter(files, table_cache, read_options)
        })
    }

    /// Returns iterators over the sorted runs of some `files` of one level.
    pub(crate) fn child_iters_of_files(
        &self,
        level: usize,
        files: Vec<Arc<FileMeta>>,
        table_cache: &Arc<TableCache>,
        read_options: BlockReadOptions,
    ) -> Vec<ChildIter> {
        let runs = match level {
            0 => files.into_iter().map(|file| vec![file]).collect(),
            _ if files.is_empty() => vec![],
            _ => vec![files],
        };
        runs.into_iter()
            .map(|files| {
                let files = RunFiles::Selected(self.comparator.clone(), files);
                FileRun::iter(files, table_cache, read_options)
            })
            .collect()
    }

    /// Estimates the number of bytes of table files before `key`.
    pub(crate) fn approximate_offset(&self, key: &InternalKey, table_cache: &TableCache) -> Result<u64> {
        let mut offset = 0u64;
        for (level, files) in self.levels.iter().enumerate() {
            for file in files {
                if self.comparator.compare(file.largest.as_bytes(), key.as_bytes()).is_le() {
                    offset = offset.saturating_add(file.size);
                } else if self.comparator.compare(file.smallest.as_bytes(), key.as_bytes()).is_gt() {
                    if level > 0 {
                        break;
                    }
                } else {
                    let table = table_cache.guard(file.table_ref(), BlockReadOptions::BULK)?;
                    offset = offset.saturating_add(table.approximate_offset(key.as_bytes()));
                }
            }
        }
        Ok(offset)
    }
}

/// Files that do not overlap, as a sorted run.
struct FileRun {
    files: RunFiles,
    table_cache: Arc<TableCache>,
    read_options: BlockReadOptions,
}

/// Files of a run.
enum RunFiles {
    /// Range of the files of a level of a version. On level 0, it is a single file.
    LevelRange(Arc<Version>, usize, Range<usize>),
    /// Files of one level, in key order.
    Selected(InternalComparator, Vec<Arc<FileMeta>>),
}

impl FileRun {
    /// Returns an iterator over `files`.
    fn iter(files: RunFiles, table_cache: &Arc<TableCache>, read_options: BlockReadOptions) -> ChildIter {
        let table_cache = Arc::clone(table_cache);
        ChildIter::Level(LevelIter::new(Arc::new(FileRun { files, table_cache, read_options })))
    }

    fn files(&self) -> &[Arc<FileMeta>] {
        match &self.files {
            RunFiles::LevelRange(version, level, range) => &version.levels[*level][range.clone()],
            RunFiles::Selected(_, files) => files,
        }
    }
}

impl SortedRun for FileRun {
    fn len(&self) -> usize {
        self.files().len()
    }

    fn find_table(&self, target: &[u8]) -> usize {
        let find = |order: &InternalComparator| {
            self.files().partition_point(|file| order.compare(file.largest.as_bytes(), target).is_lt())
        };
        match &self.files {
            RunFiles::LevelRange(version, 0, _) => find(&version.comparator),
            RunFiles::LevelRange(version, level, _) => version.find_file(*level, target),
            RunFiles::Selected(order, _) => find(order),
        }
    }

    fn open_table(&self, index: usize) -> Result<TableIter> {
        let file = &self.files()[index];
        Ok(TableIter::new(self.table_cache.find_table(file.table_ref())?, self.read_options))
    }
}
