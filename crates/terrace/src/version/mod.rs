//! A version: the table files that make up the database at one moment, as a value.
//!
//! ```text
//!   level 0    files overlap; any may hold the newest version of a key
//!   level 1-6  files of a level do not overlap and stand in key order; a lower level is newer
//! ```
//!
//! A version never changes. Readers hold the one they started with; its files stay until nobody holds it.

mod allowed_seeks;
mod manifest;
mod point_lookup;
mod version_builder;
mod version_set;

pub(crate) use allowed_seeks::AllowedSeeks;
pub(crate) use manifest::{CommitError, Manifest, set_current_file};
pub(crate) use point_lookup::ReadCompactionHint;
pub(crate) use version_builder::VersionBuilder;
pub(crate) use version_set::{
    MAX_FILE_NUMBER, MAX_UNLISTED_FILE_NUMBER, ManifestRecovery, VersionSet, has_incompatible_suffix,
    read_current,
};

use std::fmt;
use std::ops::Range;

use terrace_format::comparator::Comparator;
use terrace_format::key::{InternalComparator, InternalKey};
use terrace_format::key_order::{KeyHeads, KeyOrder};
use terrace_format::version_edit::{NUM_LEVELS, NewFile};

use crate::error::Result;
use crate::iterator::{ChildIter, LevelIter, SortedRun};
use crate::sync::Arc;
use crate::table::{
    BlockReadOptions, FinishedTable, TableCache, TableHandle, TableIter, TableRef, TableStats,
};

/// A table file of a version.
pub(crate) struct FileMeta {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
    /// Of look-ups that pass through this file in vain.
    pub(crate) allowed_seeks: AllowedSeeks,
    pub(crate) table_handle: Arc<TableHandle>,
}

impl FileMeta {
    /// LevelDB's: a merge of a megabyte costs as much as 25 seeks (25 MB of reading and writing against 10 ms each); to be
    /// careful, one seek for every 16 KiB.
    pub(crate) const BYTES_PER_SEEK: u64 = 16 << 10;

    pub(crate) fn new(file: NewFile) -> Arc<FileMeta> {
        let seeks = (file.size / Self::BYTES_PER_SEEK).max(100) as i64;
        Arc::new(FileMeta {
            number: file.number,
            size: file.size,
            smallest: file.smallest,
            largest: file.largest,
            allowed_seeks: AllowedSeeks::new(seeks),
            table_handle: Arc::default(),
        })
    }

    /// The table in it.
    pub(crate) fn table_ref(&self) -> TableRef<'_> {
        TableRef {
            handle: &self.table_handle,
            number: self.number,
            size: self.size,
            smallest: &self.smallest,
            largest: &self.largest,
        }
    }

    /// What is known of its entries.
    pub(crate) fn stats(&self) -> Option<TableStats> {
        self.table_handle.stats()
    }

    /// As it stands in an edit.
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

/// The sum of the sizes of `files`, in bytes.
pub(crate) fn total_size(files: &[Arc<FileMeta>]) -> u64 {
    // Sizes come from the manifest, and are not to be believed.
    files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
}

/// The files of a database at one moment.
pub(crate) struct Version {
    pub(crate) comparator: InternalComparator,
    /// Level 0 from the newest file to the oldest; the others in key order.
    pub(crate) levels: [Vec<Arc<FileMeta>>; NUM_LEVELS],
    /// Of the greatest keys of the files of each sorted level, if the order has any.
    largest_key_heads: [Option<KeyHeads>; NUM_LEVELS],
    order: KeyOrder,
}

/// A range of user keys, both ends included; an open end is None.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRange<'a> {
    pub(crate) begin: Option<&'a [u8]>,
    pub(crate) end: Option<&'a [u8]>,
}

impl Version {
    pub(crate) fn empty(comparator: InternalComparator) -> Version {
        let order = KeyOrder::from(&comparator);
        Version { comparator, levels: Default::default(), largest_key_heads: Default::default(), order }
    }

    /// Sets the files of a level, in the order said at `levels`.
    fn set_level(&mut self, level: usize, files: Vec<Arc<FileMeta>>) {
        if level > 0 {
            self.largest_key_heads[level] =
                KeyHeads::new(&self.order, files.iter().map(|file| file.largest.as_bytes()));
        }
        self.levels[level] = files;
    }

    /// Notes what is known of `tables`, which have just come to `level`.
    pub(crate) fn set_table_stats(&self, level: usize, tables: &[FinishedTable]) {
        for FinishedTable { file, stats: tally } in tables {
            let known = self.levels[level].iter().find(|known| known.number == file.number);
            known.into_iter().for_each(|known| {
                known.table_handle.set_stats(*tally);
            });
        }
    }

    fn user_comparator(&self) -> &dyn Comparator {
        &**self.comparator.user_comparator()
    }

    fn file_overlaps(&self, file: &FileMeta, range: KeyRange<'_>) -> bool {
        let before = range
            .begin
            .is_some_and(|begin| self.user_comparator().compare(file.largest.user_key(), begin).is_lt());
        let behind = range
            .end
            .is_some_and(|end| self.user_comparator().compare(file.smallest.user_key(), end).is_gt());
        !before && !behind
    }

    /// The index of the first file of a sorted level whose greatest key is not below `target`.
    pub(crate) fn find_file(&self, level: usize, target: &[u8]) -> usize {
        let files = &self.levels[level];
        let open = match &self.largest_key_heads[level] {
            Some(heads) => heads.candidates(&self.order, target),
            None => 0..files.len(),
        };
        let start = open.start;
        let below = |file: &Arc<FileMeta>| self.order.compare(file.largest.as_bytes(), target).is_lt();
        start + files[open].partition_point(below)
    }

    /// True if nothing is stored below `level`.
    pub(crate) fn is_bottommost_level(&self, level: usize) -> bool {
        self.levels[level + 1..].iter().all(Vec::is_empty)
    }

    /// True if a file of `level` holds keys in `range`.
    pub(crate) fn overlaps_level(&self, level: usize, range: KeyRange<'_>) -> bool {
        self.levels[level].iter().any(|file| self.file_overlaps(file, range))
    }

    /// The files of `level` that may hold keys in `range`, in the level's order.
    ///
    /// On level 0 the range grows with each file that reaches beyond it: a merge must take a key's versions whole.
    pub(crate) fn overlapping_inputs(&self, level: usize, range: KeyRange<'_>) -> Vec<Arc<FileMeta>> {
        let mut files = self.files_overlapping(level, range);
        loop {
            let Some((low, high)) = self.key_range(&files).filter(|_| level == 0) else { return files };
            let begin = range.begin.map(|begin| self.min_key(begin, low));
            let end = range.end.map(|end| self.max_key(end, high));
            let more = self.files_overlapping(level, KeyRange { begin, end });
            if more.len() == files.len() {
                return files;
            }
            files = more;
        }
    }

    /// The files of a sorted level that may hold keys from `low` to `high`.
    pub(crate) fn overlapping_slice(&self, level: usize, low: &[u8], high: &[u8]) -> &[Arc<FileMeta>] {
        let files = &self.levels[level];
        let from = files
            .partition_point(|file| self.user_comparator().compare(file.largest.user_key(), low).is_lt());
        let met = files[from..]
            .partition_point(|file| self.user_comparator().compare(file.smallest.user_key(), high).is_le());
        &files[from..from + met]
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

    /// The least and the greatest user key of `files`.
    pub(crate) fn key_range<'a>(&self, files: &'a [Arc<FileMeta>]) -> Option<(&'a [u8], &'a [u8])> {
        let first = files.first()?;
        let start = (first.smallest.user_key(), first.largest.user_key());
        Some(files.iter().fold(start, |(low, high), file| {
            (self.min_key(low, file.smallest.user_key()), self.max_key(high, file.largest.user_key()))
        }))
    }

    /// The runs of this version, newest first, for a merge: each file of level 0 by itself, those of another level all
    /// together. Tables are opened when they are come to, and one that can't be opened is damage met on the way.
    pub(crate) fn child_iters(
        self: &Arc<Self>,
        tables: &Arc<TableCache>,
        read: BlockReadOptions,
    ) -> impl Iterator<Item = ChildIter> {
        let each = (0..self.levels[0].len()).map(|i| (0, i..i + 1));
        let sorted = (1..NUM_LEVELS).filter(|&level| !self.levels[level].is_empty());
        let sorted = sorted.map(|level| (level, 0..self.levels[level].len()));
        each.chain(sorted).map(move |(level, range)| {
            let files = RunFiles::LevelRange(Arc::clone(self), level, range);
            ChildIter::Level(LevelIter::new(Arc::new(FileRun {
                files,
                table_cache: Arc::clone(tables),
                read_options: read,
            })))
        })
    }

    /// No fewer than there are of [`Version::child_iters`].
    pub(crate) fn max_child_iters(&self) -> usize {
        self.levels[0].len() + NUM_LEVELS - 1
    }

    /// `files` of one level as runs, as [`Version::child_iters`] would make them.
    pub(crate) fn child_iters_of_files(
        &self,
        level: usize,
        files: Vec<Arc<FileMeta>>,
        tables: &Arc<TableCache>,
        read: BlockReadOptions,
    ) -> Vec<ChildIter> {
        let runs = match level {
            0 => files.into_iter().map(|file| vec![file]).collect(),
            _ if files.is_empty() => vec![],
            _ => vec![files],
        };
        let source = |files| {
            let files = RunFiles::Selected(self.comparator.clone(), files);
            ChildIter::Level(LevelIter::new(Arc::new(FileRun {
                files,
                table_cache: Arc::clone(tables),
                read_options: read,
            })))
        };
        runs.into_iter().map(source).collect()
    }

    /// About how many bytes of table files lie before `key`.
    pub(crate) fn approximate_offset(&self, key: &InternalKey, tables: &TableCache) -> Result<u64> {
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
                    offset += tables
                        .with_table(file.table_ref(), |table| Ok(table.approximate_offset(key.as_bytes())))?;
                }
            }
        }
        Ok(offset)
    }
}

/// Files that do not overlap, as a run.
struct FileRun {
    files: RunFiles,
    table_cache: Arc<TableCache>,
    read_options: BlockReadOptions,
}

enum RunFiles {
    /// A range of a level's files, on level 0 a single one.
    LevelRange(Arc<Version>, usize, Range<usize>),
    Selected(InternalComparator, Vec<Arc<FileMeta>>),
}

impl FileRun {
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
        let below = |order: &InternalComparator| {
            self.files().partition_point(|file| order.compare(file.largest.as_bytes(), target).is_lt())
        };
        match &self.files {
            RunFiles::LevelRange(version, 0, _) => below(&version.comparator),
            RunFiles::LevelRange(version, level, _) => version.find_file(*level, target),
            RunFiles::Selected(order, _) => below(order),
        }
    }

    fn open_table(&self, i: usize) -> Result<TableIter> {
        let file = &self.files()[i];
        Ok(TableIter::new(self.table_cache.find_table(file.table_ref())?, self.read_options))
    }
}
