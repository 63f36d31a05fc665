//! Which files to merge next: pure functions of a version.

mod level_targets;
pub(crate) mod leveled;
pub(crate) mod tombstones;

use level_targets::LevelTargets;
pub(crate) use level_targets::pending_compaction_bytes;

/// The sizes that a policy goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionLimits {
    /// The size at which a merge begins a new table, in bytes.
    pub(crate) target_file_size: u64,
    /// Whether tables may become larger than that where much is stored, so that there are not too many.
    pub(crate) scales_with_level: bool,
}

/// Files of level 0 at which they are merged.
pub(crate) const L0_COMPACTION_TRIGGER: usize = 4;
/// Files of level 0 from which on writers are slowed down, if their merge takes too long.
pub(crate) const L0_SLOWDOWN_WRITES_TRIGGER: usize = 10;
/// Files of level 0 at which writes wait for a merge: the last resort.
pub(crate) const L0_STOP_WRITES_TRIGGER: usize = 36;
/// The deepest level that a flush may go to directly.
pub(crate) const MAX_MEM_COMPACT_LEVEL: usize = 2;

/// Where tables may grow, a level has about this many.
const TARGET_TABLES_PER_LEVEL: u64 = 64;
/// Beyond this a merge of one table would take too long, in bytes.
const MAX_TARGET_FILE_SIZE: u64 = 64 << 20;

impl CompactionLimits {
    /// The limits for a merge into a level of `level_size` bytes.
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

    /// An output table ends when it overlaps more than this of the level below its own: a later merge of it would be
    /// dear.
    pub(crate) fn max_grandparent_overlap_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(10)
    }

    /// Inputs are widened for nothing up to this size of the whole merge.
    pub(crate) fn expanded_compaction_bytes(&self) -> u64 {
        self.target_file_size.saturating_mul(25)
    }
}
