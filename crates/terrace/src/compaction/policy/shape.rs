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

use terrace_format::edit::LEVELS;

use super::{DEEPEST_FLUSH, LEVEL_0_MERGE};
use crate::version::{Version, total_size};

/// How many times larger a level is than the one above. LevelDB's is 10; with fewer levels in use, smaller steps write
/// less: a byte meets about this many on each level that it passes.
pub(super) const RATIO: u64 = 5;

/// What LevelDB lets level 1 hold, in bytes.
const LEVEL_1: f64 = 10.0 * 1_048_576.0;

/// The sizes of a version's levels.
#[derive(Debug)]
pub(crate) struct Shape {
    sizes: [u64; LEVELS],
    /// Of the sorted levels.
    total: u64,
    bottom: usize,
}

impl Shape {
    pub(crate) fn of(version: &Version) -> Shape {
        let mut sizes = [0; LEVELS];
        for (size, files) in sizes.iter_mut().zip(&version.levels) {
            *size = total_size(files);
        }
        let bottom = (1..LEVELS).rev().find(|&level| !version.levels[level].is_empty());
        let total = sizes[1..].iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        Shape { sizes, total, bottom: bottom.unwrap_or(DEEPEST_FLUSH) }
    }

    /// The deepest level that has any table.
    pub(crate) fn bottom(&self) -> usize {
        self.bottom
    }

    pub(crate) fn size(&self, level: usize) -> u64 {
        self.sizes[level]
    }

    /// What `level`, up to the bottom, should hold of the whole.
    fn share(&self, level: usize) -> u64 {
        self.total / RATIO.pow((self.bottom - level) as u32)
    }

    /// Where level 0 goes.
    pub(crate) fn base(&self) -> usize {
        let incoming = self.sizes[0];
        (1..=self.bottom).find(|&level| self.share(level) >= incoming).unwrap_or(self.bottom)
    }

    /// True if even level 1 would be too large to be merged with what comes from level 0: the bottom should move down.
    pub(crate) fn is_too_shallow(&self) -> bool {
        self.bottom + 1 < LEVELS && self.share(1) / RATIO >= self.sizes[0].max(1)
    }

    /// What `level` holds at most before it gives to the next, in bytes. The bottom keeps what it has.
    pub(crate) fn limit(&self, level: usize) -> f64 {
        if level >= self.bottom {
            return f64::INFINITY;
        }
        let stock = LEVEL_1 * 10f64.powi(level.max(1) as i32 - 1);
        stock.max(self.share(level) as f64)
    }
}

/// About how many bytes merges have to read until every level is as it should be.
pub(crate) fn debt(version: &Version) -> u64 {
    let shape = Shape::of(version);
    let mut debt = 0u64;
    if version.levels[0].len() >= LEVEL_0_MERGE {
        debt = (0..=shape.base()).fold(0, |sum, level| sum.saturating_add(shape.size(level)));
    }
    for level in 1..shape.bottom {
        let excess = shape.size(level) as f64 - shape.limit(level);
        // Each byte meets about `RATIO` bytes of the level below. A cast of what is negative gives 0.
        debt = debt.saturating_add((excess * (1 + RATIO) as f64) as u64);
    }
    debt
}
