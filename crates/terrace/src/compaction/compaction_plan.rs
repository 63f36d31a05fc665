//! Compaction plan: the inputs, the output level and the limits of one compaction.

use terrace_format::key::InternalKey;
use terrace_format::version_edit::VersionEdit;

use crate::event::{CompactionInputs, CompactionReason};
use crate::sync::Arc;
use crate::version::{FileMeta, total_size};

/// Plan of a compaction: it moves files of one level, and the files that they overlap, to the
/// output level. A plan with files of one level only rewrites them there.
pub(crate) struct Compaction {
    pub(crate) reason: CompactionReason,
    /// Input files by level, in ascending order of the levels, so newest first. Every level from
    /// the start level to the output level has an entry, which may be empty.
    pub(crate) inputs: Vec<(usize, Vec<Arc<FileMeta>>)>,
    /// Files of the level below the output level that overlap the inputs.
    pub(crate) grandparents: Vec<Arc<FileMeta>>,
    /// Key at which the next compaction of the start level starts.
    pub(crate) compact_pointer: Option<InternalKey>,
    /// Size limits of the output level.
    pub(crate) limits: CompactionLimits,
}

/// Input bytes above which a compaction is long. Flushes fill level 0 meanwhile, and writers wait.
const LONG_COMPACTION_BYTES: u64 = 512 << 20;

impl Compaction {
    /// Returns the start level.
    pub(crate) fn level(&self) -> usize {
        self.inputs.first().map_or(0, |(level, _)| *level)
    }

    /// Returns the output level.
    pub(crate) fn output_level(&self) -> usize {
        self.inputs.last().map_or(0, |(level, _)| *level)
    }

    /// Returns all input files.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = &Arc<FileMeta>> {
        self.inputs.iter().flat_map(|(_, files)| files)
    }

    /// Returns true if writers may have to wait for the end of the compaction.
    pub(crate) fn is_long(&self) -> bool {
        total_size(self.input_files()) > LONG_COMPACTION_BYTES
    }

    /// Returns true if the files can move to the output level without a rewrite.
    ///
    /// Files that overlap much of the level below are rewritten, because smaller tables make the
    /// next compaction cheaper. A whole level that moves down is not.
    pub(crate) fn is_trivial_move(&self) -> bool {
        let [(level, files), rest @ ..] = &self.inputs[..] else { return false };
        (files.len() == 1 || *level > 0)
            && !rest.is_empty()
            && rest.iter().all(|(_, files)| files.is_empty())
            && (self.reason == CompactionReason::AddLevel
                || total_size(&self.grandparents) <= self.limits.max_grandparent_overlap_bytes())
    }

    /// Returns the edit that deletes the inputs. The caller adds the output files.
    pub(crate) fn version_edit(&self) -> VersionEdit {
        let mut edit = VersionEdit::default();
        edit.compact_pointers.extend(self.compact_pointer.clone().map(|key| (self.level(), key)));
        for (level, files) in &self.inputs {
            edit.deleted_files.extend(files.iter().map(|file| (*level, file.number)));
        }
        edit
    }
}

impl Compaction {
    /// Returns the description of the inputs for events.
    pub(crate) fn describe(&self) -> CompactionInputs {
        let tables = self.inputs.iter();
        CompactionInputs {
            reason: self.reason,
            tables: tables
                .map(|(level, files)| (*level, files.iter().map(|file| file.number).collect()))
                .collect(),
            output_level: self.output_level(),
            bytes: total_size(self.input_files()),
        }
    }
}

/// Range of user keys from `begin`, included, to `end`, excluded.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Subcompaction {
    pub(crate) begin: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
}

/// Size limits of the output tables of a compaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionLimits {
    /// Size at which a compaction starts a new table, in bytes.
    pub(crate) target_file_size: u64,
    /// True if tables of a large level may be larger, which limits their number.
    pub(crate) scales_with_level: bool,
    /// Limits of the sorted runs of level 0.
    pub(crate) level_0: Level0Limits,
    /// Size of one compaction of a sliced compaction, in bytes.
    pub(crate) slice_bytes: u64,
}

/// Numbers of sorted runs on level 0 that start a compaction or hold writers back. All tables of
/// one flush are one run.
///
/// While a compaction runs, flushes need space on level 0. The compaction of small flushes takes
/// milliseconds, so they need little space. Then LevelDB's limits hold, and gets search few tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level0Limits {
    /// Number of runs that become a run of a deeper level while a load is running.
    pub(crate) run: usize,
    /// Number of runs that become a run of a deeper level during a sliced compaction. Without a
    /// larger number, flushes of a fast load would leave no time for the slices, and the runs above
    /// them would be compacted with each other again and again.
    pub(crate) run_during_slices: usize,
    /// Number of runs from which on writes are delayed if compactions are too slow.
    pub(crate) slowdown: usize,
    /// Number of runs from which on each run doubles the maximum delay.
    pub(crate) no_headroom: usize,
    /// Number of runs, with those of unfinished flushes, at which writes stall until a compaction
    /// ends.
    pub(crate) stop: usize,
}

impl Level0Limits {
    /// Limits with memtables of at least a mebibyte.
    pub(crate) const DEFAULT: Level0Limits =
        Level0Limits { run: 12, run_during_slices: 20, slowdown: 10, no_headroom: 30, stop: 36 };
    /// Limits with smaller memtables. The slowdown and the stop are LevelDB's.
    const SMALL: Level0Limits =
        Level0Limits { run: 6, run_during_slices: 8, slowdown: 8, no_headroom: 10, stop: 12 };

    /// Returns the limits with memtables of at most `size` bytes.
    pub(crate) fn for_memtable_size(size: usize) -> Level0Limits {
        if size < SMALL_MEMTABLE_SIZE { Level0Limits::SMALL } else { Level0Limits::DEFAULT }
    }
}

/// Number of level-0 files that triggers a compaction. The value is that of LevelDB.
pub(crate) const L0_COMPACTION_TRIGGER: usize = 4;
/// Memtables below this size in bytes are small.
const SMALL_MEMTABLE_SIZE: usize = 1 << 20;
/// Deepest level to which a flush may write. The value is that of LevelDB.
pub(crate) const MAX_MEM_COMPACT_LEVEL: usize = 2;

/// Number of tables of a large level, if its tables may grow.
const TARGET_TABLES_PER_LEVEL: u64 = 64;
/// Maximum of the scaled target file size, in bytes. The compaction of a larger table would take
/// too long.
const MAX_TARGET_FILE_SIZE: u64 = 64 << 20;

impl CompactionLimits {
    /// Returns the limits of a compaction into a level of `level_size` bytes.
    pub(crate) fn for_level(self, level_size: u64) -> CompactionLimits {
        if !self.scales_with_level {
            return self;
        }
        let largest = MAX_TARGET_FILE_SIZE.max(self.target_file_size);
        CompactionLimits {
            target_file_size: (level_size / TARGET_TABLES_PER_LEVEL).clamp(self.target_file_size, largest),
            ..self
        }
    }

    /// Returns the maximum number of bytes of the level below the output level that one output
    /// table may overlap. More overlap would make its next compaction expensive.
    pub(crate) fn max_grandparent_overlap_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(10)
    }

    /// Returns the maximum input size, in bytes, up to which a compaction takes along further files
    /// of the start level.
    pub(crate) fn expanded_compaction_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(25)
    }
}
