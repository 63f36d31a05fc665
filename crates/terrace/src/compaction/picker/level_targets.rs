//! How large each level is to be, from the bottom up.
//!
//! ```text
//!   level 0   4 flushes  ──────────┐           the base: the shallowest level whose share is not less than
//!   level 1   (passed over)        │           what comes from level 0
//!   level 2   share: total / 5   <─┘ base
//!   level 3   share: total           bottom    the deepest level that has any table
//! ```
//!
//! A small database has one sorted level, to which level 0 goes at once: each byte is rewritten a few times and not once
//! for every level that LevelDB would have passed it through. As the total grows the base moves up, and when it can't
//! any more the bottom moves down.
//!
//! A level also may hold what LevelDB lets it hold: a database that it left in good order is in good order.

use terrace_format::version_edit::NUM_LEVELS;

use super::{L0_COMPACTION_TRIGGER, MAX_MEM_COMPACT_LEVEL};
use crate::version::{Version, total_size};

/// How many times larger a level is than the one above. LevelDB's is 10; with fewer levels in use, smaller steps write
/// less: a byte meets about this many on each level that it passes.
pub(super) const LEVEL_SIZE_MULTIPLIER: u64 = 5;

/// What LevelDB lets level 1 hold, in bytes.
const LEVELDB_LEVEL_1_MAX_BYTES: f64 = 10.0 * 1_048_576.0;

/// The sizes of a version's levels.
#[derive(Debug)]
pub(crate) struct LevelTargets {
    sizes: [u64; NUM_LEVELS],
    /// Of the sorted levels.
    total: u64,
    bottom_level: usize,
}

impl LevelTargets {
    pub(crate) fn new(version: &Version) -> LevelTargets {
        let mut sizes = [0; NUM_LEVELS];
        for (size, files) in sizes.iter_mut().zip(&version.levels) {
            *size = total_size(files);
        }
        let bottom = (1..NUM_LEVELS).rev().find(|&level| !version.levels[level].is_empty());
        let total = sizes[1..].iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        LevelTargets { sizes, total, bottom_level: bottom.unwrap_or(MAX_MEM_COMPACT_LEVEL) }
    }

    /// The deepest level that has any table.
    pub(crate) fn bottom_level(&self) -> usize {
        self.bottom_level
    }

    pub(crate) fn level_size(&self, level: usize) -> u64 {
        self.sizes[level]
    }

    /// What `level`, up to the bottom, should hold of the whole.
    fn target_size(&self, level: usize) -> u64 {
        self.total / LEVEL_SIZE_MULTIPLIER.pow((self.bottom_level - level) as u32)
    }

    /// Where level 0 goes.
    pub(crate) fn base_level(&self) -> usize {
        let incoming = self.sizes[0];
        (1..=self.bottom_level)
            .find(|&level| self.target_size(level) >= incoming)
            .unwrap_or(self.bottom_level)
    }

    /// True if even level 1 would be too large to be merged with what comes from level 0: the bottom should move down.
    pub(crate) fn needs_level(&self) -> bool {
        self.bottom_level + 1 < NUM_LEVELS
            && self.target_size(1) / LEVEL_SIZE_MULTIPLIER >= self.sizes[0].max(1)
    }

    /// What `level` holds at most before it gives to the next, in bytes. The bottom keeps what it has.
    pub(crate) fn max_bytes(&self, level: usize) -> f64 {
        if level >= self.bottom_level {
            return f64::INFINITY;
        }
        let stock = LEVELDB_LEVEL_1_MAX_BYTES * 10f64.powi(level.max(1) as i32 - 1);
        stock.max(self.target_size(level) as f64)
    }
}

/// About how many bytes merges have to read until every level is as it should be.
pub(crate) fn pending_compaction_bytes(version: &Version) -> u64 {
    let shape = LevelTargets::new(version);
    let mut debt = 0u64;
    if version.levels[0].len() >= L0_COMPACTION_TRIGGER {
        debt = (0..=shape.base_level()).fold(0, |sum, level| sum.saturating_add(shape.level_size(level)));
    }
    for level in 1..shape.bottom_level {
        let excess = shape.level_size(level) as f64 - shape.max_bytes(level);
        // Each byte meets about `LEVEL_SIZE_MULTIPLIER` bytes of the level below. A cast of what is negative gives 0.
        debt = debt.saturating_add((excess * (1 + LEVEL_SIZE_MULTIPLIER) as f64) as u64);
    }
    debt
}
