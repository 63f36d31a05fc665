//! Which files to merge next: pure functions of a version.

pub(crate) mod leveled;

/// The sizes that a policy goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The size at which a merge begins a new table, in bytes.
    pub(crate) file_size: u64,
}

/// Files of level 0 at which they are merged.
pub(crate) const LEVEL_0_MERGE: usize = 4;
/// Files of level 0 at which every write waits a little.
pub(crate) const LEVEL_0_SLOW: usize = 8;
/// Files of level 0 at which writes wait for a merge.
pub(crate) const LEVEL_0_STOP: usize = 12;
/// The deepest level that a flush may go to directly.
pub(crate) const DEEPEST_FLUSH: usize = 2;

impl Limits {
    /// What level `level` should hold at most, in bytes: 10 MB on level 1, ten times more on each that follows.
    pub(crate) fn level_size(&self, level: usize) -> f64 {
        10.0 * 1_048_576.0 * 10f64.powi(level.max(1) as i32 - 1)
    }

    /// An output table ends when it overlaps more than this of the level below its own: a later merge of it would be
    /// dear.
    pub(crate) fn grandparent_overlap(&self) -> u64 {
        self.file_size.saturating_mul(10)
    }

    /// Inputs are widened for nothing up to this size of the whole merge.
    pub(crate) fn expanded(&self) -> u64 {
        self.file_size.saturating_mul(25)
    }
}
