//! Level targets: the target size of each level, from the bottom level up.
//!
//! ```text
//!   level 0   4 flushes  ───────────┐
//!   level 1   (skipped)             │
//!   level 2   target: total / 5   <─┘ base     the first level whose target is at least the size
//!                                              of level 0
//!   level 3   target: total           bottom   the deepest level with a table
//! ```
//!
//! A small database has one sorted level, and level 0 is compacted directly into it. So each byte
//! is rewritten a few times, not once for every level as in LevelDB. As the database grows, the
//! base level moves up. When it is level 1 already, the bottom level moves down.
//!
//! A level may also hold the bytes that LevelDB allows. So a database in LevelDB's shape needs no
//! compaction.

use std::ops::RangeInclusive;

use terrace_format::version_edit::NUM_LEVELS;

use crate::compaction::compaction_plan::{L0_COMPACTION_TRIGGER, MAX_MEM_COMPACT_LEVEL};
use crate::version::{Version, total_size};

/// Ratio of the target sizes of two neighbouring levels.
///
/// LevelDB's ratio is 10. This engine uses fewer levels, so a smaller ratio writes less: a
/// compaction rewrites about this many bytes of the lower level for each byte of the upper level.
pub(super) const LEVEL_SIZE_MULTIPLIER: u64 = 5;

/// LevelDB's maximum size of level 1, in bytes.
const LEVELDB_LEVEL_1_MAX_BYTES: f64 = 10.0 * 1_048_576.0;

/// Actual and target sizes of the levels of a version, in bytes.
#[derive(Debug)]
pub(crate) struct LevelTargets {
    /// Actual sizes.
    sizes: [u64; NUM_LEVELS],
    /// Actual size of levels 1 to 6 together.
    total: u64,
    bottom_level: usize,
}

impl LevelTargets {
    pub(crate) fn new(version: &Version) -> LevelTargets {
        let mut sizes = [0; NUM_LEVELS];
        for (size, files) in sizes.iter_mut().zip(&version.levels) {
            *size = total_size(files);
        }
        LevelTargets::of_sizes(sizes)
    }

    /// Returns the targets of levels with these sizes in bytes. A level of 0 bytes has no table.
    pub(crate) fn of_sizes(sizes: [u64; NUM_LEVELS]) -> LevelTargets {
        let bottom_level = (1..NUM_LEVELS).rev().find(|&level| sizes[level] > 0);
        let total = sizes[1..].iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        LevelTargets { sizes, total, bottom_level: bottom_level.unwrap_or(MAX_MEM_COMPACT_LEVEL) }
    }

    /// Returns the deepest level that has a table.
    pub(crate) fn bottom_level(&self) -> usize {
        self.bottom_level
    }

    /// Returns the actual size of `level`, in bytes.
    pub(crate) fn level_size(&self, level: usize) -> u64 {
        self.sizes[level]
    }

    /// Returns the actual size of `levels` together, in bytes.
    pub(super) fn size_of_levels(&self, levels: RangeInclusive<usize>) -> u64 {
        // The sizes come from the MANIFEST, which may be damaged.
        self.sizes[levels].iter().fold(0, |sum, size| sum.saturating_add(*size))
    }

    /// Returns the target size of `level`, in bytes. The level is not below the bottom level.
    fn target_size(&self, level: usize) -> u64 {
        self.total / LEVEL_SIZE_MULTIPLIER.pow((self.bottom_level - level) as u32)
    }

    /// Returns the level into which level 0 is compacted.
    pub(crate) fn base_level(&self) -> usize {
        (1..=self.bottom_level)
            .find(|&level| self.target_size(level) >= self.sizes[0])
            .unwrap_or(self.bottom_level)
    }

    /// Returns true if even level 1 is too large for compactions with level 0. Then the bottom
    /// level should move down.
    pub(crate) fn needs_level(&self) -> bool {
        self.bottom_level + 1 < NUM_LEVELS
            && self.target_size(1) / LEVEL_SIZE_MULTIPLIER >= self.sizes[0].max(1)
    }

    /// Returns the level for tables of `bytes` bytes that overlap nothing: the bottom level, or a
    /// deeper one that LevelDB would not compact, if the tables outweigh the database. In a large
    /// database, a deeper level would start the compaction of all others.
    pub(super) fn level_for_ingest(&self, bytes: u64) -> usize {
        if bytes <= self.total {
            return self.bottom_level;
        }
        let fitting =
            (MAX_MEM_COMPACT_LEVEL..NUM_LEVELS).find(|&level| leveldb_max_bytes(level) >= bytes as f64);
        fitting.unwrap_or(NUM_LEVELS - 1).max(self.bottom_level)
    }

    /// Returns the score of level 0 with `files` tables. From 1 on, it needs a compaction.
    ///
    /// Tables count, as in LevelDB, and not the flushes that wrote them: LevelDB would otherwise
    /// begin with a compaction when it opens the database.
    pub(super) fn level_0_score(files: usize) -> f64 {
        files as f64 / L0_COMPACTION_TRIGGER as f64
    }

    /// Returns the size of `level`, in bytes, above which it needs a compaction. Level 0 and the
    /// bottom level have no maximum.
    pub(crate) fn max_bytes(&self, level: usize) -> f64 {
        if level == 0 || level >= self.bottom_level {
            return f64::INFINITY;
        }
        leveldb_max_bytes(level).max(self.target_size(level) as f64)
    }
}

/// Returns the size of `level`, in bytes, above which LevelDB compacts it.
pub(super) fn leveldb_max_bytes(level: usize) -> f64 {
    LEVELDB_LEVEL_1_MAX_BYTES * 10f64.powi(level.max(1) as i32 - 1)
}

/// Estimates the number of bytes that compactions must read until no level needs a compaction.
pub(crate) fn pending_compaction_bytes(version: &Version) -> u64 {
    let targets = LevelTargets::new(version);
    let mut pending = 0u64;
    if LevelTargets::level_0_score(version.levels[0].len()) >= 1.0 {
        pending = targets.size_of_levels(0..=targets.base_level());
    }
    for level in 1..targets.bottom_level {
        let excess = targets.level_size(level) as f64 - targets.max_bytes(level);
        // Each byte overlaps about `LEVEL_SIZE_MULTIPLIER` bytes of the level below. The cast turns
        // a negative excess into 0.
        pending = pending.saturating_add((excess * (1 + LEVEL_SIZE_MULTIPLIER) as f64) as u64);
    }
    pending
}
